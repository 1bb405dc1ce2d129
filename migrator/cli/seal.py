"""The commands ``seal`` and ``unseal``: preview, ask, write to the source alone."""

from __future__ import annotations

import argparse
import sys

from connect_share.console import Output, ProgressLine, show_preview
from migrator.cli.text import cutover_lines, preview_json, result_json
from migrator.report import evidence_of
from migrator.run import locked_run
from migrator.seal import preview_seal, seal_plan, unseal_plan


def seal_command(arguments: argparse.Namespace) -> int:
    """Fence what is not fenced, seal."""
    output = Output("seal", arguments.output)
    with locked_run(arguments.plan) as run:
        with ProgressLine(sys.stderr) as progress:
            shown = preview_seal(run, arguments.seal, progress)
        code = show_preview(arguments, output, cutover_lines(shown), preview_json(shown), "seal?")
        if code is not None:
            return code
        with evidence_of(run, arguments.evidence, "seal"), ProgressLine(sys.stderr) as progress:
            result = seal_plan(run, arguments.seal, progress)
    if output.is_json:
        output.json(result_json(run, result))
        return 0
    sealed = result.manifest.sealed
    records = 0 if sealed is None else sealed.records
    output.lines(
        f"{result.fenced} transactional ids fenced, sealed with {records} records",
        "do not start the old workers any more",
    )
    return 0


def unseal_command(arguments: argparse.Namespace) -> int:
    """Put the target states back."""
    output = Output("unseal", arguments.output)
    with locked_run(arguments.plan) as run:
        with ProgressLine(sys.stderr) as progress:
            found = unseal_plan(run, dry_run=True, progress=progress)
        lines = [f"{found.connectors} connector(s) at the source get back the target state they had"]
        if found.used:
            lines.append(f"new workers have written since: {found.used}; needs --although-used")
        members = {"connectors": found.connectors, "new_workers_have_written": bool(found.used)}
        code = show_preview(arguments, output, lines, members, "unseal?")
        if code is not None:
            return code
        with evidence_of(run, arguments.evidence, "unseal"), ProgressLine(sys.stderr) as progress:
            unseal_plan(run, although_used=arguments.although_used, progress=progress)
    if output.is_json:
        output.json({"dry_run": False, **members})
    else:
        output.lines("unsealed: the old workers may be started again; keep the new ones stopped")
    return 0
