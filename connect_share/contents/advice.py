"""Which topic settings would make starts shorter, what the log cleaner leaves, and dangers in the topics. Pure.

A setting is only advised where the gain is real: the records in the topic now, less those that :func:`remains` for the
other settings, in seconds of each start by the cost model. docs/start-up.md says what is never advised, and why.

What the settings keep from the cleaner is estimated by bounds. Bytes are those of keys and values; on disk records take
more, or with compression less. Each :class:`~connect_share.contents.profile.Chunk` is counted whole. Where the cleaner has
been, no key has two records. Source: ``LogSegment.shouldRoll``, ``LogConfig.maxSegmentMs``, ``LogCleanerManager`` of Kafka
4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from connect_share.contents.cost_model import CostModel
from connect_share.contents.profile import Chunk, PartitionProfile, TopicProfile
from connect_share.errors import listed
from connect_share.kafka.create import DIRTY_RATIO, ONE_PARTITION, SEGMENT_MS, TOMBSTONES_MS, cleanup_policy
from connect_share.model.records import TopicType

_NEVER_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """The settings of a topic that the cleaner acts on; the defaults are Kafka's."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = TOMBSTONES_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _NEVER_MS
    max_message_bytes: int = 1_048_588

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> CleanerSettings:
        """Return the effective settings of a topic; those that the broker does not name have Kafka's default."""
        values: dict[str, Any] = {"cleanup_policy": cleanup_policy(configs) or cls().cleanup_policy}
        for field in fields(cls):
            default: Any = field.default
            text = configs.get(field.name.replace("_", "."))
            if text is not None and field.name not in values:
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


SHOWN_SETTINGS: Final = (*(each.name.replace("_", ".") for each in fields(CleanerSettings)), "compression.type")
"""Topic settings that decide what a start has to read."""


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


LEAST_GAIN_S: Final = 0.01
"""Seconds of each start a setting has to save to be worth a change."""
LEAST_GAIN_SHARE: Final = 0.05
"""Share of the longest predicted start that it has to save as well."""

MIB: Final = 1 << 20
SEGMENT_BYTES: Final = tuple(size * MIB for size in (2, 4, 8, 16, 32, 50))
"""Sizes of segments that are advised: the smallest in which a quarter of a partition's live bytes finds room."""
SHORT_RETENTION_MS: Final = 3_600_000
"""Tombstones kept for less than this are reported as a danger."""

_REASONS: Final = {
    "cleanup.policy": "Connect refuses to start on a topic that is not compacted only: retention would delete what it needs",
    "segment.bytes": "the cleaner never touches the newest segment, and this one may hold most of the topic",
    "min.cleanable.dirty.ratio": "the cleaner waits until this share of a partition is new; a small topic is cheap to clean",
    "segment.ms": "a segment that fills slowly is closed by the first record after this time, and can be cleaned then",
    "min.compaction.lag.ms": "records younger than this are never cleaned; Connect only needs the newest record of a key",
    "delete.retention.ms": "tombstones are kept this long after a cleaning; a day is enough for readers",
}
"""The settings that are advised, each with its reason. First comes what disturbs a topic least: segments of an hour are
files for each partition, small ones only come with records."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One topic setting to be changed.

    Attributes:
        old, new: as the broker writes them; ``old`` is the effective value.
        gain_seconds, gain_bytes, gain_records: of each start, at most: the loss without this one change. Two that
            only help together each have the gain of both.
    """

    topic: str
    setting: str
    old: str
    new: str
    reason: str
    gain_seconds: float
    gain_bytes: int
    gain_records: int


@dataclass(frozen=True, slots=True)
class TopicProblem:
    """A danger in a topic that none of these changes removes, and what to do."""

    topic: str
    what: str


@dataclass(frozen=True, slots=True)
class Advice:
    """All advice; the gains are of each start with all the changes, at most."""

    changes: tuple[SettingChange, ...] = ()
    problems: tuple[TopicProblem, ...] = ()
    gain_seconds: float = 0.0
    gain_bytes: int = 0
    gain_records: int = 0


def advise(topics: Iterable[TopicProfile], model: CostModel, *, longest_start_s: float, now_ms: int) -> Advice:
    """Return the settings worth changing, and the problems.

    ``longest_start_s`` is predicted for the group whose start takes longest.
    """
    changes: list[SettingChange] = []
    problems: list[TopicProblem] = []
    gained = Amount()
    least_s = max(LEAST_GAIN_S, LEAST_GAIN_SHARE * longest_start_s)
    for profile in topics:
        problems += [TopicProblem(profile.topic, text) for text in _problems(profile)]
        if profile.configs is None:
            continue
        gains = _Gains(profile, CleanerSettings.of(profile.configs), model, now_ms)
        kept = gains.worthwhile(_candidates(profile, gains.settings), least_s)
        changes += [_change(gains, kept, name, profile.configs) for name in _REASONS if name in kept]
        gained += gains.together(kept)
    return Advice(tuple(changes), tuple(problems), _seconds(model, gained), round(gained.bytes), round(gained.records))


