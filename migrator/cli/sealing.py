"""The commands ``seal`` and ``unseal``: preview, ask, write to the source alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from connect_share.console import Output, ProgressLine
from migrator.cli.cutting_over import confirmed, preview_json, result_json
from migrator.cli.text import cutover_lines
from migrator.cutover.seal import preview_seal, seal_plan, unseal_plan
from migrator.report.evidence_folder import leaving


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, write nothing")
    parser.add_argument(
        "--evidence", metavar="DIR", type=Path, help="folder for the evidence; default: <plan>.evidence beside the plan"
    )
    parser.add_argument("--output", choices=("text", "json"), default="text", help="form of the result")


def add_seal(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of ``seal``."""
    parser.add_argument("plan", metavar="PLAN", type=Path)
    parser.add_argument(
        "--seal",
        choices=("stop", "remove"),
        help="stop: every connector at the source gets the target state STOPPED; remove: the originals are removed. "
        "Default: as it was sealed before, else as cutover does",
    )
    _add_common(parser)


def add_unseal(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of ``unseal``."""
    parser.add_argument("plan", metavar="PLAN", type=Path)
    parser.add_argument(
        "--although-used", action="store_true", help="go on although new workers have written; the copies stay"
    )
    _add_common(parser)


def seal_command(arguments: argparse.Namespace) -> int:
    """``seal``: preview, ask, fence what is not fenced, seal."""
    output = Output("seal", arguments.output)
    with ProgressLine(sys.stderr) as progress:
        shown = preview_seal(arguments.plan, arguments.seal, progress)
    if arguments.dry_run and output.is_json:
        output.json(preview_json(shown))
        return 0
    (output if arguments.dry_run else Output("seal", stdout=sys.stderr)).lines(*cutover_lines(shown))
    if arguments.dry_run:
        return 0
    if not arguments.yes and not confirmed("seal?"):
        return 1
    with leaving(arguments.plan, arguments.evidence, "seal"), ProgressLine(sys.stderr) as progress:
        result = seal_plan(arguments.plan, arguments.seal, progress)
    sealed = result.manifest.sealed
    records = 0 if sealed is None else sealed.records
    if output.is_json:
        output.json(result_json(arguments.plan, result))
    else:
        output.lines(
            f"{result.fenced} transactional ids fenced, sealed with {records} records",
            "do not start the old workers any more",
        )
    return 0


def unseal_command(arguments: argparse.Namespace) -> int:
    """``unseal``: preview, ask, put the target states back."""
    output = Output("unseal", arguments.output)
    with ProgressLine(sys.stderr) as progress:
        found = unseal_plan(arguments.plan, dry_run=True, progress=progress)
    if not (output.is_json and arguments.dry_run):
        lines = [f"{found.connectors} connector(s) at the source get back the target state they had"]
        if found.used:
            lines.append(f"new workers have written since: {found.used}; needs --although-used")
        (output if arguments.dry_run else Output("unseal", stdout=sys.stderr)).lines(*lines)
    if not arguments.dry_run:
        if not arguments.yes and not confirmed("unseal?"):
            return 1
        with leaving(arguments.plan, arguments.evidence, "unseal"), ProgressLine(sys.stderr) as progress:
            unseal_plan(arguments.plan, although_used=arguments.although_used, progress=progress)
    if output.is_json:
        output.json(
            {"dry_run": arguments.dry_run, "connectors": found.connectors, "new_workers_have_written": bool(found.used)}
        )
    elif not arguments.dry_run:
        output.lines("unsealed: the old workers may be started again; keep the new ones stopped")
    return 0
