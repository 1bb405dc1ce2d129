"""The config store on a real broker: its bytes, its position, what topics refuse; the rest is in tests/contract."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from connect_share.errors import WriteError
from connect_share.model.config_state import RestartRequest, SessionKey, TargetState
from connect_share.model.records import ConnectorTaskId
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that

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


def test_a_write_of_which_a_part_is_there_is_made_whole_by_the_next(shared: Any) -> None:
    worker = shared.sharing(config_storage_max_message_bytes="1000")
    store, follower = (shared.config_store(worker=worker) for _ in range(2))
    too_large, task = {"secret": "s3cret" * 1000}, ConnectorTaskId("c1", 0)
    with pytest.raises(WriteError, match=r"connector 'c1' was written to \S+ in part, 1 of 2 records.*repeat the call"):
        store.put_connector_config("c1", too_large, TargetState.STOPPED)
    store.refresh()
    assert (store.snapshot().connectors(), store.snapshot().target_state("c1")) == (frozenset(), TargetState.STOPPED)
    store.put_connector_config("c1", {"a": "b"}, TargetState.PAUSED)
    store.put_task_configs("c1", [{"n": "old"}])
    with pytest.raises(WriteError, match=r"connector 'c1' was (written to \S+ in part, [12] of 4|not)") as refused:
        store.put_task_configs("c1", [{"n": "0"}, too_large, {"n": "2"}])
    assert "s3cret" not in str(refused.value)
    assert store.snapshot().task_config(task) == {"n": "old"}
    store.put_task_configs("c1", [{"n": "new"}, {"n": "1"}])
    follower.refresh()
    for state in (store.snapshot(), follower.snapshot()):
        assert (state.task_count("c1"), state.task_config(task)) == (2, {"n": "new"})
        assert state.inconsistent_connectors() == frozenset()
        assert state.target_state("c1") is TargetState.PAUSED


CONNECTOR = (b"connector-a", b'{"properties":{"name":"a"}}')


def foreign(count: Any, group: Any = b"group-b") -> Any:
    return [(b"%s.connector-%d" % (group, number), b'{"properties":{}}') for number in range(count)]


def test_foreign_records_do_not_move_the_position(shared: Any, listener: Any, caplog: Any) -> None:  # cases 1 to 4
    caplog.set_level(logging.INFO)
    store = shared.config_store(update_listener=listener)
    assert (store.snapshot().offset, store.positions()) == (-1, {0: 0})
    caplog.clear()
    shared.write("config", foreign(50))
    store.refresh(120)
    assert (store.snapshot().offset, store.positions()) == (-1, {0: 50})
    shared.write("config", [CONNECTOR], group="group-a")
    shared.write("config", foreign(500))
    store.refresh(120)
    assert (store.snapshot().offset, store.positions()) == (51, {0: 551})
    assert listener.events == [("updated", "a")]
    assert [record for record in caplog.records if record.name.startswith("connect_share")] == []
    assert shared.config_store().snapshot() == store.snapshot()  # batches of another size


def compacting(shared: Any) -> None:
    shared.create(shared.topics["config"], **COMPACT_NOW)


def force_compaction(shared: Any, gone: Any) -> None:
    """Let foreign writes roll segments until ``gone(keys and values)`` is true of what is left."""

    def cleaned() -> Any:
        shared.write("config", [(b"group-b.target-state-x", b'{"state":"PAUSED"}')])
        return gone(shared.read("config"))

    await_that(cleaned, what="the cleaner's work", timeout_s=120)


def test_fresh_store_agrees_after_compaction(shared: Any) -> None:  # case 12
    compacting(shared)
    live = shared.config_store()
    live.put_connector_config("keep", {"name": "keep"})
    live.put_connector_config("gone", {"name": "gone"})
    live.put_target_state("gone", TargetState.PAUSED)
    live.remove_connector_config("gone")
    # Superseded records are gone, the removals are not.
    force_compaction(
        shared,
        lambda left: (
            len([key for key, _ in left if key == b"group-a.connector-gone"]) == 1
            and len([key for key, _ in left if key == b"group-a.target-state-gone"]) == 1
        ),
    )
    left = shared.read("config")
    assert (b"group-a.connector-gone", b"null") in left
    assert (b"group-a.target-state-gone", b"null") in left
    fresh = shared.config_store()
    live.refresh(120)
    assert fresh.snapshot().offset == live.snapshot().offset == 5
    assert fresh.snapshot() == live.snapshot()


def test_marker_is_written_once_behind_a_tombstone(shared: Any, listener: Any, caplog: Any) -> None:  # cases 14 and 15
    caplog.set_level(logging.INFO)
    live = shared.config_store(update_listener=listener)
    shared.write("config", [CONNECTOR, (b"connector-a", None)], group="group-a")
    shared.write("config", foreign(5))
    live.refresh(120)
    assert live.snapshot().offset == 2
    listener.events.clear()
    first = shared.config_store()
    assert first.snapshot().offset == 8
    assert shared.read("config")[7:] == [(b"group-a.target-state-", b"null")]
    second = shared.config_store()
    assert second.snapshot().offset == 8
    assert len(shared.read("config")) == 8
    caplog.clear()
    live.refresh(120)
    assert live.snapshot().offset == 8
    assert live.snapshot().connectors() == frozenset()
    assert "" not in live.snapshot().target_states()
    assert listener.events == []
    assert [record for record in caplog.records if record.name.startswith("connect_share")] == []


def test_no_marker_where_none_is_needed(shared: Any) -> None:
    for group, records in (
        ("group-a", [CONNECTOR]),
        ("group-c", [(b"connector-a", b"null")]),
        ("group-d", [(b"connector-a", None), (b"session-key", b"{}")]),
    ):
        shared.config_store(group).stop()
        shared.write("config", records, group=group)
        shared.config_store(group)
    assert not [key for key, _ in shared.read("config") if key.endswith(b".target-state-")]


def test_no_marker_without_sharing(shared: Any) -> None:
    shared.config_store(None).stop()
    shared.write("config", [CONNECTOR, (b"connector-a", None)])
    assert shared.config_store(None).snapshot().offset == 2
    assert len(shared.read("config")) == 2


def test_aborted_own_record_at_the_end(shared: Any) -> None:  # case 16
    shared.config_store(shared.group).stop()
    shared.write("config", [CONNECTOR], group=shared.group)
    shared.write(
        "config",
        [(b"connector-b", b'{"properties":{}}')],
        group=shared.group,
        transactional_id=f"{shared.unique}-t",
        commit=False,
    )
    await_that(lambda: shared.end_offset("config") == 3, what="the marker there")  # it follows the answer to the abort
    for mode, connectors in (("disabled", {"a", "b"}), ("preparing", {"a", "b"}), ("enabled", {"a"})):
        store = shared.config_store(worker=shared.sharing(shared.group, exactly_once_source_support=mode))
        assert (store.snapshot().connectors(), store.snapshot().offset) == (connectors, len(connectors))
        assert store.positions() == {0: 3}
