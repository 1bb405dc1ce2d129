"""What every config store does, whatever it keeps its records in."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from connect_share import (
    ConnectorTaskId,
    NotStartedError,
    RestartRequest,
    SessionKey,
    StoreClosedError,
    TargetState,
    UsageError,
)
from tests.broker.stores.conftest import Listener
from tests.contract.conftest import KINDS, Stores
from tests.support.waiting import await_that

SOURCE = {"connector.class": "X", "tasks.max": "2"}
RESTART = RestartRequest("c.1", only_failed=False, include_tasks=True)


def test_a_connector_from_its_configuration_to_its_removal(stores: Stores) -> None:
    listener = Listener()
    leader = stores.config(listener)
    leader.start()
    assert (leader.snapshot().connectors(), leader.snapshot().offset) == (frozenset(), -1)
    leader.put_connector_config("c.1", SOURCE, TargetState.PAUSED, timeout_s=60)
    leader.put_task_configs("c.1", [{"task": "0"}, {"task": "1"}], timeout_s=60)
    assert leader.snapshot().pending_fencing("c.1")
    leader.put_task_count_record("c.1", 2, timeout_s=60)
    state = leader.snapshot()
    assert leader.contains("c.1")
    assert state.connectors() == {"c.1"}
    assert state.connector_config("c.1") == SOURCE
    assert state.target_state("c.1") is TargetState.PAUSED
    assert state.task_config(ConnectorTaskId("c.1", 1)) == {"task": "1"}
    assert (state.task_count("c.1"), state.task_count_record("c.1")) == (2, 2)
    assert (state.pending_fencing("c.1"), state.task_config_generation("c.1")) == (False, 0)
    assert state.offset == 6

    follower = stores.config()
    follower.start()
    assert follower.snapshot() == state

    leader.put_target_state("c.1", TargetState.STARTED, timeout_s=60)
    leader.put_target_state("c.1", TargetState.STARTED)
    leader.put_target_state("unknown", TargetState.STOPPED)
    leader.refresh()
    assert leader.snapshot().target_state("c.1") is TargetState.STARTED
    assert leader.snapshot().target_state("unknown") is TargetState.STOPPED
    assert leader.snapshot().connectors() == {"c.1"}
    assert state.target_state("c.1") is TargetState.PAUSED  # a snapshot never changes

    leader.put_connector_config("c.2", SOURCE)
    leader.put_task_configs("c.2", [])
    leader.remove_connector_config("c.1", timeout_s=60)
    follower.refresh()
    assert leader.snapshot() == follower.snapshot()
    assert leader.snapshot().connectors() == {"c.2"}
    assert (leader.snapshot().target_state("c.1"), leader.snapshot().task_count("c.1")) == (None, 0)
    assert leader.snapshot().task_config(ConnectorTaskId("c.1", 0)) is None
    assert not follower.contains("c.1")
    # A target state is an event when it changes one of a connector that is there.
    assert listener.events == [
        ("updated", "c.1"),
        ("tasks", ["c.1-0", "c.1-1"]),
        ("target", "c.1"),
        ("updated", "c.2"),
        ("tasks", []),
        ("removed", "c.1"),
    ]


def test_what_workers_tell_each_other(stores: Stores) -> None:
    listener = Listener()
    one, other = stores.config(), stores.config(listener)
    one.start()
    one.put_logger_level("org.early", "DEBUG", timeout_s=60)  # no listener hears of what is there before a start
    other.start()
    key = SessionKey(b"k" * 32, "HmacSHA256", 1_700_000_000_000)
    one.put_session_key(key, timeout_s=60)
    one.put_restart_request(RESTART, timeout_s=60)
    one.put_logger_level("org.apache", "DEBUG", timeout_s=60)
    other.refresh()
    await_that(lambda: len(listener.events), lambda count: count == 3, what="heard of all")
    assert listener.events == [("session-key", key), ("restart", RESTART), ("level", "org.apache", "DEBUG")]
    assert other.snapshot().session_key == key
    assert "kkk" not in repr(other.snapshot())


def test_a_listener_comes_later_and_another_in_its_place(stores: Stores) -> None:
    store, first, second = stores.config(), Listener(), Listener()
    store.start()
    store.put_connector_config("early", SOURCE)
    store.set_update_listener(first)
    store.put_connector_config("c.1", SOURCE)
    store.set_update_listener(second)
    store.put_connector_config("c.2", SOURCE)
    store.set_update_listener(None)
    store.put_connector_config("c.3", SOURCE)
    assert (first.events, second.events) == ([("updated", "c.1")], [("updated", "c.2")])


# A listener cannot await anything.
@pytest.mark.parametrize("stores", KINDS, indirect=True)
def test_a_listener_that_would_wait_for_itself_or_exits_does_not_end_the_log(stores: Stores) -> None:
    refused: list[UsageError] = []

    class Meddling(Listener):
        def on_connector_config_update(self, connector: str) -> None:
            for call in (
                store.refresh,
                lambda: store.put_connector_config("from a listener", SOURCE),
                lambda: store.put_task_configs(connector, [{}]),
                lambda: store.save(30),
            ):
                with pytest.raises(UsageError, match=r"a listener or callback .* a thread of your own") as caught:
                    call()
                refused.append(caught.value)
            store.put_target_state(connector, TargetState.PAUSED)  # is not read back, and so waits for nobody
            sys.exit("a listener ends its program")

    store: Any = stores.config(Meddling())
    store.start()
    store.put_connector_config("c.1", SOURCE)
    await_that(lambda: store.listener_failures, lambda count: count == 1, what="counted")
    store.refresh()
    assert len(refused) == 4
    assert store.snapshot().target_state("c.1") is TargetState.PAUSED
    store.put_target_state("c.1", TargetState.STARTED)
    store.refresh()
    assert store.snapshot().connectors() == {"c.1"}
    assert store.listener_failures == 1
    with pytest.raises(UsageError, match="cannot be removed on their own"):
        store.remove_task_configs("c.1")
    for seconds in (None, float("inf"), float("nan")):
        with pytest.raises(UsageError, match="a time limit has to be a number of seconds"):
            store.put_connector_config("c.2", SOURCE, timeout_s=seconds)


def test_it_serves_from_its_start_to_its_stop(stores: Stores) -> None:
    store = stores.config()
    with pytest.raises(NotStartedError):
        store.put_connector_config("c.1", SOURCE)
    store.start()
    with pytest.raises((StoreClosedError, NotStartedError)):
        store.start()
    store.stop()
    store.stop()
    with pytest.raises((StoreClosedError, NotStartedError)):
        store.refresh()
    with pytest.raises((StoreClosedError, NotStartedError)):
        store.put_connector_config("c.1", SOURCE)
