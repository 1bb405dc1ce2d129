"""The command ``plan``: ask the clusters, write the plan file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from connect_share.console import Output, ProgressLine
from connect_share.errors import AlreadyAppliedError, ConfigError, UsageError
from migrator.apply import now_ms
from migrator.cli.text import plan_lines
from migrator.moves import Intent
from migrator.plan import read_plan_file
from migrator.planner import make_plan
from migrator.run import manifest_path

_ASSIGNMENT = TypeAdapter(dict[str, tuple[str, ...]])


def plan_command(arguments: argparse.Namespace) -> int:
    """Plan, write the file, show the plan."""
    if arguments.plan is None and not arguments.dry_run:
        raise UsageError("plan needs -o PLAN, the file to write, or --dry-run")
    if arguments.plan is not None and manifest_path(arguments.plan).exists():
        raise AlreadyAppliedError(
            f"{arguments.plan} was applied, its manifest is beside it: give the new plan another name"
        )
    with ProgressLine(sys.stderr) as progress:
        intent = Intent(
            job=arguments.job,
            assign=None if arguments.assign is None else _read_assignment(arguments.assign),
            merge=arguments.merge,
            mode=arguments.mode,
            follow=arguments.follow,
        )
        plan = make_plan(arguments.sources, arguments.destinations, now_ms=now_ms(), intent=intent, progress=progress)
    if not arguments.dry_run:
        plan.save(arguments.plan)
    output = Output("plan", arguments.output)
    if output.is_json:
        file = None if arguments.dry_run else str(arguments.plan)
        output.json({"file": file, "plan": plan.model_dump(mode="json")})
        return 0
    output.lines(*plan_lines(plan))
    if not arguments.dry_run:
        follow = " --follow" if plan.follow else ""
        output.lines("", f"written to {arguments.plan}; next: connect-share-migrate apply {arguments.plan}{follow}")
    return 0


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
