"""Profile, prediction and advice in one value, and as JSON members. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from connect_share.console import Group
from connect_share.records import TopicType
from connect_share.startup.advice import Advice, advise
from connect_share.startup.compaction import SHOWN_SETTINGS, CleanerSettings, Hidden, hidden
from connect_share.startup.cost_model import FittedModel, StartSize
from connect_share.startup.profile import Count, TopicProfile, total

SHIPPED_NAME: Final = "shipped"


@dataclass(frozen=True, slots=True)
class ProfiledTopic:
    """One topic: what was counted in it, and its effective settings, ``None`` if they could not be read."""

    profile: TopicProfile
    configs: Mapping[str, str] | None

    def hidden(self, now_ms: int) -> Hidden | None:
        """Estimate what the last segments hide; ``None`` where the settings could not be read."""
        return None if self.configs is None else hidden(self.profile, CleanerSettings.of(self.configs), now_ms)


@dataclass(frozen=True, slots=True)
class PredictedStart:
    """The records of one group, and the predicted start of its stores.

    Attributes:
        kinds: figures by topic type and kind.
        seconds, between: predicted, and the shortest and longest the model's error allows.
        alone_seconds: predicted for topics that hold only this group's records.
    """

    group: Group
    kinds: Mapping[tuple[TopicType, str], Count]
    count: Count
    seconds: float
    between: tuple[float, float]
    alone_seconds: float


@dataclass(frozen=True, slots=True)
class StartupProfile:
    """The profile of the topics, the predicted starts and the advice.

    Attributes:
        too_slow: groups whose predicted start is above the limit.
        model_name: path of its file, or :data:`SHIPPED_NAME`.
        now_ms: when it was made, milliseconds since the epoch.
    """

    topics: Mapping[TopicType, ProfiledTopic]
    groups: Sequence[PredictedStart]
    advice: Advice
    fitted: FittedModel
    model_name: str
    now_ms: int
    limit_s: float | None = None
    too_slow: Sequence[Group] = field(default=())

    @property
    def findings(self) -> int:
        """Settings worth changing, problems and groups above the limit."""
        return len(self.advice.changes) + len(self.advice.problems) + len(self.too_slow)


def startup_profile(
    topics: Mapping[TopicType, ProfiledTopic],
    fitted: FittedModel,
    *,
    now_ms: int,
    model_name: str = SHIPPED_NAME,
    limit_s: float | None = None,
    groups: Collection[Group] | None = None,
) -> StartupProfile:
    """Predict and advise.

    Only ``groups`` are in the result, with or without records; all records are counted in any case.
    """
    everything = total(topic.profile.total() for topic in topics.values())

    def size(own_records: int) -> StartSize:
        return StartSize(records=everything.records, bytes=everything.bytes, own_records=own_records)

    by_group: dict[Group, dict[tuple[TopicType, str], Count]] = {}
    for topic_type, topic in topics.items():
        for (group, kind), count in topic.profile.counts().items():
            by_group.setdefault(group, {})[topic_type, kind] = count
    for group in groups or ():
        by_group.setdefault(group, {})
    starts = [
        _start(group, kinds, size(sum(count.records for count in kinds.values())), fitted)
        for group, kinds in by_group.items()
        if groups is None or group in groups
    ]
    starts.sort(key=lambda start: (-start.count.bytes, start.group is not None, start.group or ""))
    # A worthwhile gain is measured against all groups, even if only some are shown.
    most_own = max((sum(count.records for count in kinds.values()) for kinds in by_group.values()), default=0)
    advice = advise(
        [(topic.profile, topic.configs) for topic in topics.values()],
        fitted.model,
        longest_start_s=fitted.model.seconds(size(most_own)),
        now_ms=now_ms,
    )
    too_slow = [start.group for start in starts if limit_s is not None and start.seconds > limit_s]
    return StartupProfile(dict(topics), starts, advice, fitted, model_name, now_ms, limit_s, too_slow)


def _start(
    group: Group, kinds: Mapping[tuple[TopicType, str], Count], size: StartSize, fitted: FittedModel
) -> PredictedStart:
    count = total(kinds.values())
    model = fitted.model
    alone = StartSize(records=count.records, bytes=count.bytes, own_records=count.records)
    return PredictedStart(group, kinds, count, model.seconds(size), model.between(size), model.seconds(alone))


def members(found: StartupProfile) -> dict[str, Any]:
    """Return everything for JSON: names, sizes, counts and settings; no key and no value of a record."""
    return {
        "profiled_at_ms": found.now_ms,
        "topics": [_topic_members(topic_type, topic, found.now_ms) for topic_type, topic in found.topics.items()],
        "groups": [_group_members(start) for start in found.groups],
        "model": {
            **found.fitted.model.model_dump(),
            "file": found.model_name,
            "machine": dict(found.fitted.machine),
            "versions": dict(found.fitted.versions),
            "measured_at_ms": found.fitted.measured_at_ms,
        },
        "advice": {
            "changes": [asdict(change) for change in found.advice.changes],
            "gain_seconds": found.advice.gain_seconds,
            "gain_bytes": found.advice.gain_bytes,
            "gain_records": found.advice.gain_records,
        },
        "problems": [asdict(problem) for problem in found.advice.problems],
        "limit_seconds": found.limit_s,
        "above_limit": list(found.too_slow),
    }


def _topic_members(topic_type: TopicType, topic: ProfiledTopic, now_ms: int) -> dict[str, Any]:
    profile, configs = topic.profile, topic.configs
    members: dict[str, Any] = {
        "topic": profile.topic,
        "topic_type": topic_type.value,
        "partitions": len(profile.partitions),
        **profile.total().members(),
        "unrecognized": profile.unrecognized().members(),
        "keys_in_several_partitions": profile.keys_in_several_partitions,
        "settings": None if configs is None else {name: configs[name] for name in SHOWN_SETTINGS if name in configs},
        "estimated": None,
    }
    behind = topic.hidden(now_ms)
    if behind is not None:
        members["estimated"] = {
            "hidden_records_at_most": round(behind.held.records),
            "hidden_bytes_at_most": round(behind.held.bytes),
            "hidden_superseded_records_at_most": round(behind.superseded.records),
            "hidden_superseded_bytes_at_most": round(behind.superseded.bytes),
            "dirty_ratio_at_least": behind.dirty_ratio,
        }
    return members


def _group_members(start: PredictedStart) -> dict[str, Any]:
    counted = start.count.members()
    # The position is useless without its topic; the kinds have it.
    del counted["largest_record_at"]
    return {
        "group": start.group,
        **counted,
        "start": {
            "seconds": start.seconds,
            "at_least_seconds": start.between[0],
            "at_most_seconds": start.between[1],
            "alone_seconds": start.alone_seconds,
        },
        "kinds": [
            {"topic_type": topic_type.value, "kind": kind, **count.members()}
            for (topic_type, kind), count in sorted(
                start.kinds.items(), key=lambda item: (item[0][0].value, item[0][1])
            )
        ],
    }
