"""A cluster group that runs on the stores in this process, and what it has been asked to be."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from typing import Any

from connect_share import ConfigUpdateListener, ConnectStorage, WorkerConfig
from connect_share.model.config_state import TargetState
from connect_share.model.records import ConnectorTaskId
from connect_share.model.status import ConnectorStatus, State, TaskStatus, TopicStatus
from connect_share.stores.alter_offsets import reset_offsets
from tests.support.flushes import flush_offsets
from tests.support.waiting import await_that

# Names that have keys, groups and dots of their own in them; the same in every group.
NAMES = ("my.conn", "connector-a", "b.connector-a", "b.my.conn-1")
_PARTITIONS = ({"filename": "/in/a.b.txt"}, {"v": 1.5}, {"server": 'a.["b",{}]', "table": "connector-a"})
_WORKER_ID = "python:8083"


class Names(ConfigUpdateListener):
    """An update listener that keeps the connectors of its events."""

    def __init__(self) -> None:
        self.connectors: set[str] = set()

    def on_connector_config_update(self, connector: str) -> None:
        self.connectors.add(connector)

    on_connector_config_remove = on_connector_config_update
    on_connector_target_state_change = on_connector_config_update

    def on_task_config_update(self, tasks: Any) -> None:
        self.connectors.update(task.connector for task in tasks)


def view(storage: ConnectStorage) -> dict[str, Any]:
    """Everything the stores believe; empty parts are left out."""
    for store in (storage.config, storage.status, storage.offsets):
        store.refresh(30)
    config, statuses, offsets = storage.config.snapshot(), storage.status.snapshot(), storage.offsets.snapshot()
    found: dict[str, Any] = {"connectors": {}, "statuses": {}, "topics": {}, "offsets": {}}
    for name in config.connectors():
        found["connectors"][name] = {
            "config": config.connector_config(name),
            "target": (config.target_state(name) or TargetState.STARTED).name,
            "tasks": [config.task_config(task) for task in config.tasks(name)],
        }
    for name in statuses.connectors():
        status = statuses.connector_status(name)
        if status is not None:
            tasks = {each.task_id.task: (each.state.name, each.generation) for each in statuses.task_statuses(name)}
            found["statuses"][name] = {"connector": (status.state.name, status.generation), "tasks": tasks}
        if statuses.topics(name):
            found["topics"][name] = set(statuses.topics(name))
    for name in offsets.connectors():
        pairs = {json.dumps(each): offsets.offset(name, each) for each in offsets.partitions(name)}
        if pairs:
            found["offsets"][name] = pairs
    return found


class PythonRuntime:
    """One group: its storage, its model, and the operations that change both.

    Attributes:
        model: what :func:`view` has to give.
        done: names of the operations so far.
    """

    def __init__(self, properties: Mapping[str, str], choose: random.Random) -> None:
        self.config = WorkerConfig.from_properties(properties)
        self.model: dict[str, Any] = {"connectors": {}, "statuses": {}, "topics": {}, "offsets": {}}
        self.done: list[str] = []
        self.listener = Names()
        self._choose = choose
        self._generation = 0
        self._storage: ConnectStorage | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names every group has, and one that only this one has."""
        return (*NAMES, f"only.{self.config.group_id}")

    @property
    def storage(self) -> ConnectStorage:
        assert self._storage is not None
        return self._storage

    def start(self) -> None:
        self._storage = ConnectStorage(self.config, allow_empty=True, update_listener=self.listener)
        self._storage.__enter__()
        self._storage.config.claim_write_privileges()
        self._generation += 1

    def close(self) -> None:
        if self._storage is not None:
            self._storage.close()

    def work(self, operations: int) -> None:
        """Do so many operations, start anew among them, and compare with the model."""
        for _ in range(operations):
            name = self._choose.choice(self.names)
            known = [self.target, self.remove] if name in self.model["connectors"] else []
            operation = self._choose.choice([self.put, self.put, self.status, self.offset, self.reset, *known])
            self.done.append(operation.__name__)
            operation(name)
        if self._choose.random() < 0.3:
            self.done.append("restart")
            self.close()
            self.start()
        assert view(self.storage) == self.model, self.done

    def put(self, name: str) -> None:
        config = {"name": name, "topics": "a.connector-b,c", "number": str(self._choose.random())}
        tasks = [{"task.class": "x", "n": f"{number}"} for number in range(self._choose.randrange(4))]
        connectors = self.model["connectors"]
        state = None if name in connectors else self._choose.choice([None, TargetState.STOPPED])
        self.storage.config.put_connector_config(name, config, state)
        self.storage.config.put_task_configs(name, tasks)
        target = connectors[name]["target"] if name in connectors else (state or TargetState.STARTED).name
        connectors[name] = {"config": config, "target": target, "tasks": tasks}

    def target(self, name: str) -> None:
        state = self._choose.choice(list(TargetState))
        self.storage.config.put_target_state(name, state)
        self.model["connectors"][name]["target"] = state.name

    def status(self, name: str) -> None:
        state, generation = self._choose.choice([State.RUNNING, State.PAUSED, State.FAILED]), self._generation
        task, topic = ConnectorTaskId(name, self._choose.randrange(3)), self._choose.choice(["t", "a.b.connector-x"])
        store = self.storage.status
        store.put(ConnectorStatus(name, state, _WORKER_ID, generation))
        store.put(TaskStatus(task, state, _WORKER_ID, generation))
        store.put(TopicStatus(topic, name, task.task, 1))
        store.flush()
        expected = self.model["statuses"].setdefault(name, {"tasks": {}})
        expected["connector"] = expected["tasks"][task.task] = (state.name, generation)
        self.model["topics"].setdefault(name, set()).add(topic)

    def remove(self, name: str) -> None:
        """As a herder does: the configuration, then statuses and topics; offsets stay."""
        self.storage.config.remove_connector_config(name)
        del self.model["connectors"][name]
        expected = self.model["statuses"].pop(name, None)
        if expected is not None:
            for task in expected["tasks"]:
                destroyed = TaskStatus(ConnectorTaskId(name, task), State.DESTROYED, _WORKER_ID, self._generation)
                self.storage.status.put(destroyed)
            self.storage.status.put(ConnectorStatus(name, State.DESTROYED, _WORKER_ID, self._generation))
        for topic in self.model["topics"].pop(name, set()):
            self.storage.status.delete_topic(name, topic)
        self.storage.status.flush()
        # The tombstone takes task statuses of its own millisecond along, whichever partition they are in.
        removed_ms = time.time_ns() // 1_000_000
        await_that(lambda: time.time_ns() // 1_000_000 > removed_ms, what="a millisecond later")

    def offset(self, name: str) -> None:
        partition, offset = self._choose.choice(_PARTITIONS), {"position": self._choose.randrange(10**9)}
        writer = self.storage.offset_writer(name, transactional=False)  # nothing here writes records
        flush_offsets(writer, (partition, offset))
        self.model["offsets"].setdefault(name, {})[json.dumps(partition)] = offset

    def reset(self, name: str) -> None:
        reset_offsets(self.storage.offsets, name)
        self.model["offsets"].pop(name, None)
