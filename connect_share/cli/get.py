"""``get``: lists of groups, connectors, tasks, offsets and statuses."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from connect_share.cli.contents import Contents, read_topics
from connect_share.cli.options import Nouns, add_topics, topic_set_of
from connect_share.cli.rows import (
    SEALED,
    connector_row,
    connectors_of,
    json_text_of,
    offset_connectors,
    offset_rows,
    status_connectors,
    status_members,
    task_rows,
    task_statuses,
)
from connect_share.cli.seal_counts import SealCount, total
from connect_share.console import (
    DEFAULT_TIMEOUT_S,
    PLAIN,
    Group,
    Output,
    Parser,
    add_output,
    groups_of,
    plural,
    shown_group,
)
from connect_share.errors import ConnectShareError
from connect_share.keys import StatusKey
from connect_share.records import TopicType
from connect_share.state import ConnectorStatus, TaskStatus
from connect_share.worker_config import TopicSet

_CONFIG, _STATUS, _OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET
_SHOWN_GROUPS: Final = 20

_Row = dict[str, Any]
_Columns = Mapping[str, str | Callable[[_Row], object]]
"""For each header the member of a row, or what makes a cell of the row."""


def add_to(nouns: Nouns) -> None:
    """Add the nouns of ``get``."""
    for noun, (run, text) in _NOUNS.items():
        parser = nouns.add_parser(noun, help=text, description=f"List {text}.")
        add_contents_options(parser, noun)
        parser.set_defaults(run=run)


def add_contents_options(parser: Parser, noun: str) -> None:
    """Add where the topics are and what of them is shown."""
    add_topics(parser)
    what = parser.add_argument_group("what is shown")
    of_groups = noun == "groups"
    what.add_argument(
        "--group",
        dest="groups",
        metavar="ID",
        action="append",
        help=f"only this cluster group, may be repeated; {PLAIN} is the cluster with plain keys; "
        + ("every group by default" if of_groups else "with a worker file: its own group by default"),
    )
    every = "as by default" if of_groups else "also with a worker file"
    what.add_argument("--all-groups", action="store_true", help=f"every group, {every}")
    if noun in ("connectors", "tasks", "offsets", "statuses"):
        what.add_argument("--connector", metavar="NAME", help="only this connector")
    if noun in ("connector", "statuses"):
        what.add_argument(
            "--show-values", action="store_true", help="show traces, offsets, and values that may be secrets"
        )
    add_output(parser, DEFAULT_TIMEOUT_S)


def read_contents(
    arguments: argparse.Namespace,
    out: Output,
    *,
    needed: Sequence[TopicType] = (),
    also: Sequence[TopicType] = (),
    every_group: bool = False,
) -> Contents:
    """Read the topics a command needs, and print notes about them on stderr."""
    topic_set = topic_set_of(arguments, needed)
    wanted = [topic_type for topic_type in (*needed, *also) if topic_type in topic_set.topics]
    groups: Collection[Group] | None = groups_of(arguments.groups)
    if groups is None and not arguments.all_groups and not every_group:
        groups = topic_set.worker_group
    contents = read_topics(topic_set, wanted, groups=groups, timeout_s=arguments.timeout)
    if arguments.groups:
        _refuse_unknown(set(groups or ()) - set(contents.groups()), topic_set, arguments.timeout)
    for topic in contents.topics.values():
        for note in topic.notes:
            out.note(note)
        if topic.unrecognized:
            out.note(f"{topic.topic}: {plural(topic.unrecognized, 'record')} ignored: their keys are not Connect's")
    return contents


def _refuse_unknown(unknown: set[Group], topic_set: TopicSet, timeout_s: float) -> None:
    """Refuse groups that were named and have no record in any topic; one may have none in those that were read."""
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


def _table(out: Output, rows: Sequence[_Row], columns: _Columns) -> None:
    cells = [[row[column] if isinstance(column, str) else column(row) for column in columns.values()] for row in rows]
    out.table(list(columns), cells)


def _show(out: Output, what: str, rows: Sequence[_Row], columns: _Columns) -> int:
    if out.is_json:
        out.json({what: rows})
        return 0
    _table(out, rows, {"GROUP": _group, **columns})
    if not rows:
        out.note(f"no {what} were found")
    return 0


def _group(row: _Row) -> str:
    return shown_group(row["group"])


_STATUS_COLUMNS: Final = {"WORKER": "worker_id", "GENERATION": "generation", "VERSION": "version"}


def _unless_sealed(row: _Row, member: str) -> object:
    """Return a member that is ``None`` where values cannot be opened."""
    return SEALED if member in row and row[member] is None else row.get(member)


def get_groups(arguments: argparse.Namespace, out: Output) -> int:
    """List the groups."""
    contents = read_contents(arguments, out, also=(_CONFIG, _STATUS, _OFFSET), every_group=True)
    rows: list[_Row] = []
    seals: dict[Group, SealCount] = {}
    topics = {topic_type.value: topic for topic_type, topic in contents.topics.items()}
    for group in contents.groups():
        row: _Row = {"group": group, "records": {kind: topic.records.get(group, 0) for kind, topic in topics.items()}}
        if _CONFIG in contents.topics:
            state = contents.config_of(group)
            known = group not in contents.topics[_CONFIG].sealed
            row["connectors"] = len(state.connectors()) if known else None
            row["tasks"] = sum(len(state.tasks(name)) for name in state.connectors()) if known else None
            row["config_position"] = state.offset if known else None
        if _OFFSET in contents.topics:
            offsets = contents.offsets_of(group)
            partitions = sum(len(offsets.partitions(name)) for name in offsets.connectors())
            row["source_partitions"] = None if group in contents.topics[_OFFSET].sealed else partitions
        seals[group] = total(topic.seals[group] for topic in topics.values() if group in topic.seals)
        rows.append({**row, **seals[group].members()})
    if out.is_json:
        out.json(
            {
                "groups": rows,
                "topics": {kind: topic.topic for kind, topic in topics.items()},
                "unrecognized_records": {kind: topic.unrecognized for kind, topic in topics.items()},
            }
        )
        return 0
    columns: _Columns = {
        "GROUP": _group,
        "CONNECTORS": lambda row: _unless_sealed(row, "connectors"),
        "TASKS": lambda row: _unless_sealed(row, "tasks"),
        "SOURCE PARTITIONS": lambda row: _unless_sealed(row, "source_partitions"),
        "RECORDS": lambda row: sum(row["records"].values()),
        "KEY": lambda row: seals[row["group"]].short(),
    }
    _table(out, rows, columns)
    return 0


def _task_count(row: _Row) -> object:
    if row["consistent"] is None:
        return SEALED
    return row["task_count"] if row["consistent"] else f"{row['task_count']} (inconsistent)"


def get_connectors(arguments: argparse.Namespace, out: Output) -> int:
    """List the connectors."""
    contents = read_contents(arguments, out, needed=(_CONFIG,), also=(_STATUS,))
    rows = [connector_row(contents, *found) for found in connectors_of(contents, arguments.connector)]
    columns: _Columns = {
        "CONNECTOR": "connector",
        "TARGET": "target_state",
        "STATE": "state",
        "TASKS": _task_count,
        "WORKER": "worker_id",
    }
    return _show(out, "connectors", rows, columns)


def get_tasks(arguments: argparse.Namespace, out: Output) -> int:
    """List the tasks: those configured, and those that only have a status."""
    contents = read_contents(arguments, out, needed=(_CONFIG,), also=(_STATUS,))
    rows = [row for found in connectors_of(contents, arguments.connector) for row in task_rows(contents, *found)]
    columns: _Columns = {
        "CONNECTOR": "connector",
        "TASK": "task",
        "STATE": lambda row: f"{row['state']} (not configured)" if row["configured"] is False else row["state"],
        **_STATUS_COLUMNS,
    }
    return _show(out, "tasks", rows, columns)


def get_offsets(arguments: argparse.Namespace, out: Output) -> int:
    """List the source offsets: they are what is asked for, so they are shown."""
    contents = read_contents(arguments, out, needed=(_OFFSET,))
    rows = [
        row
        for group in contents.groups()
        for connector in offset_connectors(contents, group)
        if arguments.connector in (None, connector)
        for row in offset_rows(contents, group, connector)
    ]
    columns: _Columns = {
        "CONNECTOR": "connector",
        "PARTITION": lambda row: json_text_of(row["partition"]),
        "OFFSET": lambda row: SEALED if row["offset"] == SEALED else json_text_of(row["offset"]),
    }
    return _show(out, "offsets", rows, columns)


def get_statuses(arguments: argparse.Namespace, out: Output) -> int:
    """List the statuses as written, also those of connectors that are gone."""
    contents = read_contents(arguments, out, needed=(_STATUS,))
    rows: list[_Row] = []
    for group in contents.groups():
        snapshot, sealed = contents.status_of(group), contents.is_sealed(_STATUS, group)
        for connector in status_connectors(contents, group):
            if arguments.connector not in (None, connector):
                continue
            own = snapshot.connector_status(connector)
            named = sealed and connector in contents.named(_STATUS, group).get(StatusKey.CONNECTOR, {})
            statuses: dict[int | None, ConnectorStatus | TaskStatus | None] = {}
            if own is not None or named:
                statuses[None] = own
            tasks = task_statuses(contents, group, connector)
            statuses |= {task: tasks[task] for task in sorted(tasks)}
            for task, status in statuses.items():
                row = {"group": group, "connector": connector, "task": task, **status_members(status, sealed=sealed)}
                if arguments.show_values:
                    row["trace"] = None if status is None else status.trace
                rows.append(row)
    columns: _Columns = {
        "CONNECTOR": "connector",
        "TASK": "task",
        "STATE": "state",
        **_STATUS_COLUMNS,
        "TRACE": lambda row: row.get("trace") or ("yes" if row["has_trace"] else None),
    }
    return _show(out, "statuses", rows, columns)


_NOUNS: Final = {
    "groups": (get_groups, "cluster groups, and how much each has in the topics"),
    "connectors": (get_connectors, "connectors with target state, state and number of tasks"),
    "tasks": (get_tasks, "tasks with state and worker"),
    "offsets": (
        get_offsets,
        "source offsets by connector and source partition (offset values are shown)",
    ),
    "statuses": (get_statuses, "statuses of connectors and tasks as they were written"),
}
