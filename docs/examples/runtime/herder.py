"""What Connect's REST asks of a worker; the leader writes, every worker answers questions."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from connect_share import (
    ClusterConfigState,
    ConnectorStatus,
    ConnectorTaskId,
    KafkaConfigBackingStore,
    RestartRequest,
    SessionKey,
    TargetState,
    TaskStatus,
    UsageError,
    ValueFormatError,
)
from connect_share.kafka.admin import Admin
from connect_share.runtime import (
    alter_sink_offsets,
    connector_config_errors,
    refused_overrides,
    reset_sink_offsets,
    sink_group_id,
    sink_offsets,
)
from connect_share.stores.alter_offsets import ConsumerGroupsAdmin
from connect_share.worker_config.override_policy import OverridePolicy

from .leader_client import NOT_AGAIN, RestError, forward
from .plugins import CONNECTORS, PLUGINS
from .worker import Worker

VERSION = "1.0"


class Herder:
    """The connectors of the group."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._writing = threading.Lock()

    # Who leads.

    def is_leader(self) -> bool:
        return self._worker.leader.generation().is_leader

    def leader_url(self) -> str:
        return self._worker.leader.generation().leader_url

    def session_key(self) -> SessionKey | None:
        return self._state().session_key

    # Questions.

    def about(self) -> dict[str, Any]:
        with Admin(self._worker.config.admin_settings(), client_id="runtime") as admin:
            return {"version": VERSION, "commit": "example", "kafka_cluster_id": admin.cluster_id()}

    def health(self) -> dict[str, str]:
        """Say that this worker is a member of its group (KIP-1017)."""
        self.is_leader()
        return {"status": "healthy", "message": "Worker has completed startup and is ready to handle requests."}

    def plugins(self) -> list[dict[str, str]]:
        return [{"class": each.java_class, "type": each.kind, "version": VERSION} for each in PLUGINS]

    def validate(self, name: str, config: Any) -> dict[str, Any]:
        """Return what a plug-in says of a configuration: errors by property."""
        plugin = CONNECTORS.get(name)
        if plugin is None:
            raise RestError(404, f"connector.class {name!r}: this runtime has {sorted(CONNECTORS)}")
        given = config if isinstance(config, dict) else {}
        missing = [each for each in plugin.required if not str(given.get(each) or "").strip()]
        return {
            "name": plugin.java_class,
            "error_count": len(missing),
            "groups": [],
            "configs": [{"value": {"name": each, "errors": [f"{each} is missing"]}} for each in missing],
        }

    def exists(self, name: str) -> bool:
        return self._state().contains(name)

    def connectors(self, expanded: set[str]) -> Any:
        names = sorted(self._state().connectors())
        if not expanded:
            return names
        answers = {"status": self.status, "info": self.info}
        found = {}
        for name in names:
            with contextlib.suppress(RestError):  # removed meanwhile, or without a status so far
                found[name] = {each: answers[each](name) for each in sorted(expanded)}
        return found

    def info(self, name: str) -> dict[str, Any]:
        tasks = [_id(task) for task in self._state().tasks(name)]
        return {"name": name, "config": self.config_of(name), "tasks": tasks, "type": self._kind(name)}

    def config_of(self, name: str) -> dict[str, Any]:
        self._require(name)
        return self._state().raw_connector_config(name) or {}

    def tasks(self, name: str) -> list[dict[str, Any]]:
        self._require(name)
        state = self._state()
        return [{"id": _id(task), "config": state.raw_task_config(task)} for task in state.tasks(name)]

    def status(self, name: str) -> dict[str, Any]:
        self._require(name)
        found = self._worker.storage.status.snapshot()
        connector = found.connector_status(name)
        if connector is None:
            raise RestError(404, f"No status found for connector {name}")
        tasks = [{"id": each.task_id.task, **_status(each)} for each in found.task_statuses(name)]
        tasks.sort(key=lambda task: int(str(task["id"])))
        return {"name": name, "connector": _status(connector), "tasks": tasks, "type": self._kind(name)}

    def task_status(self, task: ConnectorTaskId) -> dict[str, Any]:
        self._require(task.connector)
        found = self._worker.storage.status.snapshot().task_status(task)
        if found is None:
            raise RestError(404, f"No status found for task {task}")
        return {"id": task.task, **_status(found)}

    def topics(self, name: str) -> dict[str, Any]:
        self._require(name)
        return {name: {"topics": sorted(self._worker.storage.status.snapshot().topics(name))}}

    def reset_topics(self, name: str) -> None:
        self._require(name)
        for topic in self._worker.storage.status.snapshot().topics(name):
            self._worker.storage.status.delete_topic(name, topic)

    def offsets(self, name: str) -> dict[str, Any]:
        self._require(name)
        if self._kind(name) == "sink":
            with self._groups() as admin:
                return {"offsets": sink_offsets(admin, self._sink_group(name))}
        stored = self._worker.storage.stored_offsets(name)
        return {"offsets": [{"partition": partition, "offset": json.loads(value)} for partition, value in stored]}

    # Changes, at the leader.

    def put_connector(self, name: str, config: Any, *, new: bool = False, initial: Any = None) -> dict[str, Any]:
        if not isinstance(config, dict) or not name.strip() or not _is_text(config):
            raise RestError(400, "A connector needs a name, and properties that are text or null")
        if config.get("name", name) != name:
            raise RestError(400, f"Connector name configuration ({config['name']}) doesn't match the name in the URL")
        given = {**config, "name": name}
        try:
            plugin = self._worker.connector_class(given)
            self._worker.task_configs(given)
            target = None if initial is None else TargetState({"RUNNING": "STARTED"}.get(initial, initial))
        except (ValueError, TypeError, UsageError) as error:
            raise RestError(400, f"Connector configuration is invalid: {error}") from None
        wrong = connector_config_errors(given, plugin.kind)
        refused = refused_overrides(given, OverridePolicy.of(self._worker.config.originals))
        if wrong or refused:
            raise RestError(400, f"Connector configuration is invalid: {wrong or refused}")
        with self._writing:
            if new and self.exists(name):
                raise RestError(409, f"Connector {name} already exists")
            try:
                self._written().put_connector_config(name, given, target)
            except ValueFormatError as error:
                raise RestError(400, str(error)) from None
        return self.info(name)

    def delete(self, name: str) -> None:
        with self._writing:
            self._require(name)
            self._written().remove_connector_config(name)

    def set_target_state(self, name: str, state: TargetState) -> None:
        self._require(name)
        self._worker.storage.config.put_target_state(name, state)

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> dict[str, Any]:
        self._require(name)
        self._worker.storage.config.put_restart_request(RestartRequest(name, only_failed, include_tasks))
        return self.status(name)

    def restart_task(self, task: ConnectorTaskId, *, may_forward: bool) -> None:
        self._require(task.connector)
        if task not in self._state().tasks(task.connector):
            raise RestError(404, f"Task {task} not found")
        if not self._worker.restart_task(task):
            url = self._url_of_owner(task) if may_forward else None
            if url is None:
                raise RestError(409, f"Task {task} is not assigned to another worker; try again")
            path = f"/connectors/{quote(task.connector, safe='')}/tasks/{task.task}/restart?{urlencode([NOT_AGAIN])}"
            forward("POST", url.rstrip("/") + path, b"", {})

    def _url_of_owner(self, task: ConnectorTaskId) -> str | None:
        """Return where the member of the group is that runs a task; anybody may have written what a status says."""
        group = self._worker.config.group_id
        with Admin(self._worker.config.admin_settings(), client_id="runtime") as admin:
            members = admin.connect_members(group).get(group, ())
        owners = (each for each in members if each.running is not None and task in each.running.tasks)
        owner = next((each for each in owners if each.worker_id != self._worker.worker_id), None)
        return None if owner is None or owner.state is None else owner.state.url

    def alter_offsets(self, name: str, pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> Any:
        self._require(name)
        if self._kind(name) == "sink":
            with self._groups() as admin:
                alter_sink_offsets(admin, self._sink_group(name), pairs)
        else:
            self._worker.storage.alter_offsets(name, pairs)
        return {"message": "The offsets for this connector have been altered successfully"}

    def reset_offsets(self, name: str) -> Any:
        self._require(name)
        if self._kind(name) == "sink":
            with self._groups() as admin:
                reset_sink_offsets(admin, self._sink_group(name))
        else:
            self._worker.storage.reset_offsets(name)
        return {"message": "The offsets for this connector have been reset successfully"}

    # Of other workers.

    def put_task_configs(self, name: str, configs: Any) -> None:
        self._require_leader(name)
        if not isinstance(configs, list) or not all(isinstance(each, dict) and _is_text(each) for each in configs):
            raise RestError(400, "Task configurations have to be a list of objects")
        self._worker.leader.put_task_configs(name, configs)

    def fence(self, name: str) -> None:
        self._require_leader(name)
        self._worker.leader.fence(name)

    def _require_leader(self, name: str) -> None:
        """Refuse what was meant for the leader; the worker that asked tries again, at who leads then."""
        if not self.is_leader():
            raise RestError(409, "This worker does not lead the group; try again")
        self._require(name)

    def _written(self) -> KafkaConfigBackingStore:
        """Return the config store for the leader, which may have begun to lead just now."""
        if self._worker.config.uses_transactional_leader:
            self._worker.storage.config.claim_write_privileges()
        return self._worker.storage.config

    def _state(self) -> ClusterConfigState:
        return self._worker.storage.config.snapshot()

    def _require(self, name: str) -> None:
        if not self.exists(name):
            raise RestError(404, f"Connector {name} not found")

    def _groups(self) -> ConsumerGroupsAdmin:
        return ConsumerGroupsAdmin(self._worker.config.admin_settings(), client_id="runtime")

    def _sink_group(self, name: str) -> str:
        return sink_group_id(name, self.config_of(name))

    def _kind(self, name: str) -> str:
        plugin = CONNECTORS.get((self._state().raw_connector_config(name) or {}).get("connector.class", ""))
        return "unknown" if plugin is None else plugin.kind


def _id(task: ConnectorTaskId) -> dict[str, Any]:
    return {"connector": task.connector, "task": task.task}


def _status(status: ConnectorStatus | TaskStatus) -> dict[str, Any]:
    found: dict[str, Any] = {"state": status.state.value, "worker_id": status.worker_id}
    return found if status.trace is None else {**found, "trace": status.trace}


def _is_text(config: dict[Any, Any]) -> bool:
    return all(isinstance(value, str | None) for value in config.values())
