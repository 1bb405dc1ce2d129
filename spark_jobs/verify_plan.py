"""Verify a migration with Spark: one task a group and topic folds both sides and compares the states."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from connect_share.files import Progress
from migrator.cli.cutover import VERIFY
from migrator.verify.equality import StateDifference
from migrator.verify.verification import VerifyEngine, VerifyJob
from spark_jobs import command_line
from spark_jobs.apply_plan import SPARK_ENGINE
from spark_jobs.session import spark_session
from spark_jobs.tasks import run_as_tasks


def verify_engine(progress: Progress) -> VerifyEngine:
    """Return the engine that compares each topic of each group in a task."""

    def engine(jobs: Sequence[VerifyJob]) -> list[list[StateDifference]]:
        with spark_session("connect-share verify_plan") as spark:
            return run_as_tasks(spark, jobs, VerifyJob.run, progress=progress, what="comparing topics")

    return engine


def main(argv: Sequence[str]) -> int:
    """Compare both sides of an applied plan. 0 equal, 1 different or failed, 2 usage."""
    parser = command_line.parser("verify_plan", __doc__ or "")
    parser.add_argument("plan", type=Path, help="plan file that was applied")
    parser.add_argument("--evidence", type=Path, help="folder for the evidence; default: beside the plan")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.set_defaults(engine=SPARK_ENGINE, isolation=False)
    return command_line.run_command(VERIFY, parser.parse_args(argv))


if __name__ == "__main__":
    command_line.exit_with(main)
