"""The contents of the internal topics: one bounded read, folded for every group that has records there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

from connect_share.admin import Admin
from connect_share.console import Group, group_order
from connect_share.keys import split_key
from connect_share.log import read_ranges
from connect_share.records import Record, TopicType
from connect_share.state import ClusterConfigState, ConfigFold, OffsetFold, OffsetSnapshot, StatusFold, StatusSnapshot
from connect_share.topic_ranges import CLIENT_ID, topic_ranges
from connect_share.worker_config import TopicSet

MOST_GROUPS: Final = 10_000
"""A limit: any writer of a topic can invent groups, and each takes some kilobytes here."""

State_co = TypeVar("State_co", covariant=True)


@dataclass
class TopicContents(Generic[State_co]):
    """The records of one topic.

    Attributes:
        groups: state by group; only groups that have a record there.
        records: number of records by group.
        others: records of groups that were not asked for.
        unrecognized: records whose key is no legal key of Connect.
        notes: for stderr.
        two_clusters: if plain keys seem to be those of two clusters: that, and what to do.
    """

    topic: str
    groups: dict[Group, State_co] = field(default_factory=dict)
    records: dict[Group, int] = field(default_factory=dict)
    others: int = 0
    unrecognized: int = 0
    notes: list[str] = field(default_factory=list)
    two_clusters: str | None = None


class _Fold(Protocol[State_co]):
    def apply(self, record: Record) -> object: ...

    def snapshot(self) -> State_co: ...


@dataclass
class Contents:
    """The topics that were read; one that was not asked for is ``None``."""

    config: TopicContents[ClusterConfigState] | None = None
    status: TopicContents[StatusSnapshot] | None = None
    offset: TopicContents[OffsetSnapshot] | None = None

    def topics(self) -> Mapping[TopicType, TopicContents[object]]:
        """Return the topics that were read."""
        found = {TopicType.CONFIG: self.config, TopicType.STATUS: self.status, TopicType.OFFSET: self.offset}
        return {topic_type: topic for topic_type, topic in found.items() if topic is not None}

    def groups(self) -> list[Group]:
        """Return all groups in any of the topics, the plain cluster first."""
        return sorted({group for topic in self.topics().values() for group in topic.groups}, key=group_order)

    def config_of(self, group: Group) -> ClusterConfigState | None:
        """Return a group's configurations, if the config topic was read and has any."""
        return None if self.config is None else self.config.groups.get(group)

    def status_of(self, group: Group) -> StatusSnapshot | None:
        """Return a group's statuses, if the status topic was read and has any."""
        return None if self.status is None else self.status.groups.get(group)

    def offsets_of(self, group: Group) -> OffsetSnapshot | None:
        """Return a group's source offsets, if the offset topic was read and has any."""
        return None if self.offset is None else self.offset.groups.get(group)


def read_topics(
    topic_set: TopicSet, wanted: Collection[TopicType], *, groups: Collection[Group] | None = None, timeout_s: float
) -> Contents:
    """Read topics to the end they have now.

    Args:
        topic_set: where they are.
        wanted: which of them.
        groups: only these; ``None`` is all.
        timeout_s: longest wait for an answer, and without progress while reading.

    Raises:
        TopicMissingError: names the topic and the property.
        BrokerError: not reachable, or not allowed.
        ReadToEndTimeoutError: no progress for so long.
    """
    contents = Contents()
    with Admin(topic_set.settings, client_id=CLIENT_ID, timeout_s=timeout_s) as admin:
        ranges = topic_ranges(admin, topic_set, wanted)
        for topic_type in wanted:
            topic, (found, notes) = topic_set.topics[topic_type], ranges[topic_type]
            records = read_ranges(
                topic_set.settings,
                found,
                isolation=topic_set.isolation[topic_type],
                client_id=CLIENT_ID,
                idle_timeout_s=timeout_s,
            )
            read: TopicContents[Any]
            if topic_type is TopicType.CONFIG:
                read = contents.config = _fold(topic, topic_type, records, groups, ConfigFold)
            elif topic_type is TopicType.STATUS:
                read = contents.status = _fold(topic, topic_type, records, groups, StatusFold)
            else:
                read = contents.offset = _fold(topic, topic_type, records, groups, OffsetFold)
            read.notes += notes
    return contents


def _fold(
    topic: str,
    topic_type: TopicType,
    records: Iterable[Record],
    groups: Collection[Group] | None,
    new_fold: Callable[[Group], _Fold[State_co]],
) -> TopicContents[State_co]:
    contents: TopicContents[State_co] = TopicContents(topic)
    folds: dict[Group, _Fold[State_co]] = {}
    beyond = 0
    for record in records:
        owner = None if record.key is None else split_key(topic_type, record.key)
        if owner is None:
            contents.unrecognized += 1
            continue
        group = owner[0]
        if groups is not None and group not in groups:
            contents.others += 1
            continue
        if group not in folds:
            if len(folds) == MOST_GROUPS:
                contents.others += 1
                beyond += 1
                continue
            folds[group] = new_fold(group)
            contents.records[group] = 0
        folds[group].apply(record)
        contents.records[group] += 1
    if beyond:
        contents.notes.append(
            f"{topic} has more than {MOST_GROUPS} groups: {beyond} record(s) of those that came last were not looked at; "
            "--group shows any of them"
        )
    contents.groups = {group: fold.snapshot() for group, fold in folds.items()}
    plain: object = folds.get(None)
    if isinstance(plain, StatusFold) and plain.clusters.found is not None:
        contents.two_clusters = plain.clusters.found.warning(topic)
        contents.notes.append(contents.two_clusters)
    return contents
