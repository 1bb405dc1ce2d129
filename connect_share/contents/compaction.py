"""Estimates of what a topic's settings keep from the cleaner: bounds, derived from the records, see docs/start-up.md.

Bytes are those of keys and values; on disk records take more, or with compression less. Each
:class:`~connect_share.contents.profile.Chunk` is counted whole. Where the cleaner has been, no key has two records.

Source: ``LogSegment.shouldRoll``, ``LogConfig.maxSegmentMs``, ``LogCleanerManager`` of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from connect_share.contents.profile import Chunk, PartitionProfile, TopicProfile

SHOWN_SETTINGS: Final = (
    "cleanup.policy",
    "segment.bytes",
    "segment.ms",
    "min.cleanable.dirty.ratio",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "compression.type",
    "max.message.bytes",
)
"""Topic settings that decide what a start has to read."""

_NEVER_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """The settings of a topic that the cleaner acts on; the defaults are Kafka's."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _NEVER_MS
    max_message_bytes: int = 1_048_588

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> CleanerSettings:
        """Return the effective settings of a topic; those that the broker does not name have Kafka's default."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            text = configs.get(field.name.replace("_", "."))
            default: Any = field.default
            if text is None:
                continue
            if field.name == "cleanup_policy":
                policy = frozenset(part.strip().lower() for part in text.split(",")) - {""}
                values[field.name] = policy or default
            else:
                values[field.name] = type(default)(text)
        return cls(**values)

    def value(self, setting: str) -> Any:
        """Return a setting by the name that Kafka gives it."""
        return getattr(self, setting.replace(".", "_"))

    def changed(self, changes: Mapping[str, Any]) -> CleanerSettings:
        """Return these settings with other values, by the names that Kafka gives them."""
        return replace(self, **{name.replace(".", "_"): value for name, value in changes.items()})

    @property
    def compacted(self) -> bool:
        """The cleaner looks at the topic at all."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """Longest span of timestamps in one segment."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.max_compaction_lag_ms > 0 else self.segment_ms


@dataclass(frozen=True, slots=True)
class Amount:
    """Records and their bytes; not whole numbers where they are estimates."""

    records: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.records + other.records, self.bytes + other.bytes)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.records - other.records, self.bytes - other.bytes)

    def at_most(self, other: Amount) -> Amount:
        """Return the smaller of both, by bytes and by records."""
        return Amount(min(self.records, other.records), min(self.bytes, other.bytes))

    def at_least_nothing(self) -> Amount:
        """Return the amount, nothing in place of less than nothing."""
        return Amount(max(0.0, self.records), max(0.0, self.bytes))


def hidden_from(
    chunks: Sequence[Chunk], settings: CleanerSettings, now_ms: int, *, after_next_record: bool = False
) -> int:
    """Return the first chunk that may be hidden from the cleaner, by the active segment or by ``min.compaction.lag.ms``.

    With ``after_next_record``, as if a small record were written now, which may close a segment.
    """
    times = [chunk.newest_ms for chunk in chunks if chunk.newest_ms is not None]
    newest_ms = max([*times, now_ms] if after_next_record else times, default=None)
    behind_bytes, first = 0, len(chunks)
    for index in reversed(range(len(chunks))):
        chunk = chunks[index]
        active = behind_bytes < settings.segment_bytes and (
            newest_ms is None or chunk.newest_ms is None or newest_ms - chunk.newest_ms <= settings.roll_ms
        )
        lagging = (
            settings.min_compaction_lag_ms > 0
            and chunk.newest_ms is not None
            and now_ms - chunk.newest_ms < settings.min_compaction_lag_ms
        )
        if not active and not lagging:
            break
        first = index
        behind_bytes += chunk.bytes
    return first


@dataclass(frozen=True, slots=True)
class Hidden:
    """The records that may be hidden from the cleaner, at most: all partitions together, estimated.

    Attributes:
        held: everything in the active segments (and younger than ``min.compaction.lag.ms``).
        superseded: records that could go, were it not for them.
        dirty_ratio: 0 to 1, the lowest that the cleaner can see: of the dirtiest partition, which it would clean first;
            ``None`` if the active segments may be all there is, so that there is nothing to clean.
    """

    held: Amount
    superseded: Amount
    dirty_ratio: float | None


def hidden(topic: TopicProfile, settings: CleanerSettings, now_ms: int) -> Hidden:
    """Estimate what the last segments hide from the cleaner, and how dirty the rest is."""
    held, superseded, ratios = Amount(), Amount(), []
    for partition in topic.partitions:
        first = hidden_from(partition.chunks, settings, now_ms)
        held += _sum(partition.chunks[first:])
        superseded += _superseded(partition.chunks[first:])
        cleanable = _sum(partition.chunks[:first]).bytes
        if cleanable:
            clean_end = partition.bytes_before_superseding
            clean = cleanable if clean_end is None else min(clean_end, cleanable)
            ratios.append((cleanable - clean) / cleanable)
    return Hidden(held, superseded, max(ratios, default=None))


def remains(topic: TopicProfile, settings: CleanerSettings, now_ms: int) -> Amount:
    """Estimate the most that is left of these records once the cleaner has done what the settings let it do.

    That is after the next record of each partition: as long as none comes, no segment is closed.
    """
    left = Amount()
    for partition in topic.partitions:
        left += _remains(partition, settings, now_ms)
    return left


def _remains(partition: PartitionProfile, settings: CleanerSettings, now_ms: int) -> Amount:
    chunks = partition.chunks
    whole = _sum(chunks)
    if not settings.compacted:
        return whole
    first = hidden_from(chunks, settings, now_ms, after_next_record=True)
    cleanable = _superseded(chunks[:first])
    clean = _sum(chunks[:first]) - cleanable
    ratio = settings.min_cleanable_dirty_ratio
    tolerated = cleanable
    if ratio < 1 and cleanable.bytes:
        # The cleaner skips a partition while its dirty bytes are at most ratio * (clean + dirty).
        share = min(1.0, ratio / (1 - ratio) * clean.bytes / cleanable.bytes)
        tolerated = Amount(cleanable.records * share, cleanable.bytes * share)
    if settings.max_compaction_lag_ms > 0:
        # Older records are cleaned at any ratio.
        late = [
            s for s in chunks[:first] if s.newest_ms is None or now_ms - s.newest_ms < settings.max_compaction_lag_ms
        ]
        tolerated = tolerated.at_most(_superseded(late))
    expired = [
        chunk
        for chunk in chunks[:first]
        if chunk.newest_ms is not None and now_ms - chunk.newest_ms > settings.delete_retention_ms
    ]
    tombstones = Amount(sum(chunk.tombstones for chunk in expired), sum(chunk.tombstone_bytes for chunk in expired))
    return whole - cleanable + tolerated - tombstones


def _sum(chunks: Sequence[Chunk]) -> Amount:
    return Amount(sum(chunk.records for chunk in chunks), sum(chunk.bytes for chunk in chunks))


def _superseded(chunks: Sequence[Chunk]) -> Amount:
    return Amount(sum(chunk.superseded_records for chunk in chunks), sum(chunk.superseded_bytes for chunk in chunks))
