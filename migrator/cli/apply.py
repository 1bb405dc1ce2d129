"""The commands ``apply`` and ``resume``: preview, ask, copy; with ``--follow`` mirror until interrupted."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from connect_share.console import NEEDS_YES, Output, ProgressLine
from connect_share.console.prompt import confirmed
from migrator.apply import Lag, apply_plan, follow_plan, require_made_to_follow, resume_plan
from migrator.checks import check_all
from migrator.cli.engines import spark_job
from migrator.cli.text import plan_lines
from migrator.report import evidence_of
from migrator.run import MigrationRun, MigrationStatus, locked_run

_REPORT_EVERY_S: Final = 2.0
_REPORT_EVERY_ON_TERMINAL_S: Final = 0.2


def apply_command(arguments: argparse.Namespace) -> int:
    """Show the plan, ask, and apply the very plan that was shown."""
    output = Output("apply", arguments.output)
    with locked_run(arguments.plan) as run:
        if arguments.follow:
            require_made_to_follow(run)
        if arguments.dry_run:
            return _dry_run(run, output)
        if not arguments.yes:
            Output("apply", stdout=sys.stderr).lines(*plan_lines(run.plan))
            if not confirmed("apply this plan?", otherwise=NEEDS_YES):
                return 1
        with evidence_of(run, arguments.evidence, "apply --follow" if arguments.follow else "apply"):
            if not (arguments.follow and _is_copied(run)):
                with ProgressLine(sys.stderr) as progress:
                    apply_plan(
                        run,
                        engine=spark_job("apply_plan").copy_engine(progress) if arguments.engine == "spark" else None,
                        engine_name=arguments.engine,
                        progress=progress,
                        isolation_proof=arguments.isolation_proof,
                        backup=not arguments.no_backup,
                    )
            if arguments.follow:
                _follow(run, output)
            else:
                _show_applied(run, output)
    return 0


def resume_command(arguments: argparse.Namespace) -> int:
    """Continue an apply that did not end."""
    with locked_run(arguments.plan) as run, evidence_of(run, arguments.evidence, "resume"):
        with ProgressLine(sys.stderr) as progress:
            resume_plan(
                run,
                engine=spark_job("apply_plan").copy_engine(progress) if arguments.engine == "spark" else None,
                engine_name=arguments.engine,
                progress=progress,
            )
        _show_applied(run, Output("resume", arguments.output))
    return 0


def _dry_run(run: MigrationRun, output: Output) -> int:
    with ProgressLine(sys.stderr) as progress:
        check_all(run, progress, first=True)
    if output.is_json:
        output.json({"dry_run": True, "run_id": run.plan.run_id})
    else:
        output.lines(*plan_lines(run.plan), "", "dry run: everything was checked, nothing was written")
    return 0


def _is_copied(run: MigrationRun) -> bool:
    return run.manifest is not None and run.manifest.status is not MigrationStatus.PLANNED


def _show_applied(run: MigrationRun, output: Output) -> None:
    manifest, path = run.applied(), run.manifest_path
    if output.is_json:
        output.json({"dry_run": False, "manifest_file": str(path), "manifest": manifest.model_dump(mode="json")})
        return
    output.lines(
        f"{manifest.records_written:,} records written, {len(manifest.evidence)} slices; manifest {path}",
        f"next: connect-share-migrate verify {run.plan_path}",
    )


def _follow(run: MigrationRun, output: Output) -> None:
    """Mirror until Ctrl-C, SIGTERM or a cut-over; prints the result."""
    with _stop_signals() as seen, ProgressLine(sys.stderr) as progress:
        manifest = follow_plan(run, stopped=lambda: bool(seen), report=_LagLine(), progress=progress)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    written = 0 if manifest.followed is None else manifest.followed.written
    if output.is_json:
        output.json({"manifest_file": str(run.manifest_path), "manifest": manifest.model_dump(mode="json")})
        return
    output.lines(
        f"{manifest.records_written:,} records copied, {written:,} mirrored since; nothing follows the source now",
        f"next: stop the source's workers, then connect-share-migrate cutover {run.plan_path} (apply --follow continues)",
    )


class _LagLine:
    """How far the mirror is behind: one line on a terminal, JSON lines otherwise."""

    def __init__(self) -> None:
        self._shown_s = 0.0

    def __call__(self, lag: Lag) -> None:
        now_s = time.monotonic()
        terminal = sys.stderr.isatty()
        if now_s - self._shown_s < (_REPORT_EVERY_ON_TERMINAL_S if terminal else _REPORT_EVERY_S):
            return
        self._shown_s = now_s
        if terminal:
            text = f"following: {lag.offsets:,} offsets behind, {lag.written:,} records mirrored; Ctrl-C ends it"
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        else:
            line = {"phase": "following", "offsets_behind": lag.offsets, "records": lag.written}
            print(json.dumps(line), file=sys.stderr, flush=True)


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM, so that the current round ends in order."""
    seen: list[int] = []

    def note(number: int, _frame: object) -> None:
        seen.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
