"""Contents of the topics as rows: one mapping for each connector, task or source partition, ready for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from connect_share.cli.contents import Contents
from connect_share.connect_json import dumps
from connect_share.console import Group
from connect_share.state import ClusterConfigState, ConnectorStatus, TargetState, TaskStatus


def connectors_of(contents: Contents, name: str | None) -> Iterator[tuple[Group, str, ClusterConfigState]]:
    """Yield group, name and state of the connectors, by group and name."""
    for group in contents.groups():
        state = contents.config_of(group)
        yield from ((group, connector, state) for connector in sorted(state.connectors()) if name in (None, connector))


def task_statuses(contents: Contents, group: Group, connector: str) -> dict[int, TaskStatus]:
    """Return the statuses of a connector's tasks by number."""
    return {status.task_id.task: status for status in contents.status_of(group).task_statuses(connector)}


def status_members(status: ConnectorStatus | TaskStatus | None) -> dict[str, Any]:
    """Return the members that come from a status; a trace is not among them, it may quote configurations."""
    if status is None:
        return {"state": None, "worker_id": None, "generation": None, "version": None, "has_trace": False}
    return {
        "state": status.state.name,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
        "has_trace": status.trace is not None,
    }


def connector_row(contents: Contents, group: Group, connector: str, state: ClusterConfigState) -> dict[str, Any]:
    """Return the row of one connector."""
    return {
        "group": group,
        "connector": connector,
        "target_state": (state.target_state(connector) or TargetState.STARTED).name,
        "task_count": state.task_count(connector),
        "consistent": connector not in state.inconsistent_connectors(),
        **status_members(contents.status_of(group).connector_status(connector)),
    }


def task_rows(contents: Contents, group: Group, connector: str, state: ClusterConfigState) -> list[dict[str, Any]]:
    """Return the rows of a connector's tasks: those configured, and those that only have a status."""
    statuses = task_statuses(contents, group, connector)
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


def offset_rows(contents: Contents, group: Group, connector: str) -> list[dict[str, Any]]:
    """Return the rows of a connector's source partitions."""
    snapshot = contents.offsets_of(group)
    rows = [
        {"group": group, "connector": connector, "partition": each, "offset": snapshot.offset(connector, each)}
        for each in snapshot.partitions(connector)
    ]
    return sorted(rows, key=lambda row: dumps(row["partition"]))


def json_text_of(value: Any) -> str:
    """Return a value as Connect writes it, for people."""
    return dumps(value).decode("utf-8", "backslashreplace")
