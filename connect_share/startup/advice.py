"""Which topic settings would make starts shorter, and what in the topics is dangerous. Pure.

A setting is only advised where the gain is real: what is in the topic now, less what :func:`remains` gives for the other
settings, as seconds of each start by the cost model. Of several settings none is advised that the others make superfluous.

What is never advised, whatever it would gain:

* ``delete.retention.ms`` below a day: a reader that pauses longer, or a checkpoint that is older, can miss a removal;
* ``segment.bytes`` below ``max.message.bytes``: the broker would refuse the batches of large records;
* anything that lets the cleaner work faster on a config topic where a group's newest record is a tombstone: once that is
  taken, workers that start later have another position than those that run, and the group is stuck. Removals by groups
  with prefixed keys are written as JSON null for this reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from connect_share.records import TopicType
from connect_share.startup.compaction import Amount, CleanerSettings, remains
from connect_share.startup.cost_model import CostModel
from connect_share.startup.profile import TopicProfile

LEAST_GAIN_S: Final = 0.01
"""Seconds of each start a setting has to save to be worth a change."""
LEAST_GAIN_SHARE: Final = 0.05
"""Share of the longest predicted start that it has to save as well."""

MIB: Final = 1 << 20
DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
SEGMENT_BYTES: Final = tuple(size * MIB for size in (2, 4, 8, 16, 32, 50))
"""Sizes of segments that are advised: the smallest in which a quarter of a partition's live bytes finds room."""
SEGMENT_MS: Final = HOUR_MS
DIRTY_RATIO: Final = 0.1
TOMBSTONE_RETENTION_MS: Final = DAY_MS
SHORT_RETENTION_MS: Final = HOUR_MS
"""Tombstones kept for less than this are told as a danger."""

# What disturbs a topic least comes first: hourly segments are files for each partition, small ones only come with records.
_ORDER: Final = (
    "cleanup.policy",
    "segment.bytes",
    "min.cleanable.dirty.ratio",
    "segment.ms",
    "min.compaction.lag.ms",
    "delete.retention.ms",
)


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One topic setting to be changed.

    Attributes:
        old, new: as the broker writes them; ``old`` is the effective value.
        gain_seconds, gain_bytes, gain_records: of each start, at most: what would be lost again without this one change. Two
            that only help together each have the gain of both.
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
    """What is dangerous or wrong in a topic, and what to do; no setting that is changed here mends it."""

    topic: str
    what: str


@dataclass(frozen=True, slots=True)
class Advice:
    """All that would be done.

    Attributes:
        gain_seconds, gain_bytes, gain_records: of each start with all the changes, at most.
    """

    changes: tuple[SettingChange, ...] = ()
    problems: tuple[TopicProblem, ...] = ()
    gain_seconds: float = 0.0
    gain_bytes: int = 0
    gain_records: int = 0


def advise(
    topics: Sequence[tuple[TopicProfile, Mapping[str, str] | None]],
    model: CostModel,
    *,
    longest_start_s: float,
    now_ms: int,
) -> Advice:
    """Look for settings worth changing and for problems.

    Args:
        topics: each with its effective settings, ``None`` where they could not be read.
        model: of what a record and a byte cost.
        longest_start_s: predicted for the group whose start takes longest.
        now_ms: milliseconds since the epoch.
    """
    changes: list[SettingChange] = []
    problems: list[TopicProblem] = []
    gained = Amount()
    least_s = max(LEAST_GAIN_S, LEAST_GAIN_SHARE * longest_start_s)
    for profile, configs in topics:
        problems += _problems(profile, configs)
        if configs is None:
            continue
        settings = CleanerSettings.of(configs)
        wanted = _candidates(profile, settings)
        looking = _Looking(profile, settings, model, now_ms)
        kept = looking.worthwhile(wanted, least_s)
        changes += [_change(looking, kept, name, configs) for name in _ORDER if name in kept]
        gained += looking.gain(kept)
    return Advice(tuple(changes), tuple(problems), _seconds(model, gained), round(gained.bytes), round(gained.records))


def _seconds(model: CostModel, amount: Amount) -> float:
    """Give what records cost that are only passed over; a group's own cost more, so this is rather too little."""
    return model.per_record_s * amount.records + model.per_byte_s * amount.bytes


def _problems(profile: TopicProfile, configs: Mapping[str, str] | None) -> list[TopicProblem]:
    found: list[TopicProblem] = []
    topic = profile.topic
    if profile.topic_type is TopicType.CONFIG and len(profile.partitions) > 1:
        found.append(
            TopicProblem(
                topic,
                f"{len(profile.partitions)} partitions, so that records have no order; a config topic has exactly one: "
                f"create it anew and move the records",
            )
        )
    if stuck := _ending_in_tombstone(profile):
        found.append(
            TopicProblem(
                topic,
                f"the newest record of {_some(stuck)} is a tombstone; once the cleaner takes it, workers that start later "
                f"disagree with those that run. Write the marker: key <group>.target-state-, value the four bytes null "
                f"(JSON, no tombstone); until then no setting of this topic is advised",
            )
        )
    if profile.keys_in_several_partitions:
        found.append(
            TopicProblem(
                topic,
                f"{profile.keys_in_several_partitions:,} keys have records in several partitions: they were not placed by "
                f"murmur2 of the key, or the number of partitions was changed; what lies in the wrong partition is never "
                f"superseded, and which record is the newest is not certain. A move with connect-share-migrate "
                f"places them anew",
            )
        )
    if configs is None:
        return found
    settings = CleanerSettings.of(configs)
    if settings.compacted and settings.delete_retention_ms < SHORT_RETENTION_MS:
        found.append(
            TopicProblem(
                topic,
                f"delete.retention.ms={settings.delete_retention_ms}: a worker that pauses for longer while it reads can "
                f"miss a removal; set it to {TOMBSTONE_RETENTION_MS}",
            )
        )
    return found


