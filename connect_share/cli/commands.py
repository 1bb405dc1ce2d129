"""The commands that list: arguments and an output in, exit code out."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from connect_share.cli.arguments import topic_set_of
from connect_share.cli.reading import PLAIN, Group, Reading, read_topics
from connect_share.cli.rows import (
    connector_members,
    connectors_of,
    json_text_of,
    offset_members,
    shown_group,
    status_members,
    task_members,
)
from connect_share.console import Output
from connect_share.errors import ConnectShareError
from connect_share.keys import ClusterGroupId
from connect_share.records import TopicType
from connect_share.state import ClusterConfigState, ConnectorStatus, TaskStatus
from connect_share.worker_config import TopicSet

_CONFIG, _STATUS, _OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET
_SHOWN_GROUPS: Final = 20


def _groups_wanted(arguments: argparse.Namespace, topic_set: TopicSet) -> Collection[Group] | None:
    """Which groups are asked for; ``None``: all."""
    if arguments.groups:
        return {None if name == PLAIN else ClusterGroupId(name) for name in arguments.groups}
    return None if arguments.all_groups else topic_set.worker_group


def read(
    arguments: argparse.Namespace,
    out: Output,
    *,
    needed: Sequence[TopicType] = (),
    also: Sequence[TopicType] = (),
    every_group: bool = False,
) -> Reading:
    """Read the topics a command needs, and tell on stderr what the reader should know."""
    topic_set = topic_set_of(arguments, needed)
    wanted = [topic_type for topic_type in (*needed, *also) if topic_type in topic_set.topics]
    groups = _groups_wanted(arguments, topic_set)
    if every_group and not arguments.groups:
        groups = None
    reading = read_topics(topic_set, wanted, groups=groups, timeout_s=arguments.timeout)
    if arguments.groups:
        _refuse_unknown(set(groups or ()) - set(reading.groups()), topic_set, arguments.timeout)
    for found in reading.topics().values():
        for note in found.notes:
            out.note(note)
        if found.unrecognized:
            plural = "" if found.unrecognized == 1 else "s"
            out.note(f"{found.topic}: {found.unrecognized:,} record{plural} passed over, no key of Connect")
    return reading


def _refuse_unknown(unknown: set[Group], topic_set: TopicSet, timeout_s: float) -> None:
    """Refuse groups that were named and have no record in any topic; one may have none in those that were read.

    Raises:
        ConnectShareError: it says which groups there are.
    """
    if not unknown:
        return
    there = read_topics(topic_set, list(topic_set.topics), timeout_s=timeout_s).groups()
    unknown -= set(there)
    if unknown:
        shown = [shown_group(group) for group in there]
        more = f" and {len(shown) - _SHOWN_GROUPS} more" if len(shown) > _SHOWN_GROUPS else ""
        raise ConnectShareError(
            f"there is no group {' and no group '.join(sorted(map(shown_group, unknown)))} in "
            f"{', '.join(topic_set.topics.values())}; there are: {', '.join(shown[:_SHOWN_GROUPS]) or 'none'}{more}"
        )


def _show(
    out: Output,
    what: str,
    rows: Sequence[dict[str, Any]],
    headers: Sequence[str],
    cells: Callable[[dict[str, Any]], Sequence[object]],
) -> int:
    """Print rows in the form asked for; gives the exit code."""
    if out.is_json:
        out.json({what: rows})
        return 0
    out.table(headers, [cells(row) for row in rows])
    if not rows:
        out.note(f"no {what} were found")
    return 0


def get_groups(arguments: argparse.Namespace, out: Output) -> int:
    """``get groups``."""
    reading = read(arguments, out, also=(_CONFIG, _STATUS, _OFFSET), every_group=True)
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


def get_connectors(arguments: argparse.Namespace, out: Output) -> int:
    """``get connectors``."""
    reading = read(arguments, out, needed=(_CONFIG,), also=(_STATUS,))
    rows = [connector_members(reading, *found) for found in connectors_of(reading, arguments.connector)]
    return _show(
        out,
        "connectors",
        rows,
        ("GROUP", "CONNECTOR", "TARGET", "STATE", "TASKS", "WORKER"),
        lambda row: (
            shown_group(row["group"]),
            row["connector"],
            row["target_state"],
            row["state"],
            row["task_count"] if row["consistent"] else f"{row['task_count']} (inconsistent)",
            row["worker_id"],
        ),
    )


def get_tasks(arguments: argparse.Namespace, out: Output) -> int:
    """``get tasks``: those configured, and those that only have a status."""
    reading = read(arguments, out, needed=(_CONFIG,), also=(_STATUS,))
    rows = [row for found in connectors_of(reading, arguments.connector) for row in task_members(reading, *found)]
    return _show(
        out,
        "tasks",
        rows,
        ("GROUP", "CONNECTOR", "TASK", "STATE", "WORKER", "GENERATION", "VERSION"),
        lambda row: (
            shown_group(row["group"]),
            row["connector"],
            row["task"],
            row["state"] if row["configured"] else f"{row['state']} (not configured)",
            row["worker_id"],
            row["generation"],
            row["version"],
        ),
    )


def get_offsets(arguments: argparse.Namespace, out: Output) -> int:
    """``get offsets``: the offsets themselves are what is asked for, so they are shown."""
    reading = read(arguments, out, needed=(_OFFSET,))
    rows = [
        row
        for group, snapshot in sorted(
            (reading.offset.groups if reading.offset is not None else {}).items(),
            key=lambda item: (item[0] is not None, item[0] or ""),
        )
        for connector in sorted(snapshot.connectors())
        if arguments.connector in (None, connector)
        for row in offset_members(reading, group, connector)
    ]
    return _show(
        out,
        "offsets",
        rows,
        ("GROUP", "CONNECTOR", "PARTITION", "OFFSET"),
        lambda row: (
            shown_group(row["group"]),
            row["connector"],
            json_text_of(row["partition"]),
            json_text_of(row["offset"]),
        ),
    )


def get_statuses(arguments: argparse.Namespace, out: Output) -> int:
    """``get statuses``: as written, also those of connectors that are gone."""
    reading = read(arguments, out, needed=(_STATUS,))
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
                row = {"group": group, "connector": connector, "task": task, **status_members(status)}
                if arguments.show_values:
                    row["trace"] = status.trace
                rows.append(row)
    return _show(
        out,
        "statuses",
        rows,
        ("GROUP", "CONNECTOR", "TASK", "STATE", "WORKER", "GENERATION", "VERSION", "TRACE"),
        lambda row: (
            shown_group(row["group"]),
            row["connector"],
            row["task"],
            row["state"],
            row["worker_id"],
            row["generation"],
            row["version"],
            row.get("trace") or ("yes" if row["has_trace"] else None),
        ),
    )
