"""The status store on a real broker: its bytes, and what goes wrong; the rest is in tests/contract."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from connect_share.model.records import ConnectorTaskId
from connect_share.model.status import ConnectorStatus, State, TaskStatus, TopicStatus
from connect_share.stores.status import _RetryThread
from tests.support.waiting import await_that

TASK = ConnectorTaskId("foo", 0)


@pytest.mark.parametrize("group", ["group-a", None], ids=["shared", "plain"])
def test_the_records_of_each_call(shared: Any, group: Any) -> None:  # cases 34 and 36
    other, store = shared.status_store(group), shared.status_store(group)
    other.put(ConnectorStatus("foo", State.RUNNING, "w:8083", 9))
    other.flush()
    store.refresh(30)
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


def test_no_thread_for_the_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a machine allows no more threads."""
    retries, resent = _RetryThread(), threading.Event()

    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError, match="new thread"):
            retries.submit(resent.set)
    retries.submit(resent.set)
    assert resent.wait(30)
    retries.stop()


def test_status_the_topic_does_not_take_is_logged_not_raised(shared: Any, caplog: Any) -> None:
    store = shared.status_store(worker=shared.sharing(status_storage_max_message_bytes="1000"))
    store.put(ConnectorStatus("foo", State.FAILED, "w:8083", 1, "tr4ce" * 1000))
    await_that(lambda: "Failed to write a status" in caplog.text, what="logged")
    assert "tr4ce" not in caplog.text