def _seconds(model: CostModel, amount: Amount) -> float:
    """Return the cost of foreign records; a group's own cost more, so the real gain is rather larger."""
    return model.per_record_s * amount.records + model.per_byte_s * amount.bytes


def _problems(profile: TopicProfile) -> Iterator[str]:
    if profile.topic_type is TopicType.CONFIG and len(profile.partitions) > 1:
        yield f"{len(profile.partitions)} partitions, so that records have no order: {ONE_PARTITION}"
    if profile.topic_type is TopicType.CONFIG and (stuck := profile.ends_in_tombstone()):
        yield (
            f"the newest record of {listed(stuck, 5)} is a tombstone; once the cleaner takes it, workers that start later "
            f"disagree with those that run. Write the marker: key <group>.target-state-, value the four bytes null "
            f"(JSON, no tombstone); until then no setting of this topic is advised"
        )
    if profile.keys_in_several_partitions:
        yield (
            f"{profile.keys_in_several_partitions:,} keys have living records in several partitions: they were not placed by "
            f"murmur2 of the key, or the number of partitions was changed. Records in the wrong partition are never "
            f"superseded, and without the jar what a Java worker reads last counts. A move onto "
            f"other topics leaves one record of each, the newest by time"
        )
    settings = None if profile.configs is None else CleanerSettings.of(profile.configs)
    if settings is not None and settings.compacted and settings.delete_retention_ms < SHORT_RETENTION_MS:
        yield (
            f"delete.retention.ms={settings.delete_retention_ms}: a worker that pauses for longer while it reads can "
            f"miss a removal; set it to {TOMBSTONES_MS}"
        )


def segment_bytes_for(profile: TopicProfile, max_message_bytes: int) -> int:
    """Return the size of segments that fits a topic: see :data:`SEGMENT_BYTES`; never less than a message may have."""
    largest = max((part.total() for part in profile.partitions), key=lambda count: count.bytes, default=None)
    live = 0 if largest is None else largest.bytes - largest.superseded_bytes
    least = max(live // 4, max_message_bytes)
    fitting = next((size for size in SEGMENT_BYTES if size >= least), SEGMENT_BYTES[-1])
    return max(fitting, -(-max_message_bytes // MIB) * MIB)


def _candidates(profile: TopicProfile, settings: CleanerSettings) -> dict[str, Any]:
    """Return the new values of the settings that may be changed."""
    if profile.topic_type is TopicType.CONFIG and profile.ends_in_tombstone():
        return {}
    found: dict[str, Any] = {}
    # That of a config topic which a move has closed is not touched; what check topics says of others is enough.
    closed = profile.topic_type is TopicType.CONFIG and settings.cleanup_policy == {"compact", "delete"}
    if settings.cleanup_policy != {"compact"} and not closed:
        found["cleanup.policy"] = frozenset({"compact"})
    at_most = {
        "segment.bytes": segment_bytes_for(profile, settings.max_message_bytes),
        "segment.ms": SEGMENT_MS,
        "min.cleanable.dirty.ratio": DIRTY_RATIO,
        "min.compaction.lag.ms": 0,
        "delete.retention.ms": TOMBSTONES_MS,
    }
    return found | {name: value for name, value in at_most.items() if settings.value(name) > value}


class _Gains:
    """The gains of changing settings of one topic; changes are new values by name of the setting."""

    def __init__(self, profile: TopicProfile, settings: CleanerSettings, model: CostModel, now_ms: int) -> None:
        self.profile = profile
        self.settings = settings
        self.model = model
        self.now_ms = now_ms
        # The cleaner will take the rest anyway: that is no gain.
        self._before = remains(profile, settings, now_ms)

    def together(self, changes: Mapping[str, Any]) -> Amount:
        if not changes:
            return Amount()
        return (self._before - remains(self.profile, self.settings.changed(changes), self.now_ms)).at_least_nothing()

    def of_one(self, changes: Mapping[str, Any], name: str) -> Amount:
        """Return what one of the changes adds to the gain of the others."""
        others = {other: value for other, value in changes.items() if other != name}
        return (self.together(changes) - self.together(others)).at_least_nothing()

    def worthwhile(self, changes: Mapping[str, Any], least_s: float) -> dict[str, Any]:
        """Return the changes without those that add too little to the others; the policy needs no gain.

        Of two that have the same effect the one that comes first in :data:`_REASONS` stays.
        """
        for name in [name for name in reversed(_REASONS) if name in changes and name != "cleanup.policy"]:
            if _seconds(self.model, self.of_one(changes, name)) < least_s:
                return self.worthwhile({other: value for other, value in changes.items() if other != name}, least_s)
        return dict(changes)


def _change(gains: _Gains, kept: Mapping[str, Any], name: str, configs: Mapping[str, str]) -> SettingChange:
    adds = gains.of_one(kept, name)
    return SettingChange(
        topic=gains.profile.topic,
        setting=name,
        old=configs.get(name, _shown(gains.settings.value(name))),
        new=_shown(kept[name]),
        reason=_REASONS[name],
        gain_seconds=_seconds(gains.model, adds),
        gain_bytes=round(adds.bytes),
        gain_records=round(adds.records),
    )


def _shown(value: Any) -> str:
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)
