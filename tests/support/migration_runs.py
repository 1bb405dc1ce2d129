"""The steps of a migration on a plan file, each with the plan loaded, and locked, as the commands do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from connect_share.files import Silent
from connect_share.kafka.write import PROCESS_PRODUCERS
from migrator import apply, bystanders, cutover
from migrator import cutover as rollback
from migrator.copy.copy_job import CopyJob, SliceEvidence, copy_all
from migrator.run import MigrationRun, locked_run
from migrator.verify import verification
from migrator.verify.equality import Verification
from tests.support.sides import in_tasks

P = ParamSpec("P")
R = TypeVar("R")


def _on_file(step: Callable[Concatenate[MigrationRun, P], R]) -> Callable[Concatenate[Path, P], R]:
    def on_file(plan: Path, /, *arguments: P.args, **named: P.kwargs) -> R:
        return step(MigrationRun.load(plan), *arguments, **named)

    return on_file


def _on_locked_file(step: Callable[Concatenate[MigrationRun, P], R]) -> Callable[Concatenate[Path, P], R]:
    def on_file(plan: Path, /, *arguments: P.args, **named: P.kwargs) -> R:
        with locked_run(plan) as run:
            return step(run, *arguments, **named)

    return on_file


def copy_one(job: CopyJob, *, resumed: bool = False) -> SliceEvidence:
    """Copy one slice; with ``resumed`` an earlier attempt may have written, and what is there is not written again."""
    (evidence,) = copy_all([replace(job, resumed=job.resumed or resumed)], PROCESS_PRODUCERS, Silent())
    return evidence


apply_plan = _on_locked_file(apply.apply_plan)
resume_plan = _on_locked_file(apply.resume_plan)
follow_plan = _on_locked_file(apply.follow_plan)
roll_back = _on_locked_file(rollback.roll_back)
preview_seal = _on_locked_file(cutover.preview_seal)
seal_plan = _on_locked_file(cutover.seal_plan)
unseal_plan = _on_locked_file(cutover.unseal_plan)
check_bystanders = _on_file(bystanders.check_bystanders)
preview_cutover = _on_file(cutover.preview_cutover)
cut_over = _on_file(cutover.cut_over)


@_on_file
def verify_plan(run: MigrationRun, /, **named: Any) -> Verification:
    """Verify, and check that Spark's engine says the same, if none is given: its tasks run here."""
    verified = verification.verify_plan(run, **named)
    if not named:
        assert verification.compare_sides(run, engine=in_tasks).differences == verified.differences
    return verified
