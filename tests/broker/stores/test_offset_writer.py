"""Offset writer and reader on real topics: sections 6.5 to 6.7, cases 47 to 51."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from connect_share.errors import (
    ConnectShareError,
    FlushInProgressError,
    NotStartedError,
    StoreClosedError,
    ValueFormatError,
)
from connect_share.stores.offsets import OffsetStorageReader, OffsetStorageWriter
from tests.support.flushes import done, flush_offsets

GROUPS = pytest.mark.parametrize("group", ["group-a", None], ids=["shared", "plain"])
FILE = {"filename": "x.txt"}
# Larger than the limit the failing topics are made with.
LONG = "l" * 30_000
SMALL_TOPIC = {"offset_storage_max_message_bytes": "20000"}


def held_flush(shared: Any, held_back: Any) -> tuple[Any, OffsetStorageWriter, Any]:
    """Begin a flush whose writes are held back."""
    target = held_back(shared.offset_store())
    writer = OffsetStorageWriter(target, "foo")
    writer.offset(FILE, {"position": 1})
    assert writer.begin_flush()
    return target, writer, writer.do_flush()


@GROUPS
def test_what_was_flushed_is_read_back(shared: Any, group: Any) -> None:
    store = shared.offset_store(group)
    writer = OffsetStorageWriter(store, "foo")
    reader = OffsetStorageReader(store, "foo")
    writer.offset(FILE, {"position": 1})
    writer.offset(FILE, {"position": 42})
    writer.offset({"filename": "y"}, {"position": 7, "f": 1.0})
    assert writer.begin_flush()
    outcomes: list[object] = []
    done(writer.do_flush(outcomes.append))
    assert outcomes == [None]
    assert reader.offsets([{"filename": "y"}, FILE, {"filename": "z"}]) == [
        ({"filename": "y"}, {"position": 7, "f": 1.0}),
        (FILE, {"position": 42}),
        ({"filename": "z"}, None),
    ]
    prefix = b"" if group is None else b"group-a."
    assert sorted(shared.read("offset")) == [
        (prefix + b'["foo",{"filename":"x.txt"}]', b'{"position":42}'),
        (prefix + b'["foo",{"filename":"y"}]', b'{"position":7,"f":1.0}'),
    ]
    assert store.connector_partitions("foo") in ([FILE, {"filename": "y"}], [{"filename": "y"}, FILE])


@GROUPS
def test_null_partition_and_null_offset(shared: Any, group: Any) -> None:
    store = shared.offset_store(group)
    writer = OffsetStorageWriter(store, "foo")
    reader = OffsetStorageReader(store, "foo")
    flush_offsets(writer, (None, {"position": 1}), (FILE, {}))
    assert reader.offset(None) == {"position": 1}
    assert reader.offset(FILE) == {}
    flush_offsets(writer, (None, None))
    assert reader.offset(None) is None
    assert store.connector_partitions("foo") == [FILE]


def test_partitions_that_differ_in_java_differ(shared: Any) -> None:
    store = shared.offset_store()
    writer = OffsetStorageWriter(store, "foo")
    flush_offsets(writer, *(({"n": value}, {"position": number}) for number, value in enumerate((1, 1.0, True, "1"))))
    reader = OffsetStorageReader(store, "foo")
    offsets = [offset for _, offset in reader.offsets([{"n": 1}, {"n": 1.0}, {"n": True}, {"n": "1"}])]
    assert offsets == [{"position": number} for number in range(4)]


def test_get_on_an_empty_store_has_every_key_with_null(shared: Any) -> None:  # case 47
    store = shared.offset_store()
    keys = [b'group-a.["foo",{}]', b'group-a.["bar",{}]']
    assert store.get(keys).result(30) == dict.fromkeys(keys)


def test_first_failed_record_ends_the_write_once(shared: Any) -> None:  # case 48
    store = shared.offset_store(worker=shared.sharing(**SMALL_TOPIC))
    outcomes: list[ConnectShareError | None] = []
    outcome = store.set(
        {
            b'group-a.["foo",1]': b"1",
            b'group-a.["foo",2]': LONG.encode(),
            b'group-a.["foo",3]': LONG.encode(),
            b'group-a.["foo",4]': b"4",
        },
        outcomes.append,
    )
    with pytest.raises(ConnectShareError):
        done(outcome)
    for number in range(5, 20):  # reaches every partition, behind everything sent before
        store.set({b'group-a.["foo",%d]' % number: b"5"}).result(30)
    assert len(outcomes) == 1
    assert isinstance(outcomes[0], ConnectShareError)
    assert LONG not in str(outcomes[0])


def test_record_that_is_too_large_fails_alone(shared: Any) -> None:
    """The broker refuses whole batches: what shares one with a record too large would fail with it."""
    store = shared.offset_store(worker=shared.sharing(offset_storage_partitions="1", **SMALL_TOPIC))
    small = [store.set({b'group-a.["foo",{"n":%d}]' % number: b"{}"}) for number in range(50)]
    large = store.set({b'group-a.["foo",{"large":1}]': LONG.encode()})
    small += [store.set({b'group-a.["foo",{"n":%d}]' % number: b"{}"}) for number in range(50, 100)]
    with pytest.raises(ConnectShareError):
        large.result(30)
    for outcome in small:
        outcome.result(30)
    assert len(shared.read("offset")) == 100


def test_writing_nothing_completes(shared: Any) -> None:
    outcomes: list[object] = []
    shared.offset_store().set({}, outcomes.append).result(0)
    assert outcomes == [None]


@pytest.mark.parametrize("key", [b'["foo",{}]', b'group-b.["foo",{}]', b"group-a.foo", b""])
def test_keys_of_others_are_refused(shared: Any, key: Any) -> None:
    with pytest.raises(ConnectShareError, match="group-a"):
        shared.offset_store().set({key: b"{}"}).result(0)
    assert shared.read("offset") == []


def test_failed_flush_is_written_again(shared: Any) -> None:  # case 49
    store = shared.offset_store(worker=shared.sharing(**SMALL_TOPIC))
    writer = OffsetStorageWriter(store, "foo")
    writer.offset(FILE, {"position": 1})
    writer.offset({"filename": LONG}, {"position": 1})
    outcomes: list[ConnectShareError | None] = []
    assert writer.begin_flush()
    with pytest.raises(ConnectShareError):
        done(writer.do_flush(outcomes.append))
    assert isinstance(outcomes[0], ConnectShareError)
    # Both offsets are back under newer ones: the same flush fails the same way.
    writer.offset({"filename": "new"}, {"position": 2})
    assert writer.begin_flush(60.0)
    with pytest.raises(ConnectShareError):
        done(writer.do_flush(outcomes.append))
    store.set({b'group-a.["foo",{"filename":"%s"}]' % LONG[:10].encode(): b"{}"}).result(30)
    reader = OffsetStorageReader(store, "foo")
    assert reader.offset(FILE) == {"position": 1}
    assert len(outcomes) == 2


def test_flush_after_a_failed_one_writes_the_same_offsets_then_nothing(shared: Any, held_back: Any) -> None:  # case 49
    small = shared.offset_store(worker=shared.sharing(**SMALL_TOPIC))
    large = shared.offset_store(worker=shared.sharing(offset_storage_topic=f"{shared.unique}-large"))
    target = held_back(small)
    writer = OffsetStorageWriter(target, "foo")
    writer.offset({"filename": LONG}, {"position": 1})
    assert writer.begin_flush()
    first = writer.do_flush()
    target.let_go()
    with pytest.raises(ConnectShareError):
        done(first)
    target.store = large
    assert writer.begin_flush()
    second = writer.do_flush()
    target.let_go()
    done(second)
    assert writer.begin_flush() is False
    reader = OffsetStorageReader(large, "foo")
    assert reader.offset({"filename": LONG}) == {"position": 1}


def test_only_one_flush_at_a_time(shared: Any, held_back: Any) -> None:  # case 50
    target, writer, outcome = held_flush(shared, held_back)
    with pytest.raises(FlushInProgressError):
        writer.begin_flush()
    with pytest.raises(FlushInProgressError) as refused:
        writer.begin_flush(0.05)
    assert refused.value.retriable
    target.let_go()
    done(outcome)
    assert writer.begin_flush(60.0) is False


def test_waiting_for_the_flush_before(shared: Any, held_back: Any) -> None:
    target, writer, _ = held_flush(shared, held_back)
    writer.offset(FILE, {"position": 2})
    begun: list[bool] = []
    waiting = threading.Thread(target=lambda: begun.append(writer.begin_flush(30.0)))
    waiting.start()
    target.let_go()
    waiting.join(30)
    assert begun == [True]


def test_cancelled_flush_does_not_call_back_and_keeps_its_offsets(shared: Any, held_back: Any) -> None:  # case 51
    target = held_back(shared.offset_store())
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


def test_late_end_of_a_cancelled_flush_does_not_end_the_next(shared: Any, held_back: Any) -> None:
    target, writer, first = held_flush(shared, held_back)
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


def test_cancelling_without_a_flush_does_nothing(shared: Any) -> None:
    writer = OffsetStorageWriter(shared.offset_store(), "foo")
    writer.cancel_flush()
    writer.offset(FILE, {"position": 1})
    assert writer.begin_flush()
    writer.cancel_flush()
    writer.cancel_flush()
    assert writer.begin_flush()


def test_flushing_what_was_not_begun_is_refused(shared: Any) -> None:
    writer = OffsetStorageWriter(shared.offset_store(), "foo")
    with pytest.raises(NotStartedError):
        writer.do_flush()


@pytest.mark.parametrize("offset", [{"a": [1]}, {"a": {"b": 1}}, {1: "a"}, {"a": object()}])
def test_offsets_connect_cannot_write_leave_the_flush_open(shared: Any, offset: Any) -> None:
    writer = OffsetStorageWriter(shared.offset_store(), "foo")
    writer.offset(FILE, offset)
    outcomes: list[ConnectShareError | None] = []
    assert writer.begin_flush()
    assert writer.do_flush(outcomes.append) is None
    assert isinstance(outcomes[0], ValueFormatError)
    with pytest.raises(FlushInProgressError):
        writer.begin_flush()
    writer.cancel_flush()
    flush_offsets(writer, (FILE, {"position": 1}))


def test_reader_leaves_out_what_it_cannot_read(shared: Any) -> None:
    store = shared.offset_store()
    shared.write(
        "offset",
        [
            (b'["foo",{"filename":"x.txt"}]', b'{"position":'),
            (b'["foo",{"filename":"y"}]', b"[1]"),
            (b'["foo",{"filename":"n"}]', b"null"),
        ],
        group="group-a",
    )
    reader = OffsetStorageReader(store, "foo")
    found = reader.offsets([FILE, {"filename": "y"}, {"filename": "n"}, {"filename": [1]}, {"filename": "z"}])
    assert found == [({"filename": "n"}, None), ({"filename": "z"}, None)]
    assert reader.offset(FILE) is None


def test_closed_reader_refuses(shared: Any) -> None:
    reader = OffsetStorageReader(shared.offset_store(), "foo")
    reader.close()
    reader.close()
    with pytest.raises(StoreClosedError):
        reader.offset(FILE)


@pytest.mark.parametrize("end", ["reader", "store"])
def test_waiting_read_ends_when_closed(shared: Any, end: str) -> None:
    """With read_committed a read waits for every open transaction, other groups' included."""
    store = shared.offset_store(worker=shared.sharing(exactly_once_source_support="enabled"))
    reader = OffsetStorageReader(store, "foo")
    failures: list[BaseException] = []

    def read() -> None:
        try:
            reader.offset(FILE)
        except StoreClosedError as error:
            failures.append(error)

    with shared.open_transaction("offset", [(b'group-b.["x",{}]', b"{}")]):
        waiting = threading.Thread(target=read)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        (reader.close if end == "reader" else store.stop)()
        waiting.join(30)
        assert not waiting.is_alive()
        store.stop()
    assert len(failures) == 1


def test_reader_of_a_stopped_store_says_so(shared: Any) -> None:
    store = shared.offset_store()
    store.stop()
    with pytest.raises(StoreClosedError):
        OffsetStorageReader(store, "foo").offset(FILE)
