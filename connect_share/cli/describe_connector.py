"""``describe connector``: everything the topics say of one connector."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from connect_share.cli.contents import Contents
from connect_share.cli.get import add_contents_options, read_contents
from connect_share.cli.options import Nouns
from connect_share.cli.rows import (
    connector_row,
    connectors_of,
    json_text_of,
    offset_rows,
    task_rows,
    task_statuses,
)
from connect_share.console import Group, Output, shown_group
from connect_share.errors import ConnectShareError
from connect_share.records import ConnectorTaskId, TopicType
from connect_share.state import ClusterConfigState
from connect_share.worker_config.secret_values import is_to_be_hidden

HIDDEN: Final = "[hidden]"
_INDENT: Final = "  "


def add_to(nouns: Nouns) -> None:
    """Add ``describe connector``."""
    parser = nouns.add_parser("connector", help="configuration, statuses, active topics and offsets of a connector")
    parser.add_argument("connector", metavar="NAME", help="name of the connector")
    add_contents_options(parser, "connector")
    parser.set_defaults(run=describe_connector)


def describe_connector(arguments: argparse.Namespace, out: Output) -> int:
    """Describe the connector in every group asked for that has it.

    Raises:
        ConnectShareError: no group has it.
    """
    contents = read_contents(arguments, out, needed=(TopicType.CONFIG,), also=(TopicType.STATUS, TopicType.OFFSET))
    found = [
        _description(contents, group, connector, state, show_values=arguments.show_values)
        for group, connector, state in connectors_of(contents, arguments.connector)
    ]
    if not found:
        known = ", ".join(shown_group(group) for group in contents.groups()) or "none with records"
        raise ConnectShareError(
            f"no connector {arguments.connector!r} (groups checked: {known}); get connectors lists all connectors"
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
    """Return a configuration by sorted names; possible secrets only if asked for."""
    if config is None:
        return None
    return {
        name: value if show_values or not is_to_be_hidden(name, value) else HIDDEN
        for name, value in sorted(config.items())
    }


def _description(
    contents: Contents, group: Group, connector: str, state: ClusterConfigState, *, show_values: bool
) -> dict[str, Any]:
    snapshot = contents.status_of(group)
    status = snapshot.connector_status(connector)
    tasks = task_rows(contents, group, connector, state)
    statuses = task_statuses(contents, group, connector)
    for task in tasks:
        del task["group"], task["connector"]
        task["config"] = _shown(state.task_config(ConnectorTaskId(connector, task["task"])), show_values)
        if show_values:
            task_status = statuses.get(task["task"])
            task["trace"] = None if task_status is None else task_status.trace
    described = {
        **connector_row(contents, group, connector, state),
        "config": _shown(state.connector_config(connector), show_values),
        "tasks": tasks,
        "task_count_record": state.task_count_record(connector),
        "active_topics": sorted(snapshot.topics(connector)) if TopicType.STATUS in contents.topics else None,
    }
    if show_values:
        described["trace"] = None if status is None else status.trace
    if TopicType.OFFSET in contents.topics:
        described["offsets"] = [
            {"partition": row["partition"], "offset": row["offset"] if show_values else HIDDEN}
            for row in offset_rows(contents, group, connector)
        ]
    return described


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
            yield f"{_INDENT}{json_text_of(row['partition'])} -> {offset if offset == HIDDEN else json_text_of(offset)}"


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