def _ending_in_tombstone(profile: TopicProfile) -> list[str]:
    if profile.topic_type is not TopicType.CONFIG:
        return []
    return [str(group) for group in profile.ends_in_tombstone()]


def _some(groups: Sequence[str], most: int = 5) -> str:
    more = f" and {len(groups) - most:,} others" if len(groups) > most else ""
    return ", ".join(groups[:most]) + more


def segment_bytes_for(profile: TopicProfile, max_message_bytes: int) -> int:
    """Give the size of segments that fits a topic: see :data:`SEGMENT_BYTES`; never less than a message may have."""
    largest = max((part.total() for part in profile.partitions), key=lambda count: count.bytes, default=None)
    live = 0 if largest is None else largest.bytes - largest.superseded_bytes
    least = max(live // 4, max_message_bytes)
    fitting = next((size for size in SEGMENT_BYTES if size >= least), SEGMENT_BYTES[-1])
    return max(fitting, -(-max_message_bytes // MIB) * MIB)


def _candidates(profile: TopicProfile, settings: CleanerSettings) -> dict[str, CleanerSettings]:
    """Give the changes that may be thought of, each as the settings it alone would lead to."""
    found: dict[str, CleanerSettings] = {}
    if _ending_in_tombstone(profile):
        return found
    if settings.cleanup_policy != {"compact"}:
        found["cleanup.policy"] = replace(settings, cleanup_policy=frozenset({"compact"}))
    size = segment_bytes_for(profile, settings.max_message_bytes)
    if size < settings.segment_bytes:
        found["segment.bytes"] = replace(settings, segment_bytes=size)
    if settings.segment_ms > SEGMENT_MS:
        found["segment.ms"] = replace(settings, segment_ms=SEGMENT_MS)
    if settings.min_cleanable_dirty_ratio > DIRTY_RATIO:
        found["min.cleanable.dirty.ratio"] = replace(settings, min_cleanable_dirty_ratio=DIRTY_RATIO)
    if settings.min_compaction_lag_ms > 0:
        found["min.compaction.lag.ms"] = replace(settings, min_compaction_lag_ms=0)
    if settings.delete_retention_ms > TOMBSTONE_RETENTION_MS:
        found["delete.retention.ms"] = replace(settings, delete_retention_ms=TOMBSTONE_RETENTION_MS)
    return found


_FIELDS: Final = {name: name.replace(".", "_") for name in _ORDER}


class _Looking:
    """What changes of one topic's settings are worth."""

    def __init__(self, profile: TopicProfile, settings: CleanerSettings, model: CostModel, now_ms: int) -> None:
        self.profile = profile
        self.settings = settings
        self.model = model
        self.now_ms = now_ms
        # What the cleaner will take anyway is no gain.
        self._before = remains(profile, settings, now_ms)

    def gain(self, changes: Mapping[str, CleanerSettings]) -> Amount:
        """Give what all of these together save."""
        if not changes:
            return Amount()
        together = replace(
            self.settings, **{_FIELDS[name]: getattr(changed, _FIELDS[name]) for name, changed in changes.items()}
        )
        return (self._before - remains(self.profile, together, self.now_ms)).at_least_nothing()

    def without(self, changes: Mapping[str, CleanerSettings], name: str) -> Amount:
        """Give what one of the changes adds to the others."""
        others = {other: changed for other, changed in changes.items() if other != name}
        return (self.gain(changes) - self.gain(others)).at_least_nothing()

    def worthwhile(self, changes: Mapping[str, CleanerSettings], least_s: float) -> dict[str, CleanerSettings]:
        """Leave out what adds too little to the others, until each adds enough; the policy is no matter of gain.

        Of two that would do alike the one that comes first in :data:`_ORDER` stays.
        """
        kept = dict(changes)
        while True:
            little = (
                name
                for name in reversed(_ORDER)
                if name in kept
                and name != "cleanup.policy"
                and _seconds(self.model, self.without(kept, name)) < least_s
            )
            name = next(little, None)
            if name is None:
                return kept
            del kept[name]


def _change(
    looking: _Looking, kept: Mapping[str, CleanerSettings], name: str, configs: Mapping[str, str]
) -> SettingChange:
    adds = looking.without(kept, name)
    new = kept[name]
    value = getattr(new, _FIELDS[name])
    text = ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)
    before = getattr(looking.settings, _FIELDS[name])
    old = ",".join(sorted(before)) if isinstance(before, frozenset) else str(before)
    return SettingChange(
        topic=looking.profile.topic,
        setting=name,
        old=configs.get(name, old),
        new=text,
        reason=_REASONS[name],
        gain_seconds=_seconds(looking.model, adds),
        gain_bytes=round(adds.bytes),
        gain_records=round(adds.records),
    )


_REASONS: Final = {
    "cleanup.policy": "Connect refuses to start on a topic that is not compacted only: retention would delete what it needs",
    "segment.bytes": "the cleaner never touches the newest segment, and this one may hold most of the topic",
    "segment.ms": "a segment that fills slowly is closed by the first record after this time, and can be cleaned then",
    "min.cleanable.dirty.ratio": "the cleaner waits until this share of a partition is new; a small topic is cheap to clean",
    "min.compaction.lag.ms": "records younger than this are never cleaned; Connect only needs the newest record of a key",
    "delete.retention.ms": "tombstones are kept this long after a cleaning; a day is enough for readers; checkpoints "
    "that are older are not used",
}
