"""A Python group in a cell: its stores, what was written to them, and whether they still have it."""

from __future__ import annotations

import json
from typing import Any, Final

from connect_share.model.config_state import TargetState
from connect_share.model.records import ConnectorTaskId, TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.replay import replay_config, replay_offsets, replay_status
from connect_share.storage import ConnectStorage
from connect_share.stores.alter_offsets import reset_offsets
from connect_share.worker_config import WorkerConfig
from tests.lab.compatibility.result import PythonEvidence
from tests.lab.compatibility.shared_topics import SharedTopics
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.plain_state import plain_state
from tests.lab.waiting import until
from tests.support.flushes import flush_offsets

_FLUSH_S: Final = 30.0
_WORKER: Final = "python:1"
_NAMES: Final = ("my.conn", "connector-a")
"""The names of the Java groups' connectors."""


class PythonSide:
    """One group through :class:`ConnectStorage`, with the model of everything that was written."""

    def __init__(self, topics: SharedTopics, group: str) -> None:
        self.group = group
        self.model: dict[str, Any] = {"connectors": {}, "statuses": {}, "offsets": {}}
        self._topics = topics
        self._worker = WorkerConfig.from_properties(topics.properties(group, "python"))
        self._storage: ConnectStorage | None = None
        self._starts = 0

    def start(self) -> None:
        """Start the stores."""
        storage = ConnectStorage(self._worker, allow_empty=True)
        self._storage = storage.__enter__()
        self._starts += 1

    def stop(self) -> None:
        """Close the stores; may be called twice."""
        if self._storage is not None:
            self._storage.close()
            self._storage = None

    def first_changes(self) -> None:
        """Connectors, tasks, target states, statuses and offsets, a removal among them."""
        for number, name in enumerate(_NAMES):
            self._put(name, tasks=number + 1)
            self._status(name, State.RUNNING)
            for partition in range(2):
                self._offset(name, {"file": f"in.{partition}"}, {"position": 10 + partition})
        self._target(_NAMES[1], TargetState.PAUSED)
        self._put("gone.for-good", tasks=1)
        self._running.config.remove_connector_config("gone.for-good")
        del self.model["connectors"]["gone.for-good"]

    def later_changes(self) -> None:
        """Go on where it was."""
        self._put(_NAMES[0], tasks=2)
        self._target(_NAMES[1], TargetState.STOPPED)
        self._status(_NAMES[1], State.STOPPED)
        self._offset(_NAMES[0], {"file": "in.1"}, {"position": 99})
        reset_offsets(self._running.offsets, _NAMES[1])
        del self.model["offsets"][_NAMES[1]]
        self._put("late-1", tasks=1)

    def check(self) -> None:
        """Compare what the stores have with what was written."""
        storage = self._running
        storage.config.refresh(_FLUSH_S)
        storage.offsets.get(()).result(_FLUSH_S)
        # A status is seen when it has been read back, which nobody can ask for, as in Java.
        until(
            lambda: plain_state(storage.config.snapshot(), storage.status.snapshot(), storage.offsets.snapshot()),
            lambda seen: seen == self.model,
            what=f"the stores of Python group {self.group}, written were {self.model}",
            timeout_s=_FLUSH_S,
        )

    def check_topics(self) -> None:
        """Compare what the records amount to with what was written."""
        found = plain_state(
            replay_config(self._topics.records(TopicType.CONFIG), self.group),
            replay_status(self._topics.records(TopicType.STATUS), self.group),
            replay_offsets(self._topics.records(TopicType.OFFSET), self.group),
        )
        if found != self.model:
            raise EmbeddedError(f"Python group: the topics say {found}, written were {self.model}")

    def evidence(self) -> PythonEvidence:
        """Return what was seen."""
        return PythonEvidence(
            connectors=len(self.model["connectors"]),
            statuses=sum(len(each) for each in self.model["statuses"].values()),
            offsets=sum(len(each) for each in self.model["offsets"].values()),
            starts=self._starts,
        )

    @property
    def _running(self) -> ConnectStorage:
        if self._storage is None:
            raise EmbeddedError(f"the Python group {self.group} is not running")
        return self._storage

    def _put(self, name: str, *, tasks: int) -> None:
        known = self.model["connectors"].get(name, {"target": "STARTED"})
        config = {"name": name, "connector.class": "com.acme.Source", "written.at.start": str(self._starts)}
        task_configs = [{**config, "task": str(number)} for number in range(tasks)]
        self._running.config.put_connector_config(name, config)
        self._running.config.put_task_configs(name, task_configs)
        self.model["connectors"][name] = {"config": config, "tasks": task_configs, "target": known["target"]}

    def _target(self, name: str, target: TargetState) -> None:
        self._running.config.put_target_state(name, target)
        self.model["connectors"][name]["target"] = target.name

    def _status(self, name: str, state: State) -> None:
        self._running.status.put(ConnectorStatus(name, state, _WORKER, self._starts))
        self._running.status.put(TaskStatus(ConnectorTaskId(name, 0), state, _WORKER, self._starts))
        self._running.status.flush(_FLUSH_S)
        self.model["statuses"][name] = [[state.name, _WORKER, self._starts, None]] * 2

    def _offset(self, name: str, partition: dict[str, Any], offset: dict[str, Any]) -> None:
        flush_offsets(self._running.offset_writer(name), (partition, offset), limit_s=_FLUSH_S)
        kept = [each for each in self.model["offsets"].get(name, []) if each[0] != partition]
        self.model["offsets"][name] = sorted([*kept, [partition, offset]], key=json.dumps)
