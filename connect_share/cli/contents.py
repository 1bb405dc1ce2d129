"""The contents of the internal topics: one bounded read, folded for every group that has records there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share.admin import Admin
from connect_share.console import Group, group_order, shown_group
from connect_share.keys import split_key
from connect_share.log import read_ranges
from connect_share.records import Record, TopicType
from connect_share.sealing import TopicSeals
from connect_share.sealing.cipher import is_sealed
from connect_share.state import ClusterConfigState, ConfigFold, OffsetFold, OffsetSnapshot, StatusFold, StatusSnapshot
from connect_share.topic_ranges import CLIENT_ID, topic_ranges
from connect_share.worker_config import TopicSet, WorkerConfig

_NAMED_GROUPS: Final = 3
MOST_GROUPS: Final = 10_000
"""A limit: any writer of a topic can invent groups, and each takes some kilobytes here."""

_FOLDS: Final[dict[TopicType, Callable[[Group], Any]]] = {
    TopicType.CONFIG: ConfigFold,
    TopicType.STATUS: StatusFold,
    TopicType.OFFSET: OffsetFold,
}


@dataclass
class TopicContents:
    """The records of one topic.

    Attributes:
        groups: state by group, in the type of the topic; only groups that have a record there.
        sealed: groups with sealed values there that cannot be opened; their state is empty, for plain records beside
            sealed ones may be old or forged.
        others: records of groups that were not asked for.
        two_clusters: if plain keys seem to be those of two clusters: that, and what to do.
    """

    topic: str
    groups: dict[Group, Any] = field(default_factory=dict, repr=False)
    records: dict[Group, int] = field(default_factory=dict)
    sealed: set[Group] = field(default_factory=set)
    others: int = 0
    unrecognized: int = 0
    notes: list[str] = field(default_factory=list)
    two_clusters: str | None = None


@dataclass
class Contents:
    """The topics that were read, by type."""

    topics: dict[TopicType, TopicContents] = field(default_factory=dict)

    def groups(self) -> list[Group]:
        """Return all groups in any of the topics, the plain cluster first."""
        return sorted({group for topic in self.topics.values() for group in topic.groups}, key=group_order)

    def config_of(self, group: Group) -> ClusterConfigState:
        """Return a group's configurations; empty if it has none, or the config topic was not read."""
        state: ClusterConfigState = self._of(TopicType.CONFIG, group)
        return state

    def status_of(self, group: Group) -> StatusSnapshot:
        """Return a group's statuses; empty if it has none, or the status topic was not read."""
        snapshot: StatusSnapshot = self._of(TopicType.STATUS, group)
        return snapshot

    def offsets_of(self, group: Group) -> OffsetSnapshot:
        """Return a group's source offsets; empty if it has none, or the offset topic was not read."""
        snapshot: OffsetSnapshot = self._of(TopicType.OFFSET, group)
        return snapshot

    def _of(self, topic_type: TopicType, group: Group) -> Any:
        topic = self.topics.get(topic_type)
        return topic.groups[group] if topic and group in topic.groups else _FOLDS[topic_type](group).snapshot()


def read_topics(
    topic_set: TopicSet, wanted: Collection[TopicType], *, groups: Collection[Group] | None = None, timeout_s: float
) -> Contents:
    """Read topics to the end they have now.

    Read only ``groups``, if they are given. ``timeout_s`` is the longest wait for an answer, and without progress.

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
            contents.topics[topic_type] = _fold(topic, topic_type, records, groups, topic_set.worker)
            contents.topics[topic_type].notes += notes
    return contents


@dataclass
class _GroupFold:
    """One group's records of a topic, folded as its own workers fold them where their worker file is known."""

    group: Group
    fold: Any = field(repr=False)
    seals: TopicSeals | None
    records: int = 0
    sealed: bool = False

    @classmethod
    def of(cls, topic_type: TopicType, group: Group, worker: WorkerConfig | None) -> _GroupFold:
        """Return the empty fold of a group."""
        seals = None
        if group is not None and worker is not None and group == worker.cluster_group_id:
            seals = worker.seals(topic_type)
        return cls(group, _FOLDS[topic_type](group), seals)

    def take(self, record: Record) -> None:
        """Count the next record, and apply it if it may be believed."""
        self.records += 1
        taken: Record | None = record
        if self.seals is not None:
            taken = self.seals.take(record)
        elif self.group is not None and is_sealed(record.value):
            taken, self.sealed = None, True
        if taken is not None:
            self.fold.apply(taken)


def _fold(
    topic: str,
    topic_type: TopicType,
    records: Iterable[Record],
    groups: Collection[Group] | None,
    worker: WorkerConfig | None = None,
) -> TopicContents:
    contents = TopicContents(topic)
    folds: dict[Group, _GroupFold] = {}
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
            folds[group] = _GroupFold.of(topic_type, group, worker)
        folds[group].take(record)
    if beyond:
        contents.notes.append(
            f"{topic} has more than {MOST_GROUPS} groups: {beyond} record(s) of the last ones were not checked; "
            "--group shows any of them"
        )
    contents.records = {group: each.records for group, each in folds.items()}
    contents.sealed = {group for group, each in folds.items() if each.sealed}
    contents.groups = {
        group: (_FOLDS[topic_type](group) if each.sealed else each.fold).snapshot() for group, each in folds.items()
    }
    contents.notes += _notes_of_sealed(contents, folds)
    plain = folds[None].fold if None in folds else None
    if isinstance(plain, StatusFold) and plain.clusters.found is not None:
        contents.two_clusters = plain.clusters.found.warning(topic)
        contents.notes.append(contents.two_clusters)
    return contents


def _notes_of_sealed(contents: TopicContents, folds: Mapping[Group, _GroupFold]) -> Iterator[str]:
    if contents.sealed:
        named = [shown_group(group) for group in sorted(contents.sealed, key=group_order)]
        more = f" and {len(named) - _NAMED_GROUPS} more" if len(named) > _NAMED_GROUPS else ""
        yield (
            f"{contents.topic} has sealed values of {', '.join(named[:_NAMED_GROUPS])}{more}: nothing there of such a group "
            "is shown; -w with the worker file of a group shows that group"
        )
    for group, each in folds.items():
        if each.seals is not None and each.seals.refused:
            reasons = ", ".join(
                f"{count} {reason.name}" for reason, count in sorted(each.seals.refused.items(), key=str)
            )
            yield (
                f"{contents.topic}: records under keys of {shown_group(group)} were refused ({reasons}); its workers refuse "
                "them, too"
            )
