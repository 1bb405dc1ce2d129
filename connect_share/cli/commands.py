"""The commands: arguments and an output in, exit code out."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from connect_share.cli.arguments import topic_set_of
from connect_share.cli.output import HIDDEN, PLAIN, Output
from connect_share.cli.reading import Group, Reading, read_topics
from connect_share.connect_json import dumps
from connect_share.errors import ConnectShareError
from connect_share.keys import ClusterGroupId
from connect_share.records import ConnectorTaskId, TopicType
from connect_share.state import ClusterConfigState, ConnectorStatus, TargetState, TaskStatus
from connect_share.worker_config import TopicSet

_CONFIG, _STATUS, _OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET


def _groups_wanted(arguments: argparse.Namespace, topic_set: TopicSet) -> Collection[Group] | None:
    """Which groups are asked for; ``None``: all."""
    if arguments.groups:
        return {None if name == PLAIN else ClusterGroupId(name) for name in arguments.groups}
    return None if arguments.all_groups else topic_set.worker_group


def _read(
    arguments: argparse.Namespace,
    out: Output,
    *,
    needed: Sequence[TopicType] = (),
    also: Sequence[TopicType] = (),
    every_group: bool = False,
) -> Reading:
    topic_set = topic_set_of(arguments, needed)
    wanted = [topic_type for topic_type in (*needed, *also) if topic_type in topic_set.topics]
    groups = _groups_wanted(arguments, topic_set)
    if every_group and not arguments.groups:
        groups = None
    reading = read_topics(topic_set, wanted, groups=groups, timeout_s=arguments.timeout)
    for found in reading.topics().values():
        for note in found.notes:
            out.note(note)
        if found.unrecognized:
            plural = "" if found.unrecognized == 1 else "s"
            out.note(f"{found.topic}: {found.unrecognized:,} record{plural} passed over, no key of Connect")
    return reading


def shown_group(group: Group) -> str:
    """Name of a group for people."""
    return PLAIN if group is None else group


def get_groups(arguments: argparse.Namespace, out: Output) -> int:
    """``get groups``."""
    reading = _read(arguments, out, also=(_CONFIG, _STATUS, _OFFSET), every_group=True)
    rows: list[dict[str, Any]] = []
    for group in reading.groups():
        row: dict[str, Any] = {"group": group, "records": {}}
        for topic_type, found in reading.topics().items():
            row["records"][topic_type.value] = found.records.get(group, 0)
        if reading.config is not None:
            state = reading.config.groups.get(group, ClusterConfigState())
            row |= {
                "connectors": len(state.connectors()),
                "tasks": sum(len(state.tasks(name)) for name in state.connectors()),
                "config_position": state.offset,
            }
        if reading.offset is not None:
            offsets = reading.offset.groups.get(group)
            row["source_partitions"] = (
                0 if offsets is None else sum(len(offsets.partitions(name)) for name in offsets.connectors())
            )
        rows.append(row)
    if out.is_json:
        topics = {kind.value: found for kind, found in reading.topics().items()}
        out.json(
            {
                "groups": rows,
                "topics": {kind: found.topic for kind, found in topics.items()},
                "unrecognized_records": {kind: found.unrecognized for kind, found in topics.items()},
            }
        )
        return 0
    out.table(
        ("GROUP", "CONNECTORS", "TASKS", "SOURCE PARTITIONS", "RECORDS"),
        [
            (
                shown_group(row["group"]),
                row.get("connectors"),
                row.get("tasks"),
                row.get("source_partitions"),
                sum(row["records"].values()),
            )
            for row in rows
        ],
    )
    return 0


def _connectors(reading: Reading, name: str | None) -> Iterator[tuple[Group, str, ClusterConfigState]]:
    if reading.config is not None:
        for group in reading.groups():
            state = reading.config.groups.get(group)
            for connector in sorted(state.connectors()) if state is not None else ():
                if state is not None and name in (None, connector):
                    yield group, connector, state


def _connector_status(reading: Reading, group: Group, connector: str) -> ConnectorStatus | None:
    snapshot = reading.status.groups.get(group) if reading.status is not None else None
    return None if snapshot is None else snapshot.connector_status(connector)


def _task_statuses(reading: Reading, group: Group, connector: str) -> dict[int, TaskStatus]:
    snapshot = reading.status.groups.get(group) if reading.status is not None else None
    return {} if snapshot is None else {status.task_id.task: status for status in snapshot.task_statuses(connector)}


def _status_members(status: ConnectorStatus | TaskStatus | None) -> dict[str, Any]:
    if status is None:
        return {"state": None, "worker_id": None, "generation": None, "version": None, "has_trace": False}
    return {
        "state": status.state.name,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
        "has_trace": status.trace is not None,
    }


def _connector_members(reading: Reading, group: Group, connector: str, state: ClusterConfigState) -> dict[str, Any]:
    return {
        "group": group,
        "connector": connector,
        "target_state": (state.target_state(connector) or TargetState.STARTED).name,
        "task_count": state.task_count(connector),
        "consistent": connector not in state.inconsistent_connectors(),
        **_status_members(_connector_status(reading, group, connector)),
    }


def get_connectors(arguments: argparse.Namespace, out: Output) -> int:
    """``get connectors``."""
    reading = _read(arguments, out, needed=(_CONFIG,), also=(_STATUS,))
    rows = [_connector_members(reading, *found) for found in _connectors(reading, arguments.connector)]
    if out.is_json:
        out.json({"connectors": rows})
        return 0
    out.table(
        ("GROUP", "CONNECTOR", "TARGET", "STATE", "TASKS", "WORKER"),
        [
            (
                shown_group(row["group"]),
                row["connector"],
                row["target_state"],
                row["state"],
                row["task_count"] if row["consistent"] else f"{row['task_count']} (inconsistent)",
                row["worker_id"],
            )
            for row in rows
        ],
    )
    return 0


def _task_members(reading: Reading, group: Group, connector: str, state: ClusterConfigState) -> list[dict[str, Any]]:
    statuses = _task_statuses(reading, group, connector)
    numbers = {task.task for task in state.tasks(connector)}
    return [
        {
            "group": group,
            "connector": connector,
            "task": number,
            "configured": number in numbers,
            **_status_members(statuses.get(number)),
        }
        for number in sorted(numbers | set(statuses))
    ]


def get_tasks(arguments: argparse.Namespace, out: Output) -> int:
    """``get tasks``: those configured, and those that only have a status."""
    reading = _read(arguments, out, needed=(_CONFIG,), also=(_STATUS,))
    rows = [row for found in _connectors(reading, arguments.connector) for row in _task_members(reading, *found)]
    if out.is_json:
        out.json({"tasks": rows})
        return 0
    out.table(
        ("GROUP", "CONNECTOR", "TASK", "STATE", "WORKER", "GENERATION", "VERSION"),
        [
            (
                shown_group(row["group"]),
                row["connector"],
                row["task"],
                row["state"] if row["configured"] else f"{row['state']} (not configured)",
                row["worker_id"],
                row["generation"],
                row["version"],
            )
            for row in rows
        ],
    )
    return 0


def _offset_members(reading: Reading, group: Group, connector: str) -> list[dict[str, Any]]:
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


def get_offsets(arguments: argparse.Namespace, out: Output) -> int:
    """``get offsets``: the offsets themselves are what is asked for, so they are shown."""
    reading = _read(arguments, out, needed=(_OFFSET,))
    rows = [
        row
        for group, snapshot in sorted(
            (reading.offset.groups if reading.offset is not None else {}).items(),
            key=lambda item: (item[0] is not None, item[0] or ""),
        )
        for connector in sorted(snapshot.connectors())
        if arguments.connector in (None, connector)
        for row in _offset_members(reading, group, connector)
    ]
    if out.is_json:
        out.json({"offsets": rows})
        return 0
    out.table(
        ("GROUP", "CONNECTOR", "PARTITION", "OFFSET"),
        [(shown_group(row["group"]), row["connector"], _json(row["partition"]), _json(row["offset"])) for row in rows],
    )
    return 0


def _json(value: Any) -> str:
    return dumps(value).decode("utf-8", "backslashreplace")


def get_statuses(arguments: argparse.Namespace, out: Output) -> int:
    """``get statuses``: as written, also those of connectors that are gone."""
    reading = _read(arguments, out, needed=(_STATUS,))
    rows: list[dict[str, Any]] = []
    for group in reading.groups():
        snapshot = reading.status.groups.get(group) if reading.status is not None else None
        if snapshot is None:
            continue
        for connector in sorted(snapshot.connectors() | snapshot.connectors_with_tasks()):
            if arguments.connector not in (None, connector):
                continue
            own = snapshot.connector_status(connector)
            statuses: list[tuple[int | None, ConnectorStatus | TaskStatus]] = [] if own is None else [(None, own)]
            statuses += [(status.task_id.task, status) for status in snapshot.task_statuses(connector)]
            for task, status in statuses:
                row = {"group": group, "connector": connector, "task": task, **_status_members(status)}
                if arguments.show_values:
                    row["trace"] = status.trace
                rows.append(row)
    if out.is_json:
        out.json({"statuses": rows})
        return 0
    headers = ["GROUP", "CONNECTOR", "TASK", "STATE", "WORKER", "GENERATION", "VERSION", "TRACE"]
    out.table(
        headers,
        [
            (
                shown_group(row["group"]),
                row["connector"],
                row["task"],
                row["state"],
                row["worker_id"],
                row["generation"],
                row["version"],
                row.get("trace") or ("yes" if row["has_trace"] else None),
            )
            for row in rows
        ],
    )
    return 0


def describe_connector(arguments: argparse.Namespace, out: Output) -> int:
    """``describe connector``: in every group asked for that has it.

    Raises:
        ConnectShareError: no group has it.
    """
    reading = _read(arguments, out, needed=(_CONFIG,), also=(_STATUS, _OFFSET))
    found = [
        _description(reading, group, connector, state, show_values=arguments.show_values)
        for group, connector, state in _connectors(reading, arguments.connector)
    ]
    if not found:
        known = ", ".join(shown_group(group) for group in reading.groups()) or "none with records"
        raise ConnectShareError(
            f"no connector {arguments.connector!r} (groups looked at: {known}); get connectors lists those there are"
        )
    if out.is_json:
        out.json({"connectors": found})
        return 0
    for number, description in enumerate(found):
        if number:
            out.lines("")
        out.lines(*_description_lines(description))
    return 0


def _shown(config: dict[str, str] | None, show_values: bool) -> dict[str, Any] | None:
    """Give a configuration by sorted names; values only if asked for."""
    if config is None:
        return None
    return {name: config[name] if show_values else HIDDEN for name in sorted(config)}


def _description(
    reading: Reading, group: Group, connector: str, state: ClusterConfigState, *, show_values: bool
) -> dict[str, Any]:
    snapshot = reading.status.groups.get(group) if reading.status is not None else None
    status = _connector_status(reading, group, connector)
    tasks = _task_members(reading, group, connector, state)
    statuses = _task_statuses(reading, group, connector)
    for task in tasks:
        del task["group"], task["connector"]
        task["config"] = _shown(state.task_config(ConnectorTaskId(connector, task["task"])), show_values)
        if show_values:
            task_status = statuses.get(task["task"])
            task["trace"] = None if task_status is None else task_status.trace
    described = {
        **_connector_members(reading, group, connector, state),
        "config": _shown(state.connector_config(connector), show_values),
        "tasks": tasks,
        "task_count_record": state.task_count_record(connector),
        "active_topics": None if reading.status is None else sorted(snapshot.topics(connector)) if snapshot else [],
    }
    if show_values:
        described["trace"] = None if status is None else status.trace
    if reading.offset is not None:
        described["offsets"] = [
            {"partition": row["partition"], "offset": row["offset"] if show_values else HIDDEN}
            for row in _offset_members(reading, group, connector)
        ]
    return described


_INDENT: Final = "  "


def _description_lines(described: dict[str, Any]) -> Iterator[str]:
    yield f"connector:     {described['connector']}"
    yield f"group:         {shown_group(described['group'])}"
    yield f"target state:  {described['target_state']}"
    yield f"state:         {_state_text(described)}"
    if not described["consistent"]:
        yield "tasks:         inconsistent: compaction has taken some task configurations of the last commit"
    yield from _trace_lines(described, "")
    yield "configuration:"
    for name, value in (described["config"] or {}).items():
        yield f"{_INDENT}{name} = {value}"
    yield f"tasks:         {described['task_count']}"
    for task in described["tasks"]:
        extra = "" if task["configured"] else " (not configured)"
        yield f"{_INDENT}{task['task']}: {_state_text(task)}{extra}"
        for name, value in (task["config"] or {}).items():
            yield f"{_INDENT * 2}{name} = {value}"
        yield from _trace_lines(task, _INDENT)
    if described["active_topics"] is not None:
        yield f"active topics: {len(described['active_topics'])}"
        for topic in described["active_topics"]:
            yield f"{_INDENT}{topic}"
    if "offsets" in described:
        yield f"offsets:       {len(described['offsets'])}"
        for row in described["offsets"]:
            offset = row["offset"]
            yield f"{_INDENT}{_json(row['partition'])} -> {offset if offset == HIDDEN else _json(offset)}"


def _state_text(row: dict[str, Any]) -> str:
    if row["state"] is None:
        return "unknown"
    parts = [str(row["state"])]
    if row["worker_id"]:
        parts.append(f"on {row['worker_id']}")
    parts.append(f"(generation {row['generation']}{', version ' + row['version'] if row['version'] else ''})")
    if row["has_trace"] and "trace" not in row:
        parts.append("with a trace, --show-values shows it")
    return " ".join(parts)


def _trace_lines(row: dict[str, Any], indent: str) -> Iterator[str]:
    if row.get("trace"):
        yield f"{indent}trace:"
        for line in str(row["trace"]).splitlines():
            yield f"{indent}{_INDENT}{line}"
