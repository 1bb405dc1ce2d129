"""The start-up profile, its predictions and advice, as JSON and for people, and the one bounded read that it takes.

Memory holds eight bytes and their place for each distinct key of one topic at a time, up to a limit, and no values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from connect_share.console.options import Group, group_order, named_groups, shown_group
from connect_share.console.output import Output, ProgressLine, Table
from connect_share.contents.advice import SHOWN_SETTINGS, Advice, CleanerSettings, Hidden, SettingChange, advise, hidden
from connect_share.contents.cost_model import FittedModel, StartSize
from connect_share.contents.group_room import GroupRoom
from connect_share.contents.profile import FURTHER, Count, PartitionCounter, PartitionProfile, TopicProfile, total
from connect_share.errors import AuthorizationError, listed
from connect_share.kafka.read import IDLE_TIMEOUT_S, Reader, TopicRanges, console_admin, topic_ranges
from connect_share.kafka.waits import longest_wait_s
from connect_share.model.records import OffsetRange, TopicType, now_ms, size_of
from connect_share.worker_config import TopicSet


@dataclass(frozen=True, slots=True)
class PredictedStart:
    """The records of one group, and the predicted start of its stores.

    Attributes:
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
    """

    topics: Mapping[TopicType, TopicProfile]
    groups: Sequence[PredictedStart]
    advice: Advice
    fitted: FittedModel
    now_ms: int
    limit_s: float | None = None
    too_slow: Sequence[Group] = field(default=())

    @property
    def findings(self) -> int:
        """Settings worth changing, problems and groups above the limit."""
        return len(self.advice.changes) + len(self.advice.problems) + len(self.too_slow)


def startup_profile(
    topics: Mapping[TopicType, TopicProfile],
    fitted: FittedModel,
    *,
    now_ms: int,
    limit_s: float | None = None,
    groups: Collection[Group] | None = None,
) -> StartupProfile:
    """Predict and advise. Only ``groups`` are in the result, with or without records; all records are counted in any case."""
    everything = total(topic.total() for topic in topics.values())

    def size(own_records: int) -> StartSize:
        return StartSize(records=everything.records, bytes=everything.bytes, own_records=own_records)

    by_group: dict[Group, dict[tuple[TopicType, str], Count]] = {}
    for topic_type, topic in topics.items():
        for (group, kind), count in topic.counts().items():
            by_group.setdefault(group, {})[topic_type, kind] = count
    for group in groups or ():
        by_group.setdefault(group, {})
    starts = [
        _start(group, kinds, size(sum(count.records for count in kinds.values())), fitted)
        for group, kinds in by_group.items()
        if groups is None or group in groups
    ]
    starts.sort(key=lambda start: (-start.count.bytes, group_order(start.group)))
    # A worthwhile gain is measured against all groups, even if only some are shown.
    most_own = max((sum(count.records for count in kinds.values()) for kinds in by_group.values()), default=0)
    longest_start_s = fitted.model.seconds(size(most_own))
    advice = advise(topics.values(), fitted.model, longest_start_s=longest_start_s, now_ms=now_ms)
    too_slow = [start.group for start in starts if limit_s is not None and start.seconds > limit_s]
    return StartupProfile(dict(topics), starts, advice, fitted, now_ms, limit_s, too_slow)


def _start(
    group: Group, kinds: Mapping[tuple[TopicType, str], Count], size: StartSize, fitted: FittedModel
) -> PredictedStart:
    count = total(kinds.values())
    model = fitted.model
    alone = StartSize(records=count.records, bytes=count.bytes, own_records=count.records)
    return PredictedStart(group, kinds, count, model.seconds(size), model.between(size), model.seconds(alone))


def members(found: StartupProfile) -> dict[str, Any]:
    """Return everything for JSON: names, sizes, counts and settings; no key and no value of a record."""
    fitted, advice = found.fitted, asdict(found.advice)
    return {
        "profiled_at_ms": found.now_ms,
        "topics": [_topic_members(topic_type, topic, found.now_ms) for topic_type, topic in found.topics.items()],
        "groups": [_group_members(start) for start in found.groups],
        "model": {
            **fitted.model.model_dump(),
            "file": "shipped" if fitted.path is None else str(fitted.path),
            **fitted.model_dump(exclude={"model"}),
        },
        "problems": advice.pop("problems"),
        "advice": advice,
        "limit_seconds": found.limit_s,
        "above_limit": list(found.too_slow),
    }


def _hidden(topic: TopicProfile, now_ms: int) -> Hidden | None:
    """Estimate what the last segments hide; ``None`` where the settings could not be read."""
    return None if topic.configs is None else hidden(topic, CleanerSettings.of(topic.configs), now_ms)


def _topic_members(topic_type: TopicType, topic: TopicProfile, now_ms: int) -> dict[str, Any]:
    configs, behind = topic.configs, _hidden(topic, now_ms)
    return {
        "topic": topic.topic,
        "topic_type": topic_type.value,
        "partitions": len(topic.partitions),
        **topic.total().members(),
        "unrecognized": topic.unrecognized().members(),
        "keys_in_several_partitions": topic.keys_in_several_partitions,
        "settings": None if configs is None else {name: configs[name] for name in SHOWN_SETTINGS if name in configs},
        "estimated": None
        if behind is None
        else {
            "hidden_records_at_most": round(behind.held.records),
            "hidden_bytes_at_most": round(behind.held.bytes),
            "hidden_superseded_records_at_most": round(behind.superseded.records),
            "hidden_superseded_bytes_at_most": round(behind.superseded.bytes),
            "dirty_ratio_at_least": behind.dirty_ratio,
        },
    }


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


_SHOWN_GROUPS: Final = 20
"""Groups in a table; those with the most bytes. All are in the JSON form."""

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def not_shown(found: StartupProfile) -> list[str]:
    """Return what :func:`profile_lines` leave out, for people."""
    number = len(found.groups) - _SHOWN_GROUPS
    text = f"{number:,} groups with fewer bytes are not shown; --group shows one, --output json has all"
    return [text] if number > 0 else []


def profile_lines(found: StartupProfile) -> Iterator[str | Table]:
    """Yield the profile as tables, with advice."""
    every = total(topic.total() for topic in found.topics.values())
    yield _topics(found)
    yield ""
    yield _kinds(found)
    yield from (
        "",
        f"each start reads {every.records:,} records, {_size(every.bytes)}; superseded: {_share(every)}",
        "",
    )
    yield _groups(found)
    yield from ("", _model(found), "")
    advice = found.advice
    for problem in advice.problems:
        yield f"problem: {problem.topic}: {problem.what}"
    for change in advice.changes:
        yield from (f"advice: {change_line(change)}", f"  {change.reason}")
    if advice.changes:
        yield (
            f"all of these: each start reads up to {_size(advice.gain_bytes)} and {advice.gain_records:,} records less, "
            f"{_seconds(advice.gain_seconds)} by the model; the cleaner needs some time, and for segment.bytes and "
            f"segment.ms the next records"
        )
    if found.too_slow:
        yield f"above the limit of {found.limit_s:g} s: {named_groups(found.too_slow)}"
    if not found.findings:
        yield "no setting of these topics is worth changing for what is in them now"


def change_line(change: SettingChange) -> str:
    """Return one change for people: old and new value, and what it saves."""
    saves = f"saves up to {_size(change.gain_bytes)} and {_seconds(change.gain_seconds)} of each start"
    more = f" ({saves})" if change.gain_bytes else ""
    return f"{change.topic}: {change.setting} {change.old} -> {change.new}{more}"


def _topics(found: StartupProfile) -> Table:
    rows = []
    for topic_type, topic in found.topics.items():
        count = topic.total()
        behind = _hidden(topic, found.now_ms)
        hides, dirty = None, None
        if behind is not None:
            hides = f"up to {_size(behind.superseded.bytes)}"
            dirty = "nothing to clean" if behind.dirty_ratio is None else f"{behind.dirty_ratio:.2f} or more"
        rows.append(
            (
                topic.topic,
                topic_type.value,
                len(topic.partitions),
                f"{count.records:,}",
                _size(count.bytes),
                _share(count),
                f"{count.live_tombstones:,}",
                f"{topic.unrecognized().records:,}",
                hides,
                dirty,
            )
        )
    headers = ["TOPIC", "TYPE", "PARTITIONS", "RECORDS", "SIZE", "SUPERSEDED", "TOMBSTONES", "NO KEY OF CONNECT"]
    return Table([*headers, "HIDDEN (ESTIMATED)", "DIRTY RATIO (ESTIMATED)"], rows)


_COUNTED: Final = ("RECORDS", "SIZE", "LIVE KEYS", "SUPERSEDED", "TOMBSTONES")


def _counted(count: Count) -> tuple[str, ...]:
    """Return the cells under :data:`_COUNTED`."""
    tombstones = f"{count.live_tombstones:,}"
    return f"{count.records:,}", _size(count.bytes), f"{count.live_keys:,}", _share(count), tombstones


def _kinds(found: StartupProfile) -> Table:
    kinds: dict[tuple[TopicType, str], Count] = {}
    for start in found.groups:
        for where, count in start.kinds.items():
            kinds.setdefault(where, Count()).merge(count)
    rows = [
        (
            topic_type.value,
            kind,
            *_counted(count),
            f"{count.live_json_nulls:,}",
            _size(count.largest_key_bytes),
            _size(count.largest_record_bytes),
            count.largest_place,
        )
        for (topic_type, kind), count in sorted(kinds.items(), key=lambda item: (item[0][0].value, item[0][1]))
    ]
    return Table(["TYPE", "KIND", *_COUNTED, "JSON NULLS", "LARGEST KEY", "LARGEST RECORD", "AT"], rows)


def _groups(found: StartupProfile) -> Table:
    rows = [
        (
            shown_group(start.group),
            *_counted(start.count),
            _seconds(start.seconds),
            f"{_seconds(start.between[0])} - {_seconds(start.between[1])}",
            _seconds(start.alone_seconds),
        )
        for start in found.groups[:_SHOWN_GROUPS]
    ]
    return Table(["GROUP", *_COUNTED, "START", "BETWEEN", "ALONE"], rows)


def _model(found: StartupProfile) -> str:
    fitted = found.fitted
    when = "unknown date"
    if fitted.measured_at_ms:
        when = f"{datetime.fromtimestamp(fitted.measured_at_ms / 1000, UTC):%Y-%m-%d}"
    machine = ", ".join(
        f"{name} {value}" for name, value in fitted.machine.items() if name in ("processors", "architecture", "system")
    )
    text = (
        f"seconds by the cost model of {when} ({machine or 'unknown machine'}), right within {fitted.model.error:.0%}"
    )
    if fitted.path is None:
        text += "; on another machine only ratios hold, --model uses your own benchmark"
    return text


def _share(count: Count) -> str:
    share = count.superseded_bytes / count.bytes if count.bytes else 0.0
    return f"{count.superseded_records:,} ({share:.0%})"


def _size(number: float) -> str:
    unit = 0
    while number >= 999.95 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{number:.0f} {_UNITS[unit]}" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.2f} s"


@dataclass(frozen=True)
class CountJob:
    """Partitions of one topic to be counted in one read; picklable, and secret: it holds client settings."""

    topic_type: TopicType
    reader: Reader
    ranges: Sequence[OffsetRange]
    timeout_s: float
    room: GroupRoom = field(default_factory=GroupRoom)

    def run(self, advance: Callable[[int], None] | None = None) -> list[PartitionProfile]:
        """Read and count. ``advance`` is called with the number of further records."""
        parts = [each.partition for each in self.ranges]
        counters = {part: PartitionCounter(self.topic_type, part, self.room, len(parts)) for part in parts}
        for batch in self.reader.batches(self.ranges, self.timeout_s):
            for message in batch:
                counters[message.partition() or 0].add(
                    message.offset() or 0, message.timestamp()[1], message.key(), message.value()
                )
            if advance is not None:
                advance(len(batch))
        return [counter.finish() for counter in counters.values()]


@dataclass(frozen=True)
class CountPlan:
    """The topics to be counted, and their settings.

    Attributes:
        configs: effective settings by topic type, ``None`` where they may not be read.
    """

    topic_set: TopicSet
    topics: Mapping[TopicType, TopicRanges]
    configs: Mapping[TopicType, Mapping[str, str] | None]
    notes: Sequence[str]
    now_ms: int

    @classmethod
    def of(cls, topic_set: TopicSet) -> CountPlan:
        """Ask the cluster for the three topics."""
        configs: dict[TopicType, Mapping[str, str] | None] = {}
        notes: list[str] = []
        with console_admin(topic_set) as admin:
            found = topic_ranges(admin, topic_set, list(TopicType))
            for topic_type in TopicType:
                notes += found[topic_type].notes
                topic = topic_set.topics[topic_type]
                try:
                    configs[topic_type] = admin.topic_configs(topic)
                except AuthorizationError as exc:
                    configs[topic_type] = None
                    notes.append(f"no advice for {topic}: {exc}")
        return cls(topic_set, found, configs, notes, now_ms())

    def jobs(self, topic_type: TopicType, *, one_for_each_partition: bool = False) -> list[CountJob]:
        """Return the reads of one topic: a single one, or one for each partition."""
        ranges, reader = self.topics[topic_type].ranges, self.topics[topic_type].reader
        parts = [[each] for each in ranges] if one_for_each_partition else [ranges]
        timeout_s = longest_wait_s(IDLE_TIMEOUT_S)
        return [CountJob(topic_type, reader, part, timeout_s, self.room) for part in parts]

    @cached_property
    def room(self) -> GroupRoom:
        """Which groups are counted, those of the caller in any case."""
        return GroupRoom(self.topic_set.own)

    def profiled(self, topic_type: TopicType, partitions: Sequence[PartitionProfile]) -> TopicProfile:
        """Return the profile of a topic whose partitions were counted."""
        topic = self.topic_set.topics[topic_type]
        return TopicProfile.of(topic, topic_type, partitions, self.configs[topic_type])


def count_topics(plan: CountPlan, out: Output) -> dict[TopicType, TopicProfile]:
    """Read the topics in this process, one after the other."""
    topics, notes = {}, list[str]()
    with ProgressLine() as progress:
        for topic_type, topic in plan.topic_set.topics.items():
            progress.phase(f"reading {topic}", sum(map(size_of, plan.topics[topic_type].ranges)))
            partitions = [each for job in plan.jobs(topic_type) for each in job.run(progress.advance)]
            topics[topic_type] = plan.profiled(topic_type, partitions)
            if given_up := frozenset[str]().union(*(each.given_up for each in partitions)):
                whose = listed(sorted(given_up))
                notes.append(
                    f"{topic}: keys of {whose} are too many to be compared: more is superseded there, and fewer live"
                )
    out.note(*notes)
    if plan.room.left_out:
        out.note(f"there are more than {plan.room.limit:,} groups: the others are counted as one, {FURTHER}, by record")
    return topics
