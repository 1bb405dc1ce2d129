"""The quick way through a copy decides and counts as the slow one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connect_share.kafka.limits import RECORD_OVERHEAD_BYTES
from connect_share.model.keys import KEY_PREFIXES, ClusterGroupId, connector_of
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.sealing.cipher import is_sealed
from connect_share.transform.counter import RecordCounter
from connect_share.transform.rules import KeyTransform, RecordCounts, SkipReason
from connect_share.transform.sealed import NO_SEALING, Opener, Sealing
from connect_share.worker_config import ClientSettings, Isolation
from migrator.copy.copy_job import TOGETHER, CopyJob, Tally, _groups
from migrator.copy.existing_records import ExistingRecords
from migrator.plan import CopySlice
from tests.support.both_sides import OFFSET_KEYS
from tests.support.sides import message_of

GROUPS = ("a", "team.one", "team", "one-2")
WORDS = [*(prefix.decode() for prefix in KEY_PREFIXES), "session-key", "[", '["c",{}]', "x", "-", ":", "c", "0"]
KEYS = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.lists(st.sampled_from([*WORDS, *GROUPS, *(f"{group}." for group in GROUPS), "."]), max_size=6).map(
        lambda words: "".join(words).encode()
    ),
)
TRANSFORMS = st.builds(
    KeyTransform,
    topic_type=st.sampled_from(TopicType),
    plain=st.booleans(),
    groups=st.one_of(st.none(), st.frozensets(st.sampled_from(GROUPS), max_size=2)),
    destination=st.sampled_from([None, ClusterGroupId("big")]),
    connectors=st.one_of(st.none(), st.just(frozenset({"c"}))),
)


@pytest.mark.parametrize("topic_type", TopicType)
@pytest.mark.parametrize("plain", [True, False])
@given(rest=st.binary(max_size=12))
def test_what_connect_writes_has_a_sure_beginning(topic_type: TopicType, plain: bool, rest: bytes) -> None:
    """Otherwise the quick way is never used, and no test fails; what begins so is taken and cut there, whatever follows."""
    key = {TopicType.CONFIG: b"connector-c", TopicType.STATUS: b"status-task-c-0", TopicType.OFFSET: b'["c",{}]'}
    transform = KeyTransform(topic_type, plain, None if plain else frozenset({"team.one"}), ClusterGroupId("big"))
    beginnings, cut = transform.sure_beginnings
    there = key[topic_type] if plain else b"team.one." + key[topic_type]
    assert there.startswith(beginnings)
    assert there[cut:] == key[topic_type]
    assert all(transform.original_key(each + rest) == (each + rest)[cut:] for each in beginnings)
    for narrower in (replace(transform, connectors=frozenset({"c"})), replace(transform, plain=False, groups=None)):
        assert narrower.sure_beginnings[0] == ()


PAIRS = st.lists(st.tuples(st.binary(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=12)


def tally_of(pairs: Sequence[tuple[bytes, bytes | None]], *cuts: int) -> Tally:
    tally = Tally()
    for start, end in zip((0, *cuts), (*cuts, len(pairs)), strict=True):
        batch: Any = [message_of(Record("t", 0, offset, 0, None, None)) for offset in range(start, end)]
        tally.add_batch(batch, [("t", value, key, -1, None, None, 0, None) for key, value in pairs[start:end]])
    return tally


@given(PAIRS, st.integers(0, 12))
def test_figures_do_not_depend_on_how_records_come(pairs: list[tuple[bytes, bytes | None]], cut: int) -> None:
    one_by_one = Tally()
    records = [Record("t", 0, offset, 0, key, value) for offset, (key, value) in enumerate(pairs)]
    for record in one_by_one.count_read(records):
        one_by_one.add(record)
    one_by_one.flush()
    in_batches = tally_of(pairs, min(cut, len(pairs)))
    for name in ("read", "written", "tombstones", "bytes_written", "first_offset", "last_offset", "digest"):
        assert getattr(in_batches, name) == getattr(one_by_one, name), name
    assert in_batches.tombstones == sum(value is None for _, value in pairs)
    assert in_batches.bytes_written == sum(len(key) + len(value or b"") for key, value in pairs)


@given(PAIRS, PAIRS)
@example([(b"k", None)], [(b"k", b"")])
@example([(b"ab", b"c")], [(b"a", b"bc")])
@example([(b"a", b"1"), (b"b", b"2")], [(b"b", b"2"), (b"a", b"1")])
@example([(b"a", None), (b"a", b"")], [(b"a", b""), (b"a", None)])
def test_only_the_same_records_have_the_same_digest(
    pairs: list[tuple[bytes, bytes | None]], others: list[tuple[bytes, bytes | None]]
) -> None:
    assert (tally_of(pairs).digest == tally_of(others).digest) == (pairs == others)


ALL_OFFSET_KEYS = (*OFFSET_KEYS, '["a",', '["a\\"",{}]', '["a\\",{}]', '["\\u00e4",1]', '[",1]')
ARRIVED = st.builds(
    Record,
    st.just("t"),
    st.just(0),
    st.just(0),
    st.sampled_from([0, 1]),
    st.one_of(
        KEYS,
        st.sampled_from([f"{group}{key}".encode() for key in ALL_OFFSET_KEYS for group in ("", "team.one.")]),
    ),
    st.one_of(st.none(), st.binary(max_size=20), st.just(b"\1" + b"x" * 60)),
    st.sampled_from([(), (("h", b"x" * 10),)]),
)


BIG = ClusterGroupId("big")
ONE = KeyTransform.between(TopicType.OFFSET, "team.one", BIG)


def of_one(name: str, at_ms: int, value: bytes | None, *headers: tuple[str, bytes]) -> Record:
    return Record("t", 0, 0, at_ms, f'team.one.["{name}",{{}}]'.encode(), value, headers)


LARGE, LARGER = of_one("c", 5, b"x" * 20), of_one("c", 5, b"x" * 23)
# Behind the large one these are counted the quick way, but for those of names that are new, and the last three.
SMALL = [of_one("c", at, value) for at, value in ((9, b""), (3, b""), (3, None), (0, b""))]
SMALL += [of_one(name, 6, b"") for name in ("d", r"a\",b", r"a\",c")]
SMALL += [of_one("c", 6, b"\1"), of_one("c", 6, b"", ("h", b"x" * 40)), Record("t", 0, 0, 6, None, b"")]


@given(TRANSFORMS, st.lists(ARRIVED, max_size=20), st.integers(0, 3), st.sampled_from([None, NO_SEALING]))
@example(ONE, [LARGE, *SMALL], 0, NO_SEALING)
@example(ONE, [LARGE, *SMALL], 0, None)
@example(ONE, [LARGE, LARGER], 0, NO_SEALING)
@example(
    KeyTransform.between(TopicType.CONFIG, None, BIG),
    [Record("t", 0, 0, 1, b"connector-" + name, b"") for name in (b"a", b"b")],
    0,
    None,
)
def test_each_record_is_counted_once_however_it_comes(
    transform: KeyTransform, records: list[Record], aborted: int, sealing: Sealing | None
) -> None:
    records = [each for each in records for _ in range(2)]  # of which the second is known
    skipped, sizes, taken = Counter({SkipReason.ABORTED: aborted} if aborted else {}), list[int](), list[Record]()
    connectors = set[str | None]()
    for record in records:
        original = transform.original_key(record.key)
        if isinstance(original, bytes) and is_sealed(record.value) and transform.source and sealing:
            original = SkipReason.REFUSED
        if isinstance(original, SkipReason):
            skipped[original] += 1
        else:
            taken.append(record)
            connectors.add(connector_of(transform.topic_type, original))
            sizes.append(len(transform.prefix) + len(original) + len(record.value or b""))
    whole = [size + each.headers_size() + RECORD_OVERHEAD_BYTES for size, each in zip(sizes, taken, strict=True)]
    times_ms = [each.timestamp_ms for each in taken if each.timestamp_ms > 0]
    expected = RecordCounts(
        read=len(records),
        to_write=len(taken),
        tombstones=sum(each.value is None for each in taken),
        bytes_to_write=sum(sizes),
        skipped=skipped,
        largest_bytes=max(whole, default=0),
        largest_at="t[0]@0" if taken else "",
        times_ms=(min(times_ms), max(times_ms)) if times_ms else None,
        several=0,
    )
    for way in ("in batches", "one by one", "passed on"):
        counter = RecordCounter(transform, None if sealing is None else Opener(sealing, transform))
        if way == "in batches":
            batch: Any = [message_of(record) for record in records]
            counter.count_batch(batch)
        elif way == "one by one":
            for record in records:
                counter.count(record)
        else:
            passed = [each for each in records if each in taken or not is_sealed(each.value)]
            assert [*counter.through(iter(records))] == passed
        counter.add_aborted(aborted)
        assert (counter.counts(), counter.undated) == (expected, len(taken) - len(times_ms))
        assert counter.connectors == connectors - {None}


@pytest.mark.parametrize(("connectors", "several"), [(None, 2), ({"a", "c"}, 1)])
def test_a_key_in_many_partitions_counts_once(connectors: set[str] | None, several: int) -> None:
    counter = RecordCounter(KeyTransform.between(TopicType.STATUS, None, BIG, connectors))
    places = [(b"a", 0), (b"a", 1), (b"a", 2), (b"b", 0), (b"b", 1), (b"c", 1)]
    batch: Any = [message_of(Record("t", at, 0, 1, b"status-connector-" + name, b"{}")) for name, at in places]
    counter.count_batch(batch)
    assert counter.counts().several == several


HERE = ClientSettings({"bootstrap.servers": "here:9092"})
THERE = ClientSettings({"bootstrap.servers": "there:9092"})


def job(partition: int, offsets: int, *, settings: ClientSettings = HERE) -> CopyJob:
    transform = KeyTransform.between(TopicType.OFFSET, None, ClusterGroupId("a"))
    part = OffsetRange("offsets", partition, 5, 5 + offsets)
    slice_ = CopySlice(0, TopicType.OFFSET, part, Isolation.READ_UNCOMMITTED, "shared", 25, transform)
    return CopyJob(slice_, settings, HERE, HERE, ((0, 0),), "test")


def test_small_slices_of_one_source_share_a_client() -> None:
    small = [job(number, TOGETHER // 4) for number in range(6)]
    assert _groups(small, {}) == [small[:4], small[4:]]
    large = [job(0, 3), job(1, TOGETHER + 1), job(2, 3), job(3, 0)]
    assert _groups(large, {}) == [large[:1], large[1:2], large[2:]]
    others = [job(0, 3), job(1, 3, settings=THERE), job(2, 3, settings=THERE), job(2, 3, settings=THERE)]
    assert _groups(others, {}) == [others[:1], others[1:3], others[3:]]


def test_what_is_not_mirrored_is_read_alone() -> None:
    """Folded slices, and those of which an interrupted copy has left records."""
    plain, other = job(0, 3), job(1, 3)
    folded = [replace(each, slice_=replace(each.slice_, fold=True)) for each in (plain, other)]
    assert _groups(folded, {}) == [folded[:1], folded[1:]]
    found = ExistingRecords(found={0: {b"x": 1}})  # type: ignore[dict-item]
    assert _groups([plain, other], {plain.slice_.name: found}) == [[plain], [other]]
    assert _groups([plain, other], {plain.slice_.name: ExistingRecords()}) == [[plain, other]]


def test_a_slice_has_begun_where_one_of_its_keys_is() -> None:
    mine, other = b'["a.b",{"n":1}]', b'["a.b",{"n":2}]'
    for source, prefix in (({"x.y"}, b"x.y."), ({"x.y", "z"}, b"z."), (None, b"")):
        transform = KeyTransform(
            TopicType.OFFSET, source is None, None if source is None else frozenset(source), ClusterGroupId("g")
        )
        back = transform.at_destination()
        written = [
            Record("shared", 0, number, 1, key, b"{}") for number, key in enumerate((b"g." + mine, b"h." + other))
        ]
        found = ExistingRecords.read(written, Opener(NO_SEALING, back))
        assert found.may_have_begun(transform, [None, prefix + other, prefix + mine])
        assert not found.may_have_begun(transform, [None, b"", b"g." + mine, prefix + other])
