"""The profile of topics against counts made the slow way, estimates, advice, and what groups cost each other."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.cli.usage import _verdict
from connect_share.console.options import Group
from connect_share.contents.advice import MIB, Advice, CleanerSettings, advise, hidden, hidden_from, remains
from connect_share.contents.cost_model import CostModel, FittedModel, load_model
from connect_share.contents.group_room import GroupRoom
from connect_share.contents.profile import FURTHER, MOST_CHUNKS, Count, PartitionCounter, TopicProfile, kind_of, total
from connect_share.contents.startup import members, startup_profile
from connect_share.contents.usage import FRAME_BYTES, Recent, Usage, UsageLimits, usage_of
from connect_share.errors import ConfigError
from connect_share.model.keys import ClusterGroupId, prefix_key, split_key
from connect_share.model.records import Record, TopicType

KEYS = {
    TopicType.CONFIG: [b"connector-a", b"task-a-0", b"commit-a", b"target-state-", b"session-key", b"tasks-fencing-a"],
    TopicType.STATUS: [b"status-task-a-0", b"status-connector-a", b"status-topic-t:connector-a"],
    TopicType.OFFSET: [b'["a",{}]', b'["b",null]'],
}
GARBAGE = [None, b"", b"nothing of Connect's", b"\xff.\x00"]
NOW_MS = 10_000


@st.composite
def logs(draw: st.DrawFn) -> tuple[TopicType, list[Record]]:
    """Records of up to three partitions, as they come from a consumer: in order within each only."""
    topic_type = draw(st.sampled_from(TopicType))
    keys = st.one_of(
        st.builds(
            lambda group, key: key if group is None else prefix_key(group, key),
            st.sampled_from([None, "a", "b.c"]),
            st.sampled_from(KEYS[topic_type]),
        ),
        st.sampled_from(GARBAGE),
    )
    values = st.one_of(st.sampled_from([None, b"null", b""]), st.integers(1, 40).map(lambda size: b"x" * size))
    rows = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, NOW_MS), keys, values), max_size=60))
    return topic_type, [
        Record("t", partition, offset, timestamp, key, value)
        for offset, (partition, timestamp, key, value) in enumerate(rows)
    ]


def counted(
    topic_type: TopicType, records: Sequence[Record], *, step_bytes: int | None = None, partitions: int = 0
) -> TopicProfile:
    numbers = dict.fromkeys([*range(partitions), *(record.partition for record in records)])
    counters = {number: PartitionCounter(topic_type, number) for number in numbers}
    for counter in counters.values():
        counter._chunk_bytes = step_bytes or counter._chunk_bytes
    for record in records:
        counters[record.partition].add(record.offset, record.timestamp_ms, record.key, record.value)
    return TopicProfile.of("t", topic_type, [counter.finish() for counter in counters.values()])


def size_of(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


def naive(topic_type: TopicType, records: Sequence[Record]) -> dict[tuple[Group, str] | None, Count]:
    """Count by looking at all later records of each record."""
    found: dict[tuple[Group, str] | None, Count] = defaultdict(Count)
    for index, record in enumerate(records):
        owner = None if record.key is None else split_key(topic_type, record.key)
        count = found[None if owner is None else (owner[0], kind_of(topic_type, owner[1]))]
        size = size_of(record)
        superseded = record.key is not None and any(
            later.key == record.key and later.partition == record.partition for later in records[index + 1 :]
        )
        count.records += 1
        count.bytes += size
        count.superseded_records += superseded
        count.superseded_bytes += size * superseded
        count.tombstones += record.value is None
        count.tombstone_bytes += size * (record.value is None)
        count.superseded_tombstones += superseded and record.value is None
        count.superseded_tombstone_bytes += size * (superseded and record.value is None)
        count.json_nulls += record.value == b"null"
        count.superseded_json_nulls += superseded and record.value == b"null"
        count.largest_key_bytes = max(count.largest_key_bytes, len(record.key or b""))
        if record.timestamp_ms >= 0:
            count.oldest_ms = min(record.timestamp_ms, NOW_MS if count.oldest_ms is None else count.oldest_ms)
            count.newest_ms = max(record.timestamp_ms, count.newest_ms or 0)
        at = (record.partition, record.offset)
        if (-size, at) < (-count.largest_record_bytes, count.largest_record_at or (99, 0)):
            count.largest_record_bytes, count.largest_record_at = size, at
    return dict(found)


@given(logs(), st.integers(1, 100))
def test_profile_is_what_a_slow_count_gives(log: tuple[TopicType, list[Record]], step_bytes: int) -> None:
    topic_type, records = log
    profile = counted(topic_type, records, step_bytes=step_bytes)
    expected = naive(topic_type, records)
    assert profile.unrecognized() == expected.pop(None, Count())
    assert profile.counts() == expected
    newest = {(record.partition, record.key): record for record in records if record.key is not None}
    live = [
        at
        for at, record in newest.items()
        if record.value not in (None, b"null") and split_key(topic_type, at[1] or b"")
    ]
    assert sum(count.live_keys for count in profile.counts().values()) == len(live)
    keys = [key for (_, key), record in newest.items() if record.value not in (None, b"null")]
    assert profile.keys_in_several_partitions == len({key for key in keys if keys.count(key) > 1})
    last = {}
    for record in records:
        owner = None if record.key is None else split_key(topic_type, record.key)
        if owner is not None and owner[0] is not None:
            last[record.partition, owner[0]] = record.value
    assert profile.ends_in_tombstone() == sorted({group for (_, group), value in last.items() if value is None})
    chunks = [chunk for part in profile.partitions for chunk in part.chunks]
    whole = profile.total()
    assert sum(chunk.records for chunk in chunks) == whole.records == len(records)
    assert sum(chunk.bytes for chunk in chunks) == whole.bytes
    assert sum(chunk.superseded_bytes for chunk in chunks) == whole.superseded_bytes
    assert sum(chunk.superseded_records for chunk in chunks) == whole.superseded_records
    lost = sum(record.value is None and record.key is None for record in records)
    assert sum(chunk.tombstones for chunk in chunks) == whole.live_tombstones - lost


def test_a_long_partition_has_few_chunks() -> None:
    counter = PartitionCounter(TopicType.OFFSET, 0)
    counter._chunk_bytes = 1
    for number in range(10 * MOST_CHUNKS):
        counter.add(number, number, b'["a",%d]' % (number % 7), b"x" * 20)
    profile = counter.finish()
    assert MOST_CHUNKS // 2 <= len(profile.chunks) <= MOST_CHUNKS
    assert sum(chunk.records for chunk in profile.chunks) == 10 * MOST_CHUNKS
    assert sum(chunk.superseded_records for chunk in profile.chunks) == 10 * MOST_CHUNKS - 7
    times = [chunk.newest_ms or 0 for chunk in profile.chunks]
    assert times == sorted(times)
    assert times[-1] == 10 * MOST_CHUNKS - 1


CLEANERS = st.builds(
    CleanerSettings,
    cleanup_policy=st.just(frozenset({"compact"})),
    segment_bytes=st.integers(1, 800),
    segment_ms=st.integers(1, NOW_MS),
    min_cleanable_dirty_ratio=st.floats(0, 1),
    delete_retention_ms=st.integers(0, NOW_MS),
    min_compaction_lag_ms=st.integers(0, NOW_MS),
    max_compaction_lag_ms=st.integers(1, NOW_MS),
)


@given(logs(), CLEANERS)
def test_hidden_is_what_is_superseded_from_the_last_segment_on(
    log: tuple[TopicType, list[Record]], settings: CleanerSettings
) -> None:
    topic_type, records = log
    # Steps of one record, where every record has at least one byte.
    records = [record for record in records if record.partition == 0 and size_of(record)]
    profile = counted(topic_type, records, step_bytes=1)
    first = len(records)
    newest = max((record.timestamp_ms for record in records), default=-1)
    while first:
        record = records[first - 1]
        behind = sum(size_of(later) for later in records[first:])
        timed = record.timestamp_ms >= 0
        active = behind < settings.segment_bytes and (not timed or newest - record.timestamp_ms <= settings.roll_ms)
        if not active and not (timed and NOW_MS - record.timestamp_ms < settings.min_compaction_lag_ms):
            break
        first -= 1
    found = hidden(profile, settings, NOW_MS)
    assert found.held.records == len(records) - first
    assert (found.dirty_ratio is None) == (first == 0)
    superseded = 0
    for index, record in enumerate(records):
        later = [
            at for at in range(index + 1, len(records)) if records[at].key == record.key and record.key is not None
        ]
        superseded += bool(later) and later[0] >= first
    assert found.superseded.records == superseded
    # What is left is between what cannot go and everything, and a more eager cleaner never leaves more.
    left = remains(profile, settings, NOW_MS)
    whole = total([*profile.counts().values(), profile.unrecognized()])
    assert whole.bytes - whole.superseded_bytes - whole.tombstone_bytes <= left.bytes + 1e-6
    assert left.bytes <= whole.bytes + 1e-6
    assert left.records <= whole.records + 1e-6
    eager = CleanerSettings(frozenset({"compact"}), 1, 1, 0.0, 0, 0)
    assert remains(profile, eager, NOW_MS).bytes <= left.bytes + 1e-6


@given(logs(), CLEANERS, st.integers(0, 60))
def test_the_dirty_ratio_is_never_claimed_higher_than_it_is(
    log: tuple[TopicType, list[Record]], settings: CleanerSettings, cleaned: int
) -> None:
    topic_type, records = log
    records = [record for record in records if record.partition == 0 and record.key]
    head, tail = records[:cleaned], records[cleaned:]
    newest = {record.key: record.offset for record in head}
    head = [record for record in head if newest[record.key] == record.offset]
    profile = counted(topic_type, [*head, *tail], step_bytes=1)
    claimed = hidden(profile, settings, NOW_MS).dirty_ratio
    if claimed is None:
        return
    first = hidden_from(profile.partitions[0].chunks, settings, NOW_MS)
    cleanable = [size_of(record) for record in [*head, *tail][:first]]
    assert claimed <= sum(cleanable[len(head) :]) / sum(cleanable) + 1e-9


HOUR_MS = 3_600_000
DAY_MS = 86_400_000
TODAY_MS = 30 * DAY_MS
DEAR = CostModel(fixed_s=0.1, per_record_s=0.001, per_byte_s=0, per_own_record_s=0)
COMPACT = {"cleanup.policy": "compact"}
Row = tuple[int, bytes, bytes | None]


def profile(topic_type: TopicType, rows: Iterable[Row], partitions: int = 1) -> TopicProfile:
    records = [Record("t", offset % partitions, offset, *row) for offset, row in enumerate(rows)]
    return counted(topic_type, records, step_bytes=1, partitions=partitions)


def advised(
    topic: TopicProfile, configs: Mapping[str, str] | None = None, *, model: CostModel = DEAR, longest_s: float = 0.5
) -> tuple[dict[str, str], Advice]:
    topic = replace(topic, configs={**COMPACT, **(configs or {})})
    found = advise([topic], model, longest_start_s=longest_s, now_ms=TODAY_MS)
    return {change.setting: change.new for change in found.changes}, found


def offsets(number: int, *, keys: int = 10, size: int = 10_000, span_ms: int = 1_000) -> list[Row]:
    return [
        (TODAY_MS - span_ms + i * span_ms // number, b'g.["a",%d]' % (i % keys), b"x" * size) for i in range(number)
    ]


def test_a_segment_that_hides_everything() -> None:
    found, advice = advised(profile(TopicType.OFFSET, offsets(1_000)))
    assert found == {"segment.bytes": str(2 * MIB)}
    # 2 MiB may stay hidden, ten live records stay, and as many that the cleaner lets be.
    assert 760 < advice.gain_records < 780
    assert advice.gain_seconds == pytest.approx(advice.gain_records * 0.001, rel=0.01)
    assert [change.old for change in advice.changes] == [str(1 << 30)]
    # Where more is alive, the cleaner lets more be.
    found, advice = advised(profile(TopicType.OFFSET, offsets(1_500, keys=500)))
    assert found == {"segment.bytes": str(2 * MIB), "min.cleanable.dirty.ratio": "0.1"}
    assert [change.old for change in advice.changes] == [str(1 << 30), "0.5"]
    segment, ratio = advice.changes
    assert ratio.gain_records < segment.gain_records == advice.gain_records
    # Hourly segments would do too, but for little more.
    old = [(timestamp_ms - DAY_MS, key, value) for timestamp_ms, key, value in offsets(1_000)]
    assert advised(profile(TopicType.OFFSET, old), longest_s=10)[0] == {"segment.bytes": str(2 * MIB)}
    # The cleaner would have gone to work anyway: only the rest is a gain.
    small, _ = advised(profile(TopicType.OFFSET, offsets(1_000)), {"segment.bytes": str(2 * MIB)})
    assert small == {}


def test_small_records_that_are_old() -> None:
    old = profile(TopicType.OFFSET, offsets(1_000, size=10, span_ms=3 * DAY_MS))
    assert advised(old)[0] == {"segment.ms": str(HOUR_MS)}
    assert advised(old, {"max.compaction.lag.ms": str(HOUR_MS)})[0] == {}
    lagging = {"segment.ms": str(HOUR_MS), "min.compaction.lag.ms": str(20 * DAY_MS)}
    assert advised(old, lagging)[0] == {"min.compaction.lag.ms": "0"}


@pytest.mark.parametrize(
    ("rows", "model", "longest_s"),
    [
        (offsets(1_000, keys=1_000), DEAR, 0.1),  # nothing is superseded
        (offsets(1_000), CostModel(fixed_s=0.1, per_record_s=1e-6, per_byte_s=0, per_own_record_s=0), 0.1),  # 1 ms
        (offsets(1_000), DEAR, 30.0),  # not worth it beside the whole
        ([], DEAR, 0.1),
    ],
)
def test_what_gains_little_is_not_advised(rows: list[Row], model: CostModel, longest_s: float) -> None:
    assert advised(profile(TopicType.OFFSET, rows), model=model, longest_s=longest_s) == ({}, Advice())


def test_segments_hold_the_largest_message_and_a_quarter_of_what_lives() -> None:
    topic = profile(TopicType.OFFSET, [*offsets(400, keys=400), *offsets(20_000, size=1_000, keys=10)])
    assert advised(topic)[0]["segment.bytes"] == str(2 * MIB)
    assert advised(topic, {"max.message.bytes": str(5 * MIB)})[0]["segment.bytes"] == str(8 * MIB)
    assert "segment.bytes" not in advised(topic, {"max.message.bytes": str(60 * MIB)})[0]
    large = profile(TopicType.OFFSET, [*offsets(2_000, keys=2_000), *offsets(20_000, size=1_000, keys=10)])
    assert advised(large)[0]["segment.bytes"] == str(8 * MIB)


def test_tombstones_are_kept_for_a_day_at_least() -> None:
    removed = [(TODAY_MS - 20 * DAY_MS, b'g.["b",%d]' % i, None) for i in range(1_000)]
    topic = profile(TopicType.OFFSET, [*removed, *offsets(10, keys=10)])
    closed = {"segment.ms": str(HOUR_MS)}
    found, advice = advised(topic, {**closed, "delete.retention.ms": str(25 * DAY_MS)})
    assert found == {"delete.retention.ms": str(DAY_MS)}
    assert 980 < advice.gain_records <= 1_000
    for kept_ms in (DAY_MS, HOUR_MS):
        assert advised(topic, {**closed, "delete.retention.ms": str(kept_ms)}) == ({}, Advice())
    found, advice = advised(topic, {**closed, "delete.retention.ms": "0"})
    assert found == {}
    assert "can miss a removal" in advice.problems[0].what


@pytest.mark.parametrize(
    ("last", "stuck"),
    [
        ([(TODAY_MS, b"g.connector-a", None)], True),
        ([(TODAY_MS, b"g.connector-a", b"null")], False),
        # The marker after it, and a removal of the plain cluster, which reads every record.
        ([(TODAY_MS, b"g.connector-a", None), (TODAY_MS, b"g.target-state-", b"null")], False),
        ([(TODAY_MS, b"connector-a", None)], False),
        ([(TODAY_MS, b"g.connector-a", None), (TODAY_MS, b"h.connector-a", b"{}")], True),
    ],
)
def test_a_group_whose_newest_config_record_is_a_tombstone(last: list[Row], stuck: bool) -> None:
    rows = [(TODAY_MS - DAY_MS, b"g.connector-a", b"x" * 10_000)] * 1_000
    found, advice = advised(profile(TopicType.CONFIG, [*rows, *last]))
    assert found == ({} if stuck else {"segment.ms": str(HOUR_MS)})
    assert [problem.what.split(" is a tombstone")[0] for problem in advice.problems] == (
        ["the newest record of g"] if stuck else []
    )
    # Elsewhere tombstones are how things are removed.
    status = [(TODAY_MS - DAY_MS, b"g.status-task-a-0", b"x" * 10_000)] * 1_000
    assert not advised(profile(TopicType.STATUS, [*status, (TODAY_MS, b"g.status-task-a-0", None)]))[1].problems


def test_policy_partitions_and_settings_that_cannot_be_read() -> None:
    few = profile(TopicType.CONFIG, [(TODAY_MS, b"g.connector-a", b"{}")] * 4, partitions=2)
    found, advice = advised(few, {"cleanup.policy": "delete"})
    assert found == {"cleanup.policy": "compact"}
    assert advice.changes[0].old == "delete"
    assert advised(few, {"cleanup.policy": "compact,delete"})[0] == {}  # a move may have closed it
    assert [problem.what.split()[:2] for problem in advice.problems] == [["2", "partitions,"], ["1", "keys"]]
    blind = advise([few], DEAR, longest_start_s=1, now_ms=TODAY_MS)
    assert (blind.changes, len(blind.problems)) == ((), 2)


def test_predictions_by_group() -> None:
    rows = [(1, b"g.connector-a", b"x" * 87), (2, b"connector-b", b"y" * 89), (3, b"connector-c", b"z" * 89)]
    empty = {kind: replace(profile(kind, []), configs={}) for kind in (TopicType.STATUS, TopicType.OFFSET)}
    topics = {TopicType.CONFIG: replace(profile(TopicType.CONFIG, rows), configs=COMPACT), **empty}
    model = CostModel(fixed_s=1, per_record_s=0.1, per_byte_s=0.01, per_own_record_s=0.5, error=0.25)
    found = startup_profile(topics, FittedModel(model=model), now_ms=TODAY_MS, limit_s=5.0)
    starts = {start.group: start for start in found.groups}
    assert starts[None].seconds == pytest.approx(1 + 0.3 + 3.0 + 1.0)
    assert starts[ClusterGroupId("g")].seconds == pytest.approx(1 + 0.3 + 3.0 + 0.5)
    assert starts[ClusterGroupId("g")].between == pytest.approx((4.8 / 1.25, 4.8 * 1.25))
    assert starts[ClusterGroupId("g")].alone_seconds == pytest.approx(1 + 0.1 + 1.0 + 0.5)
    assert found.too_slow == [None]
    only = members(startup_profile(topics, FittedModel(model=model), now_ms=TODAY_MS, groups={None}))
    assert [group["group"] for group in only["groups"]] == [None]
    assert only["topics"][0]["records"] == 3


def test_models(tmp_path: Path) -> None:
    shipped = load_model()
    assert 0 < shipped.model.fixed_s < 1
    assert {"processors", "architecture"} <= shipped.machine.keys()
    assert shipped.versions.keys() >= {"kafka", "librdkafka"}
    assert shipped.measured_at_ms
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"model": DEAR.model_dump(), "starts": [], "machine": {"processors": 4}}))
    assert load_model(path) == FittedModel(model=DEAR, machine={"processors": 4}, path=path)
    far = json.dumps({"model": DEAR.model_dump(), "measured_at_ms": 10**18})
    for text, what in (("{}", "no cost model"), (far, "measured_at_ms is not"), ("[" * 100_000, "is no JSON")):
        path.write_text(text)
        with pytest.raises(ConfigError, match=what):
            load_model(path)
    for path, what in ((tmp_path / "nowhere.json", "No such file"), (Path("/dev/zero"), "it is longer than 16 MiB")):
        with pytest.raises(ConfigError, match=f"cannot read {path}: {what}"):
            load_model(path)


A, B = ClusterGroupId("a"), ClusterGroupId("b")
MODEL = CostModel(fixed_s=1.0, per_record_s=0.001, per_byte_s=0.0, per_own_record_s=0.0)


def config_profile(records: dict[str, int]) -> dict[TopicType, TopicProfile]:
    keys = [f"{group}.connector-{number}".encode() for group, count in records.items() for number in range(count)]
    written = [Record("t", 0, offset, 1, key, b"x" * 10) for offset, key in enumerate(keys)]
    return {TopicType.CONFIG: counted(TopicType.CONFIG, written)}


def usage(records: dict[str, int], recent: Recent, members: dict[str, int], limits: UsageLimits | None = None) -> Usage:
    return usage_of(config_profile(records), {TopicType.CONFIG: recent}, members, MODEL, window_s=100.0, limits=limits)


def test_each_group_has_its_share_of_what_compaction_has_removed() -> None:
    # 400 offsets are gone of 500: what is left tells whose they were.
    found = usage({"a": 30, "b": 10}, Recent(500, {A: 75, B: 25}, {A: 7_500, B: 2_500}), {"a": 2, "b": 3})
    a, b = found.groups
    assert (a.group, a.count.records) == (A, 30)
    assert a.share == pytest.approx(0.75, abs=0.02)
    assert (a.records_per_s, b.records_per_s) == (3.75, 1.25)
    assert a.bytes_per_s == 375.0
    assert a.sent_to_others_per_s == (375.0 + 3.75 * FRAME_BYTES) * 3
    assert b.sent_to_others_per_s == (125.0 + 1.25 * FRAME_BYTES) * 2
    assert a.start_s_of_others == pytest.approx(0.03)
    assert found.workers == 5


def test_brokers_send_with_the_square_of_the_groups_and_starts_grow_with_them() -> None:
    found = usage({"a": 10, "b": 10}, Recent(200, {A: 100, B: 100}, {A: 1_000, B: 1_000}), {"a": 1, "b": 1})
    assert [each.groups for each in found.projections] == [2, 4, 10, 20]
    one = (2 * FRAME_BYTES + 20.0) * 2  # two records of ten bytes, to two workers
    assert [each.egress_bytes_per_s for each in found.projections] == [one, 4 * one, 25 * one, 100 * one]
    assert [each.received_per_s for each in found.projections] == [2, 4, 10, 20]
    assert [round(each.start_s, 3) for each in found.projections] == [1.02, 1.04, 1.1, 1.2]


@pytest.mark.parametrize(
    ("limits", "most", "limited_by"),
    [
        (UsageLimits(1.1, 1e12), 10, "start"),
        (UsageLimits(1e9, 50 * (2 * FRAME_BYTES + 20.0)), 10, "egress"),
        (UsageLimits(1.005, 1.0), 0, "start"),
    ],
)
def test_how_many_fit(limits: UsageLimits, most: int, limited_by: str) -> None:
    recent = Recent(200, {A: 100, B: 100}, {A: 1_000, B: 1_000})
    found = usage({"a": 10, "b": 10}, recent, {"a": 1, "b": 1}, limits)
    assert (found.most_groups, found.limited_by) == (most, limited_by)


def test_nothing_is_invented_where_nothing_is_known() -> None:
    found = usage({"a": 1}, Recent(0, {}, {}), {}, UsageLimits(1.005, 1.0))
    assert (found.groups[0].sent_to_others_per_s, found.groups[0].members, found.workers) == (None, None, None)
    assert found.projections[0].egress_bytes_per_s is None
    assert "No live worker of them is known" in _verdict(found)
    one_hidden = usage({"a": 1, "b": 1}, Recent(0, {}, {}), {"a": 2})
    assert ([each.members for each in one_hidden.groups], one_hidden.workers) == ([2, None], None)
    empty = usage_of({}, {}, {}, MODEL, window_s=1.0)
    assert (empty.groups, empty.projections, empty.most_groups) == ([], [], None)


@given(st.integers(0, 10**12), st.dictionaries(st.sampled_from([A, B, None]), st.integers(0, 10**9)))
def test_a_share_is_never_less_than_what_was_seen_nor_more_than_what_was_written(
    offsets: int, seen: dict[ClusterGroupId | None, int]
) -> None:
    recent = Recent(offsets, seen, seen)
    shares = {group: recent.share(group)[0] for group in seen}
    assert all(shares[group] >= seen[group] * 0.999999 for group in seen)
    assert sum(shares.values()) <= max(offsets, sum(seen.values())) * 1.000001


def test_groups_for_which_there_is_no_room_are_counted_as_one() -> None:
    counter = PartitionCounter(TopicType.OFFSET, 0, GroupRoom([ClusterGroupId("own")], limit=2))
    groups = [f"g{number}" for number in range(9)] + ["own"]
    for offset, group in enumerate(groups * 2):
        counter.add(offset, 1, f'{group}.["c",{{}}]'.encode(), b"1")
    counts = counter.finish().counts.items()
    found = {group: (count.records, count.superseded_records) for (group, _), count in counts}
    assert found == {"g0": (2, 1), "g1": (2, 1), "own": (2, 1), FURTHER: (14, 0)}


def test_keys_of_others_are_compared_up_to_a_limit_and_the_largest_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connect_share.contents.profile.MOST_KEYS", 80)
    counter = PartitionCounter(TopicType.OFFSET, 0, GroupRoom([ClusterGroupId("own")]), beside=2)
    keys = [
        (group, number)
        for number in range(30)
        for group in ("own", "large", *["no key"] * (number % 2), *["small"] * (number < 3))
    ]
    for offset, (group, number) in enumerate(keys * 2):
        value = b"1" if number % 2 else None
        counter.add(offset, 1, f'{group}.["c",{{"n":{number}}}]'.encode(), value)
    profile = counter.finish()
    found = {group: count.superseded_records for (group, _), count in profile.counts.items()}
    assert (found, profile.unrecognized.superseded_records) == ({"own": 30, "large": 0, "small": 3}, 15)
    assert profile.given_up == {"large"}
    assert len(profile.digests) == 8 * (15 + 15 + 1)  # those that live
    assert sum(chunk.tombstones for chunk in profile.chunks) == 15 + 2
