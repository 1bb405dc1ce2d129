"""A connector's own offsets topic: in front of the worker's, resets, whom it holds up, where its configuration leads."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest

from connect_share.errors import (
    BrokerError,
    BrokerUnavailableError,
    ConnectShareError,
    KeyFormatError,
    StoreClosedError,
    StoreError,
)
from connect_share.log import writer as identity
from connect_share.storage import ConnectStorage
from connect_share.stores import connector_offsets as connector_offset_stores
from connect_share.stores import offsets
from connect_share.stores.base import joined
from connect_share.stores.connector_offsets import ConnectorOffsetBackingStore
from connect_share.stores.offsets import OffsetStorageReader, OffsetStorageWriter
from tests.support.flushes import HeldBack, done, flush_offsets
from tests.support.waiting import await_that

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


@pytest.mark.parametrize("group", ["group-a", None], ids=["shared", "plain"])
def test_values_go_to_both_topics_with_the_keys_of_each(shared: Any, group: Any) -> None:
    pair = Pair(shared, group)
    flush(pair.writer(), (FILE, {"position": 1})).result(120)
    key = b'["foo",{"filename":"x.txt"}]'
    assert pair.read_own() == [(key, b'{"position":1}')]
    await_that(lambda: pair.read_worker() == [(pair.wire(key), b'{"position":1}')], what="written")
    assert pair.reader().offset(FILE) == {"position": 1}
    pair.worker.refresh(120)
    assert pair.both.connector_partitions("foo") == [FILE]
    assert pair.both.wire_keys("foo", FILE) == (pair.wire(key),)


def test_null_of_the_own_topic_hides_the_workers_value(shared: Any) -> None:  # case 52b
    pair = Pair(shared, "group-a")
    flush(pair.writer(pair.worker), (FILE, {"position": 1})).result(120)
    assert pair.reader(pair.worker).offset(FILE) == {"position": 1}
    key = pair.wire(b'["foo",{"filename":"x.txt"}]')
    assert pair.both.get([key]).result(120) == {key: None}
    assert pair.reader().offsets([FILE]) == [(FILE, None)]
    assert pair.both.connector_partitions("foo") == [FILE]


def test_what_fails_in_the_workers_topic(shared: Any, caplog: Any) -> None:  # cases 52 and 53
    """A tombstone ends the write; a value is only logged."""
    pair = Pair(shared, "group-a", worker_limit="1000")
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
    flush(pair.writer(), (FILE, {"position": 1, "large": "l" * 3000})).result(120)
    await_that(lambda: "not written to the worker's" in caplog.text, what="logged")
    assert "lll" not in caplog.text
    assert pair.reader().offset(FILE)["position"] == 1


def test_what_hangs_in_the_workers_topic(shared: Any) -> None:  # case 53
    """A value does not matter; a tombstone holds the write."""
    pair = Pair(shared, "group-a")
    hanging = HeldBack(pair.worker)
    flush(pair.writer(pair.over(pair.own, hanging)), (FILE, {"position": 1})).result(120)
    assert len(hanging.held) == 1
    assert pair.read_worker() == []
    outcome = flush(pair.writer(pair.over(pair.own, hanging)), (FILE, None))
    await_that(lambda: len(hanging.held), lambda found: found == 2, what="the tombstone held back")
    assert not outcome.done()
    assert [value for _, value in pair.read_own()] == [b'{"position":1}']
    hanging.let_go()
    outcome.result(120)
    assert [value for _, value in pair.read_own()][1:] == [None]


def test_failure_in_the_own_topic_is_a_failure(shared: Any) -> None:  # case 53
    pair = Pair(shared, "group-a", own_limit="1000")
    with pytest.raises(ConnectShareError):
        flush(pair.writer(), (FILE, {"position": 1, "large": "l" * 3000})).result(120)
    flush(pair.writer(pair.worker), ({"n": 1}, {"position": 2})).result(120)  # behind whatever was sent before
    assert [value for _, value in pair.read_worker()] == [b'{"position":2}']


def test_the_copy_is_written_whatever_the_caller_does(shared: Any) -> None:
    """Who raises, or takes the write back, as asyncio tries when it loses patience; and reads fail with either store."""
    pair = Pair(shared, "group-a")
    with pytest.raises(KeyFormatError, match="group-a"):
        pair.both.set({b'["foo",{}]': b"{}"}).result(0)
    pair.both.set({pair.wire(b'["foo",{}]'): b'{"p":1}'}, Mock(side_effect=RuntimeError)).result(120)
    assert not pair.own.set({b'["foo",{}]': b'{"p":2}'}).cancel()
    assert not pair.both.set({pair.wire(b'["foo",{}]'): b'{"p":2}'}).cancel()
    await_that(lambda: [value for _, value in pair.read_worker()] == [b'{"p":1}', b'{"p":2}'], what="written")
    pair.worker.stop()
    with pytest.raises(ConnectShareError):
        pair.reader().offset(FILE)


def test_stop_ends_reads_that_have_not_begun(shared: Any, monkeypatch: Any) -> None:
    pair, shutdown, stopping = Pair(shared, "group-a"), ThreadPoolExecutor.shutdown, threading.Event()
    log = pair.worker._compacted_log
    read_to_end = log.read_to_end

    def late(timeout_s: float) -> None:
        assert stopping.wait(120)
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
        assert isinstance(read.exception(120), StoreClosedError)


def test_interrupted_stop_lets_go_of_everything(shared: Any, monkeypatch: Any) -> None:
    threads = threading.active_count()
    store = shared.offset_store()
    store.set({b'group-a.["foo",{}]': b"{}"}).result(120)
    store.get(()).result(120)
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
    first, second = Future[Any](), Future[Any]()
    answering = threading.Thread(target=second.set_result, args=({},), daemon=True)

    def stop(_: object) -> None:
        answering.start()
        answering.join(120)
        in_time.append(not answering.is_alive())

    in_time: list[bool] = []
    joined([first, second], dict).add_done_callback(stop)
    first.set_exception(StoreClosedError(""))
    assert in_time == [True]


KEY = b'["foo",{"filename":"x.txt"}]'
CLIENTS = ("admin", "consumer", "producer")


def own_topic(shared: Any, name: str = "own") -> str:
    """Make a topic that `shared` knows by this name, so that it can write there in transactions."""
    topic = shared.topics[name] = f"{shared.unique}-{name}"
    shared.create(topic, cleanup_policy="compact")
    return str(topic)


def everywhere(**overrides: str) -> dict[str, str]:
    return {
        f"{client}.override.{name.replace('_', '.')}": value for client in CLIENTS for name, value in overrides.items()
    }


def test_the_workers_topic_named_by_a_connector_is_read_by_clients_of_the_connector(shared: Any) -> None:
    prefixed = b"group-a." + KEY
    with ConnectStorage(shared.sharing()) as storage:
        shared.write("offset", [(prefixed, b'{"position":1}')])
        aborted = [(prefixed, b'{"position":99}')]
        shared.write("offset", aborted, transactional_id=f"{shared.unique}-t", commit=False)
        assert storage.offset_reader("foo").offset(FILE) == {"position": 99}
        storage.config.put_connector_config("foo", {"offsets.storage.topic": shared.topics["offset"]})
        assert storage.offset_reader("foo").offset(FILE) == {"position": 1}
        flush_offsets(storage.offset_writer("foo"), (FILE, {"position": 2}))
        await_that(lambda: storage.offset_reader("foo").offset(FILE) == {"position": 2}, what="the committed offset")
        # By another address, too.
        elsewhere = everywhere(bootstrap_servers=f"{shared.bootstrap_servers},127.0.0.1:1")
        storage.config.put_connector_config("foo", {"offsets.storage.topic": shared.topics["offset"], **elsewhere})
        assert storage.offset_reader("foo").offset(FILE) == {"position": 2}
    # Once, and under the group's prefix: this topic is shared.
    assert [pair for pair in shared.read("offset") if b"99" not in (pair[1] or b"")] == [
        (prefixed, b'{"position":1}'),
        (prefixed, b'{"position":2}'),
    ]


def test_an_open_transaction_holds_up_its_own_reader_alone(shared: Any) -> None:
    topics = {name: own_topic(shared, name) for name in ("own-a", "own-b")}
    found: list[Any] = []
    with ConnectStorage(shared.sharing()) as storage:
        storage.config.put_connector_config("a", {"offsets.storage.topic": topics["own-a"]})
        storage.config.put_connector_config("b", {"offsets.storage.topic": topics["own-b"]})
        readers = [
            threading.Thread(target=lambda: found.append(storage.offset_reader("a").offset(FILE)), daemon=True)
            for _ in range(2)
        ]
        with shared.open_transaction("own-a", [(b'["a",{"filename":"x.txt"}]', b'{"position":99}')]):
            for reader in readers:
                reader.start()
            log = f"log-{topics['own-b']}"
            assert storage.offset_reader("b").offset(FILE) is None
            assert storage.offset_reader("without").offset(FILE) is None
            assert any(thread.name == log for thread in threading.enumerate())
            assert found == []
        for reader in readers:
            reader.join(60)
        assert found == [None, None]
        names = [thread.name for thread in threading.enumerate()]
        assert names.count(f"log-{topics['own-a']}") == 1  # both wait for one store


def test_a_store_whose_log_has_died_is_replaced(shared: Any) -> None:
    topic = own_topic(shared)
    with ConnectStorage(shared.sharing()) as storage:
        storage.config.put_connector_config("foo", {"offsets.storage.topic": topic})
        reader = storage.offset_reader("foo")
        assert reader.offset(FILE) is None
        dead: Any = reader._store
        dead._primary._compacted_log._state.fail(BrokerError("its thread met something"))
        with pytest.raises(StoreError):
            reader.offset(FILE)
        assert storage.offset_reader("foo").offset(FILE) is None


def test_own_stores_end_with_their_connectors(shared: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(connector_offset_stores, "_CHECK_EVERY_S", 0.2)
    monkeypatch.setattr(identity, "FRESH_S", 0.0)  # acknowledgements pass through the hands of another thread
    topics = [own_topic(shared, f"own-{number}") for number in range(3)]

    def logs() -> list[str]:
        gc.collect()
        return sorted(name for thread in threading.enumerate() if (name := thread.name.removeprefix("log-")) in topics)

    with ConnectStorage(shared.sharing()) as storage:
        for number, topic in enumerate(topics):
            storage.config.put_connector_config(f"c{number}", {"offsets.storage.topic": topic})
            assert storage.offset_reader(f"c{number}").offset(FILE) is None
        assert logs() == topics
        writer = storage.offset_writer("c0")
        for number in range(2):
            storage.config.remove_connector_config(f"c{number}")
        await_that(logs, lambda now: now == [topics[0], topics[2]], what="only stores that are used or configured")
        # The last flush of a task that is being stopped.
        flush_offsets(writer, (FILE, {"position": 7}))
        del writer
        await_that(logs, lambda now: now == [topics[2]], what="no store of a removed connector")
        # A configuration that reaches another broker is another store, at once.
        storage.config.put_connector_config(
            "c2", {"offsets.storage.topic": topics[2], **everywhere(bootstrap_servers="127.0.0.1:1")}
        )
        ended: list[ConnectShareError] = []
        reading = threading.Thread(target=lambda: ended.append(_error_of(storage, "c2")), daemon=True)
        reading.start()
        await_that(logs, lambda now: now == [], what="no store of the configuration before")
        storage.close()
        reading.join(60)
        assert len(ended) == 1
    assert shared.read("own-0", topic=topics[0]) == [(b'["c0",{"filename":"x.txt"}]', b'{"position":7}')]


def _error_of(storage: ConnectStorage, connector: str) -> ConnectShareError:
    with pytest.raises(ConnectShareError) as error:
        storage.offset_reader(connector)
    return error.value
