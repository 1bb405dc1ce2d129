"""The profile of topics against counts made the slow way, and the estimates against logs that a cleaner has been over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from connect_share.console import Group
from connect_share.contents.advice import CleanerSettings, hidden, hidden_from, remains
from connect_share.contents.profile import (
    MOST_CHUNKS,
    Count,
    PartitionCounter,
    TopicProfile,
    kind_of,
    total,
)
from connect_share.model.keys import prefix_key, split_key
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
    topic_type: TopicType, records: Iterable[Record], *, step_bytes: int | None = None, partitions: Iterable[int] = ()
) -> TopicProfile:
    counters = {number: PartitionCounter(topic_type, number) for number in partitions}
    for record in records:
        counter = counters.setdefault(record.partition, PartitionCounter(topic_type, record.partition))
        if step_bytes is not None:
            counter._chunk_bytes = step_bytes
        counter.add(record.offset, record.timestamp_ms, record.key, record.value)
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
    keys = [key for _, key in newest]
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
