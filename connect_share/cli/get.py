"""Contents of the topics as rows: one mapping for each connector, task or source partition, ready for JSON.

``get``: lists of groups, connectors, tasks, offsets and statuses; with ``--watch`` again after each change.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from connect_share.console.options import (
    Group,
    Parser,
    add_groups,
    add_topics,
    group_order,
    groups_asked,
    groups_of,
    named_groups,
    seconds,
    shown_group,
    topic_set_of,
)
from connect_share.console.output import Output, Result, Table, plural
from connect_share.console.program import Command, InterruptionError
from connect_share.contents.groups import Contents, TopicReading, read_topics
from connect_share.contents.seals import SealCount, total
from connect_share.errors import ConnectShareError, TopicRecreatedError, ValueFormatError
from connect_share.kafka.admin import Admin
from connect_share.kafka.read import console_admin
from connect_share.model.config_state import ClusterConfigState, TargetState
from connect_share.model.connect_json import dumps
from connect_share.model.keys import ConfigKey, KeyKind, OffsetKey, StatusKey
from connect_share.model.offsets import parse_offset_key
from connect_share.model.records import TopicType, shown_time
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.stores.alter_offsets import sink_admin, sink_offsets
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.override_policy import is_sink

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
    contents: Contents, group: Group, connector: str, task: int | None, status: ConnectorStatus | TaskStatus | None
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
    statuses, without = contents.status_of(group).task_statuses(connector), 0
    if not contents.is_sealed(TopicType.CONFIG, group) and connector not in state.inconsistent_connectors():
        numbers = range(state.task_count(connector))
        statuses = [status for status in statuses if status.task_id.task in numbers]
        without = len(numbers) - len(statuses)
    return ({UNKNOWN: without} if without else {}) | Counter(status.state.name for status in statuses)


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


def failures_first(row: Mapping[str, Any]) -> int:
    """Return the key that sorts rows: FAILED, also of one task; then UNASSIGNED and inconsistent; then the others."""
    states = {row["state"], *(row.get("task_states") or ())}
    if State.FAILED.name in states:
        return 0
    return 1 if State.UNASSIGNED.name in states or row.get("consistent") is False else 2


def offset_rows(
    contents: Contents, group: Group, connector: str, worker: WorkerConfig | None, note: Callable[[str], object]
) -> list[dict[str, Any]]:
    """Return the rows of a connector's source partitions; with a worker of its group also those of a sink."""
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
    rows.sort(key=lambda row: dumps(row["partition"]))
    config = contents.config_of(group).connector_config(connector) or {}
    if worker is not None and worker.cluster_group_id == group and is_sink(config):
        try:
            with sink_admin(worker, connector, config) as (admin, sinks):
                found = sink_offsets(admin, sinks)
            rows += [{"group": group, "connector": connector, **each, "written_ms": None} for each in found]
        except ConnectShareError as error:
            note(f"the offsets of sink {connector!r} are not shown: {error}")
    return rows


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


_CONFIG, _STATUS, _OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET
STATES: Final = (*(state.name for state in State), UNKNOWN)
_WATCH_S: Final = 2.0
_FIRST: Final = (State.FAILED.name, State.UNASSIGNED.name)
_SPARE: Final = ("VERSION", "URL", "PROTOCOL", "GENERATION", "WORKER", "LAST WRITTEN", "TARGET")
"""Columns that a narrow terminal does without, the first of them first."""

Row = dict[str, Any]
Columns = Mapping[str, str | Callable[[Row], object]]
"""For each header the member of a row, or what makes a cell of the row."""


