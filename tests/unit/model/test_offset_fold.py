"""The offset topic's rules, case by case. Numbers are those of the list in docs/testing.md."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.errors import ValueFormatError
from connect_share.model.keys import SkipKind
from connect_share.model.offsets import (
    OffsetFold,
    offset_key,
    offset_value,
    parse_offset_key,
    partition_identity,
    validate_offset_map,
)
from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_offsets
from tests.support.hostile_logs import HostileLogs
from tests.support.records import logged


def record(key: bytes | None, value: bytes | None, *, partition: int = 0, offset: int = 0) -> Record:
    return Record("offsets", partition, offset, 0, key, value)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"[\x00", "not JSON"),
        (b"[i-am-not-json", "not JSON"),
        (b'[""]', "1 elements"),
        (b"[1,{}]", "first element"),
        (b'["c",[]]', "second element"),
    ],
)
def test_case_45_keys_that_cannot_be_read_keep_their_value_only(
    key: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    fold = OffsetFold()
    fold.apply(record(key, b"{}"))
    assert reason in caplog.text
    snapshot = fold.snapshot()
    assert (dict(snapshot.raw), snapshot.connectors()) == ({key: b"{}"}, frozenset())


@pytest.mark.parametrize("key", [b"\x00", b"i-am-not-json", b"", b"{}"])
def test_case_45_what_is_no_array_belongs_to_no_connector(key: bytes) -> None:
    fold = OffsetFold()
    fold.apply(record(key, b"{}"))
    assert fold.skipped[SkipKind.BAD_KEY] == 1


def test_case_45_a_null_partition_is_never_listed(caplog: pytest.LogCaptureFixture) -> None:
    snapshot = replay_offsets([record(b'["c",null]', b'{"p":1}')])
    assert (snapshot.connectors(), snapshot.partitions("c")) == (frozenset(), [])
    assert snapshot.offset("c", None) == {"p": 1}
    assert logged(caplog) == []


def test_case_46_partitions_come_and_go() -> None:
    p1, p2, other = (offset_key("c", {"f": "1"}), offset_key("c", {"f": "2"}), offset_key("d", {"f": "1"}))
    log = [record(p1, b'{"a":1}'), record(p1, b'{"a":2}'), record(p2, b"{}"), record(other, b"{}"), record(p1, None)]
    snapshot = replay_offsets(log)
    assert snapshot.partitions("c") == [{"f": "2"}]
    assert p1 not in snapshot.raw
    assert snapshot.connectors() == {"c", "d"}
    assert snapshot.offset("c", {"f": "1"}) is None
    assert snapshot.offset("c", {"f": "2"}) == {}


def test_member_order_gives_two_keys_of_one_partition_in_any_order() -> None:
    one, two = b'["c",{"a":1,"b":2}]', b'["c",{"b":2,"a":1}]'
    log = [
        record(one, b'{"o":1}', partition=0),
        record(two, b'{"o":2}', partition=1),
        record(one, None, partition=0, offset=1),
    ]
    for order in itertools.permutations(log):
        if order.index(log[0]) < order.index(log[2]):
            snapshot = replay_offsets(order)
            assert len(snapshot.partitions("c")) == 1
            assert snapshot.original_keys("c", {"a": 1, "b": 2}) == (two,)
            assert snapshot.offset("c", {"a": 1, "b": 2}) == {"o": 2}


def test_of_several_keys_the_one_in_the_order_asked_for_counts_then_the_last() -> None:
    keys = (b'["c",{"a":1,"b":2,"c":3}]', b'["c",{"b":2,"a":1,"c":3}]', b'["c",{"c":3,"a":1,"b":2}]')
    for order in itertools.permutations(range(3)):
        snapshot = replay_offsets([record(keys[at], b'{"o":%d}' % at, partition=at) for at in order])
        assert snapshot.offset("c", {"b": 2, "a": 1, "c": 3}) == {"o": 1}
        assert snapshot.offset("c", {"b": 2, "c": 3, "a": 1}) == {"o": 2}


@pytest.mark.parametrize("value", [b"null", b"[]", b"1", b"{garbage", b""])
def test_a_value_that_is_no_object_is_kept_and_gives_no_offset(value: bytes) -> None:
    snapshot = replay_offsets([record(b'["c",{}]', value)])
    assert snapshot.partitions("c") == [{}]
    assert snapshot.offset("c", {}) is None


@given(st.integers(0, 1 << 32))
def test_keys_that_are_read_late_give_what_keys_that_are_read_at_once_give(seed: int) -> None:
    late, at_once = OffsetFold(), OffsetFold()
    unreadable = 0
    log = [(each.key or b"", each.value) for each in HostileLogs(seed, None).log(TopicType.OFFSET)]
    for key, value in log:
        if not key.startswith(b"["):
            continue  # which every fold sees at once
        unreadable += value is not None and key not in at_once.values and not _is_readable(key)
        for fold in (late, at_once):
            fold.apply(record(key, value))
        assert not at_once.read_keys()
    assert late.skipped == at_once.skipped == Counter({SkipKind.BAD_KEY: unreadable} if unreadable else {})
    restored = OffsetFold()
    restored.restore(late.saved())
    for connector in at_once.snapshot().connectors():
        listed = [
            {partition_identity(each) for each in fold.partitions(connector)} for fold in (late, at_once, restored)
        ]
        assert listed[0] == listed[1] == listed[2]
        for partition in (*at_once.partitions(connector), None):
            keys = [set(fold.original_keys(connector, partition)) for fold in (late, at_once, restored)]
            assert keys[0] == keys[1] == keys[2]
    assert late.snapshot() == at_once.snapshot()
    assert late.snapshot().connectors() == at_once.snapshot().connectors()


def _is_readable(key: bytes) -> bool:
    try:
        parse_offset_key(key)
    except ValueFormatError:
        return False
    return True


@pytest.mark.parametrize("value", [None, {}, {"a": None, "b": 1, "c": 1.5, "d": True, "e": "x", "f": b"x"}, {"key": 1}])
def test_case_54_primitive_maps_are_fine(value: Any) -> None:
    validate_offset_map(value)


def test_bytes_of_keys_and_values() -> None:
    assert offset_key("foo", {"filename": "x.txt"}) == b'["foo",{"filename":"x.txt"}]'
    assert offset_key("foo", None) == b'["foo",null]'
    assert offset_value({"position": 42, "big": 1e10}) == b'{"position":42,"big":1.0E10}'
    assert offset_value({}) == b"{}"
    assert offset_value(None) is None
    assert parse_offset_key(offset_key("a\ud83d\ude00", {"x": 1})) == ("a😀", {"x": 1})


def test_a_source_partition_nested_as_deep_as_jackson_reads_is_one_like_others() -> None:
    nested = b'["c",' + b'{"a":' * 999 + b"1" + b"}" * 999 + b"]"
    seen = replay_offsets([record(nested, b'{"n":1}'), record(b'["c",' + b"[" * 5_000, b"{}")])
    (partition,) = seen.partitions("c")
    assert seen.offset("c", partition) == {"n": 1}
