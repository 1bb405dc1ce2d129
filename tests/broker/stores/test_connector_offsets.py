"""A connector's own offsets topic in front of the worker's, and resets: cases 52 to 53 of docs/testing.md."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from connect_share.errors import (
    BrokerUnavailableError,
    ConnectShareError,
    KeyFormatError,
    StoreClosedError,
)
from connect_share.stores import offsets
from connect_share.stores.alter_offsets import alter_offsets, reset_offsets
from connect_share.stores.connector_offsets import ConnectorOffsetBackingStore, _joined
from connect_share.stores.offsets import OffsetStorageReader, OffsetStorageWriter
from tests.support.flushes import HeldBack, done
from tests.support.waiting import await_that

GROUPS = pytest.mark.parametrize("group", ["group-a", None], ids=["shared", "plain"])
FILE = {"filename": "x.txt"}
LONG = {"filename": "l" * 3000}


class Pair:
    """Own topic of the connector (always plain keys), and the worker's."""

    def __init__(self, shared: Any, group: Any, *, own_limit: Any = None, worker_limit: Any = None) -> None:
        self.shared, self.group = shared, group
        self.own_topic = f"{shared.unique}-own"
        own_limits = {} if own_limit is None else {"offset_storage_max_message_bytes": own_limit}
        worker_limits = {} if worker_limit is None else {"offset_storage_max_message_bytes": worker_limit}
        self.own = shared.offset_store(worker=shared.worker(offset_storage_topic=self.own_topic, **own_limits))
        self.worker = shared.offset_store(worker=shared.of_group(group, **worker_limits))
        self.both = self.over(self.own, self.worker)

    def over(self, own: Any, worker: Any) -> Any:
        return ConnectorOffsetBackingStore(own, worker)

    def writer(self, store: Any = None) -> Any:
        return OffsetStorageWriter(store or self.both, "foo")

    def reader(self, store: Any = None) -> Any:
        return OffsetStorageReader(store or self.both, "foo")

    def wire(self, key: Any) -> Any:
        return (b"" if self.group is None else self.group.encode() + b".") + key

    def read_own(self) -> Any:
        return self.shared.read("offset", topic=self.own_topic)

    def read_worker(self) -> Any:
        return self.shared.read("offset")


def flush(writer: Any, *pairs: Any) -> Any:
    for partition, offset in pairs:
        writer.offset(partition, offset)
    assert writer.begin_flush()
    return writer.do_flush()


@GROUPS
def test_values_go_to_both_topics_with_the_keys_of_each(shared: Any, group: Any) -> None:
    pair = Pair(shared, group)
    flush(pair.writer(), (FILE, {"position": 1})).result(30)
    key = b'["foo",{"filename":"x.txt"}]'
    assert pair.read_own() == [(key, b'{"position":1}')]
    await_that(lambda: pair.read_worker() == [(pair.wire(key), b'{"position":1}')], what="written")
    assert pair.reader().offset(FILE) == {"position": 1}
    pair.worker.refresh(30)
    assert pair.both.connector_partitions("foo") == [FILE]
    assert pair.both.wire_keys("foo", FILE) == (pair.wire(key),)


@GROUPS
def test_null_of_the_own_topic_hides_the_workers_value(shared: Any, group: Any) -> None:  # case 52b
    pair = Pair(shared, group)
    flush(pair.writer(pair.worker), (FILE, {"position": 1})).result(30)
    assert pair.reader(pair.worker).offset(FILE) == {"position": 1}
    key = pair.wire(b'["foo",{"filename":"x.txt"}]')
    assert pair.both.get([key]).result(30) == {key: None}
    assert pair.reader().offsets([FILE]) == [(FILE, None)]
    assert pair.both.connector_partitions("foo") == [FILE]


