"""``repair order`` and ``repair orphans``: preview, back up, write, replay."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Final

from connect_share.backup.backup_file import new_backup_path
from connect_share.backup.repair_records import Mending, Plan, Repair, plan_order, plan_orphans
from connect_share.checks.finding import named
from connect_share.cli.options import Nouns
from connect_share.console import (
    HelpFormatter,
    Output,
    Parser,
    ProgressLine,
    add_output,
    plural,
    show_preview,
    shown_group,
)
from connect_share.worker_config import WorkerConfig

_ORDER: Final = (
    "Write the task configurations and the commit of connectors once more, behind the connector, so that workers take them: "
    "what check order calls dropped, or lost by compaction. "
)
_ORPHANS: Final = (
    "Remove what belongs to no connector any more: statuses, topics in use, target states, task configurations, commits and "
    "task counts; source offsets only with --offsets, for a connector that is made again continues there. "
)
_HOW: Final = (
    "The workers of the group have to be stopped. All the group has on the topics is written to a backup first; afterwards "
    "the topics are replayed and compared. Records of other groups are not touched. May be repeated."
)


def add_to(nouns: Nouns) -> None:
    """Add both."""
    order = _parser(nouns, "order", "give connectors back the tasks that the order of their records took", _ORDER)
    order.set_defaults(run=partial(_run, "order"))
    orphans = _parser(nouns, "orphans", "remove what is left of connectors that are gone", _ORPHANS)
    orphans.add_argument("--offsets", action="store_true", help="remove their source offsets, too")
    orphans.set_defaults(run=partial(_run, "orphans"))


def _parser(nouns: Nouns, noun: str, text: str, does: str) -> Parser:
    parser = nouns.add_parser(
        noun,
        help=text,
        description=f"{does}{_HOW}",
        epilog=f"examples:\n  connect-share check {noun} -w worker.properties\n"
        f"  connect-share repair {noun} -w worker.properties --dry-run\n"
        f"  connect-share repair {noun} -w worker.properties --backup before.avro --yes",
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "-w", "--worker-config", metavar="FILE", type=Path, required=True, help="worker file of the group"
    )
    parser.add_argument(
        "--backup", metavar="FILE", type=Path, help="the backup to write; beside the worker file by default"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, write nothing")
    add_output(parser)
    return parser


def _run(noun: str, arguments: argparse.Namespace, out: Output) -> int:
    plan: Plan = plan_order if noun == "order" else partial(plan_orphans, with_offsets=arguments.offsets)
    repair = Repair(WorkerConfig.from_file(arguments.worker_config), plan)
    with ProgressLine(sys.stderr) as progress:
        mending = repair.look(progress).mending
    members = _members(repair, mending)
    backup: Path | None = None
    if arguments.dry_run or mending.records:
        code = show_preview(arguments, out, _lines(noun, repair, mending), members, "write these?")
        if code is not None:
            return code
        backup = arguments.backup or new_backup_path(arguments.worker_config, f"{arguments.worker_config.stem}.repair")
        with ProgressLine(sys.stderr) as progress:
            mending = repair.write(backup, progress)
    if out.is_json:
        out.json({"dry_run": False, **_members(repair, mending), "backup": None if backup is None else str(backup)})
    elif backup is None:
        out.lines(f"{shown_group(repair.worker.cluster_group_id)}: nothing to repair")
    else:
        out.lines(
            f"{plural(len(mending.records), 'record')} written, and the topics replayed: it is as it should be",
            f"backup: {backup}",
            "the workers may be started",
        )
    return 0


def _members(repair: Repair, mending: Mending) -> dict[str, Any]:
    counts = Counter(record.topic for record in mending.records)
    return {
        "group": repair.worker.cluster_group_id,
        "connectors": list(mending.connectors),
        "topics": {topic_type.value: topic for topic_type, topic in repair.topics.items()},
        "records": {topic_type.value: counts[topic] for topic_type, topic in repair.topics.items()},
    }


def _lines(noun: str, repair: Repair, mending: Mending) -> list[str]:
    counts = Counter(record.topic for record in mending.records)
    verb = "written" if noun == "order" else "removed"
    lines = [f"group {shown_group(repair.worker.cluster_group_id)}: {plural(len(mending.connectors), 'connector')}"]
    lines += [f"  {named(mending.connectors)}"] if mending.connectors else []
    lines += [f"  {topic}: {plural(count, 'record')} to be {verb}" for topic, count in sorted(counts.items())]
    return [*lines, *([] if mending.records else ["  nothing to repair"])]
