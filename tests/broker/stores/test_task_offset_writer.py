"""Records of a source task and their offsets in one transaction: both are there, or neither is, whoever dies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from connect_share.errors import (
    ConfigError,
    FencedError,
    LiveMembersError,
    NotStartedError,
    PrivilegedWriteError,
    StoreClosedError,
    TaskCountError,
    UsageError,
    ValueFormatError,
    WriteError,
)
from connect_share.model.config_state import TargetState
from connect_share.sealing import KEYS_PROPERTY
from connect_share.storage import ConnectStorage
from connect_share.stores.task_offset_writer import TaskOffsetWriter
from connect_share.worker_config import WorkerConfig
from tests.support.connect_member import ConnectMember
from tests.support.sealed import key_text
from tests.support.waiting import await_that

FILE = {"filename": "x.txt"}


@pytest.fixture
def data(shared: Any) -> str:
    topic = f"{shared.unique}-data"
    shared.create(topic)
    return topic


def exactly_once(shared: Any, **more: str) -> WorkerConfig:
    config: WorkerConfig = shared.sharing(shared.group, **{"exactly_once_source_support": "enabled", **more})
    return config


def write(writer: TaskOffsetWriter, topic: str, *numbers: int) -> None:
    for number in numbers:
        writer.send(topic, b"%d" % number)
        writer.offset(FILE, {"position": number})


def send_and_commit(writer: TaskOffsetWriter, topic: str, **more: Any) -> None:
    """Which of the two fails depends on what the client has heard."""
    writer.send(topic, b"never", **more)
    writer.commit()


def values(shared: Any, topic: str) -> list[bytes]:
    return [value for _, value in shared.read("data", topic=topic, isolation="read_committed")]


def test_records_and_offsets_are_there_together_or_not_at_all(shared: Any, data: str) -> None:
    worker = exactly_once(shared, **{KEYS_PROPERTY: key_text(7)})
    with ConnectStorage(worker) as storage:
        reader = storage.offset_reader("foo")
        with storage.task_offset_writer("foo", 0) as writer:
            writer.commit()  # nothing to do
            write(writer, data, 1, 2)
            writer.send(data, None, b"key", partition=0, timestamp_ms=5, headers=[("h", b"x"), ("h", None)])
            writer.commit()
            assert reader.offset(FILE) == {"position": 2}
            write(writer, data, 3)
            writer.abort()
            assert reader.offset(FILE) == {"position": 2}
            write(writer, data, 4)
            writer.abort(keep_offsets=True)  # the connector wants these records to be dropped
            writer.commit()
            assert reader.offset(FILE) == {"position": 4}
            with pytest.raises(ValueFormatError):
                writer.offset(FILE, {"position": {"nested": 1}})
            write(writer, data, 5)
            writer.offset(FILE, None)
            writer.commit()
            assert reader.offset(FILE) is None
            write(writer, data, 6)  # left open: the end of the block drops it
        left_open = storage.task_offset_writer("foo", 1)
        left_open.claim()
        left_open.send(data, b"the end of the storage drops this")
        with pytest.raises(NotStartedError):
            writer.commit()
        with pytest.raises(NotStartedError):
            write(writer, data, 7)
        writer.abort()
        assert reader.offset(FILE) is None
    assert values(shared, data) == [b"1", b"2", None, b"5"]
    key = f'{worker.group_id}.["foo",{{"filename":"x.txt"}}]'.encode()
    written = shared.read("offset", isolation="read_committed")
    assert [pair[0] for pair in written] == [key] * 3
    assert not any(b"position" in (value or b"") for _, value in written)  # sealed
    with pytest.raises(StoreClosedError):
        left_open.claim()


def test_whoever_claims_last_writes(shared: Any, data: str) -> None:
    with ConnectStorage(exactly_once(shared)) as storage:
        first, second = storage.task_offset_writer("foo", 0), storage.task_offset_writer("foo", 0)
        first.claim()
        write(first, data, 1)
        second.claim()  # ends the transaction of the first
        with pytest.raises(FencedError, match=r"task 'foo-0' cannot write any more"):
            first.commit()
        write(second, data, 2)
        second.commit()
        first.claim()
        assert storage.offset_reader("foo").offset(FILE) == {"position": 2}
        with pytest.raises(FencedError):
            send_and_commit(second, data)
        write(first, data, 3)
        first.commit()
        for writer in (first, second):
            writer.close()
    assert values(shared, data) == [b"2", b"3"]


def test_a_task_that_sends_learns_that_another_has_claimed(shared: Any, data: str) -> None:
    """The client library says it of a record that was sent, and of those behind it only that there was an error."""
    with ConnectStorage(exactly_once(shared)) as storage:
        first, second = storage.task_offset_writer("foo", 0), storage.task_offset_writer("foo", 0)
        first.claim()
        write(first, data, 1)
        second.claim()

        def send_on() -> None:
            while True:
                first.send(data, b"late")

        library = first._producer._producer
        with pytest.raises(FencedError, match=r"task 'foo-0' cannot write any more"):
            send_on()
        assert library is not None
        assert not len(library)  # records left in a fenced client corrupt memory when it is freed
    assert values(shared, data) == []


def test_the_leader_fences_all_tasks(shared: Any, data: str) -> None:
    with ConnectStorage(exactly_once(shared)) as storage:
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
            task.send(data, b"lost %d" % number)
        storage.config.put_task_configs("foo", [{"n": "0"}])
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
            alone.send(data, b"lost")
            kept.send(data, b"kept")
            storage.fence_tasks("foo", 1)
            kept.commit()
            with pytest.raises(FencedError):
                alone.commit()
    assert values(shared, data) == [b"kept"]


def test_a_connectors_own_topic_and_its_producer(shared: Any, data: str) -> None:
    worker, own = exactly_once(shared), f"{shared.unique}-own"
    with ConnectStorage(worker) as storage:
        storage.config.claim_write_privileges()
        connector = {"name": "foo", "offsets.storage.topic": own, "producer.override.linger.ms": "7"}
        storage.config.put_connector_config("foo", connector)
        with storage.task_offset_writer("foo", 0) as writer:
            write(writer, data, 1)
            with pytest.raises(UsageError, match="cannot go to the topic of the task's own offsets"):
                writer.send(own, b"x")
            writer.commit()
            assert storage.offset_reader("foo").offset(FILE) == {"position": 1}
        storage.config.put_connector_config("bar", {"name": "bar", "producer.override.linger.ms": "not a number"})
        with pytest.raises(ConfigError, match=r"producer\.override\.linger\.ms.* of connector 'bar'"):
            storage.task_offset_writer("bar", 0)
    pair = (b'["foo",{"filename":"x.txt"}]', b'{"position":1}')
    assert shared.read("offset", topic=own, isolation="read_committed") == [pair]
    copy = (f"{worker.group_id}.".encode() + pair[0], pair[1])
    await_that(lambda: shared.read("offset"), lambda found: found == [copy], what="copied to the worker's topic")


def test_nothing_is_sent_for_what_cannot_be(shared: Any, data: str) -> None:
    worker = exactly_once(shared)
    with ConnectStorage(worker) as storage:
        refused: list[tuple[type[Exception], Callable[[], object]]] = [
            (TaskCountError, lambda: storage.fence_tasks("foo", 10_001)),
            (ValueFormatError, lambda: storage.fence_tasks("foo", -1)),
            (ValueFormatError, lambda: storage.fence_tasks("", 1)),
            (ValueFormatError, lambda: storage.task_offset_writer("foo", True)),
            (ValueFormatError, lambda: storage.task_offset_writer("foo", 10_000)),
            (ValueFormatError, lambda: storage.task_offset_writer(None, 0)),  # type: ignore[arg-type]
        ]
        with storage.task_offset_writer("foo", 0) as writer:
            send: Any = writer.send
            refused += [
                (ValueFormatError, lambda: send("no topic", b"x")),
                (ValueFormatError, lambda: send(data, "text")),
                (ValueFormatError, lambda: send(data, b"x", 7)),
                (ValueFormatError, lambda: send(data, b"x", partition=-1)),
                (ValueFormatError, lambda: send(data, b"x", timestamp_ms=0)),
                (ValueFormatError, lambda: send(data, b"x", headers={"a": b"b"})),
                (ValueFormatError, lambda: send(data, b"x", headers=[("a", "b")])),
            ]
            for error, call in refused:
                with pytest.raises(error):
                    call()
            send(data, b"good")
            writer.commit()
            with pytest.raises(
                WriteError, match=r"task 'foo-0': .*UNKNOWN_PARTITION.*claim again and go on from the stored offsets"
            ):
                send_and_commit(writer, data, partition=99)
            with ConnectMember(shared.bootstrap_servers, worker.group_id):
                with pytest.raises(LiveMembersError):
                    writer.claim()
                with pytest.raises(LiveMembersError):
                    storage.fence_tasks("foo", 1)
    with ConnectStorage(exactly_once(shared, exactly_once_source_support="preparing")) as storage:
        for call in (lambda: storage.task_offset_writer("foo", 0), lambda: storage.fence_tasks("foo", 1)):
            with pytest.raises(UsageError, match=r"exactly\.once\.source\.support is not enabled"):
                call()
    assert values(shared, data) == [b"good"]
