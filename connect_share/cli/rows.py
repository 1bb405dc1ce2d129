"""Contents of the topics as rows: one mapping for each connector, task or source partition, ready for JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from connect_share.console import Group
from connect_share.contents.groups import Contents
from connect_share.errors import ValueFormatError
from connect_share.model.config_state import ClusterConfigState, TargetState
from connect_share.model.connect_json import dumps
from connect_share.model.keys import ConfigKey, OffsetKey, StatusKey
from connect_share.model.offsets import parse_offset_key
from connect_share.model.records import TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus

SEALED: Final = "[sealed]"
"""Stands for what cannot be opened."""
UNKNOWN: Final = "UNKNOWN"
"""The state of what has no status."""


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


def status_members(
    contents: Contents,
    group: Group,
    connector: str,
    task: int | None,
    status: ConnectorStatus | TaskStatus | None,
) -> dict[str, Any]:
    """Return the members that come from a status; a trace is not among them, it may quote configurations."""
    key = StatusKey.CONNECTOR.key(connector) if task is None else StatusKey.TASK.key(f"{connector}-{task}")
    written = {"status_written_ms": contents.written_ms(TopicType.STATUS, group, key)}
    if status is None:
        state, has_trace = (SEALED, None) if contents.is_sealed(TopicType.STATUS, group) else (None, False)
        nothing = {"state": state, "worker_id": None, "generation": None, "version": None, "has_trace": has_trace}
        return nothing | written
    return written | {
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
        "task_states": _task_states(contents, group, connector, state),
        "consistent": None if sealed else connector not in state.inconsistent_connectors(),
        "config_written_ms": contents.written_ms(TopicType.CONFIG, group, ConfigKey.CONNECTOR.key(connector)),
        "target_state_written_ms": contents.written_ms(TopicType.CONFIG, group, ConfigKey.TARGET_STATE.key(connector)),
        **status_members(contents, group, connector, None, status),
    }


def _task_states(contents: Contents, group: Group, connector: str, state: ClusterConfigState) -> dict[str, int] | None:
    """Return the number of tasks by state; ``None``: what there is cannot be opened, or was not read."""
    if TopicType.STATUS not in contents.topics or contents.is_sealed(TopicType.STATUS, group):
        return None
    statuses = contents.status_of(group).task_statuses(connector)
    if not contents.is_sealed(TopicType.CONFIG, group) and connector not in state.inconsistent_connectors():
        numbers = range(state.task_count(connector))
        statuses = [status for status in statuses if status.task_id.task in numbers]
        without = len(numbers) - len(statuses)
    else:
        without = 0
    found = {UNKNOWN: without} if without else {}
    for status in statuses:
        found[status.state.name] = found.get(status.state.name, 0) + 1
    return found


def uses_topic(contents: Contents, group: Group, connector: str, state: ClusterConfigState, topic: str) -> bool:
    """Return whether a topic is among the active topics of a connector, or in its property ``topics``."""
    active = contents.named(TopicType.STATUS, group).get(StatusKey.TOPIC, {}).get(connector, {})
    if topic in active or topic in contents.status_of(group).topics(connector):
        return True
    topics = (state.connector_config(connector) or {}).get("topics")
    return isinstance(topics, str) and topic in map(str.strip, topics.split(","))


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
            "config_written_ms": contents.written_ms(
                TopicType.CONFIG, group, ConfigKey.TASK.key(f"{connector}-{number}")
            ),
            **status_members(contents, group, connector, number, statuses.get(number)),
        }
        for number in sorted(numbers.union(statuses, of_keys.get(ConfigKey.TASK, {}).get(connector, {})))
    ]


def status_rows(contents: Contents, group: Group, connector: str, *, show_traces: bool) -> Iterator[dict[str, Any]]:
    """Yield the rows of a connector's statuses and those of its tasks, as written."""
    own = contents.status_of(group).connector_status(connector)
    named = connector in contents.named(TopicType.STATUS, group).get(StatusKey.CONNECTOR, {})
    statuses: dict[int | None, ConnectorStatus | TaskStatus | None] = {None: own} if own is not None or named else {}
    tasks = task_statuses(contents, group, connector)
    statuses |= {task: tasks[task] for task in sorted(tasks)}
    for task, status in statuses.items():
        members = status_members(contents, group, connector, task, status)
        row = {"group": group, "connector": connector, "task": task, **members}
        if show_traces:
            row["trace"] = None if status is None else status.trace
        yield row


def state_of(row: Mapping[str, Any]) -> str:
    """Return the state of a row, also where there is none."""
    return row["state"] or UNKNOWN


def failures_first(row: Mapping[str, Any]) -> int:
    """Return the key that sorts rows: FAILED, also of one task; then UNASSIGNED and inconsistent; then the others."""
    states = {row["state"], *(row.get("task_states") or ())}
    if State.FAILED.name in states:
        return 0
    return 1 if State.UNASSIGNED.name in states or row.get("consistent") is False else 2


def shown_time(at_ms: int | None) -> str | None:
    """Return a time of a record, which any writer may choose, for people."""
    if at_ms is None:
        return None
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000))
    except (OverflowError, OSError, ValueError):
        return f"{at_ms} ms"


def offset_connectors(contents: Contents, group: Group) -> list[str]:
    """Return the connectors with source offsets."""
    named = contents.named(TopicType.OFFSET, group).get(OffsetKey.OFFSET, {})
    return sorted(contents.offsets_of(group).connectors() | named.keys())


def offset_rows(contents: Contents, group: Group, connector: str) -> list[dict[str, Any]]:
    """Return the rows of a connector's source partitions."""
    snapshot = contents.offsets_of(group)
    offsets = [
        (each, snapshot.offset(connector, each), snapshot.original_keys(connector, each))
        for each in snapshot.partitions(connector)
    ]
    rows = [
        {
            "group": group,
            "connector": connector,
            "partition": partition,
            "offset": offset,
            "written_ms": contents.written_ms(TopicType.OFFSET, group, *originals),
        }
        for partition, offset, originals in (*offsets, *_sealed_offsets(contents, group, connector))
    ]
    return sorted(rows, key=lambda row: dumps(row["partition"]))


def _sealed_offsets(
    contents: Contents, group: Group, connector: str
) -> Iterator[tuple[dict[str, Any], str, tuple[bytes, ...]]]:
    for original in contents.named(TopicType.OFFSET, group).get(OffsetKey.OFFSET, {}).get(connector, {}):
        with suppress(ValueFormatError):
            partition = parse_offset_key(original)[1]
            if partition is not None:
                yield partition, SEALED, (original,)


def json_text_of(value: Any) -> str:
    """Return a value as Connect writes it, for people."""
    return dumps(value).decode("utf-8", "backslashreplace")
