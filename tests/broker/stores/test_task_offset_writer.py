"""Records of a source task and their offsets in one transaction: both are there, or neither is, whoever dies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from connect_share.errors import FencedError, LiveMembersError, TaskCountError, UsageError, ValueFormatError, WriteError
from connect_share.storage import ConnectStorage
from tests.broker.stores.test_exactly_once import exactly_once
from tests.contract.test_exactly_once import FILE, send_and_commit, write
from tests.support.connect_member import ConnectMember


@pytest.fixture
def data(shared: Any) -> str:
    topic = f"{shared.unique}-data"
    shared.create(topic)
    return topic


def values(shared: Any, topic: str) -> list[bytes]:
    return [value for _, value in shared.read("data", topic=topic, isolation="read_committed")]


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


def test_nothing_is_sent_for_what_cannot_be(shared: Any, data: str) -> None:
    worker = exactly_once(shared)
    with ConnectStorage(worker) as storage:
        refused: list[tuple[type[Exception], Callable[[], object]]] = [
            (TaskCountError, lambda: storage.fence_tasks("foo", 10_001)),
            (ValueFormatError, lambda: storage.fence_tasks("foo", -1)),
            (ValueFormatError, lambda: storage.fence_tasks("", 1)),
            (ValueFormatError, lambda: storage.fence_tasks("foo\0", 1)),
            (ValueFormatError, lambda: storage.alter_offsets("foo\0", [(FILE, {"position": 1})])),
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


def test_the_topic_that_failed_is_named(shared: Any, data: str, caplog: pytest.LogCaptureFixture) -> None:
    worker = exactly_once(shared, transaction_timeout_ms="20000")
    with ConnectStorage(worker) as storage, storage.task_offset_writer("foo", 0) as writer:
        writer.send(data, b"x" * 2_000_000)
        writer.offset(FILE, {"position": 1})
        with pytest.raises(WriteError, match=rf"task 'foo-0': writing to {data} failed: MSG_SIZE_TOO_LARGE"):
            writer.commit()
        assert f"Write privileges of {worker.group_id}-foo-0 are lost: writing to {data} failed" in caplog.text
