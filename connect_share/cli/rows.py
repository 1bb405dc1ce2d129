"""Contents of the topics as rows: one mapping for each connector, task or source partition, ready for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from connect_share.cli.contents import Contents
from connect_share.connect_json import dumps
from connect_share.console import Group
from connect_share.errors import ValueFormatError
from connect_share.keys import ConfigKey, OffsetKey, StatusKey
from connect_share.records import TopicType
from connect_share.state import ClusterConfigState, ConnectorStatus, TargetState, TaskStatus, parse_offset_key

SEALED: Final = "[sealed]"
"""Stands for what cannot be opened."""


def connectors_of(contents: Contents, name: str | None) -> Iterator[tuple[Group, str, ClusterConfigState]]:
    """Yield group, name and state of the connectors, by group and name; of a sealed group those that its keys name."""
    for group in contents.groups():
        state = contents.config_of(group)
        names = state.connectors() | contents.named(TopicType.CONFIG, group).get(ConfigKey.CONNECTOR, {}).keys()
        yield from ((group, connector, state) for connector in sorted(names) if name in (None, connector))


def status_connectors(contents: Contents, group: Group) -> list[str]:
    """Return the connectors with statuses, also those that only have some of tasks."""
    snapshot, named = contents.status_of(group), contents.named(TopicType.STATUS, group)
    names = snapshot.connectors() | snapshot.connectors_with_tasks()
    return sorted(names.union(*(named.get(kind, {}) for kind in (StatusKey.CONNECTOR, StatusKey.TASK))))


def task_statuses(contents: Contents, group: Group, connector: str) -> dict[int, TaskStatus | None]:
    """Return the statuses of a connector's tasks by number; ``None``: it cannot be opened."""
    sealed = contents.named(TopicType.STATUS, group).get(StatusKey.TASK, {}).get(connector, {})
    found = {status.task_id.task: status for status in contents.status_of(group).task_statuses(connector)}
    return {**dict.fromkeys(sealed), **found}


def status_members(status: ConnectorStatus | TaskStatus | None, *, sealed: bool = False) -> dict[str, Any]:
    """Return the members that come from a status; a trace is not among them, it may quote configurations."""
    if status is None:
        state, has_trace = (SEALED, None) if sealed else (None, False)
        return {"state": state, "worker_id": None, "generation": None, "version": None, "has_trace": has_trace}
    return {
        "state": status.state.name,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
        "has_trace": status.trace is not None,
    }


def connector_row(contents: Contents, group: Group, connector: str, state: ClusterConfigState) -> dict[str, Any]:
    """Return the row of one connector."""
    sealed = contents.is_sealed(TopicType.CONFIG, group)
    status = contents.status_of(group).connector_status(connector)
    return {
        "group": group,
        "connector": connector,
        "target_state": SEALED if sealed else (state.target_state(connector) or TargetState.STARTED).name,
        "task_count": None if sealed else state.task_count(connector),
        "consistent": None if sealed else connector not in state.inconsistent_connectors(),
        **status_members(status, sealed=contents.is_sealed(TopicType.STATUS, group)),
    }


def task_rows(contents: Contents, group: Group, connector: str, state: ClusterConfigState) -> list[dict[str, Any]]:
    """Return the rows of a connector's tasks: those configured, and those that only have a status."""
    statuses = task_statuses(contents, group, connector)
    sealed, of_keys = contents.is_sealed(TopicType.CONFIG, group), contents.named(TopicType.CONFIG, group)
    numbers = {task.task for task in state.tasks(connector)}
    return [
        {
            "group": group,
            "connector": connector,
            "task": number,
            "configured": None if sealed else number in numbers,
            **status_members(statuses.get(number), sealed=contents.is_sealed(TopicType.STATUS, group)),
        }
        for number in sorted(numbers.union(statuses, of_keys.get(ConfigKey.TASK, {}).get(connector, {})))
    ]


def offset_connectors(contents: Contents, group: Group) -> list[str]:
    """Return the connectors with source offsets."""
    named = contents.named(TopicType.OFFSET, group).get(OffsetKey.OFFSET, {})
    return sorted(contents.offsets_of(group).connectors() | named.keys())


def offset_rows(contents: Contents, group: Group, connector: str) -> list[dict[str, Any]]:
    """Return the rows of a connector's source partitions."""
    snapshot = contents.offsets_of(group)
    offsets = [(each, snapshot.offset(connector, each)) for each in snapshot.partitions(connector)]
    rows = [
        {"group": group, "connector": connector, "partition": partition, "offset": offset}
        for partition, offset in (*offsets, *_sealed_offsets(contents, group, connector))
    ]
    return sorted(rows, key=lambda row: dumps(row["partition"]))


def _sealed_offsets(contents: Contents, group: Group, connector: str) -> Iterator[tuple[dict[str, Any], str]]:
    for original in contents.named(TopicType.OFFSET, group).get(OffsetKey.OFFSET, {}).get(connector, {}):
        with suppress(ValueFormatError):
            partition = parse_offset_key(original)[1]
            if partition is not None:
                yield partition, SEALED


def json_text_of(value: Any) -> str:
    """Return a value as Connect writes it, for people."""
    return dumps(value).decode("utf-8", "backslashreplace")
