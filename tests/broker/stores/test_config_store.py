"""The config store on a real broker: what its writers do, cases 2 to 4 and 14 to 24 of docs/testing.md."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from connect_share.errors import (
    NotStartedError,
    PartitionCountError,
    StoreClosedError,
    TopicNotCompactedError,
    UsageError,
    WriteError,
)
from connect_share.model.config_state import RestartRequest, SessionKey, TargetState
from connect_share.model.records import ConnectorTaskId
from tests.support.waiting import await_that

GROUPS = pytest.mark.parametrize("group", ["group-a", None], ids=["shared", "plain"])
CONFIG = {"connector.class": "C", "tasks.max": "1", "name": "foo", "nul": None}


def wire(group: Any, key: Any) -> Any:
    return (b"" if group is None else group.encode() + b".") + key


@GROUPS
def test_put_and_remove_connector(shared: Any, listener: Any, group: Any) -> None:  # cases 2 and 4
    store = shared.config_store(group, update_listener=listener)
    assert store.snapshot().offset == -1
    store.put_connector_config("foo", CONFIG)
    assert store.snapshot().offset == 1
    assert store.contains("foo")
    assert store.snapshot().connector_config("foo") == CONFIG
    assert store.snapshot().target_state("foo") is TargetState.STARTED
    store.put_target_state("foo", TargetState.PAUSED)
    store.remove_connector_config("foo")
    assert not store.contains("foo")
    assert store.snapshot().target_state("foo") is None
    assert store.snapshot().offset == 4
    assert listener.events == [("updated", "foo"), ("target", "foo"), ("removed", "foo")]
    removal = None if group is None else b"null"
    assert shared.read("config") == [
        (
            wire(group, b"connector-foo"),
            b'{"properties":{"connector.class":"C","tasks.max":"1","name":"foo","nul":null}}',
        ),
        (wire(group, b"target-state-foo"), b'{"state":"PAUSED","state.v2":"PAUSED"}'),
        (wire(group, b"connector-foo"), removal),
        (wire(group, b"target-state-foo"), removal),
    ]


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


@GROUPS
def test_initial_state_goes_first_and_is_not_an_event(shared: Any, listener: Any, group: Any) -> None:  # case 3
    store = shared.config_store(group, update_listener=listener)
    store.put_connector_config("c1", CONFIG, TargetState.STOPPED)
    assert store.snapshot().offset == 2
    assert store.snapshot().target_state("c1") is TargetState.STOPPED
    assert listener.events == [("updated", "c1")]
    assert [key for key, _ in shared.read("config")] == [
        wire(group, b"target-state-c1"),
        wire(group, b"connector-c1"),
    ]


@GROUPS
def test_incomplete_commit_then_new_task_configs(shared: Any, listener: Any, group: Any) -> None:  # case 14
    shared.config_store(group).stop()
    shared.write(
        "config",
        [
            (b"connector-c1", b'{"properties":{"a":"A"}}'),
            (b"task-c1-1", b'{"properties":{"a":"1"}}'),
            (b"commit-c1", b'{"tasks":2}'),
            (b"task-c1-0", b'{"properties":{"a":"0"}}'),
        ],
        group=group,
    )
    store = shared.config_store(group, update_listener=listener)
    state = store.snapshot()
    assert (state.offset, state.tasks("c1"), state.inconsistent_connectors()) == (4, [], {"c1"})
    assert state.task_config(ConnectorTaskId("c1", 0)) is None
    store.put_task_configs("c1", [{"a": "new"}])
    state = store.snapshot()
    assert state.offset == 6
    assert state.tasks("c1") == [ConnectorTaskId("c1", 0)]
    assert state.task_config(ConnectorTaskId("c1", 0)) == {"a": "new"}
    assert state.inconsistent_connectors() == frozenset()
    assert listener.events == [("tasks", ["c1-0"])]


@GROUPS
def test_no_task_configs_is_one_commit(shared: Any, listener: Any, group: Any) -> None:  # case 15
    store = shared.config_store(group, update_listener=listener)
    store.put_connector_config("c1", CONFIG)
    store.put_task_configs("c1", [])
    assert store.snapshot().offset == 2
    assert listener.events == [("updated", "c1"), ("tasks", [])]
    assert shared.read("config")[-1] == (wire(group, b"commit-c1"), b'{"tasks":0}')


@GROUPS
def test_fencing_generation(shared: Any, group: Any) -> None:  # case 16
    store = shared.config_store(group)
    store.put_connector_config("c1", CONFIG)
    store.put_task_configs("c1", [{"n": "0"}, {"n": "1"}])
    state = store.snapshot()
    assert (state.pending_fencing("c1"), state.task_config_generation("c1")) == (True, 0)
    assert state.task_count_record("c1") is None
    store.put_task_count_record("c1", 4)
    state = store.snapshot()
    assert (state.pending_fencing("c1"), state.task_config_generation("c1")) == (False, 0)
    assert state.task_count_record("c1") == 4


@GROUPS
def test_task_updates_are_one_event_per_connector(shared: Any, listener: Any, group: Any) -> None:  # case 17
    store = shared.config_store(group, update_listener=listener)
    for connector in ("c1", "c2"):
        store.put_connector_config(connector, CONFIG)
    listener.events.clear()
    before = store.snapshot().offset
    store.put_task_configs("c1", [{"n": "0"}, {"n": "1"}])
    store.put_task_configs("c2", [{"n": "0"}])
    assert store.snapshot().offset == before + 5
    assert listener.events == [("tasks", ["c1-0", "c1-1"]), ("tasks", ["c2-0"])]
    assert [key for key, _ in shared.read("config")][2:] == [
        wire(group, key) for key in (b"task-c1-0", b"task-c1-1", b"commit-c1", b"task-c2-0", b"commit-c2")
    ]


@GROUPS
def test_removal_of_a_committed_connector(shared: Any, listener: Any, group: Any) -> None:  # case 18
    store = shared.config_store(group, update_listener=listener)
    store.put_connector_config("c1", CONFIG)
    store.put_task_configs("c1", [{"n": "0"}])
    store.remove_connector_config("c1")
    state = store.snapshot()
    assert state.connectors() == frozenset()
    assert state.task_count("c1") == 0
    assert state.task_config(ConnectorTaskId("c1", 0)) is None
    assert listener.events[-1] == ("removed", "c1")


@GROUPS
def test_target_states_of_known_connectors_are_events_when_they_change(
    shared: Any, listener: Any, group: Any
) -> None:  # cases 19, 20
    store = shared.config_store(group, update_listener=listener)
    store.put_connector_config("c1", CONFIG)
    store.put_target_state("c1", TargetState.PAUSED)
    store.put_target_state("c1", TargetState.PAUSED)
    store.put_target_state("unknown", TargetState.STOPPED)
    store.refresh(30)
    assert listener.events == [("updated", "c1"), ("target", "c1")]
    assert store.snapshot().target_state("c1") is TargetState.PAUSED
    assert store.snapshot().target_state("unknown") is TargetState.STOPPED
    assert store.snapshot().connectors() == {"c1"}


@GROUPS
def test_restart_requests(shared: Any, listener: Any, group: Any) -> None:  # cases 21 and 22
    shared.config_store(group).stop()
    shared.write("config", [(b"restart-connector-c0", b'{"only-failed":true,"include-tasks":true}')], group=group)
    shared.write("config", [(b"restart-connector-c0", None)], group=group)
    store = shared.config_store(group, update_listener=listener)
    request = RestartRequest("c1", only_failed=True, include_tasks=False)
    store.put_restart_request(request)
    shared.write("config", [(b"restart-connector-c2", b'{"include-tasks":true}')], group=group)
    shared.write("config", [(b"restart-connector-c3", b'{"only-failed":true}')], group=group)
    store.refresh(30)
    assert listener.events == [
        ("restart", request),
        ("restart", RestartRequest("c2", only_failed=False, include_tasks=True)),
        ("restart", RestartRequest("c3", only_failed=True, include_tasks=False)),
    ]


@GROUPS
def test_logger_levels_of_before_the_start_are_no_events(shared: Any, listener: Any, group: Any) -> None:  # case 23
    shared.config_store(group).stop()
    shared.write(
        "config", [(b"logger-cluster-org.x", b'{"level":"INFO"}'), (b"logger-cluster-org.y", None)], group=group
    )
    store = shared.config_store(group, update_listener=listener)
    store.put_logger_level("org.apache.kafka", "DEBUG")
    store.put_logger_level("root", "TRACE")
    store.refresh(30)
    assert listener.events == [("level", "org.apache.kafka", "DEBUG"), ("level", "root", "TRACE")]


@GROUPS
def test_session_key_is_stored_an_event_and_not_shown(shared: Any, listener: Any, group: Any) -> None:
    store = shared.config_store(group, update_listener=listener)
    key = SessionKey(b"\x00\x01\x02\xff", "HmacSHA256", 1729798381000)
    store.put_session_key(key)
    assert store.snapshot().session_key == key
    assert listener.events == [("session-key", key)]
    assert shared.read("config") == [
        (wire(group, b"session-key"), b'{"key":"AAEC/w==","algorithm":"HmacSHA256","creation-timestamp":1729798381000}')
    ]
    assert "AAEC" not in repr(store.snapshot())


@GROUPS
def test_two_partitions_are_refused(shared: Any, unique: Any, group: Any) -> None:  # case 24
    for count in (2, 3):
        topic = f"{unique}-{count}"
        shared.create(topic, partitions=count, cleanup_policy="compact")
        worker = shared.of_group(group, config_storage_topic=topic)
        with pytest.raises(PartitionCountError, match="single partition") as refused:
            shared.config_store(worker=worker)
        assert refused.value.topic == topic
        assert topic in str(refused.value)
        assert "config.storage.topic" in str(refused.value)


def test_store_that_did_not_start_leaves_nothing_behind(shared: Any) -> None:
    shared.create(shared.topics["config"], cleanup_policy="delete")
    threads = threading.active_count()
    store = shared.config_store(start=False)
    with pytest.raises(TopicNotCompactedError, match="compact"):
        store.start()
    await_that(threading.active_count, lambda now: now <= threads, what="no thread left")
    with pytest.raises(StoreClosedError):
        store.refresh()


def test_task_configs_cannot_be_removed_alone(shared: Any) -> None:
    with pytest.raises(UsageError):
        shared.config_store().remove_task_configs("c1")


def test_order_of_life(shared: Any) -> None:
    store = shared.config_store(start=False)
    with pytest.raises(NotStartedError):
        store.put_target_state("c1", TargetState.PAUSED)
    store.start()
    with pytest.raises(StoreClosedError):
        store.start()
    store.stop()
    store.stop()
    with pytest.raises(StoreClosedError):
        store.put_connector_config("c1", CONFIG)
    with pytest.raises(StoreClosedError):
        store.refresh(1)


def test_failing_listener_does_not_end_the_log(shared: Any, listener: Any) -> None:
    def fail(connector: str) -> None:
        raise RuntimeError(connector)

    listener.on_connector_config_update = fail
    store = shared.config_store(update_listener=listener)
    store.put_connector_config("c1", CONFIG)
    store.put_target_state("c1", TargetState.PAUSED)
    store.refresh(30)
    assert listener.events == [("target", "c1")]


def test_value_the_topic_does_not_take(shared: Any) -> None:
    worker = shared.sharing(config_storage_max_message_bytes="1000")
    store = shared.config_store(worker=worker)
    with pytest.raises(WriteError, match="connector 'c1'") as refused:
        store.put_connector_config("c1", {"secret": "s3cret" * 1000})
    assert refused.value.__cause__ is not None
    assert "s3cret" not in str(refused.value)
    store.put_connector_config("c1", {"a": "b"})


def test_two_megabytes_where_the_topic_takes_them(shared: Any) -> None:
    worker = shared.sharing(config_storage_max_message_bytes="4000000", max_request_size="4000000")
    store = shared.config_store(worker=worker)
    store.put_connector_config("c1", {"large": "x" * 2_000_000})
    fresh = shared.config_store(worker=worker)
    assert len(fresh.snapshot().connector_config("c1")["large"]) == 2_000_000