class Reading:
    """The topics and groups that the arguments ask for, read to their end, and on from there."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        needed: Sequence[TopicType] = (),
        also: Sequence[TopicType] = (),
        *,
        unshown: Collection[KeyKind] = (),
    ) -> None:
        """Read nothing yet; without the topics ``needed`` there is nothing to show, ``also`` are others of use."""
        self.topic_set = topic_set_of(arguments, needed)
        self._wanted = [each for each in dict.fromkeys((*needed, *also)) if each in self.topic_set.topics]
        self._unshown = unshown
        self._groups = groups_asked(arguments, self.topic_set)
        self._named = set(groups_of(arguments.groups) or ())
        self.begin()

    def begin(self) -> None:
        """Read all again the next time: after an error, a part of the records may be folded."""
        self.topics = TopicReading(self.topic_set, self._wanted, groups=self._groups, unshown=self._unshown, timed=True)

    def read(self, admin: Admin, out: Output) -> Contents:
        """Return the contents for the first time, and print notes about the topics.

        A group that was named and is not there is a ``ConnectShareError``.
        """
        contents = self.topics.read_on(admin)
        assert contents is not None  # noqa: S101 - the first time
        unknown = self._named - set(contents.groups())
        if unknown:  # a group may have no record in the topics that were read
            there = read_topics(self.topic_set, list(self.topic_set.topics)).groups()
            unknown -= set(there)
        if unknown:
            raise ConnectShareError(
                f"there is no group {' and no group '.join(sorted(map(shown_group, unknown)))} in "
                f"{', '.join(self.topic_set.topics.values())}; there are: {named_groups(there)}"
            )
        out.note(*contents.notes())
        return contents

    def once(self, out: Output) -> Contents:
        """Return the contents of a command that reads them once."""
        with console_admin(self.topic_set) as admin:
            contents = self.read(admin, out)
        for topic in contents.topics.values():
            topic.forget_replaced()
        return contents


class _Noun(NamedTuple):
    """What is listed, the topics without which there is nothing to show, others of use, and help."""

    listed: Callable[[Contents, argparse.Namespace], Result]
    needed: Sequence[TopicType]
    also: Sequence[TopicType]
    text: str
    example: str


def add_contents_options(parser: Parser, noun: str) -> None:
    """Add where the topics are and what of them is shown."""
    add_topics(parser, folds=noun != "statuses")
    what = parser.add_argument_group("what is shown")
    of_groups = noun == "groups"
    by_default = "every group by default" if of_groups else "with a worker file: its own group by default"
    add_groups(what, "only ", f"; {by_default}")
    every = "as by default" if of_groups else "also with a worker file"
    what.add_argument("--all-groups", action="store_true", default=of_groups, help=f"every group, {every}")
    parser.refuse("--all-groups", beside="--group")
    if noun in ("connectors", "tasks", "offsets", "statuses"):
        what.add_argument("--connector", metavar="NAME", help="only this connector")
    if noun in ("connector", "statuses"):
        what.add_argument(
            "--show-values", action="store_true", help="show traces, offsets, and values that may be secrets"
        )
    if noun in ("connectors", "tasks", "statuses"):
        what.add_argument(
            "--state",
            dest="states",
            metavar="STATE,...",
            type=_states,
            help=f"only those in one of these states, with connectors also those with a task in it: {', '.join(STATES)}",
        )
    if noun == "connectors":
        what.add_argument(
            "--topic",
            metavar="TOPIC",
            help="only connectors that use this topic: active, or named in the property topics",
        )
    if noun in _NOUNS:
        what.add_argument(
            "--watch",
            metavar="SECONDS",
            nargs="?",
            type=seconds,
            const=_WATCH_S,
            help=f"show it again after each change, looked for every {_WATCH_S:g} seconds by default, until Ctrl-C; "
            "with --output json one line each time",
        )
        parser.refuse("--watch", beside="--output tsv")  # which is one list


def _states(text: str) -> tuple[str, ...]:
    states = tuple(state.strip().upper() for state in text.split(","))
    if not set(states) <= set(STATES):
        raise argparse.ArgumentTypeError(f"states are {', '.join(STATES)}")
    return states


def _get(noun: _Noun, arguments: argparse.Namespace, out: Output) -> Result | int:
    needed, topic, states = noun.needed, getattr(arguments, "topic", None), getattr(arguments, "states", None)
    if topic is not None or states:
        needed = (*needed, *(topic_type for topic_type in noun.also if topic_type is _STATUS))
    of_groups = noun.listed is _list_groups
    unshown = tuple(StatusKey) if of_groups else () if topic else (StatusKey.TOPIC,)
    reading = Reading(arguments, needed, noun.also, unshown=unshown)
    arguments.worker = reading.topic_set.worker
    if arguments.watch is not None:
        return _watch(reading, lambda contents: noun.listed(contents, arguments), out, arguments.watch)
    return noun.listed(reading.once(out), arguments)


def _watch(reading: Reading, listed: Callable[[Contents], Result], out: Output, every_s: float) -> int:
    """Show a list, and show it again after each change until Ctrl-C; return the exit code.

    A broker that does not answer for a while is asked again.
    """
    shown = trouble = None
    try:
        with console_admin(reading.topic_set) as admin:
            contents: Contents | None = reading.read(admin, out)
            while True:
                if contents is not None and (result := listed(contents)).members != shown:
                    shown = result.members
                    out.show_again(result)
                time.sleep(every_s)
                try:
                    contents = reading.topics.read_on(admin)
                    trouble = None
                except ConnectShareError as error:
                    if not error.retriable and not isinstance(error, TopicRecreatedError):
                        raise
                    if trouble != str(error):
                        trouble = str(error)
                        out.note(f"{trouble}; all is read again in {every_s:g} s")
                    reading.begin()
                    contents = None
    except KeyboardInterrupt:  # the way in which this command ends
        return InterruptionError.exit_code


def table_of(columns: Columns, rows: Iterable[Row]) -> Table:
    """Return rows as a table."""
    return Table(
        list(columns),
        [[row[cell] if isinstance(cell, str) else cell(row) for cell in columns.values()] for row in rows],
        [title for title in _SPARE if title in columns],
    )


def _list_groups(contents: Contents, _arguments: argparse.Namespace) -> Result:
    rows: list[Row] = []
    seals: dict[Group, SealCount] = {}
    topics = {topic_type.value: topic for topic_type, topic in contents.topics.items()}
    for group in contents.groups():
        row: Row = {"group": group, "records": {kind: topic.records_of(group) for kind, topic in topics.items()}}
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
    columns: Columns = {
        "GROUP": _group_cell,
        "CONNECTORS": lambda row: _unless_sealed(row, "connectors"),
        "TASKS": lambda row: _unless_sealed(row, "tasks"),
        "SOURCE PARTITIONS": lambda row: _unless_sealed(row, "source_partitions"),
        "RECORDS": lambda row: sum(row["records"].values()),
        "KEY": lambda row: seals[row["group"]].short(),
    }
    members = {
        "groups": rows,
        "topics": {kind: topic.topic for kind, topic in topics.items()},
        "unrecognized_records": {kind: topic.unrecognized for kind, topic in topics.items()},
    }
    nothing = f"no groups: {', '.join(topic.topic for topic in topics.values())} hold no records of Connect"
    return Result(members, [table_of(columns, rows)], notes=[] if rows else [nothing])


def _unless_sealed(row: Row, member: str) -> object:
    """Return a member that is ``None`` where values cannot be opened."""
    return SEALED if member in row and row[member] is None else row.get(member)


def _group_cell(row: Row) -> str:
    return shown_group(row["group"])


def list_connectors(contents: Contents, arguments: argparse.Namespace) -> Result:
    """List the connectors."""
    rows = [
        connector_row(contents, group, connector, state)
        for group, connector, state in connectors_of(contents, arguments.connector)
        if arguments.topic is None or uses_topic(contents, group, connector, state, arguments.topic)
    ]
    columns: Columns = {
        "CONNECTOR": "connector",
        "TARGET": "target_state",
        "STATE": "state",
        "TASKS": _tasks_cell,
        "WORKER": "worker_id",
    }
    return _by_state("connectors", rows, columns, contents, arguments)


def _tasks_cell(row: Row) -> object:
    if row["consistent"] is None:
        return SEALED
    states = row["task_states"] or {}
    remarks = [f"{states[state]} {state}" for state in _FIRST if state in states]
    remarks += [] if row["consistent"] else ["inconsistent"]
    return f"{row['task_count']} ({', '.join(remarks)})" if remarks else row["task_count"]


_STATUS_COLUMNS: Final = {"WORKER": "worker_id", "GENERATION": "generation", "VERSION": "version"}


def list_tasks(contents: Contents, arguments: argparse.Namespace) -> Result:
    """List the tasks: those configured, and those that only have a status."""
    rows = [row for found in connectors_of(contents, arguments.connector) for row in task_rows(contents, *found)]
    columns: Columns = {
        "CONNECTOR": "connector",
        "TASK": "task",
        "STATE": lambda row: f"{row['state']} (not configured)" if row["configured"] is False else row["state"],
        **_STATUS_COLUMNS,
    }
    return _by_state("tasks", rows, columns, contents, arguments)


def list_statuses(contents: Contents, arguments: argparse.Namespace) -> Result:
    """List the statuses as written, also those of connectors that are gone."""
    rows = [
        row
        for group in contents.groups()
        for connector in status_connectors(contents, group)
        if arguments.connector in (None, connector)
        for row in status_rows(contents, group, connector, show_traces=arguments.show_values)
    ]
    columns: Columns = {
        "CONNECTOR": "connector",
        "TASK": "task",
        "STATE": "state",
        **_STATUS_COLUMNS,
        "LAST WRITTEN": lambda row: shown_time(row["status_written_ms"]),
        "TRACE": lambda row: row.get("trace") or ("yes" if row["has_trace"] else None),
    }
    return _by_state("statuses", rows, columns, contents, arguments)


def _by_state(
    what: str, rows: Iterable[Row], columns: Columns, contents: Contents, arguments: argparse.Namespace
) -> Result:
    """Return rows with failures first, all of them counted by state, but only those in the states asked for."""
    every = sorted(rows, key=failures_first)
    states = _counted(Counter(row["state"] or UNKNOWN for row in every))
    wanted = arguments.states
    shown = (
        every
        if wanted is None
        else [row for row in every if not {row["state"] or UNKNOWN, *(row.get("task_states") or ())}.isdisjoint(wanted)]
    )
    title = f"{len(every):,} {what if len(every) != 1 else _SINGULAR[what]}: {_counts_text(states)}"
    tasks: Counter[str] = sum((Counter(row.get("task_states") or {}) for row in every), Counter())
    if tasks:
        title += f"; their tasks: {_counts_text(_counted(tasks))}"
    return Result(
        {what: shown, "states": states},
        [table_of({"GROUP": _group_cell, **columns}, shown)],
        title=title if every else None,
        notes=[] if shown else [_nothing(what, contents, arguments)],
    )


_SINGULAR: Final = {"connectors": "connector", "tasks": "task", "statuses": "status"}


def _counted(states: Counter[str]) -> dict[str, int]:
    return {state: states[state] for state in (*_FIRST, *sorted(states.keys() - set(_FIRST))) if states[state]}


def _counts_text(states: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in states.items())


def list_offsets(contents: Contents, arguments: argparse.Namespace) -> Result:
    """List the offsets: they are what is asked for, so they are shown.

    Those of one connector are in JSON what Connect's REST gives and takes (KIP-875).
    """
    worker, rows, notes = getattr(arguments, "worker", None), list[Row](), list[str]()
    for group in contents.groups():
        names = (
            contents.offsets_of(group).connectors() | contents.named(_OFFSET, group).get(OffsetKey.OFFSET, {}).keys()
        )
        for connector in sorted(names | contents.config_of(group).connectors()):
            if arguments.connector in (None, connector):
                rows += offset_rows(contents, group, connector, worker, notes.append)
    columns: Columns = {
        "GROUP": _group_cell,
        "CONNECTOR": "connector",
        "PARTITION": lambda row: json_text_of(row["partition"]),
        "OFFSET": lambda row: SEALED if row["offset"] == SEALED else json_text_of(row["offset"]),
        "LAST WRITTEN": lambda row: shown_time(row["written_ms"]),
    }
    members, bare = {"offsets": rows}, False
    owners = {row["group"] for row in rows}
    if not rows:
        of_sinks = "those of sinks are shown with the config topic and the worker file of their group"
        notes.append(f"{_nothing('offsets', contents, arguments)}; {of_sinks}")
    if arguments.connector is None or arguments.output != "json" or any(row["offset"] == SEALED for row in rows):
        pass
    elif len(owners) > 1:
        named = named_groups(sorted(owners, key=group_order))
        notes += [f"{arguments.connector} is a connector of {named}: --group names one, for JSON that a worker takes"]
    else:
        # Null would mean to a worker that the offset is to be removed.
        pairs = [{name: row[name] for name in ("partition", "offset")} for row in rows if row["offset"] is not None]
        if len(pairs) < len(rows):
            notes += [f"{plural(len(rows) - len(pairs), 'offset')} left out, for the value is no object"]
        members, bare = {"offsets": pairs}, True
    return Result(members, [table_of(columns, rows)], bare=bare, notes=notes)


def _nothing(what: str, contents: Contents, arguments: argparse.Namespace) -> str:
    """Return that there is nothing to show, and why."""
    parts = [f"no {what} were found"]
    if arguments.connector is not None:
        parts.append(f"for connector {arguments.connector!r}")
    if getattr(arguments, "topic", None) is not None:
        parts.append(f"that use topic {arguments.topic!r}")
    if getattr(arguments, "states", None):
        parts.append(f"in state {' or '.join(arguments.states)}")
    groups = contents.groups()
    topics = ", ".join(topic.topic for topic in contents.topics.values())
    parts.append(f"in {named_groups(groups) if groups else topics}")
    text = " ".join(parts)
    config = contents.topics.get(_CONFIG)
    if groups and config is not None and not any(map(config.records_of, groups)):
        return f"{text}; {config.topic} has no record of them, and other topics have: it may be lost, run check all"
    others = sum(topic.others for topic in contents.topics.values())
    if arguments.groups:
        return text if groups else f"{text}: {', '.join(arguments.groups)} has no records there"
    if others:
        return f"{text}; {plural(others, 'record')} there of other groups: --all-groups shows them"
    return text if groups else f"{text}: no record there is one of Connect"


_NOUNS: Final = {
    "groups": _Noun(
        _list_groups,
        (),
        (_CONFIG, _STATUS, _OFFSET),
        "cluster groups, and how much each has in the topics",
        "--output json",
    ),
    "connectors": _Noun(
        list_connectors,
        (_CONFIG,),
        (_STATUS,),
        "connectors with target state, state and number of tasks, failures first",
        "--all-groups --state FAILED,UNASSIGNED --watch",
    ),
    "tasks": _Noun(
        list_tasks,
        (_CONFIG,),
        (_STATUS,),
        "tasks with state and worker, failures first",
        "--connector orders.sink --watch 5",
    ),
    "offsets": _Noun(
        list_offsets,
        (_OFFSET,),
        (_CONFIG,),
        "offsets by connector and partition, of sources and sinks (offset values are shown)",
        "--connector orders.source --output json",
    ),
    "statuses": _Noun(
        list_statuses,
        (_STATUS,),
        (),
        "statuses of connectors and tasks as they were written, failures first",
        "--state FAILED --show-values",
    ),
}

COMMANDS: Final = [
    Command(
        f"get {name}",
        partial(_get, noun),
        noun.text,
        about=f"List {noun.text}.",
        examples=[
            f"connect-share get {name} -w worker.properties",
            f"connect-share get {name} -w worker.properties {noun.example}",
        ],
        options=partial(add_contents_options, noun=name),
        forms=("text", "json", "tsv"),
    )
    for name, noun in _NOUNS.items()
]
