"""Offsets read from a file, written as one, and compared with what is stored."""

from __future__ import annotations

import json
import operator
import threading
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share import MemoryOffsetBackingStore, OffsetStorageReader, OffsetStorageWriter
from connect_share.errors import (
    FlushInProgressError,
    NotStartedError,
    ReadToEndTimeoutError,
    StoreClosedError,
    UsageError,
    ValueFormatError,
    WriteError,
)
from connect_share.model.connect_json import dumps
from connect_share.model.offsets import partition_identity
from connect_share.stores import alter_offsets as changing
from connect_share.stores.alter_offsets import (
    MOST_BYTES,
    UNREADABLE,
    compare,
    is_usable,
    offsets_document,
    parse_offsets,
    parse_partition,
    stored_offsets,
    usable_pairs,
)
from tests.support.flushes import HeldBack, done
from tests.support.waiting import await_that

CANARY = "hunter2"
# Connect has no negative zero.
DOUBLES = st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number or 0.0)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | DOUBLES
MAPS = st.dictionaries(st.text(max_size=5), SCALARS | st.text(max_size=5), max_size=4)
PAIRS = st.lists(
    st.tuples(st.none() | MAPS, st.none() | MAPS), max_size=5, unique_by=lambda pair: partition_identity(pair[0])
)


def entry(partition: Any = None, offset: Any = None, **more: Any) -> dict[str, Any]:
    return {"partition": {"p": 1} if partition is None else partition, "offset": offset, **more}


def document(*entries: Any, **more: Any) -> bytes:
    return json.dumps({"offsets": entries, **more}).encode()


@given(PAIRS)
def test_what_is_written_is_read_back(pairs: list[Any]) -> None:
    read = parse_offsets(offsets_document(pairs))
    # By Connect's bytes: == would take 1 and 1.0 for the same.
    assert [dumps(list(pair)) for pair in read] == [dumps(list(pair)) for pair in pairs]


@given(st.binary(max_size=60) | MAPS.map(dumps) | st.recursive(SCALARS, st.lists).map(dumps))
def test_anything_else_is_refused_as_wrong_usage(data: bytes) -> None:
    with pytest.raises(UsageError):
        parse_offsets(data)


def test_members_of_the_console_are_allowed() -> None:
    row = {"group": "g", "connector": "c"}
    data = document(entry({"a": 1}, {"b": 2}, **row), entry({"a": 2}, **row), _command="get offsets", _version="1")
    assert parse_offsets(b"\xef\xbb\xbf" + data) == [({"a": 1}, {"b": 2}), ({"a": 2}, None)]
    assert parse_offsets(document()) == []
    assert dumps(parse_partition('{"a": -0.0}')) == b'{"a":0.0}'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON at line 1, column 1"),
        (b'{"offsets": []} {}', "not JSON at line 1, column 17: Extra data"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"[" * 200_000, "nested too deeply"),
        (b"[]", "not of the form"),
        (b'{"offsets": {}}', "not of the form"),
        (b'{"offsets": [], "offsets": []}', "two members of the same name"),
        (document(entry(), CANARY), r"^offsets\[1\] is not an object"),
        (document({"partition": {}}), r"offsets\[0\] has no member offset"),
        (document({"offset": {}}), r"offsets\[0\] has no member partition"),
        (document(entry(offset=CANARY)), r"offsets\[0\]: offset is neither an object nor null"),
        (document(entry([CANARY])), r"offsets\[0\]: partition is neither an object nor null"),
        (document(entry(offset={"a": [CANARY]})), r"offsets\[0\]: field 'a' of a source offset has to be"),
        (document(entry({"a": {"b": CANARY}})), r"offsets\[0\]: field 'a' of a source partition has to be"),
        (
            document(entry({"a": CANARY, "b": 2}), entry({"c": 1}), entry({"b": 2, "a": CANARY})),
            r"offsets\[2\] has the same partition as offsets\[0\]",
        ),
        (document(entry({"a": 1}, connector="x"), entry({"a": 2}, connector="y")), r"offsets\[1\] is of another conn"),
        (document(entry({"kafka_topic": CANARY, "kafka_partition": 0})), r"offsets\[0\] is of a sink connector"),
        (b'{"offsets": [{"partition": {"a": 9223372036854775808}, "offset": null}]}', "more than 64 bits"),
        (b'{"offsets": [{"partition": {"a": ' + b"9" * 5000 + b'}, "offset": null}]}', "more than 64 bits"),
        (b'{"offsets": [{"partition": {"a": 1e999}, "offset": null}]}', "too large for a double"),
        (b'{"offsets": [{"partition": {"a": NaN}, "offset": null}]}', "NaN and Infinity"),
        (b" " * (MOST_BYTES + 1), "more than 16,777,216 bytes"),
    ],
)
def test_why_a_file_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_offsets(data)
    assert CANARY not in str(caught.value)


