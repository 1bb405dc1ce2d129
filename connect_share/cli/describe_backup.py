"""``describe backup``: the moments of a continuous backup, and what a backup holds of each group."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final

from connect_share.backup.backup_file import BackupFiles, segment_files, shown_moment
from connect_share.backup.restore import moment
from connect_share.console import Command, Group, Output, Parser, ProgressLine, Result, Table, group_order, shown_group
from connect_share.errors import listed
from connect_share.model.keys import connector_of, split_key
from connect_share.model.records import TopicType

_SHOWN: Final = 20


def _describe_backup(arguments: argparse.Namespace, _: Output) -> Result:
    """Read the files; their keys are enough, so encrypted values stay so."""
    path: Path = arguments.file
    moments = [shown_moment(each.at_ms) for each in segment_files(path) if each.is_point] if path.is_dir() else []
    files = BackupFiles.at(path, arguments.at)
    counts: defaultdict[Group, Counter[TopicType]] = defaultdict(Counter)
    connectors: defaultdict[Group, set[str]] = defaultdict(set)
    with ProgressLine(sys.stderr) as progress:
        progress.phase(f"reading {path.name}", files.records)
        for kind, record in files.read(progress, closed=True):
            owner = None if record.key is None else split_key(kind, record.key)
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
        lines.append(f"{len(moments):,} moments from {moments[0]} to {moments[-1]}; this is {members['at']}")
        lines += moments if arguments.moments else []
    headers = ["GROUP", *(kind.name for kind in TopicType), "CONNECTORS"]
    cells = [
        [shown_group(row["group"]), *row["records"].values(), listed(row["connectors"], _SHOWN) or None] for row in rows
    ]
    return Result(members, [*lines, Table(headers, cells)])


def _add_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a backup, or the folder of one")
    parser.add_argument(
        "--at", metavar="TIME", type=moment, help="the newest moment that is not later; the last by default"
    )
    parser.add_argument("--moments", action="store_true", help="list all moments")


COMMANDS: Final = [
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
        options=_add_options,
        asks_cluster=False,
    ),
]
