"""The commands ``apply`` and ``resume``: preview, ask, copy; with ``--follow`` mirror until interrupted."""

from __future__ import annotations

import argparse
import signal
from functools import partial
from typing import Final

from connect_share.console.options import Parser
from connect_share.console.output import Output, ProgressLine, Result
from connect_share.console.program import NOTHING_CHANGED, Command, Preview, Steps, stopped_by
from connect_share.errors import ConnectShareError, UsageError, raised_by
from migrator.apply import Lag, apply_plan, check_follow, check_resume, follow_plan, require_made_to_follow, resume_plan
from migrator.checks import check_all
from migrator.cli.options import add_plan, engine_of, plan_lines
from migrator.report import evidence_of, unwritable
from migrator.run import Manifest, MigrationRun, MigrationStatus, locked_run, manifest_path, plan_command


def _apply(arguments: argparse.Namespace, _: Output) -> Steps:
    with locked_run(arguments.plan) as run:
        if arguments.follow:
            require_made_to_follow(run)
        is_copied = run.manifest is not None and run.manifest.status is not MigrationStatus.PLANNED
        goes_on = arguments.follow and is_copied
        if goes_on and arguments.isolation_proof and run.applied().isolation is None:
            raise UsageError("--isolation-proof notes what is there before the copy, which has ended: leave it out")
        check = check_follow if goes_on else partial(check_all, first=True)
        with ProgressLine() as progress:
            objections = [*raised_by(partial(check, run, progress))] if arguments.dry_run else []
        objections += unwritable(run, arguments.evidence)
        if arguments.dry_run or objections or not arguments.yes:
            yield Preview(plan_lines(run.plan), {"run_id": run.plan.run_id}, "apply this plan?", objections=objections)
        with evidence_of(run, arguments.evidence, "apply --follow" if arguments.follow else "apply"):
            if not goes_on:
                with ProgressLine() as progress:
                    apply_plan(
                        run,
                        engine=engine_of(arguments, progress, "apply_plan", "copy_engine"),
                        engine_name=arguments.engine,
                        progress=progress,
                        isolation_proof=arguments.isolation_proof,
                        backup=not arguments.no_backup,
                    )
            result = _follow(run) if arguments.follow else _applied(run)
    yield result


def _resume(arguments: argparse.Namespace, _: Output) -> Steps:
    with locked_run(arguments.plan) as run:
        if arguments.dry_run:
            with ProgressLine() as progress:
                objections = [*raised_by(partial(check_resume, run, progress)), *unwritable(run, arguments.evidence)]
            yield Preview(plan_lines(run.plan), {"run_id": run.plan.run_id}, "", objections=objections)
        with evidence_of(run, arguments.evidence, "resume"), ProgressLine() as progress:
            engine = engine_of(arguments, progress, "apply_plan", "copy_engine")
            resume_plan(run, engine=engine, engine_name=arguments.engine, progress=progress)
        yield _applied(run)


def _applied(run: MigrationRun) -> Result:
    manifest, path = run.applied(), run.manifest_path
    return Result(
        {"dry_run": False, "manifest_file": str(path), "manifest": manifest.model_dump(mode="json")},
        [
            f"{manifest.records_written:,} records written, {len(manifest.evidence)} slices; manifest {path}",
            f"next: {run.command('verify')}",
        ],
    )


def _follow(run: MigrationRun) -> Result:
    """Mirror until Ctrl-C, SIGTERM or a cut-over; say how far behind it is, on one line of a terminal, else in JSON lines."""
    with stopped_by(signal.SIGINT, signal.SIGTERM) as stopped, ProgressLine() as progress:

        def report(lag: Lag) -> None:
            progress.follow(
                f"following: {lag.offsets:,} offsets behind, {lag.written:,} records mirrored; Ctrl-C ends it",
                {"phase": "following", "offsets_behind": lag.offsets, "records": lag.written},
            )

        manifest = follow_plan(run, stopped=stopped.is_set, report=report, progress=progress)
    written = 0 if manifest.followed is None else manifest.followed.written
    return Result(
        {"manifest_file": str(run.manifest_path), "manifest": manifest.model_dump(mode="json")},
        [
            f"{manifest.records_written:,} records copied, {written:,} mirrored since; nothing follows the source now",
            f"next: stop the source's workers, then {run.command('cutover')} (apply --follow continues)",
        ],
    )


def _add_apply(parser: Parser) -> None:
    add_plan(parser, engine=True)
    parser.add_argument("--follow", action="store_true", help="mirror until Ctrl-C or the cut-over")
    parser.add_argument(
        "--isolation-proof",
        action="store_true",
        help="first note the records of other groups at the destination, for verify --isolation",
    )
    parser.add_argument("--no-backup", action="store_true", help="write no backup first: nothing can be restored then")


def _interrupted(arguments: argparse.Namespace) -> str:
    if getattr(arguments, "dry_run", False):
        return NOTHING_CHANGED
    try:
        path = manifest_path(arguments.plan)
        status = Manifest.load(path).status if path.exists() else None
    except ConnectShareError:
        status = MigrationStatus.PLANNED
    if status is None:
        return f"nothing was copied; {plan_command(arguments.verb, arguments.plan)} begins again"
    verb = "resume" if status is MigrationStatus.PLANNED else "verify"
    return f"what was copied so far stays; next: {plan_command(verb, arguments.plan)}"


APPLY: Final = Command(
    "apply",
    _apply,
    examples=[
        "connect-share-migrate apply move.json --dry-run",
        "connect-share-migrate apply move.json --engine spark --yes",
        "connect-share-migrate apply move.json --follow",
    ],
    options=_add_apply,
    changes="check everything, write nothing",
    after_interruption=_interrupted,
)
RESUME: Final = Command(
    "resume",
    _resume,
    about="It asks nothing, because apply has asked.",
    examples=["connect-share-migrate resume move.json", "connect-share-migrate resume move.json --engine spark"],
    options=partial(add_plan, engine=True),
    changes="check everything, write nothing",
    after_interruption=_interrupted,
)
COMMANDS: Final = [APPLY, RESUME]