@GROUPS
def test_failed_tombstone_in_the_workers_topic_ends_the_write(shared: Any, group: Any) -> None:  # case 52
    pair = Pair(shared, group, worker_limit="1000")
    outcomes: list[ConnectShareError | None] = []
    writer = pair.writer()
    writer.offset(LONG, None)
    writer.offset(FILE, {"position": 1})
    assert writer.begin_flush()
    with pytest.raises(ConnectShareError):
        done(writer.do_flush(outcomes.append))
    assert isinstance(outcomes[0], ConnectShareError)
    assert len(outcomes) == 1
    assert pair.read_own() == []


@GROUPS
def test_failed_value_in_the_workers_topic_is_only_logged(shared: Any, caplog: Any, group: Any) -> None:  # case 53
    pair = Pair(shared, group, worker_limit="1000")
    flush(pair.writer(), (FILE, {"position": 1, "large": "l" * 3000})).result(30)
    await_that(lambda: "not written to the worker's" in caplog.text, what="logged")
    assert "lll" not in caplog.text
    assert pair.reader().offset(FILE)["position"] == 1


@GROUPS
def test_hanging_value_in_the_workers_topic_does_not_matter(shared: Any, group: Any) -> None:  # case 53
    pair = Pair(shared, group)
    hanging = HeldBack(pair.worker)
    flush(pair.writer(pair.over(pair.own, hanging)), (FILE, {"position": 1})).result(30)
    assert len(hanging.held) == 1
    assert pair.read_worker() == []


@GROUPS
def test_hanging_tombstone_in_the_workers_topic_holds_the_write(shared: Any, group: Any) -> None:
    pair = Pair(shared, group)
    hanging = HeldBack(pair.worker)
    outcome = flush(pair.writer(pair.over(pair.own, hanging)), (FILE, None))
    with pytest.raises(TimeoutError):
        outcome.result(0.2)
    assert pair.read_own() == []
    hanging.let_go()
    outcome.result(30)
    assert [value for _, value in pair.read_own()] == [None]


@GROUPS
def test_failure_in_the_own_topic_is_a_failure(shared: Any, group: Any) -> None:  # case 53
    pair = Pair(shared, group, own_limit="1000")
    with pytest.raises(ConnectShareError):
        flush(pair.writer(), (FILE, {"position": 1, "large": "l" * 3000})).result(30)
    flush(pair.writer(pair.worker), ({"n": 1}, {"position": 2})).result(30)  # behind whatever was sent before
    assert [value for _, value in pair.read_worker()] == [b'{"position":2}']


def test_read_fails_when_either_store_fails(shared: Any) -> None:
    pair = Pair(shared, "group-a")
    pair.worker.stop()
    with pytest.raises(ConnectShareError):
        pair.reader().offset(FILE)


def test_copy_is_written_whatever_the_callback_does(shared: Any) -> None:
    def failing(_error: Any) -> None:
        raise RuntimeError

    pair = Pair(shared, "group-a")
    pair.both.set({pair.wire(b'["foo",{}]'): b'{"p":1}'}, failing).result(30)
    await_that(lambda: [value for _, value in pair.read_worker()] == [b'{"p":1}'], what="written")


def test_write_that_is_under_way_cannot_be_called_back(shared: Any) -> None:
    """As asyncio tries when it loses patience: the second copy would be missing."""
    pair = Pair(shared, "group-a")
    assert not pair.own.set({b'["foo",{}]': b'{"p":1}'}).cancel()
    assert not pair.both.set({pair.wire(b'["foo",{}]'): b'{"p":1}'}).cancel()
    await_that(lambda: [value for _, value in pair.read_worker()] == [b'{"p":1}'], what="written")


def test_stop_ends_reads_that_have_not_begun(shared: Any, monkeypatch: Any) -> None:
    pair, shutdown, stopping = Pair(shared, "group-a"), ThreadPoolExecutor.shutdown, threading.Event()
    log = pair.worker._compacted_log
    read_to_end = log.read_to_end

    def late(timeout_s: float) -> None:
        assert stopping.wait(30)
        read_to_end(timeout_s)

    def stopped(pool: ThreadPoolExecutor, wait: bool = True, **options: Any) -> None:
        shutdown(pool, wait=False, **options)
        stopping.set()
        shutdown(pool, wait=wait)

    monkeypatch.setattr(offsets, "_READERS", 1)
    monkeypatch.setattr(log, "read_to_end", late)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", stopped)
    reads = [pair.worker.get(()), pair.worker.get(()), pair.both.get(())]
    pair.worker.stop()
    for read in reads:
        assert isinstance(read.exception(30), StoreClosedError)


