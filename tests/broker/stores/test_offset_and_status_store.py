"""Offset writer and status store where a broker refuses, holds back, or has what cannot be read; see tests/contract, too."""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import Mock

import pytest

from connect_share.errors import ConnectShareError, StoreClosedError
from connect_share.log.threads import JobThread
from connect_share.model.records import ConnectorTaskId
from connect_share.model.status import ConnectorStatus, State, TaskStatus, TopicStatus
from connect_share.stores.offsets import OffsetStorageReader, OffsetStorageWriter
from tests.support.waiting import await_that

FILE = {"filename": "x.txt"}
# Larger than the limit the failing topics are made with.
LONG = "l" * 30_000
SMALL_TOPIC = {"offset_storage_max_message_bytes": "20000"}


def test_record_that_is_too_large_fails_alone(shared: Any) -> None:  # case 48
    """The broker refuses whole batches: what shares one with a record too large would fail with it."""
    store = shared.offset_store(worker=shared.sharing(offset_storage_partitions="1", **SMALL_TOPIC))
    outcomes: list[ConnectShareError | None] = []
    small = [store.set({b'group-a.["foo",{"n":%d}]' % number: b"{}"}) for number in range(50)]
    large = {b'group-a.["foo",{"large":%d}]' % number: LONG.encode() for number in range(2)}
    refused = store.set({**large, b'group-a.["foo",{"n":50}]': b"{}"}, outcomes.append)
    small += [store.set({b'group-a.["foo",{"n":%d}]' % number: b"{}"}) for number in range(51, 100)]
    with pytest.raises(ConnectShareError) as error:
        refused.result(120)
    for outcome in small:
        outcome.result(120)
    assert len(shared.read("offset")) == 100
    assert outcomes == [error.value]
    assert LONG not in str(error.value)


def test_flush_after_a_failed_one_writes_the_same_offsets_then_nothing(shared: Any) -> None:  # case 49
    """Under newer ones that came meanwhile."""
    large = shared.offset_store(worker=shared.sharing(offset_storage_topic=f"{shared.unique}-large"))
    writer = OffsetStorageWriter(shared.offset_store(worker=shared.sharing(**SMALL_TOPIC)), "foo")
    writer.offset({"filename": LONG}, {"position": 1})
    writer.offset(FILE, {"position": 1})
    with pytest.raises(ConnectShareError, match=r"^offsets of connector 'foo': writing 30,\d+ bytes to topic "):
        writer.flush(120)
    writer.offset(FILE, {"position": 2})
    writer._store = large
    assert writer.flush(60)
    assert not writer.flush(60)
    reader = OffsetStorageReader(large, "foo")
    assert reader.offset({"filename": LONG}) == {"position": 1}
    assert reader.offset(FILE) == {"position": 2}


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
        await_that(lambda: store._log._state.awaited, what="the read waits")
        (reader.close if end == "reader" else store.stop)()
        waiting.join(120)
        assert not waiting.is_alive()
        store.stop()
    assert len(failures) == 1


TASK = ConnectorTaskId("foo", 0)


@pytest.mark.parametrize("group", ["group-a", None], ids=["shared", "plain"])
def test_the_records_of_each_call(shared: Any, group: Any) -> None:  # cases 34 and 36
    other, store = shared.status_store(group), shared.status_store(group)
    other.put(ConnectorStatus("foo", State.RUNNING, "w:8083", 9))
    other.flush()
    store.refresh(120)
    store.put_safe(ConnectorStatus("foo", State.UNASSIGNED, "other:8083", 8))  # sends nothing
    store.put(TaskStatus(TASK, State.FAILED, "w:8083", 9, "java.lang.X: a\n\tat b\n", "4.3.1"))
    store.put(TopicStatus("a.b", "foo", 0, 1729798381000))
    store.flush()
    written = [
        (
            b"status-connector-foo",
            b'{"state":"RUNNING","trace":null,"worker_id":"w:8083","generation":9,"version":null}',
        ),
        (
            b"status-task-foo-0",
            rb'{"state":"FAILED","trace":"java.lang.X: a\n\tat b\n","worker_id":"w:8083","generation":9,"version":"4.3.1"}',
        ),
        (
            b"status-topic-a.b:connector-foo",
            b'{"topic":{"name":"a.b","connector":"foo","task":0,"discoverTimestamp":1729798381000}}',
        ),
    ]
    prefix = b"" if group is None else b"group-a."
    assert sorted(shared.read("status")) == [(prefix + key, value) for key, value in written]
    store.put(TaskStatus(TASK, State.DESTROYED, "w:8083", 9))
    store.put(ConnectorStatus("foo", State.DESTROYED, "w:8083", 9))
    store.delete_topic("foo", "a.b")
    store.flush()
    tombstones = [key for key, value in shared.read("status") if value is None]
    assert sorted(tombstones) == [prefix + key for key, _ in written]


def test_no_thread_for_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a machine allows no more threads."""
    jobs, done = JobThread("jobs", print), threading.Event()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(RuntimeError, match="new thread"):
            jobs.add(1, done.set)
    jobs.add(1, done.set)
    assert done.wait(120)
    jobs.stop(30)


def test_status_the_topic_does_not_take_is_logged_not_raised(shared: Any, caplog: Any) -> None:
    store = shared.status_store(worker=shared.sharing(status_storage_max_message_bytes="1000"))
    store.put(ConnectorStatus("foo", State.FAILED, "w:8083", 1, "tr4ce" * 1000))
    await_that(lambda: "raise max.message.bytes of the topic" in caplog.text, what="logged")
    assert "Failed to write 'status-connector-foo' to " in caplog.text
    assert "tr4ce" not in caplog.text
