"""Records of a source task and their offsets in one transaction, whatever they are kept in: both are there, or neither is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

from connect_share import (
    BrokerTimeoutError,
    ConfigError,
    ConnectStorage,
    FencedError,
    MemoryConnectStorage,
    MemoryKafka,
    NotStartedError,
    PrivilegedWriteError,
    Record,
    SharedTopics,
    StoreClosedError,
    StoreError,
    TargetState,
    TaskOffsetWriter,
    UsageError,
    ValueFormatError,
    WorkerConfig,
    WriteError,
)
from connect_share.sealing import KEYS_PROPERTY
from connect_share.stores import task_offset_writer, transactional_writer
from connect_share.stores.transactional_writer import TransactionalWriter
from connect_share.worker_config import Isolation
from tests.broker.stores.conftest import Shared
from tests.support.sealed import key_text
from tests.support.topics import read_topic
from tests.support.waiting import await_that
from tests.support.worker_files import properties_of

FILE: Final = {"filename": "x.txt"}


@dataclass
class Cluster:
    """Topics of one test, and the storages over them."""

    shared: Shared
    storage: Callable[[WorkerConfig], ConnectStorage]
    records: Callable[[str], list[Record]]

    def worker(self, **more: str) -> WorkerConfig:
        return self.shared.sharing(self.shared.group, **{"exactly_once_source_support": "enabled", **more})

    @property
    def data(self) -> str:
        return f"{self.shared.unique}-data"

    def values(self, topic: str) -> list[bytes | None]:
        return [record.value for record in self.records(topic)]


@pytest.fixture(params=["memory", "kafka", "many groups"])
def cluster(request: pytest.FixtureRequest, unique: str) -> Iterator[Cluster]:
    with ExitStack() as stack:
        if request.param == "memory":
            kafka = MemoryKafka()
            shared = Shared("127.0.0.1:1", unique, stack)
            in_memory = partial(MemoryConnectStorage, kafka=kafka)
            yield Cluster(shared, in_memory, kafka.records)
            return
        shared = request.getfixturevalue("shared")
        shared.create(f"{unique}-data")

        def records(topic: str) -> list[Record]:
            return read_topic(shared.admin, shared.worker().consumer_settings(), topic, Isolation.READ_COMMITTED)

        def of_many(worker: WorkerConfig) -> ConnectStorage:
            return stack.enter_context(SharedTopics(worker)).storage(worker.group_id)

        yield Cluster(shared, ConnectStorage if request.param == "kafka" else of_many, records)


def write(writer: TaskOffsetWriter, topic: str, *numbers: int) -> None:
    for number in numbers:
        writer.send(topic, b"%d" % number)
        writer.offset(FILE, {"position": number})


def send_and_commit(writer: TaskOffsetWriter, topic: str, **more: Any) -> None:
    """Which of the two fails depends on what the client has heard."""
    writer.send(topic, b"never", **more)
    writer.commit()


def test_records_and_offsets_are_there_together_or_not_at_all(cluster: Cluster) -> None:
    worker = cluster.worker(**{KEYS_PROPERTY: key_text(7)})
    with cluster.storage(worker) as storage:
        reader = storage.offset_reader("foo")
        with storage.task_offset_writer("foo", 0) as writer:
            writer.commit()  # nothing to do
            write(writer, cluster.data, 1, 2)
            writer.send(cluster.data, None, b"key", partition=0, timestamp_ms=5, headers=[("h", b"x"), ("h", None)])
            writer.commit()
            assert reader.offset(FILE) == {"position": 2}
            write(writer, cluster.data, 3)
            writer.abort()
            assert reader.offset(FILE) == {"position": 2}
            write(writer, cluster.data, 4)
            writer.abort(keep_offsets=True)  # the connector wants these records to be dropped
            writer.commit()
            assert reader.offset(FILE) == {"position": 4}
            with pytest.raises(ValueFormatError):
                writer.offset(FILE, {"position": {"nested": 1}})
            write(writer, cluster.data, 5)
            writer.offset(FILE, None)
            writer.commit()
            assert reader.offset(FILE) is None
            write(writer, cluster.data, 6)  # left open: the end of the block drops it
        left_open = storage.task_offset_writer("foo", 1)
        left_open.claim()
        left_open.send(cluster.data, b"the end of the storage drops this")
        with pytest.raises(NotStartedError):
            writer.commit()
        with pytest.raises(NotStartedError):
            write(writer, cluster.data, 7)
        writer.abort()
        assert reader.offset(FILE) is None
    assert cluster.values(cluster.data) == [b"1", b"2", None, b"5"]
    key = f'{worker.group_id}.["foo",{{"filename":"x.txt"}}]'.encode()
    written = cluster.records(worker.offset_storage_topic)
    assert {record.key for record in written} == {key}
    assert not any(b"position" in (record.value or b"") for record in written)  # sealed
    with pytest.raises(StoreClosedError):
        left_open.claim()


def test_whoever_claims_last_writes(cluster: Cluster) -> None:
    with cluster.storage(cluster.worker()) as storage:
        first, second = storage.task_offset_writer("foo", 0), storage.task_offset_writer("foo", 0)
        first.claim()
        write(first, cluster.data, 1)
        second.claim()  # ends the transaction of the first
        with pytest.raises(FencedError, match=r"task 'foo-0' cannot write any more"):
            first.commit()
        write(second, cluster.data, 2)
        second.commit()
        first.claim()
        assert storage.offset_reader("foo").offset(FILE) == {"position": 2}
        with pytest.raises(FencedError):
            send_and_commit(second, cluster.data)
        write(first, cluster.data, 3)
        first.commit()
        for writer in (first, second):
            writer.close()
    assert cluster.values(cluster.data) == [b"2", b"3"]


def test_the_leader_fences_all_tasks(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster.storage(cluster.worker()) as storage:
        with pytest.raises(UsageError, match="there is no connector 'foo'"):
            storage.fence_zombie_source_tasks("foo")
        with pytest.raises(PrivilegedWriteError):
            storage.config.put_connector_config("foo", {"name": "foo"})
        storage.config.claim_write_privileges()
        storage.config.put_connector_config("foo", {"name": "foo"}, TargetState.STARTED)
        storage.config.put_task_configs("foo", [{"n": "0"}, {"n": "1"}, {"n": "2"}])
        storage.fence_zombie_source_tasks("foo")
        assert storage.config.snapshot().task_count_record("foo") == 3
        tasks = [storage.task_offset_writer("foo", number) for number in range(3)]
        late = storage.task_offset_writer("foo", 1)
        for number, task in enumerate(tasks):
            task.claim()
            task.send(cluster.data, b"lost %d" % number)

        def put_others(*_: Any, **__: Any) -> None:
            storage.config.put_task_configs("foo", [{"n": "0"}])

        storage.config.put_task_configs("foo", [{"n": "0"}, {"n": "1"}])
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(task_offset_writer, "fence_all", put_others)
            with pytest.raises(StoreError, match=r"^connector 'foo' got new task configurations .*; fence them again$"):
                storage.fence_zombie_source_tasks("foo")
            assert storage.config.snapshot().task_count_record("foo") == 3
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(transactional_writer, "FENCE_TIMEOUT_S", 0.0)
            with pytest.raises(StoreError, match=r"^not all of 3 .* 0 s: no time was left for \S+-foo-0; try again$"):
                storage.fence_zombie_source_tasks("foo")
        storage.fence_zombie_source_tasks("foo")
        assert storage.config.snapshot().task_count_record("foo") == 1
        offset = storage.config.snapshot().offset
        storage.fence_zombie_source_tasks("foo")
        assert storage.config.snapshot().offset == offset
        for task in tasks:
            with pytest.raises(FencedError):
                task.commit()
        with pytest.raises(FencedError, match="has new configurations since its writer was made"):
            late.claim()
        with storage.task_offset_writer("foo", 0) as alone, storage.task_offset_writer("foo", 1) as kept:
            alone.send(cluster.data, b"lost")
            kept.send(cluster.data, b"kept")
            storage.fence_tasks("foo", 1)
            kept.commit()
            with pytest.raises(FencedError):
                alone.commit()
    assert cluster.values(cluster.data) == [b"kept"]


IN_PART: Final = (
    r"^the task configurations of connector 'foo' was written to \S+ in part, 2 of 3 records: writing to \S+ failed: .*{}"
    r".*; claim write privileges again; repeat the call, which writes all of them$"
)


def takes_over_between(second: ConnectStorage, meanwhile: pytest.MonkeyPatch, *, late: bool) -> None:
    """Let ``second`` claim once the tasks are written and their commit is begun, ``late``: a minute after that."""
    begin, begun = TransactionalWriter._begin, list[TransactionalWriter]()

    def begin_and_lose(writer: TransactionalWriter, producer: Any) -> None:
        begin(writer, producer)
        begun.append(writer)
        if len(begun) == 2:
            meanwhile.undo()
            if late:
                clock = writer._clock
                writer._clock = lambda: clock() + 61
            second.config.claim_write_privileges()  # to the first this is what the brokers do with what takes too long

    meanwhile.setattr(TransactionalWriter, "_begin", begin_and_lose)


def tasks_of(storage: ConnectStorage) -> list[Any]:
    storage.config.refresh(120)
    state = storage.config.snapshot()
    return [state.task_config(task) for task in state.tasks("foo")]


@pytest.mark.parametrize("late", [False, True], ids=["fenced", "too late"])
def test_a_leader_that_fails_between_its_two_transactions(cluster: Cluster, monkeypatch: Any, late: bool) -> None:
    worker, wanted = cluster.worker(), [{"n": "1"}, {"n": "2"}]
    with cluster.storage(worker) as first, cluster.storage(worker) as second:
        first.config.claim_write_privileges()
        first.config.put_connector_config("foo", {"name": "foo"})
        first.config.put_task_configs("foo", [{"n": "0"}])
        takes_over_between(second, monkeypatch, late=late)
        said = IN_PART.format("took longer than transaction.timeout.ms" if late else "has taken over")
        with pytest.raises(PrivilegedWriteError, match=said) as lost:
            first.config.put_task_configs("foo", wanted)
        assert type(lost.value.__cause__) is (BrokerTimeoutError if late else FencedError)
        with pytest.raises(PrivilegedWriteError, match="not claimed, or were lost") as again:
            first.config.put_task_configs("foo", wanted)
        assert [lost.value.fenced, again.value.fenced] == [not late] * 2
        assert tasks_of(first) == tasks_of(second) == [{"n": "0"}]
        with cluster.storage(worker) as third:
            compacted = isinstance(third, MemoryConnectStorage)  # what was committed is gone there, as with Connect
            assert tasks_of(third) == ([] if compacted else [{"n": "0"}])
            assert third.config.snapshot().inconsistent_connectors() == ({"foo"} if compacted else frozenset())
        # The next leader's tasks are its own, with nothing of what the first has left; then those that were wanted.
        second.config.put_task_configs("foo", [{"n": "3"}])
        assert tasks_of(first) == tasks_of(second) == [{"n": "3"}]
        first.config.claim_write_privileges()
        first.config.put_task_configs("foo", wanted)
        assert tasks_of(first) == tasks_of(second) == wanted


def test_a_connectors_own_topic_and_its_producer(cluster: Cluster) -> None:
    worker, own = cluster.worker(), f"{cluster.shared.unique}-own"
    with cluster.storage(worker) as storage:
        storage.config.claim_write_privileges()
        connector = {"name": "foo", "offsets.storage.topic": own, "producer.override.linger.ms": "7"}
        storage.config.put_connector_config("foo", connector)
        with storage.task_offset_writer("foo", 0) as writer:
            write(writer, cluster.data, 1)
            with pytest.raises(UsageError, match="cannot go to the topic of the task's own offsets"):
                writer.send(own, b"x")
            writer.commit()
            assert storage.offset_reader("foo").offset(FILE) == {"position": 1}
        storage.config.put_connector_config("bar", {"name": "bar", "producer.override.linger.ms": "not a number"})
        with pytest.raises(ConfigError, match=r"producer\.override\.linger\.ms.* of connector 'bar'"):
            storage.task_offset_writer("bar", 0)
    assert [(record.key, record.value) for record in cluster.records(own)] == [
        (b'["foo",{"filename":"x.txt"}]', b'{"position":1}')
    ]
    await_that(
        lambda: [(record.key, record.value) for record in cluster.records(worker.offset_storage_topic)],
        lambda found: found == [(f'{worker.group_id}.["foo",{{"filename":"x.txt"}}]'.encode(), b'{"position":1}')],
        what="copied to the worker's topic",
    )


def test_a_transaction_that_is_open_for_too_long_is_dropped() -> None:
    now = 1_700_000_000.0
    kafka = MemoryKafka(clock=lambda: now)
    more = {"exactly_once_source_support": "enabled", "transaction_timeout_ms": "10000"}
    with MemoryConnectStorage(
        WorkerConfig.from_properties(properties_of("memory:0", "g", **more)), kafka=kafka
    ) as storage:
        writer = storage.task_offset_writer("c", 0)
        writer.claim()
        write(writer, "data", 1)
        now += 10
        writer.commit()
        write(writer, "data", 2)
        now += 10.5
        with pytest.raises(WriteError, match=r"took longer than transaction\.timeout\.ms.*claim again"):
            writer.commit()
        writer.claim()
        write(writer, "data", 3)
        writer.commit()
        assert storage.offset_reader("c").offset(FILE) == {"position": 3}
    assert [(record.value, record.timestamp_ms - 1_700_000_000_000) for record in kafka.records("data")] == [
        (b"1", 0),
        (b"3", 20_500),
    ]
