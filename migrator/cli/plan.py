"""``plan``: ask the clusters, write the plan file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from connect_share.console import Command, Output, Parser, ProgressLine, Result
from connect_share.errors import AlreadyAppliedError, ConfigError, UsageError
from connect_share.worker_config.worker import files_in_folders
from migrator.apply import now_ms
from migrator.cli.options import NOTHING_WRITTEN, add_files, plan_lines
from migrator.moves import Intent
from migrator.plan import read_plan_file
from migrator.planner import make_plan
from migrator.run import manifest_path

_ASSIGNMENT = TypeAdapter(dict[str, tuple[str, ...]])


def _plan(arguments: argparse.Namespace, _: Output) -> Result:
    """Plan, write the file, return the plan."""
    if arguments.plan is None and not arguments.dry_run:
        raise UsageError("plan needs -o PLAN, the file to write, or --dry-run")
    if arguments.plan is not None and manifest_path(arguments.plan).exists():
        raise AlreadyAppliedError(
            f"{arguments.plan} was applied, its manifest is beside it: give the new plan another name"
        )
    sources, destinations = files_in_folders(arguments.sources, arguments.destinations)
    with ProgressLine(sys.stderr) as progress:
        intent = Intent(
            job=arguments.job,
            assign=None if arguments.assign is None else _read_assignment(arguments.assign),
            merge=arguments.merge,
            mode=arguments.mode,
            follow=arguments.follow,
        )
        plan = make_plan(sources, destinations, now_ms=now_ms(), intent=intent, progress=progress)
    if not arguments.dry_run:
        plan.save(arguments.plan)
    file = None if arguments.dry_run else str(arguments.plan)
    lines = plan_lines(plan)
    if file is not None:
        follow = " --follow" if plan.follow else ""
        lines += ["", f"written to {file}; next: connect-share-migrate apply {file}{follow}"]
    return Result({"file": file, "plan": plan.model_dump(mode="json")}, lines)


def _read_assignment(path: Path) -> dict[str, tuple[str, ...]]:
    """Read which connector belongs to which group: ``{"group.id": ["connector", ...], ...}``."""
    try:
        return _ASSIGNMENT.validate_json(read_plan_file(path, "assignment"), strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the top"
        raise ConfigError(
            f'assignment {path} is not usable, at {where}: {first["msg"]}; wanted: {{"group.id": ["connector"]}}'
        ) from error


def _add_options(parser: Parser) -> None:
    add_files(parser)
    parser.add_argument("-o", "--plan", dest="plan", metavar="PLAN", type=Path, help="the plan file to write")
    parser.add_argument("--job", metavar="NAME", help="move this connector only, to the destination file's group")
    parser.add_argument(
        "--assign",
        metavar="FILE",
        type=Path,
        help='for clusters that share plain keys by accident: JSON, {"group.id": ["connector", ...], ...}',
    )
    parser.add_argument("--merge", action="store_true", help="let several sources become one group")
    parser.add_argument(
        "--mode",
        choices=("mirror", "state"),
        default="mirror",
        help="mirror: record for record; state: the current state only, in Connect's own order",
    )
    parser.add_argument("--follow", action="store_true", help="the sources' workers may be alive until the cut-over")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, write no file")


COMMANDS: Final = [
    Command(
        "plan",
        _plan,
        examples=[
            "connect-share-migrate plan -w orders.properties --to-worker-config orders-shared.properties -o move.json",
            "connect-share-migrate plan -w orders.properties --to-worker-config shared.properties --job my.conn -o job.json",
            "connect-share-migrate plan -w /etc/connect --to-worker-config /etc/connect-shared -o all.json --dry-run",
        ],
        options=_add_options,
        after_interruption=lambda _: NOTHING_WRITTEN,
    )
]
