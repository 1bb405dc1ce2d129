"""What was read, as rows: one mapping for each connector, task or source partition, ready for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from connect_share.cli.reading import PLAIN, Group, Reading
from connect_share.connect_json import dumps
from connect_share.state import ClusterConfigState, ConnectorStatus, TargetState, TaskStatus


def shown_group(group: Group) -> str:
    """Name of a group for people."""
    return PLAIN if group is None else group


def connectors_of(reading: Reading, name: str | None) -> Iterator[tuple[Group, str, ClusterConfigState]]:
    """Give group, name and state of the connectors, by group and name."""
    if reading.config is not None:
        for group in reading.groups():
            state = reading.config.groups.get(group)
            for connector in sorted(state.connectors()) if state is not None else ():
                if state is not None and name in (None, connector):
                    yield group, connector, state


def connector_status(reading: Reading, group: Group, connector: str) -> ConnectorStatus | None:
    """Status of a connector, if the status topic was read and has one."""
    snapshot = reading.status.groups.get(group) if reading.status is not None else None
    return None if snapshot is None else snapshot.connector_status(connector)


def task_statuses(reading: Reading, group: Group, connector: str) -> dict[int, TaskStatus]:
    """Statuses of a connector's tasks by number."""
    snapshot = reading.status.groups.get(group) if reading.status is not None else None
    return {} if snapshot is None else {status.task_id.task: status for status in snapshot.task_statuses(connector)}


def status_members(status: ConnectorStatus | TaskStatus | None) -> dict[str, Any]:
    """Members of a row that come from a status; a trace is not among them, it may quote configurations."""
    if status is None:
        return {"state": None, "worker_id": None, "generation": None, "version": None, "has_trace": False}
    return {
        "state": status.state.name,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
        "has_trace": status.trace is not None,
    }


def connector_members(reading: Reading, group: Group, connector: str, state: ClusterConfigState) -> dict[str, Any]:
    """Row of one connector."""
    return {
        "group": group,
        "connector": connector,
        "target_state": (state.target_state(connector) or TargetState.STARTED).name,
        "task_count": state.task_count(connector),
        "consistent": connector not in state.inconsistent_connectors(),
        **status_members(connector_status(reading, group, connector)),
    }


def task_members(reading: Reading, group: Group, connector: str, state: ClusterConfigState) -> list[dict[str, Any]]:
    """Rows of a connector's tasks: those configured, and those that only have a status."""
    statuses = task_statuses(reading, group, connector)
    numbers = {task.task for task in state.tasks(connector)}
    return [
        {
            "group": group,
            "connector": connector,
            "task": number,
            "configured": number in numbers,
            **status_members(statuses.get(number)),
        }
        for number in sorted(numbers | set(statuses))
    ]


def offset_members(reading: Reading, group: Group, connector: str) -> list[dict[str, Any]]:
    """Rows of a connector's source partitions."""
    snapshot = reading.offset.groups.get(group) if reading.offset is not None else None
    if snapshot is None:
        return []
    found = [
        {
            "group": group,
            "connector": connector,
            "partition": partition,
            "offset": snapshot.offset(connector, partition),
        }
        for partition in snapshot.partitions(connector)
    ]
    return sorted(found, key=lambda row: dumps(row["partition"]))


def json_text_of(value: Any) -> str:
    """Write a value as Connect does, for people."""
    return dumps(value).decode("utf-8", "backslashreplace")
