"""The demo's result, as ``result.json`` has it: names and numbers, no configuration and no offset."""

from __future__ import annotations

from typing import Literal

from pydantic import computed_field

from tests.lab.compatibility.cells import Part
from tests.lab.demo.views import GroupComparison


class DataAgain(Part):
    """A data topic, or the file of a sink, around the workers' second start.

    Attributes:
        before: records or lines when the workers were gone.
        after_start: when every connector was back, before anything was appended.
        at_end: when the workers had been stopped again.
        lines_appended: to the file of its source, if that runs.
        lines_arrived: how many of the new ones are such a line.
    """

    kind: Literal["data topic", "file of sink"]
    name: str
    before: int
    after_start: int
    at_end: int
    lines_appended: int
    lines_arrived: int
    differences: tuple[str, ...]


class GroupAgain(Part):
    """A cluster's Java workers, started again on the shared topics with the jar.

    Attributes:
        seconds: until every connector was in its place.
        restart: what REST said before the move, beside what it said after the second start, before anything was appended.
        stores: what REST said at the end, beside the Python stores started while the workers ran.
        foreign_log_lines: warnings and errors in the worker's log that speak of records it cannot place.
    """

    seconds: float
    restart: GroupComparison
    data: tuple[DataAgain, ...]
    stores: GroupComparison
    foreign_log_lines: int

    @property
    def differences(self) -> tuple[str, ...]:
        """Everything that is not as it should be."""
        named = [
            *((f"{line.connector!r} on the shared topics", line.differences) for line in self.restart.connectors),
            *((f"{each.kind} {each.name!r}", each.differences) for each in self.data),
            *((f"{line.connector!r} in the stores beside Java", line.differences) for line in self.stores.connectors),
        ]
        if self.foreign_log_lines:
            named.append(
                ("the worker's log", (f"{self.foreign_log_lines} warnings or errors about records of others",))
            )
        return tuple(f"{what}: {difference}" for what, differences in named for difference in differences)

    @property
    def equal(self) -> bool:
        """Whether everything continues as it was."""
        return not self.differences


class SharedTopic(Part):
    """A shared topic after everything, and how many keys in it carry no group's prefix."""

    topic: str
    records: int
    plain_keys: int


class SegmentSearch(Part):
    """The segment files of three topics on the broker's disk, and how many of them hold a text."""

    files: int
    with_text: int


class SealedGroup(Part):
    """A group that was sealed by the move, and where its connector's password is on the broker's disk.

    Attributes:
        dedicated: of the topics from which it was moved; found there, so that the search is known to find it.
        shared: of the topics where it is now.
    """

    cluster_group_id: str
    dedicated: SegmentSearch
    shared: SegmentSearch

    @property
    def equal(self) -> bool:
        """Whether the password is where it has to be, and nowhere else."""
        return self.dedicated.with_text > 0 and self.shared.files > 0 and not self.shared.with_text


class DemoResult(Part):
    """Everything the demo found."""

    versions: dict[str, str]
    seconds: float
    verified_equal: bool
    groups: tuple[GroupComparison, ...]
    again: tuple[GroupAgain, ...]
    shared_topics: tuple[SharedTopic, ...]
    sealed: SealedGroup

    @computed_field  # type: ignore[prop-decorator]
    @property
    def equal(self) -> bool:
        """Whether everything is as it should be: the demo's verdict."""
        return (
            self.verified_equal
            and all(group.equal for group in self.groups)
            and all(group.equal for group in self.again)
            and not any(topic.plain_keys for topic in self.shared_topics)
            and self.sealed.equal
        )
