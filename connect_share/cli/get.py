"""``get``: lists of groups, connectors, tasks, offsets and statuses."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from connect_share.cli.listings import (
    STATES,
    Columns,
    Listing,
    Row,
    group_cell,
    list_connectors,
    list_offsets,
    list_statuses,
    list_tasks,
)
from connect_share.cli.options import Nouns, add_topics
from connect_share.cli.question import Question
from connect_share.cli.rows import SEALED
from connect_share.cli.watch import WATCH_S, watch
from connect_share.console import (
    DEFAULT_TIMEOUT_S,
    PLAIN,
    Group,
    HelpFormatter,
    Output,
    Parser,
    add_output,
    seconds,
)
from connect_share.contents.groups import Contents
from connect_share.contents.seal_counts import SealCount, total
from connect_share.model.keys import StatusKey
from connect_share.model.records import TopicType

_CONFIG, _STATUS, _OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET


class _Noun(NamedTuple):
    """What is listed, the topics without which there is nothing to show, others of use, and help."""

    listed: Callable[[Contents, argparse.Namespace], Listing]
    needed: Sequence[TopicType]
    also: Sequence[TopicType]
    text: str
    example: str


def add_to(nouns: Nouns) -> None:
    """Add the nouns of ``get``."""
    for name, noun in _NOUNS.items():
        parser = nouns.add_parser(
            name,
            help=noun.text,
            description=f"List {noun.text}.",
            epilog=f"examples:\n  connect-share get {name} -w worker.properties\n"
            f"  connect-share get {name} -w worker.properties {noun.example}",
            formatter_class=HelpFormatter,
        )
        add_contents_options(parser, name)
        parser.set_defaults(run=_get)


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
            const=WATCH_S,
            help=f"show it again after each change, looked for every {WATCH_S:g} seconds by default, until Ctrl-C; "
            "with --output json one line each time",
        )
    add_output(parser, DEFAULT_TIMEOUT_S)


def _states(text: str) -> tuple[str, ...]:
    states = tuple(state.strip().upper() for state in text.split(","))
    if not set(states) <= set(STATES):
        raise argparse.ArgumentTypeError(f"states are {', '.join(STATES)}")
    return states


def _get(arguments: argparse.Namespace, out: Output) -> int:
    noun = _NOUNS[arguments.noun]
    needed = noun.needed
    if getattr(arguments, "topic", None) is not None or getattr(arguments, "states", None):
        needed = (*needed, *(topic_type for topic_type in noun.also if topic_type is _STATUS))
    of_groups = arguments.noun == "groups"
    unshown = tuple(StatusKey) if of_groups else () if getattr(arguments, "topic", None) else (StatusKey.TOPIC,)
    question = Question.of(arguments, needed, noun.also, every_group=of_groups, unshown=unshown)

    def listed(contents: Contents) -> Listing:
        return noun.listed(contents, arguments)

    if arguments.watch is not None:
        return watch(question, listed, out, every_s=arguments.watch)
    listed(question.answer(out)).show(out)
    return 0


def _list_groups(contents: Contents, _arguments: argparse.Namespace) -> Listing:
    """List the groups."""
    rows: list[Row] = []
    seals: dict[Group, SealCount] = {}
    topics = {topic_type.value: topic for topic_type, topic in contents.topics.items()}
    for group in contents.groups():
        row: Row = {"group": group, "records": {kind: topic.records.get(group, 0) for kind, topic in topics.items()}}
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
        "GROUP": group_cell,
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
    return Listing(rows, columns, members, notes=[] if rows else [nothing])


def _unless_sealed(row: Row, member: str) -> object:
    """Return a member that is ``None`` where values cannot be opened."""
    return SEALED if member in row and row[member] is None else row.get(member)


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
        (),
        "source offsets by connector and source partition (offset values are shown)",
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
