"""What ``get`` shows of connectors, tasks, offsets and statuses, made of the contents of the topics alone."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share.cli.rows import (
    SEALED,
    UNKNOWN,
    connector_row,
    connectors_of,
    failures_first,
    json_text_of,
    offset_connectors,
    offset_rows,
    shown_time,
    state_of,
    status_connectors,
    status_rows,
    task_rows,
    uses_topic,
)
from connect_share.console import Group, Output, group_order, plural, shown_group
from connect_share.contents.groups import Contents
from connect_share.model.status import State

STATES: Final = (*(state.name for state in State), UNKNOWN)
_NAMED: Final = 5
_FIRST: Final = (State.FAILED.name, State.UNASSIGNED.name)

_SPARE: Final = ("VERSION", "GENERATION", "WORKER", "LAST WRITTEN", "TARGET")
"""Columns that a narrow terminal does without, the first of them first."""

Row = dict[str, Any]
Columns = Mapping[str, str | Callable[[Row], object]]
"""For each header the member of a row, or what makes a cell of the row."""


@dataclass
class Listing:
    """The result of one ``get``.

    Attributes:
        members: of the JSON.
        bare: the JSON is what another program takes, without members that say where it comes from.
        title: how many there are, for people.
        notes: what else is to be said on stderr.
    """

    rows: Sequence[Row] = field(repr=False)
    columns: Columns = field(repr=False)
    members: Mapping[str, Any] = field(repr=False)
    bare: bool = False
    title: str | None = None
    notes: Sequence[str] = ()

    def show(self, out: Output) -> None:
        """Print it once."""
        if out.is_json:
            out.json(self.members, bare=self.bare)
        else:
            out.table(list(self.columns), self.cells(), self._spare())
            if self.title is not None:
                out.note(self.title)
        for note in self.notes:
            out.note(note)

    def show_again(self, out: Output) -> None:
        """Print it in place of the one before."""
        if out.is_json:
            out.json(self.members, bare=self.bare, on_one_line=True)
        else:
            out.redraw(self.title or "", list(self.columns), self.cells(), self._spare())
        for note in self.notes:
            out.note(note)

    def _spare(self) -> list[str]:
        return [title for title in _SPARE if title in self.columns]

    def cells(self) -> list[list[object]]:
        """Return the cells of the table."""
        return [
            [row[column] if isinstance(column, str) else column(row) for column in self.columns.values()]
            for row in self.rows
        ]


def group_cell(row: Row) -> str:
    """Return the cell of the column ``GROUP``."""
    return shown_group(row["group"])


def list_connectors(contents: Contents, arguments: argparse.Namespace) -> Listing:
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


def list_tasks(contents: Contents, arguments: argparse.Namespace) -> Listing:
    """List the tasks: those configured, and those that only have a status."""
    rows = [row for found in connectors_of(contents, arguments.connector) for row in task_rows(contents, *found)]
    columns: Columns = {
        "CONNECTOR": "connector",
        "TASK": "task",
        "STATE": lambda row: f"{row['state']} (not configured)" if row["configured"] is False else row["state"],
        **_STATUS_COLUMNS,
    }
    return _by_state("tasks", rows, columns, contents, arguments)


def list_statuses(contents: Contents, arguments: argparse.Namespace) -> Listing:
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
) -> Listing:
    """Return rows with failures first, all of them counted by state, but only those in the states asked for."""
    every = failures_first(rows)
    states = _counted(Counter(map(state_of, every)))
    wanted = arguments.states
    shown = every if wanted is None else [row for row in every if _states_in(row).intersection(wanted)]
    title = f"{len(every):,} {what if len(every) != 1 else _SINGULAR[what]}"
    if states:
        title += f": {_counts_text(states)}"
    tasks: Counter[str] = sum((Counter(row.get("task_states") or {}) for row in every), Counter())
    if tasks:
        title += f"; their tasks: {_counts_text(_counted(tasks))}"
    return Listing(
        shown,
        {"GROUP": group_cell, **columns},
        {what: shown, "states": states},
        title=title if every else None,
        notes=[] if shown else [_nothing(what, contents, arguments)],
    )


_SINGULAR: Final = {"connectors": "connector", "tasks": "task", "statuses": "status"}


def _states_in(row: Row) -> set[str]:
    return {state_of(row), *(row.get("task_states") or ())}


def _counted(states: Counter[str]) -> dict[str, int]:
    return {state: states[state] for state in (*_FIRST, *sorted(states.keys() - set(_FIRST))) if states[state]}


def _counts_text(states: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in states.items())


def list_offsets(contents: Contents, arguments: argparse.Namespace) -> Listing:
    """List the source offsets: they are what is asked for, so they are shown.

    Those of one connector are in JSON what Connect's REST gives and takes (KIP-875).
    """
    rows = [
        row
        for group in contents.groups()
        for connector in offset_connectors(contents, group)
        if arguments.connector in (None, connector)
        for row in offset_rows(contents, group, connector)
    ]
    columns: Columns = {
        "GROUP": group_cell,
        "CONNECTOR": "connector",
        "PARTITION": lambda row: json_text_of(row["partition"]),
        "OFFSET": lambda row: SEALED if row["offset"] == SEALED else json_text_of(row["offset"]),
        "LAST WRITTEN": lambda row: shown_time(row["written_ms"]),
    }
    found = Listing(rows, columns, {"offsets": rows})
    if not rows:
        found.notes = [
            _nothing("offsets", contents, arguments)
            + "; those of sink connectors are offsets of consumer groups and not on this topic"
        ]
    if arguments.connector is None or arguments.output != "json" or any(row["offset"] == SEALED for row in rows):
        return found
    owners = {row["group"] for row in rows}
    if len(owners) > 1:
        named = _named(sorted(owners, key=group_order))
        found.notes = [
            f"{arguments.connector} is a connector of {named}: --group names one, for JSON that a worker takes"
        ]
        return found
    # Null would mean to a worker that the offset is to be removed.
    pairs = [{name: row[name] for name in ("partition", "offset")} for row in rows if row["offset"] is not None]
    if len(pairs) < len(rows):
        found.notes = [f"{plural(len(rows) - len(pairs), 'offset')} left out, for the value is no object"]
    found.members, found.bare = {"offsets": pairs}, True
    return found


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
    if groups:
        parts.append("in " + (_named(groups) if len(groups) <= _NAMED else plural(len(groups), "group")))
    else:
        parts.append(f"in {topics}")
    text = " ".join(parts)
    others = sum(topic.others for topic in contents.topics.values())
    if arguments.groups:
        return text if groups else f"{text}: {', '.join(arguments.groups)} has no records there"
    if others:
        return f"{text}; {plural(others, 'record')} there of other groups: --all-groups shows them"
    return text if groups else f"{text}: no record there is one of Connect"


def _named(groups: Iterable[Group]) -> str:
    return ", ".join(map(shown_group, groups))