def test_numbers_that_java_tells_apart_are_different_partitions() -> None:
    assert len(parse_offsets(document(*(entry({"a": value}) for value in (1, 1.0, True, "1"))))) == 4


@pytest.mark.parametrize("text", ["", "[]", '"x"', "null", '{"a": []}', '{"a": 1, "a": 2}', '{"a": 1', "\udcff"])
def test_a_partition_on_the_command_line_is_a_flat_object(text: str) -> None:
    assert parse_partition('{"a": 1}') == {"a": 1}
    with pytest.raises(UsageError):
        parse_partition(text)


@given(PAIRS)
def test_what_is_there_already_is_no_change(pairs: list[Any]) -> None:
    stored = [(partition, dumps(offset)) for partition, offset in pairs if offset is not None]
    wanted = [pair for pair in pairs if pair[1] is not None]
    assert [change.is_change for change in compare(stored, wanted)] == [False] * len(wanted)
    assert usable_pairs(stored) == wanted
    # Everything is taken back by what was there before.
    undo = [(change.partition, change.old) for change in compare([], wanted)]
    assert all(change.is_change for change in compare(stored, undo))


@given(
    st.lists(st.tuples(st.none() | st.recursive(MAPS, lambda each: st.fixed_dictionaries({"a": each})), st.binary()))
)
def test_whatever_lies_on_a_topic_can_be_shown_forgotten_and_put_back(stored: list[Any]) -> None:
    changes = compare(stored, [(partition, None) for partition, _ in stored])
    assert all(change.is_change for change in changes)
    undo = [(change.partition, None if change.old is UNREADABLE else change.old) for change in changes]
    usable = [pair for pair in undo if is_usable(pair[0])]
    assert dumps([list(pair) for pair in parse_offsets(offsets_document(usable))]) == dumps(list(map(list, usable)))


def test_how_offsets_are_compared() -> None:
    one, two = {"a": 1, "b": 2}, {"b": 2, "a": 1}

    def found(stored: list[Any], *wanted: Any) -> list[Any]:
        return [(each.old, each.is_change, each.can_be_undone) for each in compare(stored, wanted)]

    assert found([], (one, None)) == [(None, False, True)]
    assert found([(one, b'{"n":1}')], (two, {"n": 1})) == [({"n": 1}, False, True)]
    assert found([(one, b'{"n":1}')], (two, {"n": 1.0})) == [({"n": 1}, True, True)]
    # One of two keys differs, so both have to be written, and no file can say what was there.
    assert found([(one, b'{"n":1}'), (two, b'{"n":2}')], (one, {"n": 2})) == [({"n": 2}, True, False)]
    for value in (b"null", b"", b"[1]", b"{", b'{"n":[]}', b'{"n":1e999}'):
        assert found([(one, value)], (one, None)) == [(UNREADABLE, True, False)]
        assert usable_pairs([(one, value)]) == []
    for partition in ({"a": [1]}, {"a": float("inf")}, {"kafka_topic": "t", "kafka_partition": 0}):
        assert found([(partition, b'{"n":1}')], (partition, None)) == [({"n": 1}, True, False)]
        assert usable_pairs([(partition, b'{"n":1}')]) == []
    # Copied under both keys, with one value.
    pairs = usable_pairs([(one, b'{"n":1}'), (two, b'{"n":2}')])
    assert [(list(partition or ()), offset) for partition, offset in pairs] == [
        (["a", "b"], {"n": 2}),
        (["b", "a"], {"n": 2}),
    ]
    assert len(compare([], pairs)) == 1


FILE = {"filename": "x.txt"}


def store() -> MemoryOffsetBackingStore:
    made = MemoryOffsetBackingStore()
    made.start()
    return made


