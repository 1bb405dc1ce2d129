"""The commands ``cutover`` and ``rollback``: preview, ask, act."""

from __future__ import annotations

import argparse
import sys

from connect_share.console import Output, ProgressLine, show_preview
from migrator.cli.text import cutover_lines, preview_json, result_json, rollback_lines
from migrator.cutover import TIMEOUT_S, cut_over, preview_cutover
from migrator.report import evidence_of
from migrator.rollback import Rollback, roll_back, used_since
from migrator.run import MigrationRun, locked_run


def cutover_command(arguments: argparse.Namespace) -> int:
    """Copy what is left, verify, fence, seal. The plan is locked after the question: a process may be following it."""
    output = Output("cutover", arguments.output)
    run = MigrationRun.load(arguments.plan)
    with ProgressLine(sys.stderr) as progress:
        shown = preview_cutover(run, arguments.seal, progress)
    code = show_preview(arguments, output, cutover_lines(shown), preview_json(shown), "cut over?")
    if code is not None:
        return code
    with evidence_of(run, arguments.evidence, "cutover") as evidence, ProgressLine(sys.stderr) as progress:
        result = cut_over(
            run,
            how=arguments.seal,
            timeout_s=TIMEOUT_S if arguments.timeout is None else arguments.timeout,
            progress=progress,
        )
        evidence.verification = result.verification
    if output.is_json:
        output.json(result_json(run, result))
        return 0
    sealed = result.manifest.sealed
    done = "the source was not sealed" if sealed is None else f"sealed with {sealed.records} records"
    output.lines(
        f"both sides are equal, {result.fenced} transactional ids fenced, {done}",
        "start the new workers now",
    )
    return 0


def rollback_command(arguments: argparse.Namespace) -> int:
    """Remove what the plan wrote."""
    output = Output("rollback", arguments.output)
    with locked_run(arguments.plan) as run:
        with ProgressLine(sys.stderr) as progress:
            found = roll_back(run, dry_run=True, progress=progress)
        refusal = used_since(found) if found.newer and not arguments.although_used else None
        code = show_preview(
            arguments, output, rollback_lines(found), _rollback_json(found), "remove these?", refusal=refusal
        )
        if code is not None:
            return code
        with evidence_of(run, arguments.evidence, "rollback"), ProgressLine(sys.stderr) as progress:
            found = roll_back(run, although_used=arguments.although_used, progress=progress)
    if output.is_json:
        output.json({"dry_run": False, **_rollback_json(found)})
    else:
        output.lines(
            f"{found.records:,} keys removed, {found.unsealed} target states put back at the source",
            "the old workers may be started again",
        )
    return 0


def _rollback_json(found: Rollback) -> dict[str, object]:
    return {
        "removed": {topic_type.value: len(keys) for topic_type, keys in found.removals.items()},
        "connectors": [
            {"topic_type": topic_type.value, "connector": name, "keys": count}
            for (topic_type, name), count in sorted(found.by_connector.items(), key=str)
        ],
        "written_since": sum(found.newer.values()),
        "needs_although_used": bool(found.newer),
        "unsealed": found.unsealed,
    }
