"""The config store on a real broker: its bytes, what was there before, what topics refuse; the rest is in tests/contract."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect_share.errors import PartitionCountError, WriteError
from connect_share.model.config_state import RestartRequest, SessionKey, TargetState

CONFIG = {"connector.class": "C", "tasks.max": "1", "name": "foo", "nul": None}


@pytest.mark.parametrize("group", ["group-a", None], ids=["shared", "plain"])
def test_the_records_of_each_call(shared: Any, group: Any) -> None:  # cases 2 to 4, 15 to 17
    store = shared.config_store(group)
    store.put_connector_config("foo", CONFIG, TargetState.STOPPED)
    store.put_task_configs("foo", [{"n": "0"}, {"n": "1"}])
    store.put_task_configs("foo", [])
    store.put_task_count_record("foo", 4)
    store.put_session_key(SessionKey(b"\x00\x01\x02\xff", "HmacSHA256", 1729798381000))
    store.put_restart_request(RestartRequest("foo", only_failed=True, include_tasks=False))
    store.put_logger_level("root", "TRACE")
    store.remove_connector_config("foo")
    expected: list[tuple[str, Any]] = [
        ("target-state-foo", {"state": "PAUSED", "state.v2": "STOPPED"}),
        ("connector-foo", {"properties": CONFIG}),
        ("task-foo-0", {"properties": {"n": "0"}}),
        ("task-foo-1", {"properties": {"n": "1"}}),
        ("commit-foo", {"tasks": 2}),
        ("commit-foo", {"tasks": 0}),
        ("tasks-fencing-foo", {"task-count": 4}),
        ("session-key", {"key": "AAEC/w==", "algorithm": "HmacSHA256", "creation-timestamp": 1729798381000}),
        ("restart-connector-foo", {"include-tasks": False, "only-failed": True}),
        ("logger-cluster-root", {"level": "TRACE"}),
    ]
    prefix = b"" if group is None else b"group-a."
    records = shared.read("config")
    assert records == [
        *((prefix + key.encode(), json.dumps(value, separators=(",", ":")).encode()) for key, value in expected),
        *((prefix + key, None if group is None else b"null") for key in (b"connector-foo", b"target-state-foo")),
    ]
    assert store.snapshot().offset == len(records)


def test_what_was_there_before_the_start_is_no_event(shared: Any, listener: Any) -> None:  # cases 14, 22 and 23
    shared.config_store().stop()
    shared.write(
        "config",
        [
            (b"connector-c1", b'{"properties":{"a":"A"}}'),
            (b"task-c1-1", b'{"properties":{"a":"1"}}'),
            (b"commit-c1", b'{"tasks":2}'),
            (b"task-c1-0", b'{"properties":{"a":"0"}}'),
            (b"restart-connector-c0", b'{"only-failed":true,"include-tasks":true}'),
            (b"logger-cluster-org.x", b'{"level":"INFO"}'),
            (b"session-key", b'{"key":"AAEC","algorithm":"HmacSHA256","creation-timestamp":1}'),
        ],
        group="group-a",
    )
    store = shared.config_store(update_listener=listener)
    state = store.snapshot()
    assert (state.offset, state.tasks("c1"), state.inconsistent_connectors()) == (7, [], {"c1"})
    store.put_task_configs("c1", [{"a": "new"}])
    state = store.snapshot()
    assert [state.task_config(task) for task in state.tasks("c1")] == [{"a": "new"}]
    assert state.inconsistent_connectors() == frozenset()
    assert listener.events == [("tasks", ["c1-0"])]


def test_the_second_record_is_sent_when_the_first_is_there(shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may refuse the first for the moment: a connector would be there without its state, or the reverse."""
    store = shared.config_store(None)
    sent: list[tuple[bytes, bool, Any]] = []

    def send(key: bytes, value: bytes | None) -> Any:
        future = really(key, value)
        sent.append((key, all(earlier.done() for _, _, earlier in sent), future))
        return future

    really = store._compacted_log.send
    monkeypatch.setattr(store._compacted_log, "send", send)
    store.put_connector_config("c", CONFIG, TargetState.STOPPED)
    store.remove_connector_config("c")
    keys = [b"target-state-c", b"connector-c", b"connector-c", b"target-state-c"]
    assert [(key, in_order) for key, in_order, _ in sent] == [(key, True) for key in keys]
    assert [key for key, _ in shared.read("config")] == [key for key, _, _ in sent]


def test_two_partitions_are_refused(shared: Any) -> None:  # case 24
    topic = f"{shared.unique}-two"
    shared.create(topic, partitions=2, cleanup_policy="compact")
    with pytest.raises(PartitionCountError, match="single partition") as refused:
        shared.config_store(worker=shared.sharing(config_storage_topic=topic))
    assert refused.value.topic == topic
    assert topic in str(refused.value)
    assert "config.storage.topic" in str(refused.value)


def test_value_the_topic_does_not_take(shared: Any) -> None:
    worker = shared.sharing(config_storage_max_message_bytes="1000")
    store = shared.config_store(worker=worker)
    with pytest.raises(WriteError, match="connector 'c1'") as refused:
        store.put_connector_config("c1", {"secret": "s3cret" * 1000})
    assert refused.value.__cause__ is not None
    assert "s3cret" not in str(refused.value)
    store.put_connector_config("c1", {"a": "b"})
