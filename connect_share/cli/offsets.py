"""``alter offsets``, ``reset offsets`` and ``copy offsets``: change the offsets of connectors that do not run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter
from typing import Any, Final

from connect_share.cli.get import json_text_of
from connect_share.cli.offset_changes import ConnectorPlan, SinkPlan, Worker
from connect_share.console.options import Parser, add_worker_file, output_folder, shown_group, worker_file
from connect_share.console.output import Output, Result, plural
from connect_share.console.program import Command, Preview, Steps, said_left_out
from connect_share.errors import ConnectShareError, UsageError, also_saying, raised_by
from connect_share.model.keys import shown
from connect_share.storage.connect_storage import refused_by
from connect_share.stores.alter_offsets import (
    MOST_BYTES,
    UNREADABLE,
    is_of_sink,
    parse_offsets,
    parse_partition,
    sink_pairs,
    usable_pairs,
)
from connect_share.stores.connector_offsets import not_stopped
from connect_share.worker_config.properties import read_whole
from connect_share.worker_config.strimzi import offsets_in

_RULES: Final = (
    "No worker of the group that is changed may be alive, and its connectors must be STOPPED. The changes are shown first, "
    "and the old offsets go to a file from which alter offsets puts them back. With exactly-once all tasks are fenced first."
)
_place_of: Final = attrgetter("bootstrap_servers", "cluster_group_id", "offset_storage_topic", "config_storage_topic")


def _connectors_of(arguments: argparse.Namespace, worker: Worker) -> list[str]:
    """Return the connectors that were named or match, each once."""
    matching = sorted(
        name for name in worker.state.connectors() if any(fnmatchcase(name, each) for each in arguments.matching)
    )
    found = list(dict.fromkeys([*arguments.connectors, *matching]))
    if not found:
        raise UsageError(
            f"no connector of group {shown_group(worker.group)} matches"
            if arguments.matching
            else "name a connector, or give --matching PATTERN"
        )
    return found


def _alter(arguments: argparse.Namespace, out: Output) -> Steps:
    """Set the offsets of one connector."""
    is_stdin = arguments.file == "-"
    data = offsets_in(sys.stdin.buffer.read(MOST_BYTES + 1) if is_stdin else read_whole(arguments.file))
    pairs = parse_offsets(data, of_sinks=True)
    with ExitStack() as stack:
        worker, name = Worker(arguments.worker_config, stack), arguments.connector
        worker.end_due_looks()
        if any(is_of_sink(at) for at, _ in pairs) and (worker.is_sink(name) or not worker.state.contains(name)):
            plan: ConnectorPlan = SinkPlan(worker, name, pairs)
        else:
            plan = ConnectorPlan(worker, name, parse_offsets(data))
        yield from _carry_out(arguments, out, worker, [plan])


def _reset(arguments: argparse.Namespace, out: Output) -> Steps:
    """Forget the offsets of connectors."""
    partitions = [(parse_partition(text), None) for text in arguments.partitions or ()]
    with ExitStack() as stack:
        worker = Worker(arguments.worker_config, stack)
        worker.end_due_looks()
        plans = list[ConnectorPlan]()
        for name in _connectors_of(arguments, worker):
            plan_of = SinkPlan if worker.is_sink(name) else ConnectorPlan
            plans.append(plan_of(worker, name, [*partitions], resets=not partitions))
        yield from _carry_out(arguments, out, worker, plans)


def _copy(arguments: argparse.Namespace, out: Output) -> Steps:
    """Copy the offsets of connectors."""
    if arguments.to is None and arguments.to_worker_config is None:
        raise UsageError("say where to: --to NAME, --to-worker-config FILE, or both")
    if arguments.to is not None and (len(arguments.connectors) != 1 or arguments.matching):
        raise UsageError("--to is the name for one connector; several keep their names")
    with ExitStack() as stack:
        source = Worker(arguments.worker_config, stack)
        other = arguments.to_worker_config
        destination = source if other is None else Worker(other, stack)
        destination.end_due_looks()
        plans: list[ConnectorPlan] = []
        for name in _connectors_of(arguments, source):
            to = arguments.to or name
            if to == name and (destination is source or _place_of(destination.config) == _place_of(source.config)):
                raise UsageError(f"connector {shown(name)} would be copied to itself")
            try:
                if source.is_sink(name):
                    plans.append(_copied_sink(source, destination, name, to))
                    continue
            except ConnectShareError as error:
                if not arguments.matching:
                    raise
                out.note(f"{name} not copied: {error}")
                continue
            stored = source.stored_offsets(name)
            if not stored and not arguments.matching:
                raise ConnectShareError(
                    f"connector {shown(name)} of group {shown_group(source.group)} has no source offsets to copy"
                )
            pairs = usable_pairs(stored)
            if len(pairs) < len(stored):
                out.note(
                    f"{plural(len(stored) - len(pairs), 'offset')} of {name} not copied: no connector can use them"
                )
            plans.append(ConnectorPlan(destination, to, pairs))
            if not_stopped(source.state, name) is not None:
                out.note(
                    f"{name} ({shown_group(source.group)}) is not stopped: what it commits from now on is not copied"
                )
        yield from _carry_out(arguments, out, destination, plans)


def _copied_sink(source: Worker, destination: Worker, name: str, to: str) -> SinkPlan:
    with source.sink(name) as (admin, group), destination.sink(to) as (other, _):
        if admin.cluster_id() != other.cluster_id():
            by_time = other.settings.setting_by_time()
            raise UsageError(
                f"sink {shown(name)} and {shown(to)} read two Kafka clusters: the same number is another record there. Set "
                f"those of the other sink by time: {by_time}"
            )
        return SinkPlan(destination, to, [*sink_pairs(admin.group_offsets(group))])


def _carry_out(arguments: argparse.Namespace, out: Output, worker: Worker, plans: Sequence[ConnectorPlan]) -> Steps:
    """Show the changes, and make them after a backup, unless something forbids it."""
    needed = [plan for plan in plans if plan.needed]
    objections = [*worker.objections([plan.connector for plan in plans], force=arguments.force)]
    rows = [
        {
            "group": plan.worker.group,
            "connector": plan.connector,
            "partition": change.partition,
            "old": change.old,
            "new": change.new,
        }
        for plan in plans
        for change in plan.needed
    ]
    unchanged = sum(len(plan.changes) for plan in plans) - len(rows)
    refused = refused_by(worker.storage)
    left_out, counts = said_left_out({}, refused)
    members: dict[str, Any] = {"changes": rows, "unchanged": unchanged, "dry_run": False, **counts}
    nothing: dict[str, Any] = {**members, "written": 0, "backups": []}
    lines = [line for plan in plans for line in _lines(plan)]
    objections += raised_by(*(plan.require_access for plan in needed))
    if arguments.dry_run or needed or objections:
        yield Preview(lines, nothing, "change these offsets?", refused=refused, objections=objections)
    if not needed:
        yield Result(nothing, [*lines, *left_out, "nothing to do"])
        return
    written, files = _write(arguments, out, needed)
    done_text = f"{plural(len(rows), 'offset')} of {plural(len(needed), 'connector')} changed and read back"
    yield Result({**members, "written": written, "backups": files}, [done_text])


def _write(
    arguments: argparse.Namespace, out: Output, needed: Sequence[ConnectorPlan]
) -> tuple[int, list[dict[str, Any]]]:
    """Make the changes after a backup; return the number of records, and where the old offsets are."""
    for plan in needed:
        plan.check_unchanged()
    with also_saying("Nothing was changed"):
        backups = [plan.save(arguments.backup_dir) for plan in needed]
    files = list[dict[str, Any]]()
    for plan, path in zip(needed, backups, strict=True):
        connector = plan.connector
        files.append({"group": plan.worker.group, "connector": connector, "file": str(path)})
        out.note(f"old offsets of {connector} are in {path}; undo: {plan.worker.command(connector, path)}")
        if lost := sum(not change.can_be_undone for change in plan.needed):
            out.note(
                f"{plural(lost, 'old value')} of {connector} cannot be put back exactly: no connector can use it, it was "
                "written twice with members in another order, or a sink had none there, which only reset offsets brings back"
            )
    written = 0
    for done, plan in enumerate(needed):
        try:
            written += plan.write(folder=arguments.backup_dir, force=arguments.force)
        except ConnectShareError:
            if done:
                out.note(f"{done} of {plural(len(needed), 'connector')} are done; the same command continues")
            raise
    return written, files


def _lines(plan: ConnectorPlan) -> list[str]:
    needed, whose = plan.needed, f"{plan.connector} ({shown_group(plan.worker.group)})"
    return [
        f"{whose}: {plural(len(needed), 'offset')} to change, {len(plan.changes) - len(needed)} as wanted",
        *(f"  {json_text_of(each.partition)}: {_shown(each.old)} -> {_shown(each.new)}" for each in needed),
    ]


def _shown(offset: Any) -> str:
    if offset is None:
        return "none"
    return UNREADABLE if offset is UNREADABLE else json_text_of(offset)


def _add_where(parser: Parser) -> None:
    add_worker_file(parser, "properties file of a worker of the group")
    parser.add_argument(
        "--force",
        action="store_true",
        help="also connectors that are not STOPPED, or not configured; nothing of them may run",
    )
    parser.add_argument(
        "--backup-dir",
        metavar="DIR",
        type=output_folder,
        default=".",
        help="folder for the files with the old offsets, one for each connector; the current folder by default",
    )


def _add_altered(parser: Parser) -> None:
    parser.add_argument("connector", metavar="NAME", help="name of the connector")
    parser.add_argument(
        "--file",
        metavar="FILE",
        required=True,
        help='{"offsets": [{"partition": {..}, "offset": {..} or null}]}, as Connect\'s REST API; - is stdin',
    )


def _add_reset(parser: Parser) -> None:
    _add_connectors(parser)
    parser.add_argument(
        "--partition",
        metavar="JSON",
        dest="partitions",
        action="append",
        help="only this source partition, may be repeated; all by default",
    )


def _add_copied(parser: Parser) -> None:
    _add_connectors(parser)
    parser.add_argument("--to", metavar="NAME", help="name of the other connector; the same name by default")
    parser.add_argument(
        "--to-worker-config",
        metavar="FILE",
        type=worker_file,
        help="properties file of a worker of the other group; the same group by default",
    )


def _add_connectors(parser: Parser) -> None:
    """Add the connectors of a command that takes many."""
    parser.add_argument("connectors", metavar="NAME", nargs="*", help="name of a connector")
    parser.add_argument(
        "--matching",
        metavar="PATTERN",
        action="append",
        default=[],
        help="all configured connectors whose names match, such as 'orders-*' or '*'; may be repeated",
    )


_Change = partial(Command, options=_add_where, changes="show what would change, change nothing")

COMMANDS: Final = [
    _Change(
        "alter offsets",
        _alter,
        "set offsets of a connector",
        about=f"Set the offsets of a connector, or forget those that are null; others stay as they are. {_RULES}",
        examples=[
            "connect-share get offsets -w worker.properties --connector files --output json > offsets.json",
            "connect-share alter offsets files -w worker.properties --file offsets.json --dry-run",
            "curl -s http://worker:8083/connectors/files/offsets | \\",
            "    connect-share alter offsets files -w worker.properties --file - --yes",
        ],
        last=_add_altered,
    ),
    _Change(
        "reset offsets",
        _reset,
        "forget offsets of connectors",
        about=f"Forget the offsets of connectors, all of them or those of some source partitions. {_RULES}",
        examples=[
            "connect-share reset offsets files -w worker.properties",
            'connect-share reset offsets files -w worker.properties --partition \'{"filename": "/data/in.txt"}\'',
            "connect-share reset offsets -w worker.properties --matching 'orders-*' --dry-run",
        ],
        last=_add_reset,
    ),
    _Change(
        "copy offsets",
        _copy,
        "copy offsets to another connector, group or cluster",
        about="Copy the offsets of connectors to another connector, group or cluster. Source partitions that only the "
        "destination has stay as they are. The source is only read; stop it first, or what it commits later is not copied. "
        f"{_RULES}",
        examples=[
            "connect-share copy offsets files -w worker.properties --to files-v2",
            "connect-share copy offsets files -w old.properties --to-worker-config new.properties",
            "connect-share copy offsets -w old.properties --matching '*' --to-worker-config new.properties --dry-run",
        ],
        last=_add_copied,
    ),
]
