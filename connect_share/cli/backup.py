"""``export``, ``restore`` and ``describe backup``: groups, whole or by connector, to a file and back, or again and again."""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from connect_share.backup.backup_file import BackupFiles, segment_files, shown_moment
from connect_share.backup.export import Export, Follower, Written, locked_folder
from connect_share.backup.restore import moment, restore_command
from connect_share.console.options import (
    Group,
    Parser,
    add_groups,
    add_topics,
    group_order,
    groups_asked,
    number,
    seconds,
    shown_group,
    topic_set_of,
)
from connect_share.console.output import Output, ProgressLine, Result, Table, plural
from connect_share.console.program import Command
from connect_share.errors import ConfigError, ConnectShareError, UsageError, command_line, listed
from connect_share.model.keys import connector_of, split_key
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY

_MOST: Final = 100_000
_HOUR_MS: Final = 3_600_000


def _add_options(parser: Parser) -> None:
    add_topics(parser)
    what = parser.add_argument_group("what is exported")
    add_groups(what, "", "; with a worker file: its own group by default")
    what.add_argument("--all-groups", action="store_true", help="every group, also with a worker file")
    parser.refuse("--all-groups", beside="--group")
    what.add_argument(
        "--connector",
        dest="connectors",
        metavar="NAME",
        action="append",
        help="only this connector, may be repeated; names are exact",
    )
    what.add_argument(
        "--encrypt",
        action="store_true",
        help="encrypt the values with the first key of the worker file; names stay readable",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--file", dest="file", metavar="FILE", type=Path, help="the file to write")
    where.add_argument(
        "--follow",
        metavar="DIR",
        type=Path,
        help="write what is new to this folder until Ctrl-C: restore DIR --at TIME",
    )
    _add_follow(parser)


def _add_follow(parser: Parser) -> None:
    follow = parser.add_argument_group("with --follow")
    follow.add_argument(
        "--every", metavar="SECONDS", type=seconds, default=60.0, help="how often what is new is written, 60 by default"
    )
    follow.add_argument(
        "--base-every",
        metavar="HOURS",
        type=partial(number, 1 / 60, _MOST),
        default=24.0,
        help="how often everything is written, 24 by default",
    )
    follow.add_argument(
        "--keep",
        metavar="DAYS",
        type=partial(number, 0, _MOST),
        default=7.0,
        help="how long back every state can be restored, 7 by default; older files are deleted",
    )
    follow.add_argument("--once", action="store_true", help="write what is new now, and end")
    parser.refuse("--every --base-every --keep --once", without="--follow")
    parser.refuse("--every", beside="--once")


def _export(arguments: argparse.Namespace, out: Output) -> Result | int:
    asked = _asked(arguments)
    if arguments.follow is not None:
        return _follow(arguments, asked, out)
    with ProgressLine() as progress:
        file, groups = asked.write(arguments.file, progress, out.note)
    path = arguments.file
    lines = [
        f"{path}: {plural(file.records, 'record')} of {plural(len(groups), 'group')}, {file.size_bytes:,} bytes",
        *(f"  {topic}: {plural(count, 'record')}" for topic, count in file.topics.items()),
        *([f"  group {shown_group(groups[0])}"] if len(groups) == 1 else []),
        *([f"  {file.said_left_out()}"] if file.left_out else []),
        "the values are encrypted: keep the key as long as the file"
        if arguments.encrypt
        else "it holds secrets: keep it where worker files may be kept",
    ]
    return Result({**file.model_dump(mode="json"), "file": str(path), "groups": groups}, lines)


def _follow(arguments: argparse.Namespace, asked: Export, out: Output) -> int:
    base_every_ms, keep_ms = round(arguments.base_every * _HOUR_MS), round(arguments.keep * 24 * _HOUR_MS)
    with locked_folder(arguments.follow):
        follower, trouble = Follower(arguments.follow, asked, base_every_ms, keep_ms, out.note), ""
        try:
            while True:
                try:
                    for written in follower.round():
                        out.show(_written(written))
                    trouble = ""
                except ConnectShareError as error:
                    if arguments.once or not error.retriable:
                        raise
                    if str(error) != trouble:
                        trouble = str(error)
                        out.note(f"{trouble}; trying again every {arguments.every:g} s")
                if arguments.once:
                    return 0
                time.sleep(arguments.every)
        except KeyboardInterrupt:
            out.note("ended; the same command goes on where it was")
            return 0


def _written(written: Written) -> Result:
    file, made = written.file, written.made
    at = shown_moment(file.at_ms) if file.is_point else None
    state = "" if at is None else f", state of {at}"
    removed = f"; {plural(written.removed, 'old file')} deleted" if written.removed else ""
    left_out = f"; {made.said_left_out()}" if made.left_out else ""
    told = {"records": made.records, "at": at, "removed": written.removed, "left_out": made.left_out}
    return Result(
        {"file": str(file.path), **told, "left_out_first": made.left_out_first},
        [f"{file.path}: {plural(made.records, 'record')}{state}{removed}{left_out}"],
    )


def _asked(arguments: argparse.Namespace) -> Export:
    topic_set = topic_set_of(arguments)
    groups = groups_asked(arguments, topic_set)
    worker, keys = topic_set.worker, None
    if arguments.encrypt:
        keys = None if worker is None else worker.sealing_keys
        if keys is None:
            raise ConfigError(
                f"--encrypt needs a worker file with keys in {KEYS_PROPERTY}; {command_line('connect-share', 'keys', 'new')} "
                "makes one. For a group that is not to be sealed, encryption=off stays beside it",
                property_name=KEYS_PROPERTY,
            )
    return Export(
        topic_set,
        None if groups is None else frozenset(groups),
        None if arguments.connectors is None else frozenset(arguments.connectors),
        keys,
    )


def _describe_backup(arguments: argparse.Namespace, _: Output) -> Result:
    """Read the files; their keys are enough, so encrypted values stay so."""
    path: Path = arguments.file
    moments = [shown_moment(each.at_ms) for each in segment_files(path) if each.is_point] if path.is_dir() else []
    files = BackupFiles.at(path, arguments.at)
    if arguments.moments and not moments:
        raise UsageError(f"--moments lists those of a continuous backup, and {path} is none: leave it out")
    counts: defaultdict[Group, Counter[TopicType]] = defaultdict(Counter)
    connectors: defaultdict[Group, set[str]] = defaultdict(set)
    with ProgressLine() as progress:
        progress.phase(f"reading {path.name}", files.records)
        for kind, record in files.read(progress, closed=True):
            owner = split_key(kind, record.key)
            if owner is not None:
                group, original = owner
                counts[group][kind] += 1
                connectors[group] |= {name for name in [connector_of(kind, original)] if name is not None}
    rows: list[dict[str, Any]] = [
        {
            "group": group,
            "records": {kind.value: counts[group][kind] for kind in TopicType},
            "connectors": sorted(connectors[group]),
        }
        for group in sorted(counts, key=group_order)
    ]
    segment, made = files.contents.segment, shown_moment(files.contents.made_at_ms)
    members = {
        "file": str(path),
        "moments": moments,
        "at": None if segment is None else shown_moment(segment.at_ms),
        "made": made,
        "encrypted": files.is_encrypted,
        "groups": rows,
    }
    lines: list[str | Table] = [f"{path}: {'encrypted' if files.is_encrypted else 'not encrypted'}, made {made}"]
    if moments:
        lines.append(f"moments: {len(moments):,}, from {moments[0]} to {moments[-1]}; this is {members['at']}")
        lines += moments if arguments.moments else []
    headers = ["GROUP", *(kind.name for kind in TopicType), "CONNECTORS"]
    cells = [[shown_group(row["group"]), *row["records"].values(), listed(row["connectors"]) or None] for row in rows]
    return Result(members, [*lines, Table(headers, cells)])


def _add_described(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a backup, or the folder of one")
    parser.add_argument(
        "--at", metavar="TIME", type=moment, help="the newest moment that is not later; the last by default"
    )
    parser.add_argument("--moments", action="store_true", help="list all moments")


COMMANDS: Final = [
    Command(
        "export",
        _export,
        about="Write every record that groups have on the topics to one Avro file, which restore puts back exactly.\n"
        "Reads only; workers may run. The file holds secrets and has mode 0600.",
        examples=[
            "connect-share export -w orders.properties -o orders.avro",
            "connect-share export -w orders.properties --connector jdbc-sink -o sink.avro",
            "connect-share export -w orders.properties --all-groups -o all.avro",
            "connect-share restore all.avro -w orders.properties --dry-run",
            "connect-share export -w orders.properties --follow /backups/orders --keep 30",
            "connect-share restore /backups/orders -w orders.properties --at 2026-01-31T12:00:00Z",
        ],
        options=_add_options,
    ),
    restore_command("connect-share"),
    Command(
        "describe backup",
        _describe_backup,
        "moments and groups of a backup",
        about="Show what a backup holds: records by group and topic, and the names of connectors; of a continuous backup its "
        "moments, too. Needs no cluster and no key.",
        examples=[
            "connect-share describe backup orders.avro",
            "connect-share describe backup /backups/orders --moments",
            "connect-share describe backup /backups/orders --at '10 minutes ago' --output json",
        ],
        options=_add_described,
        asks_cluster=False,
    ),
]
