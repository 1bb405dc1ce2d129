"""``describe``: what the topics hold of one group, and everything they say of one connector."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from typing import Any, Final

from connect_share.cli.get import (
    SEALED,
    Reading,
    add_contents_options,
    connector_row,
    connectors_of,
    failures_first,
    json_text_of,
    offset_rows,
    task_rows,
    task_statuses,
)
from connect_share.console.options import PLAIN, Group, Parser, add_topics, groups_of, named_groups, shown_group
from connect_share.console.output import Output, Result, plural
from connect_share.console.program import Command
from connect_share.contents.groups import Contents
from connect_share.errors import ConnectShareError
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.records import ConnectorTaskId, TopicType, shown_time
from connect_share.model.status import ConnectorStatus, TaskStatus
from connect_share.sealing import KEYS_PROPERTY
from connect_share.worker_config.secret_values import HIDDEN, is_to_be_hidden, without_secrets

_OPENS: Final = f"opens with:    {KEYS_PROPERTY} in the worker file of the group; give it with -w FILE"
_CLAIMS: Final = "              the ids are what the records claim: without the keys it is not known who wrote them"
_INDENT: Final = "  "


def _add_group(parser: Parser) -> None:
    parser.add_argument("group", metavar="ID", help=f"the cluster group; {PLAIN} is the cluster with plain keys")
    add_topics(parser)
    parser.set_defaults(all_groups=False)


def _describe_group(arguments: argparse.Namespace, out: Output) -> Result:
    arguments.groups = [arguments.group]
    contents = Reading(arguments, also=tuple(TopicType)).once(out)
    (group,) = groups_of(arguments.groups) or ()
    described = _group_members(contents, group)
    return Result(described, _group_lines(contents, described))


def _group_members(contents: Contents, group: Group) -> dict[str, Any]:
    described: dict[str, Any] = {
        "group": group,
        "topics": [
            {
                "type": topic_type.value,
                "topic": topic.topic,
                "last_written_ms": contents.written_ms(topic_type, group),
                **topic.seals[group].members(),
            }
            for topic_type, topic in contents.topics.items()
            if group in topic.seals
        ],
    }
    if TopicType.CONFIG in contents.topics:
        described["connectors"] = sorted(
            (connector_row(contents, *found) for found in connectors_of(contents, None)), key=failures_first
        )
    if any(group in topic.sealed for topic in contents.topics.values()):
        described["opens_with"] = KEYS_PROPERTY
    return described


def _group_lines(contents: Contents, described: dict[str, Any]) -> Iterator[str]:
    group = described["group"]
    yield f"group:         {shown_group(group)}"
    for topic_type, topic in contents.topics.items():
        if group in topic.seals:
            count = topic.seals[group]
            title = f"{topic_type.value} topic:"
            yield f"{title:<15}{topic.topic}, {plural(count.records, 'record')}: {count.detail()}"
            if group in topic.sealed:
                yield _CLAIMS
            yield f"               last written {shown_time(contents.written_ms(topic_type, group)) or 'unknown'}"
    if "connectors" in described:
        yield f"connectors:    {len(described['connectors'])}"
        for row in described["connectors"]:
            yield f"  {row['connector']}: {row['state'] or 'unknown'}"
    if "opens_with" in described:
        yield _OPENS


def _add_connector(parser: Parser) -> None:
    parser.add_argument("connector", metavar="NAME", help="name of the connector")
    add_contents_options(parser, "connector")
    parser.add_argument(
        "--show-traces",
        action="store_true",
        help="show traces, with values of the connector's configuration that may be secrets hidden in them",
    )


def _describe_connector(arguments: argparse.Namespace, out: Output) -> Result:
    """Describe the connector in every group asked for that has it."""
    reading = Reading(arguments, (TopicType.CONFIG,), (TopicType.STATUS, TopicType.OFFSET))
    contents, worker = reading.once(out), reading.topic_set.worker
    rows = partial(offset_rows, contents, worker=worker, note=out.note)
    found = [_connector_members(contents, of, rows, arguments) for of in connectors_of(contents, arguments.connector)]
    if not found:
        raise ConnectShareError(
            f"no connector {arguments.connector!r} (groups checked: {named_groups(contents.groups())}); get "
            "connectors lists all connectors"
        )
    lines = [line for each in found for line in ("", *_connector_lines(each))]
    return Result({"connectors": found}, lines[1:])


def _shown(config: dict[str, str] | None, show_values: bool, *, sealed: bool) -> dict[str, Any] | str | None:
    """Return a configuration by sorted names; possible secrets only if asked for."""
    if sealed or config is None:
        return SEALED if sealed else None
    return {
        name: value if show_values or not is_to_be_hidden(name, value) else HIDDEN
        for name, value in sorted(config.items())
    }


def _connector_members(
    contents: Contents,
    of: tuple[Group, str, ClusterConfigState],
    rows_of: Callable[[Group, str], list[dict[str, Any]]],
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    (group, connector, state), show_values = of, arguments.show_values
    snapshot = contents.status_of(group)
    status = snapshot.connector_status(connector)
    own = state.connector_config(connector)

    def with_trace(
        row: dict[str, Any], status: ConnectorStatus | TaskStatus | None, *configs: dict[str, str] | None
    ) -> None:
        if show_values or arguments.show_traces:
            trace = None if status is None else status.trace
            row["trace"] = trace if show_values or trace is None else without_secrets(trace, configs)

    tasks = task_rows(contents, group, connector, state)
    statuses = task_statuses(contents, group, connector)
    sealed = {topic_type for topic_type in contents.topics if contents.is_sealed(topic_type, group)}
    config_sealed = TopicType.CONFIG in sealed
    for task in tasks:
        del task["group"], task["connector"]
        config = state.task_config(ConnectorTaskId(connector, task["task"]))
        task["config"] = _shown(config, show_values, sealed=config_sealed)
        with_trace(task, statuses.get(task["task"]), own, config)
    described = {
        **connector_row(contents, group, connector, state),
        "config": _shown(own, show_values, sealed=config_sealed),
        "tasks": tasks,
        "task_count_record": state.task_count_record(connector),
        "active_topics": sorted(snapshot.topics(connector)) if TopicType.STATUS in contents.topics else None,
    }
    if TopicType.STATUS in sealed:
        described["active_topics"] = SEALED
    if sealed:
        described["opens_with"] = KEYS_PROPERTY
        described["newest_records"] = list(_newest_records(contents, group, connector))
    with_trace(described, status, own)
    if TopicType.OFFSET in contents.topics:
        described["offsets"] = [
            {
                "partition": row["partition"],
                "offset": row["offset"] if show_values or row["offset"] == SEALED else HIDDEN,
                "written_ms": row["written_ms"],
            }
            for row in rows_of(group, connector)
        ]
    return described


def _newest_records(contents: Contents, group: Group, connector: str) -> Iterator[dict[str, Any]]:
    """Yield what records tell of whose values cannot be opened; offsets have their own rows."""
    for topic_type in (TopicType.CONFIG, TopicType.STATUS):
        for kind, connectors in contents.named(topic_type, group).items():
            for part, newest in connectors.get(connector, {}).items():
                yield {
                    "topic": contents.topics[topic_type].topic,
                    "kind": kind.label,
                    "of": part,
                    "size": newest.size,
                    "timestamp_ms": newest.timestamp_ms,
                }


def _connector_lines(described: dict[str, Any]) -> Iterator[str]:
    yield f"connector:     {described['connector']}"
    yield f"group:         {shown_group(described['group'])}"
    yield f"target state:  {described['target_state']}"
    yield f"state:         {_state_text(described)}"
    if described["consistent"] is False:
        yield "tasks:         inconsistent: compaction has taken some task configurations of the last commit"
    yield from _written_lines(described)
    yield from _trace_lines(described, "")
    yield from _config_lines("configuration:", described["config"], _INDENT)
    yield f"tasks:         {SEALED if described['config'] == SEALED else described['task_count']}"
    for task in described["tasks"]:
        extra = " (not configured)" if task["configured"] is False else ""
        yield f"{_INDENT}{task['task']}: {_state_text(task)}{extra}{_written(task['status_written_ms'])}"
        yield from _config_lines("", task["config"], _INDENT * 2)
        yield from _trace_lines(task, _INDENT)
    if described["active_topics"] == SEALED:
        yield f"active topics: {SEALED}"
    elif described["active_topics"] is not None:
        yield f"active topics: {len(described['active_topics'])}"
        for topic in described["active_topics"]:
            yield f"{_INDENT}{topic}"
    if "offsets" in described:
        yield f"offsets:       {len(described['offsets'])}"
        for row in described["offsets"]:
            offset = row["offset"]
            shown = offset if offset in (HIDDEN, SEALED) else json_text_of(offset)
            yield f"{_INDENT}{json_text_of(row['partition'])} -> {shown}{_written(row['written_ms'])}"
    if "opens_with" in described:
        yield "newest records:"
        for record in described["newest_records"]:
            part = "" if record["of"] is None else f" {record['of']}"
            yield f"{_INDENT}{record['kind']}{part}: {plural(record['size'], 'byte')}, {shown_time(record['timestamp_ms'])}"
        yield _OPENS


def _written_lines(described: dict[str, Any]) -> Iterator[str]:
    times = {
        "configuration": described["config_written_ms"],
        "target state": described["target_state_written_ms"],
        "status": described["status_written_ms"],
        "offsets": max((row["written_ms"] or 0 for row in described.get("offsets", ())), default=0) or None,
    }
    known = [f"{what:<14} {shown_time(at_ms)}" for what, at_ms in times.items() if at_ms is not None]
    for title, text in zip_longest(("last written:",), known or ["unknown"], fillvalue=""):
        yield f"{title:<15}{text}"


def _written(at_ms: int | None) -> str:
    return "" if at_ms is None else f", written {shown_time(at_ms)}"


def _config_lines(title: str, config: dict[str, Any] | str | None, indent: str) -> Iterator[str]:
    if isinstance(config, str):
        yield f"{title:<15}{config}" if title else f"{indent}{config}"
        return
    if title:
        yield title
    for name, value in (config or {}).items():
        yield f"{indent}{name} = {value}"


def _state_text(row: dict[str, Any]) -> str:
    if row["state"] in (None, SEALED):
        return row["state"] or "unknown"
    parts = [str(row["state"])]
    if row["worker_id"]:
        parts.append(f"on {row['worker_id']}")
    parts.append(f"(generation {row['generation']}{', version ' + row['version'] if row['version'] else ''})")
    if row["has_trace"] and "trace" not in row:
        parts.append("with a trace, --show-traces shows it")
    return " ".join(parts)


def _trace_lines(row: dict[str, Any], indent: str) -> Iterator[str]:
    if row.get("trace"):
        yield f"{indent}trace:"
        for line in str(row["trace"]).expandtabs(4).splitlines():
            yield f"{indent}{_INDENT}{line}"


COMMANDS: Final = [
    Command(
        "describe group",
        _describe_group,
        "records, keys and connectors of a group",
        examples=["connect-share describe group com.acme.orders -w worker.properties"],
        options=_add_group,
    ),
    Command(
        "describe connector",
        _describe_connector,
        "configuration, statuses, active topics and offsets of a connector",
        examples=[
            "connect-share describe connector orders.sink -w worker.properties",
            "connect-share describe connector orders.sink -w worker.properties --show-traces",
        ],
        options=_add_connector,
    ),
]