def test_interrupted_stop_lets_go_of_everything(shared: Any, monkeypatch: Any) -> None:
    threads = threading.active_count()
    store = shared.offset_store()
    store.set({b'group-a.["foo",{}]': b"{}"}).result(30)
    store.get(()).result(30)
    admin, writer = store._own_admin, store._compacted_log._writer
    close = writer.close

    def interrupted(timeout_s: float) -> None:
        close(timeout_s)
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.stop()
    await_that(threading.active_count, lambda now: now <= threads, what="no thread left")
    with pytest.raises(BrokerUnavailableError, match="was closed"):
        admin.describe_topics([store.topic])


def test_waiting_for_two_answers_blocks_no_thread() -> None:
    """What is called at the end may stop the stores, which wait for those who answer."""
    first: Future[dict[bytes, bytes | None]] = Future()
    second: Future[dict[bytes, bytes | None]] = Future()
    answering = threading.Thread(target=second.set_result, args=({},), daemon=True)

    def stop(_joined: object) -> None:
        answering.start()
        answering.join(30)
        in_time.append(not answering.is_alive())

    in_time: list[bool] = []
    _joined((), [({}, first), ({}, second)]).add_done_callback(stop)
    first.set_exception(StoreClosedError(""))
    assert in_time == [True]


def test_keys_without_the_groups_prefix_are_refused(shared: Any) -> None:
    pair = Pair(shared, "group-a")
    with pytest.raises(KeyFormatError, match="group-a"):
        pair.both.set({b'["foo",{}]': b"{}"}).result(0)
    assert pair.read_own() == pair.read_worker() == []


@GROUPS
def test_reset_reaches_every_member_order(shared: Any, group: Any) -> None:
    store = shared.offset_store(group)
    prefix = b"" if group is None else b"group-a."
    orders = [b'["foo",{"topic":"t","cluster":"us"}]', b'["foo",{"cluster":"us","topic":"t"}]']
    shared.write("offset", [(prefix + key, b'{"position":1}') for key in orders])
    shared.write("offset", [(prefix + b'["foo",null]', b'{"position":1}'), (prefix + b'["bar",{}]', b"{}")])
    assert reset_offsets(store, "foo") == 3
    store.refresh(30)
    assert store.connector_partitions("foo") == []
    assert dict(store.snapshot().raw) == {b'["bar",{}]': b"{}"}
    assert {key for key, value in shared.read("offset") if value is None} == {
        prefix + key for key in (*orders, b'["foo",null]')
    }
    assert reset_offsets(store, "foo") == 0


@GROUPS
def test_alter_writes_the_key_the_connector_will_look_up(shared: Any, group: Any) -> None:
    store = shared.offset_store(group)
    prefix = b"" if group is None else b"group-a."
    shared.write("offset", [(prefix + b'["foo",{"topic":"t","cluster":"us"}]', b'{"position":1}')])
    store.refresh(30)
    written = alter_offsets(
        store, "foo", [({"cluster": "us", "topic": "t"}, {"position": 5}), ({"new": 1}, {"position": 6})]
    )
    assert written == 2
    reader = OffsetStorageReader(store, "foo")
    assert reader.offset({"topic": "t", "cluster": "us"}) == {"position": 5}
    assert reader.offset({"new": 1}) == {"position": 6}


@GROUPS
def test_reset_reaches_both_topics(shared: Any, group: Any) -> None:
    pair = Pair(shared, group)
    flush(pair.writer(), (FILE, {"position": 1})).result(30)
    await_that(pair.read_worker, what="written")
    assert reset_offsets(pair.both, "foo") == 1
    assert pair.read_own()[-1][1] is None
    assert pair.read_worker()[-1] == (pair.wire(b'["foo",{"filename":"x.txt"}]'), None)
