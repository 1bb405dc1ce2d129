"""``get workers``: the members of Connect groups, and what each runs, as the group coordinator tells it."""

from __future__ import annotations

import argparse
from typing import Final

from connect_share.cli.get import Columns, Row, status_connectors, status_rows, table_of
from connect_share.console.options import Parser, add_topics, topic_set_of
from connect_share.console.output import Output, Result, plural
from connect_share.console.program import Command
from connect_share.contents.groups import Contents, read_topics
from connect_share.contents.workers import LOOK_S, WatchedGroup, watch
from connect_share.errors import command_line
from connect_share.kafka.descriptions import GroupMember
from connect_share.kafka.read import console_admin
from connect_share.model.records import TopicType

_COLUMNS: Final[Columns] = {
    "GROUP": "group_id",
    "WORKER": "worker_id",
    "URL": "url",
    "LEADER": lambda row: {True: "yes", False: "no"}.get(row["leader"]),
    "PROTOCOL": "protocol",
    "GENERATION": "generation",
    "POSITION": "config_position",
    "CONNECTORS": lambda row: None if row["connectors"] is None else len(row["connectors"]),
    "TASKS": lambda row: None if row["tasks"] is None else len(row["tasks"]),
}


def _add_options(parser: Parser) -> None:
    add_topics(parser, folds=False)
    parser.add_argument(
        "--group-id",
        dest="group_ids",
        metavar="ID",
        action="append",
        help="only this Connect group (group.id), may be repeated; with a worker file: its own by default, else every one",
    )
    parser.set_defaults(all_groups=False)


def _get(arguments: argparse.Namespace, _out: Output) -> Result:
    topic_set = topic_set_of(arguments, or_none=True)
    wanted = arguments.group_ids or (None if topic_set.worker is None else [topic_set.worker.group_id])
    with console_admin(topic_set) as admin:
        found = watch(admin, wanted)
    statuses = [each for each in topic_set.topics if each is TopicType.STATUS]
    contents = read_topics(topic_set, statuses) if statuses else None
    rows, notes = list[Row](), list[str]()
    more = command_line("connect-share", "check", "workers", "-w", arguments.worker_config or "FILE")
    for group_id, group in found.items():
        known = {} if contents is None else _generations(contents, group_id)
        rows += [_row(group, member, known) for member in group.members]
        if not group.members:
            notes.append(f"{group_id}: no live worker, or none that may be seen (that takes DESCRIBE on the group)")
        elif not group.is_settled:
            notes.append(
                f"{group_id}: did not settle; calm in {group.calm} of {plural(group.looks, 'look')}. Brokers tell what its "
                f"workers run only while it is stable: {more} says more"
            )
    notes = notes if found else ["no Connect group is known to this cluster"]
    return Result({"workers": rows}, [table_of(_COLUMNS, rows)], notes=notes)


def _generations(contents: Contents, group_id: str) -> dict[str, int]:
    """Return the generation of each worker's newest status; workers of plain keys are known by their id alone."""
    found: dict[str, int] = {}
    for group in (each for each in contents.groups() if each in (None, group_id)):
        for connector in status_connectors(contents, group):
            for row in status_rows(contents, group, connector, show_traces=False):
                if row["worker_id"] is not None:
                    found[row["worker_id"]] = max(row["generation"], found.get(row["worker_id"], -1))
    return found


def _row(group: WatchedGroup, member: GroupMember, known: dict[str, int]) -> Row:
    state, given, running = member.state, member.assignment, member.running
    return {
        "group_id": group.group_id,
        "group_state": member.group_state,
        "settled": group.is_settled,
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "worker_id": member.worker_id,
        "url": None if state is None else state.url,
        "leader": None if group.leader is None else group.leader == member.member_id,
        "protocol": member.protocol or None,
        "generation": None if member.worker_id is None else known.get(member.worker_id),
        "config_position": None if state is None else state.config_offset,
        "assignment_position": None if given is None else given.config_offset,
        "connectors": None if running is None else list(running.connectors),
        "tasks": None if running is None else [str(task) for task in running.tasks],
    }


COMMANDS: Final = [
    Command(
        "get workers",
        _get,
        "live workers of Connect groups, and what each runs",
        about="List the live workers of Connect groups by what brokers tell of their groups: URL, leader, protocol, config "
        "position, connectors and tasks; the generation is that of the newest status. No worker is asked. A group that "
        f"rebalances is looked at for up to {LOOK_S:g} seconds.",
        examples=[
            "connect-share get workers -w worker.properties",
            "connect-share get workers -B broker:9092 --group-id connect-cluster --output json",
        ],
        options=_add_options,
        forms=("text", "json", "tsv"),
    )
]
