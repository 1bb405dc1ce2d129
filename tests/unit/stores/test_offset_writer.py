"""One flush at a time, cancelled and late ones: cases 50 and 51, over a store in memory."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from connect_share import MemoryOffsetBackingStore, OffsetStorageReader, OffsetStorageWriter
from connect_share.errors import ConnectShareError, FlushInProgressError, NotStartedError, ValueFormatError
from tests.support.flushes import HeldBack, done, flush_offsets

FILE = {"filename": "x.txt"}


def store() -> MemoryOffsetBackingStore:
    made = MemoryOffsetBackingStore()
    made.start()
    return made


def held_flush() -> tuple[Any, OffsetStorageWriter, Any]:
    """Begin a flush whose writes are held back."""
    target = HeldBack(store())
    writer = OffsetStorageWriter(target, "foo")
    writer.offset(FILE, {"position": 1})
    assert writer.begin_flush()
    return target, writer, writer.do_flush()


def test_only_one_flush_at_a_time() -> None:  # case 50
    target, writer, outcome = held_flush()
    with pytest.raises(FlushInProgressError):
        writer.begin_flush()
    with pytest.raises(FlushInProgressError) as refused:
        writer.begin_flush(0.05)
    assert refused.value.retriable
    target.let_go()
    done(outcome)
    assert writer.begin_flush(60.0) is False


def test_waiting_for_the_flush_before() -> None:
    target, writer, _ = held_flush()
    writer.offset(FILE, {"position": 2})
    begun: list[bool] = []
    waiting = threading.Thread(target=lambda: begun.append(writer.begin_flush(30.0)))
    waiting.start()
    target.let_go()
    waiting.join(30)
    assert begun == [True]


def test_cancelled_flush_does_not_call_back_and_keeps_its_offsets() -> None:  # case 51
    target = HeldBack(store())
    writer = OffsetStorageWriter(target, "foo")
    writer.offset(FILE, {"position": 1})
    writer.offset({"filename": "y"}, {"position": 1})
    assert writer.begin_flush()
    outcomes: list[object] = []
    outcome = writer.do_flush(outcomes.append)
    writer.offset(FILE, {"position": 2})
    writer.cancel_flush()
    target.let_go()
    done(outcome)
    assert outcomes == []
    assert writer.will_flush()
    assert writer.begin_flush()
    again = writer.do_flush(outcomes.append)
    target.let_go()
    done(again)
    assert outcomes == [None]
    reader = OffsetStorageReader(target, "foo")
    assert reader.offsets([FILE, {"filename": "y"}]) == [
        (FILE, {"position": 2}),  # newer wins over the one that was being flushed
        ({"filename": "y"}, {"position": 1}),
    ]


def test_late_end_of_a_cancelled_flush_does_not_end_the_next() -> None:
    target, writer, first = held_flush()
    late, target.held = target.held, []
    writer.cancel_flush()
    assert writer.begin_flush()
    outcomes: list[object] = []
    second = writer.do_flush(outcomes.append)
    late[0]()
    done(first)
    with pytest.raises(FlushInProgressError):
        writer.begin_flush()
    assert outcomes == []
    target.let_go()
    done(second)
    assert outcomes == [None]


def test_cancelling_without_a_flush_does_nothing() -> None:
    writer = OffsetStorageWriter(store(), "foo")
    writer.cancel_flush()
    writer.offset(FILE, {"position": 1})
    assert writer.begin_flush()
    writer.cancel_flush()
    writer.cancel_flush()
    assert writer.begin_flush()


def test_flushing_what_was_not_begun_is_refused() -> None:
    writer = OffsetStorageWriter(store(), "foo")
    with pytest.raises(NotStartedError):
        writer.do_flush()


@pytest.mark.parametrize("offset", [{"a": [1]}, {"a": {"b": 1}}, {1: "a"}, {"a": object()}])
def test_offsets_connect_cannot_write_leave_the_flush_open(offset: Any) -> None:
    writer = OffsetStorageWriter(store(), "foo")
    writer.offset(FILE, offset)
    outcomes: list[ConnectShareError | None] = []
    assert writer.begin_flush()
    assert writer.do_flush(outcomes.append) is None
    assert isinstance(outcomes[0], ValueFormatError)
    with pytest.raises(FlushInProgressError):
        writer.begin_flush()
    writer.cancel_flush()
    flush_offsets(writer, (FILE, {"position": 1}))


def test_values_that_are_equal_here_and_not_in_java_are_several_source_partitions() -> None:
    values, target = [1, 1.0, True, "1", 0.0, -0.0, None], store()
    flush_offsets(OffsetStorageWriter(target, "foo"), *(({"n": value}, {"n": at}) for at, value in enumerate(values)))
    found = OffsetStorageReader(target, "foo").offsets([{"n": value} for value in values])
    assert [offset for _, offset in found] == [{"n": at} for at in range(len(values))]
