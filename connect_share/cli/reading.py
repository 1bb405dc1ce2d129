"""One bounded read of the topics, folded for every group that is in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from connect_share.admin import Admin
from connect_share.errors import BrokerError, ReadToEndTimeoutError, TopicMissingError
from connect_share.keys import ClusterGroupId, split_key
from connect_share.log import find_open_transactions, read_ranges
from connect_share.records import OffsetRange, Record, TopicType
from connect_share.state import (
    ClusterConfigState,
    ConfigFold,
    OffsetFold,
    OffsetSnapshot,
    StatusFold,
    StatusSnapshot,
)
from connect_share.worker_config import TOPIC_PROPERTIES, ClientSettings, Isolation, TopicSet

CLIENT_ID: Final = "connect-share-console"

MOST_GROUPS: Final = 10_000
"""Whoever may write to a topic can invent groups, each of which takes some kilobytes here."""

PLAIN: Final = "(plain)"
"""Stands for the cluster with plain keys; no cluster group id can be written like this."""

Group = ClusterGroupId | None
"""``None`` is the cluster with plain keys."""

State_co = TypeVar("State_co", covariant=True)


@dataclass
class TopicReading(Generic[State_co]):
    """What one topic holds.

    Attributes:
        groups: state by group; only groups that have a record there.
        records: number of records by group.
        others: records of groups that were not asked for.
        unrecognized: records whose key is no legal key of Connect.
        notes: what the reader should know, for stderr.
        two_clusters: if plain keys seem to be those of two clusters: that, and what to do.
    """

    topic: str
    groups: dict[Group, State_co] = field(default_factory=dict)
    records: dict[Group, int] = field(default_factory=dict)
    others: int = 0
    unrecognized: int = 0
    notes: list[str] = field(default_factory=list)
    two_clusters: str | None = None


class _Folding(Protocol[State_co]):
    def apply(self, record: Record) -> object: ...

    def snapshot(self) -> State_co: ...


@dataclass
class Reading:
    """What was read; a topic that was not asked for is ``None``."""

    config: TopicReading[ClusterConfigState] | None = None
    status: TopicReading[StatusSnapshot] | None = None
    offset: TopicReading[OffsetSnapshot] | None = None

    def topics(self) -> Mapping[TopicType, TopicReading[object]]:
        """Those that were read."""
        found = {TopicType.CONFIG: self.config, TopicType.STATUS: self.status, TopicType.OFFSET: self.offset}
        return {topic_type: reading for topic_type, reading in found.items() if reading is not None}

    def groups(self) -> list[Group]:
        """All groups in any of the topics, the plain cluster first."""
        every = {group for reading in self.topics().values() for group in reading.groups}
        return sorted(every, key=lambda group: (group is not None, group or ""))


def read_topics(
    topic_set: TopicSet, wanted: Collection[TopicType], *, groups: Collection[Group] | None = None, timeout_s: float
) -> Reading:
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
    reading = Reading()
    with Admin(topic_set.settings, client_id=CLIENT_ID, timeout_s=timeout_s) as admin:
        ranges = ranges_of(admin, topic_set, wanted)
        for topic_type in wanted:
            topic, found, notes = topic_set.topics[topic_type], *ranges[topic_type]
            records = read_ranges(
                topic_set.settings,
                found,
                isolation=topic_set.isolation[topic_type],
                client_id=CLIENT_ID,
                idle_timeout_s=timeout_s,
            )
            if topic_type is TopicType.CONFIG:
                reading.config = _fold(topic, topic_type, records, groups, ConfigFold)
                reading.config.notes += notes
            elif topic_type is TopicType.STATUS:
                reading.status = _fold(topic, topic_type, records, groups, StatusFold)
                reading.status.notes += notes
            else:
                reading.offset = _fold(topic, topic_type, records, groups, OffsetFold)
                reading.offset.notes += notes
    return reading


def ranges_of(
    admin: Admin, topic_set: TopicSet, wanted: Collection[TopicType]
) -> dict[TopicType, tuple[list[OffsetRange], list[str]]]:
    """Give all partitions of topics to the end they have now, and what the reader should know of them.

    Raises:
        TopicMissingError: names the topic and the property.
        BrokerError: not reachable, or not allowed.
    """
    names = {topic_type: topic_set.topics[topic_type] for topic_type in wanted}
    described = admin.describe_topics(names.values())
    for topic_type, topic in names.items():
        if topic not in described:
            raise TopicMissingError(
                f"topic {topic} does not exist; check {TOPIC_PROPERTIES[topic_type]} and the cluster's address",
                topic=topic,
            )
    found: dict[TopicType, tuple[list[OffsetRange], list[str]]] = {}
    for topic_type, topic in names.items():
        partitions = [(topic, partition.id) for partition in described[topic].partitions]
        starts = admin.start_offsets(partitions)
        isolation = topic_set.isolation[topic_type]
        ends = admin.end_offsets(partitions, isolation)
        notes = []
        if isolation is Isolation.READ_COMMITTED:
            for (name, partition), end in sorted(admin.end_offsets(partitions).items()):
                if ends[name, partition] < end:
                    notes.append(
                        f"an open transaction holds back the end of {name}[{partition}]: read up to offset "
                        f"{ends[name, partition]} of {end}; -X isolation.level=read_uncommitted shows all"
                    )
                    notes += _whose_transaction(admin, topic_set.settings, name, partition)
        if topic_type is TopicType.CONFIG and len(partitions) != 1:
            notes.append(
                f"config topic {topic} has {len(partitions)} partitions, so its records have no order: "
                f"no worker starts on it, and what is shown may be wrong"
            )
        found[topic_type] = (
            [
                OffsetRange(topic, partition, starts[topic, partition], ends[topic, partition])
                for _, partition in partitions
            ],
            notes,
        )
    return found


def _whose_transaction(admin: Admin, settings: ClientSettings, topic: str, partition: int) -> list[str]:
    try:
        found = find_open_transactions(admin, settings, topic, [partition], client_id=CLIENT_ID)
    except (BrokerError, ReadToEndTimeoutError) as exc:
        return [f"whose it is could not be learnt: {exc}"]
    return [each.told(settings.bootstrap_servers) for each in found]


def _fold(
    topic: str,
    topic_type: TopicType,
    records: Iterable[Record],
    groups: Collection[Group] | None,
    new_fold: Callable[[Group], _Folding[State_co]],
) -> TopicReading[State_co]:
    reading: TopicReading[State_co] = TopicReading(topic)
    folds: dict[Group, _Folding[State_co]] = {}
    beyond = 0
    for record in records:
        owner = None if record.key is None else split_key(topic_type, record.key)
        if owner is None:
            reading.unrecognized += 1
            continue
        group = owner[0]
        if groups is not None and group not in groups:
            reading.others += 1
            continue
        if group not in folds:
            if len(folds) == MOST_GROUPS:
                reading.others += 1
                beyond += 1
                continue
            folds[group] = new_fold(group)
            reading.records[group] = 0
        folds[group].apply(record)
        reading.records[group] += 1
    if beyond:
        reading.notes.append(
            f"{topic} has more than {MOST_GROUPS} groups: {beyond} record(s) of those that came last were not looked at; "
            "--group shows any of them"
        )
    reading.groups = {group: fold.snapshot() for group, fold in folds.items()}
    plain: object = folds.get(None)
    if isinstance(plain, StatusFold) and plain.clusters.found is not None:
        reading.two_clusters = plain.clusters.found.told(topic)
        reading.notes.append(reading.two_clusters)
    return reading
