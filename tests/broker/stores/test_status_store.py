"""The status store on a real broker: cases 34 and 36 to 38 of docs/testing.md."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from connect_share.errors import NotStartedError, StoreClosedError, ValueFormatError
from connect_share.model.records import ConnectorTaskId
from connect_share.model.status import ConnectorStatus, State, TaskStatus, TopicStatus
from connect_share.stores.status import KafkaStatusBackingStore, _RetryThread
from tests.support.waiting import await_that

GROUPS = pytest.mark.parametrize("group", ["group-a", None], ids=["shared", "plain"])
TASK = ConnectorTaskId("foo", 0)


def connector(state: Any, worker: Any, generation: Any, trace: Any = None) -> Any:
    return ConnectorStatus("foo", state, worker, generation, trace)


def wire(group: Any, key: Any) -> Any:
    return (b"" if group is None else group.encode() + b".") + key


def read_back(store: KafkaStatusBackingStore) -> None:
    store.flush()
    store.refresh(30)


@GROUPS
def test_statuses_are_visible_when_read_back(shared: Any, group: Any) -> None:  # case 34
    store = shared.status_store(group)
    assert store.get("foo") is None
    running = connector(State.RUNNING, "w:8083", 9)
    store.put(running)
    failed = TaskStatus(TASK, State.FAILED, "w:8083", 9, "java.lang.X: a\n\tat b\n", "4.3.1")
    store.put(failed)
    topic = TopicStatus("server1.inventory.customers", "foo", 0, 1729798381000)
    store.put(topic)
    read_back(store)
    assert store.get("foo") == running
    assert store.get(TASK) == failed
    assert store.get_all("foo") == [failed]
    assert store.get_all_topics("foo") == [topic]
    assert store.get_topic("foo", "server1.inventory.customers") == topic
    assert store.connectors() == {"foo"}
    assert sorted(shared.read("status")) == [
        (
            wire(group, b"status-connector-foo"),
            b'{"state":"RUNNING","trace":null,"worker_id":"w:8083","generation":9,"version":null}',
        ),
        (
            wire(group, b"status-task-foo-0"),
            rb'{"state":"FAILED","trace":"java.lang.X: a\n\tat b\n","worker_id":"w:8083","generation":9,"version":"4.3.1"}',
        ),
        (
            wire(group, b"status-topic-server1.inventory.customers:connector-foo"),
            b'{"topic":{"name":"server1.inventory.customers","connector":"foo","task":0,"discoverTimestamp":1729798381000}}',
        ),
    ]


@GROUPS
def test_safe_put_of_an_older_generation_by_another_worker_sends_nothing(shared: Any, group: Any) -> None:  # case 36
    other = shared.status_store(group)
    other.put(connector(State.RUNNING, "other:8083", 1))
    other.flush()
    store = shared.status_store(group)
    store.put_safe(connector(State.UNASSIGNED, "w:8083", 0))
    read_back(store)
    assert store.get("foo") == connector(State.RUNNING, "other:8083", 1)
    assert len(shared.read("status")) == 1


@GROUPS
@pytest.mark.parametrize(
    ("there", "put", "safe"),
    [
        (connector(State.RUNNING, "w:8083", 1), connector(State.UNASSIGNED, "w:8083", 0), True),  # case 37
        (connector(State.RUNNING, "other:8083", 1), connector(State.UNASSIGNED, "w:8083", 0), False),  # case 38
        (TaskStatus(TASK, State.RUNNING, "other:8083", 1), TaskStatus(TASK, State.FAILED, "w:8083", 1), True),
    ],
    ids=["of the same worker", "plain", "of a newer generation"],
)
def test_puts_that_replace(shared: Any, group: Any, there: Any, put: Any, safe: bool) -> None:
    store = shared.status_store(group)
    store.put(there)
    read_back(store)
    (store.put_safe if safe else store.put)(put)
    read_back(store)
    assert store.get("foo" if isinstance(put, ConnectorStatus) else TASK) == put


@GROUPS
def test_destroyed_is_a_real_tombstone(shared: Any, group: Any) -> None:
    store = shared.status_store(group)
    store.put(connector(State.RUNNING, "w:8083", 1))
    store.put(TaskStatus(TASK, State.RUNNING, "w:8083", 1))
    read_back(store)
    store.put(TaskStatus(TASK, State.DESTROYED, "w:8083", 2))
    store.put(connector(State.DESTROYED, "w:8083", 2))
    read_back(store)
    assert store.get("foo") is None
    assert store.get_all("foo") == []
    assert store.connectors() == frozenset()
    assert (wire(group, b"status-connector-foo"), None) in shared.read("status")
    assert (wire(group, b"status-task-foo-0"), None) in shared.read("status")


@GROUPS
def test_topics_are_forgotten(shared: Any, group: Any) -> None:
    store = shared.status_store(group)
    for topic in ("a", "b"):
        store.put(TopicStatus(topic, "foo", 0, 1))
    store.delete_topic("foo", "a")
    read_back(store)
    assert [status.topic for status in store.get_all_topics("foo")] == ["b"]
    assert (wire(group, b"status-topic-a:connector-foo"), None) in shared.read("status")


def test_put_makes_the_connector_known_before_it_is_read(shared: Any) -> None:
    store = shared.status_store()
    store.put(connector(State.RUNNING, "w:8083", 1))
    assert store.connectors() == {"foo"}


def test_status_without_worker_is_refused(shared: Any) -> None:
    store = shared.status_store()
    with pytest.raises(ValueFormatError, match="worker_id"):
        store.put(connector(State.RUNNING, None, 1))
    assert shared.read("status") == []


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


def test_order_of_life(shared: Any) -> None:
    store = KafkaStatusBackingStore(shared.sharing())
    with pytest.raises(NotStartedError):
        store.put(connector(State.RUNNING, "w:8083", 1))
    store.start()
    store.stop()
    store.stop()
    with pytest.raises(StoreClosedError):
        store.put(connector(State.RUNNING, "w:8083", 1))


def test_status_the_topic_does_not_take_is_logged_not_raised(shared: Any, caplog: Any) -> None:
    store = shared.status_store(worker=shared.sharing(status_storage_max_message_bytes="1000"))
    store.put(connector(State.FAILED, "w:8083", 1, "tr4ce" * 1000))
    await_that(lambda: "Failed to write a status" in caplog.text, what="logged")
    assert "tr4ce" not in caplog.text
