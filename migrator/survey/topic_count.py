"""The counts of one topic by group, from one pass. Only config records are kept, until their group was folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_share import connect_json
from connect_share.errors import ValueFormatError
from connect_share.keys import ClusterGroupId, connector_of, split_key
from connect_share.records import Record, TopicType
from connect_share.state.plain_clusters import PlainClusterWatch
from connect_share.transform.rules import KeyTransform
from connect_share.transform.sealed import NO_SEALING, Opening, Sealing
from migrator.survey.found import GroupInTopic

MOST_WORKER_IDS: Final = 20
"""Worker ids kept for each connector: a long history of restarts must not fill the memory."""


@dataclass
class GroupCount:
    """The figures of one group in one topic.

    Attributes:
        refused: records that its workers do not believe.
        unopened: keys whose newest value is sealed with a key that is not here.
        config: its records of the config topic, opened, in order.
        offsets: offset records by connector.
        workers: worker ids by connector, from statuses of plain keys.
        clusters: whether plain statuses seem to be those of two clusters.
    """

    records: int = 0
    tombstones: int = 0
    bytes: int = 0
    largest_bytes: int = 0
    unparseable: int = 0
    refused: int = 0
    unopened: int = 0
    unreadable_headers: int = 0
    first_unreadable: str | None = None
    config: list[Record] = field(default_factory=list)
    offsets: Counter[str] = field(default_factory=Counter)
    workers: dict[str, set[str]] = field(default_factory=dict)
    clusters: PlainClusterWatch = field(default_factory=PlainClusterWatch)

    def figures(self, group: ClusterGroupId | None) -> GroupInTopic:
        """Return the figures as data."""
        figures = {name: getattr(self, name) for name in GroupInTopic.model_fields if name != "group"}
        return GroupInTopic(group=None if group is None else str(group), **figures)


@dataclass
class TopicCount:
    """Everything counted in one topic.

    Attributes:
        sealings: of the groups whose worker files are here; sealed values of others are not opened.
    """

    topic_type: TopicType
    sealings: Mapping[str, Sealing] = field(default_factory=dict)
    illegal_keys: int = 0
    groups: dict[ClusterGroupId | None, GroupCount] = field(default_factory=dict)
    _openings: dict[ClusterGroupId, Opening] = field(default_factory=dict, repr=False)

    def read(self, records: Iterable[Record]) -> None:
        """Count all records of the topic, in order within each partition."""
        for record in records:
            parts = None if record.key is None else split_key(self.topic_type, record.key)
            if parts is None:
                self.illegal_keys += 1
                continue
            group, original = parts
            count = self.groups.get(group)
            if count is None:
                count = self.groups[group] = GroupCount()
                if group is not None:
                    transform = KeyTransform.between(self.topic_type, group, None)
                    self._openings[group] = Opening(self.sealings.get(group, NO_SEALING), transform)
            opened = record if group is None else self._openings[group].take(record)
            self._count_size(count, record)
            if opened is None:
                count.refused += 1
            else:
                self._count(count, group, original, opened)
        for group, opening in self._openings.items():
            self.groups[group].unopened = len(opening.unopened)

    @staticmethod
    def _count_size(count: GroupCount, record: Record) -> None:
        value = record.value
        size = len(record.key or b"") + len(value or b"")
        count.records += 1
        count.bytes += size
        if record.headers is None:
            count.unreadable_headers += 1
            count.first_unreadable = count.first_unreadable or f"{record.topic}[{record.partition}]@{record.offset}"
        else:
            size += record.headers_size()
        count.largest_bytes = max(count.largest_bytes, size)
        count.tombstones += value is None

    def _count(self, count: GroupCount, group: ClusterGroupId | None, original: bytes, record: Record) -> None:
        connector = connector_of(self.topic_type, original)
        parsed = None
        try:
            parsed = connect_json.loads(record.value)
            # On the config topic a key without a connector, such as the session key, can be read too.
            count.unparseable += connector is None and self.topic_type is not TopicType.CONFIG
        except ValueFormatError:
            count.unparseable += 1
        if self.topic_type is TopicType.CONFIG:
            count.config.append(record)
        elif connector is None:
            return
        elif self.topic_type is TopicType.OFFSET:
            count.offsets[connector] += 1
        elif group is None:
            worker = _worker_of(parsed)
            seen = count.workers.setdefault(connector, set())
            if worker is not None and len(seen) < MOST_WORKER_IDS:
                seen.add(worker)
            generation = parsed.get("generation") if isinstance(parsed, dict) else None
            if isinstance(generation, int):
                count.clusters.look(record.partition, worker, generation)


def _worker_of(parsed: object) -> str | None:
    worker = parsed.get("worker_id") if isinstance(parsed, dict) else None
    return worker if isinstance(worker, str) else None
