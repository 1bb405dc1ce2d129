"""Verify a migration with Spark: one task a group and topic folds both sides and compares the states."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from connect_share.console import Output, ProgressLine
from migrator.cli.commands import show_verification
from migrator.plan.plan import MigrationPlan
from migrator.report.evidence_folder import leaving
from migrator.verify.equality import StateDifference
from migrator.verify.verification import verify_plan
from migrator.verify.verify_job import VerifyJob
from spark_jobs import command_line
from spark_jobs.session import spark_session
from spark_jobs.tasks import run_as_tasks, verify_in_task


def _body(options: argparse.Namespace) -> int:
    MigrationPlan.load(options.plan)
    with leaving(options.plan, options.evidence, "verify") as evidence, ProgressLine(sys.stderr) as progress:

        def engine(jobs: Sequence[VerifyJob]) -> list[list[StateDifference]]:
            with spark_session("connect-share verify_plan") as spark:
                return run_as_tasks(spark, jobs, verify_in_task, progress=progress, what="comparing topics")

        evidence.verification = verification = verify_plan(options.plan, engine=engine, progress=progress)
    return show_verification(Output("verify", options.output), verification)


def main(argv: Sequence[str]) -> int:
    """Compare both sides of an applied plan. 0 equal, 1 different or failed, 2 usage."""
    arguments = command_line.parser("verify_plan", __doc__ or "")
    arguments.add_argument("plan", type=Path, help="plan file that was applied")
    arguments.add_argument("--evidence", type=Path, help="folder for the evidence; default: beside the plan")
    arguments.add_argument("--output", choices=("text", "json"), default="text")
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
