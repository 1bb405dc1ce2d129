"""The demo's move: plan, apply and verify, with Spark as the engine."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from connect_share.console import ProgressLine
from migrator.apply import apply
from migrator.copy.evidence import SliceEvidence
from migrator.facts.migration_run import MigrationRun, locked_run
from migrator.plan.plan import MigrationPlan
from migrator.planner import make_plan as planner
from migrator.report.evidence_folder import evidence_of
from migrator.verify import verification
from spark_jobs.apply_plan import SPARK_ENGINE, copy_engine
from spark_jobs.demo.result import Move, MovedTopic
from spark_jobs.demo.workers import Captured
from spark_jobs.verify_plan import verify_engine


def make_plan(captured: Sequence[Captured], plan_file: Path) -> MigrationPlan:
    """Plan the move of all clusters onto the shared topics, and write the plan.

    Raises:
        ConnectShareError: the move is not possible.
    """
    sources, destinations = zip(*((each.worker_file, each.shared_worker_file) for each in captured), strict=True)
    with ProgressLine(sys.stderr) as progress:
        plan = planner.make_plan(sources, destinations, now_ms=int(time.time() * 1e3), progress=progress)
    plan.save(plan_file)
    return plan


def apply_plan(plan_file: Path) -> None:
    """Copy on Spark what the plan says.

    Raises:
        ConnectShareError: the plan was refused, or the copy failed.
    """
    with locked_run(plan_file) as run, evidence_of(run, None, "apply"), ProgressLine(sys.stderr) as progress:
        apply.apply_plan(run, engine=copy_engine(progress), engine_name=SPARK_ENGINE, progress=progress)


def verify_plan(plan_file: Path) -> tuple[Move, verification.Verification]:
    """Compare both sides on Spark; return what was moved, and the comparison.

    Raises:
        ConnectShareError: the comparison could not be made.
    """
    run = MigrationRun.load(plan_file)
    with evidence_of(run, None, "verify") as evidence, ProgressLine(sys.stderr) as progress:
        evidence.verification = found = verification.verify_plan(run, engine=verify_engine(progress), progress=progress)
    parts: dict[tuple[int, str], list[SliceEvidence]] = {}
    for each in run.applied().evidence:
        parts.setdefault((each.source_index, each.topic_type.value), []).append(each)
    move = Move(
        plan_file=plan_file.name,
        run_id=run.plan.run_id,
        warnings=(*run.plan.warnings, *found.warnings),
        topics=tuple(_moved_topic(parts[key]) for key in sorted(parts)),
        verified_equal=found.equal,
        differences=tuple(str(difference) for difference in found.differences),
    )
    return move, found


def _moved_topic(slices: Sequence[SliceEvidence]) -> MovedTopic:
    """Return what became of one dedicated topic, from what was copied of its partitions."""
    skipped: Counter[str] = Counter()
    for each in slices:
        skipped.update({reason.value: number for reason, number in each.skipped.items()})
    return MovedTopic(
        cluster_group_id=slices[0].cluster_group_id or "",
        topic_type=slices[0].topic_type,
        topic=slices[0].topic,
        shared_topic=slices[0].destination_topic,
        records_read=sum(each.read for each in slices),
        records_written=sum(each.written for each in slices),
        tombstones=sum(each.tombstones for each in slices),
        skipped=dict(skipped),
    )
