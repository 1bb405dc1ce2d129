"""The demo's own steps between the workers' two starts: plan, copy, verify, Python stores."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from connect_share.console.progress_line import ProgressLine
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from migrator import apply, planner
from migrator.plan import MigrationPlan
from migrator.report import evidence_of
from migrator.run import MigrationRun, locked_run
from migrator.verify import equality, verification
from spark_jobs.apply_plan import SPARK_ENGINE, copy_engine
from spark_jobs.verify_plan import verify_engine
from tests.lab.demo.result import StoreStart
from tests.lab.demo.views import GroupComparison, compare_views, view_from_storage
from tests.lab.demo.workers import Captured


def make_plan(captured: Sequence[Captured], plan_file: Path) -> MigrationPlan:
    """Plan the move of all clusters onto the shared topics, and write the plan."""
    sources, destinations = zip(*((each.worker_file, each.shared_worker_file) for each in captured), strict=True)
    with ProgressLine() as progress:
        plan = planner.make_plan(sources, destinations, now_ms=int(time.time() * 1e3), progress=progress)
    plan.save(plan_file)
    return plan


def apply_plan(plan_file: Path) -> None:
    """Copy on Spark what the plan says."""
    with locked_run(plan_file) as run, evidence_of(run, None, "apply"), ProgressLine() as progress:
        apply.apply_plan(run, engine=copy_engine(progress), engine_name=SPARK_ENGINE, progress=progress)


def verify_plan(plan_file: Path) -> equality.Verification:
    """Compare both sides on Spark."""
    run = MigrationRun.load(plan_file)
    with evidence_of(run, None, "verify") as evidence, ProgressLine() as progress:
        evidence.verification = found = verification.verify_plan(run, engine=verify_engine(progress), progress=progress)
    return found


def start_stores(captured: Captured) -> tuple[tuple[StoreStart, ...], GroupComparison]:
    """Start the three stores of one group on the shared topics and compare them with what REST said."""
    group = captured.cluster.group_id
    with ConnectStorage(WorkerConfig.from_file(captured.shared_worker_file)) as storage:
        startup = storage.startup
        comparison = compare_views(group, captured.view, view_from_storage(storage))
    starts = tuple(
        StoreStart(
            cluster_group_id=group,
            topic=store.topic,
            milliseconds=store.seconds * 1e3,
            own_records=store.own_records,
            foreign_records=store.foreign_records,
        )
        for store in (startup.config, startup.status, startup.offsets)
    )
    return starts, comparison
