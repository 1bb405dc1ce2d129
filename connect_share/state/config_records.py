"""Keys and values of the config topic, as Connect writes them (keys plain; the stores put the prefix)."""

from __future__ import annotations

from collections.abc import Mapping

from connect_share.connect_json import dumps
from connect_share.keys import ConfigKey
from connect_share.records import ConnectorTaskId
from connect_share.state.config_state import TargetState


def connector_config_record(connector: str, config: Mapping[str, str | None]) -> tuple[bytes, bytes]:
    """Return key and value of a connector's configuration, properties in the mapping's order."""
    return ConfigKey.CONNECTOR.key(connector), dumps({"properties": config})


def task_config_record(task: ConnectorTaskId, config: Mapping[str, str | None]) -> tuple[bytes, bytes]:
    """Return key and value of a task's configuration; workers do not use it before the commit."""
    return ConfigKey.TASK.key(task), dumps({"properties": config})


def task_commit_record(connector: str, tasks: int) -> tuple[bytes, bytes]:
    """Return key and value of the commit of task configurations 0 to ``tasks`` - 1."""
    return ConfigKey.COMMIT.key(connector), dumps({"tasks": tasks})


def target_state_record(connector: str, state: TargetState) -> tuple[bytes, bytes]:
    """Return key and value of a target state; workers that do not know STOPPED read PAUSED."""
    legacy = TargetState.PAUSED if state is TargetState.STOPPED else state
    return ConfigKey.TARGET_STATE.key(connector), dumps({"state": legacy.value, "state.v2": state.value})


def task_count_record(connector: str, tasks: int) -> tuple[bytes, bytes]:
    """Return key and value of a task count (fencing of exactly-once source tasks)."""
    return ConfigKey.TASK_COUNT.key(connector), dumps({"task-count": tasks})
