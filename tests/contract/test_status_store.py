"""What every status store does, whatever it keeps its records in."""

from __future__ import annotations

import pytest

from connect_share import (
    ConnectorStatus,
    ConnectorTaskId,
    NotStartedError,
    State,
    StoreClosedError,
    TaskStatus,
    TopicStatus,
)
from tests.contract.conftest import Stores

TASK = ConnectorTaskId("c.1", 0)


def connector(state: State, worker: str = "a:1", generation: int = 1, trace: str | None = None) -> ConnectorStatus:
    return ConnectorStatus("c.1", state, worker, generation, trace)


def test_statuses_of_a_connector_its_tasks_and_topics(stores: Stores) -> None:
    one, other = stores.status(), stores.status()
    one.start()
    one.put(connector(State.FAILED, trace="why"))
    assert one.connectors() == {"c.1"}  # before it is read
    one.put(TaskStatus(TASK, State.RUNNING, "a:1", 1, "trace", "4.3.1"))
    one.put(TopicStatus("t", "c.1", 0, 1_700_000_000_000))
    one.flush()
    one.refresh()
    other.start()
    for store in (one, other):
        found = store.get("c.1")
        assert found is not None
        assert (found.state, found.trace, found.worker_id) == (State.FAILED, "why", "a:1")
        assert (
            store.get_all("c.1") == [store.get(TASK)] == [TaskStatus(TASK, State.RUNNING, "a:1", 1, "trace", "4.3.1")]
        )
        topic = store.get_topic("c.1", "t")
        assert topic is not None
        assert store.get_all_topics("c.1") == [topic]
        assert store.connectors() == {"c.1"}
    one.put(TopicStatus("u", "c.1", 0, 1_700_000_000_000))
    one.delete_topic("c.1", "t")
    one.put(TaskStatus(TASK, State.DESTROYED, "a:1", 2))
    one.put(connector(State.DESTROYED))
    one.flush()
    other.refresh()
    assert (other.get("c.1"), other.get_all("c.1"), other.get_topic("c.1", "t")) == (None, [], None)
    assert [status.topic for status in other.get_all_topics("c.1")] == ["u"]


def test_an_older_worker_does_not_write_over_a_newer_one(stores: Stores) -> None:
    new, old = stores.status(), stores.status()
    new.start()
    old.start()
    new.put(connector(State.RUNNING, "new:1", generation=5))
    new.flush()
    old.refresh()
    old.put_safe(connector(State.FAILED, "old:1", generation=4))
    old.flush()
    new.refresh()
    found = new.get("c.1")
    assert found is not None
    assert found.worker_id == "new:1"
    for put, status in (
        (old.put_safe, connector(State.PAUSED, "old:1", generation=6)),
        (old.put_safe, connector(State.UNASSIGNED, "old:1", generation=5)),  # of the same worker
        (new.put, connector(State.UNASSIGNED, "new:1", generation=4)),  # a plain one
        (new.put, TaskStatus(TASK, State.RUNNING, "new:1", 1)),
        (old.put_safe, TaskStatus(TASK, State.FAILED, "old:1", 1)),  # of the same generation
    ):
        put(status)
        for store in (old, new):
            store.flush()
            store.refresh()
        assert new.get("c.1" if isinstance(status, ConnectorStatus) else TASK) == status


def test_it_serves_from_its_start_to_its_stop(stores: Stores) -> None:
    store = stores.status()
    with pytest.raises(NotStartedError):
        store.put(connector(State.RUNNING))
    store.start()
    store.stop()
    store.stop()
    with pytest.raises((StoreClosedError, NotStartedError)):
        store.put(connector(State.RUNNING))
