"""Apply a migration plan with Spark: one task a source partition, each consuming, rewriting and producing in order."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from connect_share.console import Output, ProgressLine
from migrator.apply.apply import apply_plan, check_plan, resume_plan
from migrator.cli.commands import show_applied
from migrator.copy.copy_job import CopyJob
from migrator.copy.evidence import SliceEvidence
from migrator.plan.plan import MigrationPlan
from migrator.progress import Progress
from migrator.report.evidence_folder import leaving
from spark_jobs import command_line
from spark_jobs.session import spark_session
from spark_jobs.tasks import copy_in_task, run_as_tasks

SPARK_ENGINE: Final = "spark"


def _body(options: argparse.Namespace) -> int:
    MigrationPlan.load(options.plan)
    command = "resume" if options.resume else "apply"
    with leaving(options.plan, options.evidence, command), ProgressLine(sys.stderr) as progress:
        if not options.resume:
            # What cannot be done is said before ten seconds are spent on a session; apply checks again before it writes.
            check_plan(options.plan)

        def engine(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
            yield from _copied(jobs, progress)

        if options.resume:
            manifest = resume_plan(options.plan, engine=engine, engine_name=SPARK_ENGINE, progress=progress)
        else:
            manifest = apply_plan(
                options.plan,
                engine=engine,
                engine_name=SPARK_ENGINE,
                progress=progress,
                isolation_proof=options.isolation_proof,
                backup=not options.no_backup,
            )
    show_applied(Output(command, options.output), options.plan, manifest)
    return 0


def _copied(jobs: Sequence[CopyJob], progress: Progress) -> list[SliceEvidence]:
    with spark_session("connect-share apply_plan") as spark:
        return run_as_tasks(spark, jobs, copy_in_task, progress=progress, what="copying partitions")


def main(argv: Sequence[str]) -> int:
    """Copy what a plan says; writes the manifest beside it. 0 done, 1 failed or refused, 2 usage."""
    arguments = command_line.parser("apply_plan", __doc__ or "")
    arguments.add_argument("plan", type=Path, help="plan file of connect-share-migrate plan, already confirmed")
    arguments.add_argument("--resume", action="store_true", help="go on with a run that did not end")
    arguments.add_argument("--isolation-proof", action="store_true", help="note first what others have there")
    arguments.add_argument("--no-backup", action="store_true", help="write no backup first")
    arguments.add_argument("--evidence", type=Path, help="folder for the evidence; default: beside the plan")
    arguments.add_argument("--output", choices=("text", "json"), default="text")
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