def test_an_end_that_is_not_reached_in_time_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made = store()
    made.set({b'["c",{"n":1}]': b"{}"}).result()
    read = made.get
    monkeypatch.setattr(changing, "ALTER_TIMEOUT_S", 0.01)
    for stuck in (operator.not_, bool):
        monkeypatch.setattr(made, "get", lambda keys, stuck=stuck: Future() if stuck(keys) else read(keys))
        with pytest.raises(ReadToEndTimeoutError, match=r"was not read to its end within 0\.01 s"):
            stored_offsets(made, "c")


def held_flush(*more: dict[str, str], then: Any = None) -> tuple[Any, OffsetStorageWriter, Any]:
    """Begin a flush whose writes are held back."""
    target = HeldBack(store())
    writer = OffsetStorageWriter(target, "foo")
    for partition in (FILE, *more):
        writer.offset(partition, {"position": 1})
    assert writer.begin_flush()
    return target, writer, writer.do_flush(then)


def test_only_one_flush_at_a_time() -> None:  # case 50
    target, writer, _ = held_flush()
    with pytest.raises(FlushInProgressError) as refused:
        writer.begin_flush()
    assert refused.value.retriable
    writer.offset(FILE, {"position": 2})
    begun: list[bool] = []
    waiting = threading.Thread(target=lambda: begun.append(writer.begin_flush(30.0)))
    waiting.start()
    target.let_go()
    waiting.join(120)
    assert begun == [True]


def test_cancelled_flush_does_not_call_back_and_keeps_its_offsets() -> None:  # case 51
    outcomes: list[object] = []
    target, writer, outcome = held_flush({"filename": "y"}, then=outcomes.append)
    writer.offset(FILE, {"position": 2})
    writer.cancel_flush()
    late, target.held = target.held, []
    assert writer.begin_flush()
    again = writer.do_flush(outcomes.append)
    late[0]()
    done(outcome)
    with pytest.raises(FlushInProgressError):  # the late end has not ended the next flush
        writer.begin_flush()
    target.let_go()
    done(again)
    assert outcomes == [None]
    assert OffsetStorageReader(target, "foo").offsets([FILE, {"filename": "y"}]) == [
        (FILE, {"position": 2}),  # newer wins over the one that was being flushed
        ({"filename": "y"}, {"position": 1}),
    ]


def test_without_a_flush_there_is_none_to_cancel_or_to_go_on_with() -> None:
    writer = OffsetStorageWriter(store(), "foo")
    writer.cancel_flush()
    with pytest.raises(NotStartedError):
        writer.do_flush()
    writer.offset(FILE, {"position": 1})
    assert writer.begin_flush()
    writer.cancel_flush()
    writer.cancel_flush()
    assert writer.begin_flush()


@pytest.mark.parametrize("offset", [{"a": [1]}, {"a": {"b": 1}}, {1: "a"}, {"a": object()}, {"a": 1 << 64}, [1]])
def test_what_connect_cannot_write_is_refused_where_it_is_put(offset: Any) -> None:
    writer = OffsetStorageWriter(store(), "foo")
    writer.offset(FILE, {"position": 1})
    for pair in ((FILE, offset), (offset, {"position": 2})):
        with pytest.raises(ValueFormatError):
            writer.offset(*pair)
    assert writer.flush()
    assert not writer.flush()
    assert OffsetStorageReader(writer._store, "foo").offset(FILE) == {"position": 1}


def test_a_flush_waits_for_the_one_before_and_for_its_own() -> None:
    target, writer, first = held_flush()
    writer.offset(FILE, {"position": 2})
    assert writer.will_flush()
    with pytest.raises(FlushInProgressError, match=r"after waiting 0\.01 s"):
        writer.flush(timeout_s=0.01)
    target.let_go()
    done(first)
    with pytest.raises(WriteError, match=r"sent to memory-offsets but not acknowledged within 0\.01 s"):
        writer.flush(timeout_s=0.01)
    late, target.held = target.held, []
    flushing = threading.Thread(target=writer.flush)
    flushing.start()  # with what was not written in time
    await_that(lambda: target.held, bool, what="handed to the store")
    late[0]()  # ends no flush but its own
    assert not writer.will_flush()
    target.let_go()
    flushing.join(120)
    assert not writer.flush()
    assert OffsetStorageReader(target, "foo").offset(FILE) == {"position": 2}


def test_a_flush_that_is_refused_keeps_its_offsets() -> None:
    backing = store()
    writer = OffsetStorageWriter(backing, "foo")
    writer.offset(FILE, {"position": 1})
    backing.stop()
    for _ in range(2):
        with pytest.raises(StoreClosedError):
            writer.flush()
        assert writer.will_flush()
