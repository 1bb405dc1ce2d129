"""The demo's own steps between the workers' two starts: plan, copy, verify, Python stores, benchmark."""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from connect_share.console import ProgressLine
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from migrator import apply, planner
from migrator.copy.copy_job import SliceEvidence
from migrator.plan import MigrationPlan
from migrator.report import evidence_of
from migrator.run import MigrationRun, locked_run
from migrator.verify import verification
from spark_jobs.apply_plan import SPARK_ENGINE, copy_engine
from spark_jobs.benchmark.results import StartupResult, Warmth
from spark_jobs.benchmark.scenarios import chosen
from spark_jobs.benchmark.suite import Suite
from spark_jobs.benchmark.topics import connection_to
from spark_jobs.verify_plan import verify_engine
from tests.lab.benchmarks.startup.contenders import ALL_RUNS
from tests.lab.demo.result import Benchmark, BenchmarkBar, GroupStart, Move, MovedTopic, StoreStart
from tests.lab.demo.views import GroupComparison, compare_views, view_from_storage
from tests.lab.demo.workers import Captured

_TITLES: Final[Mapping[tuple[str, Warmth], str]] = {
    ("java", "cold"): "Java stores, first start of a JVM",
    ("java", "warm"): "Java stores, warm JVM",
    ("python", "cold"): "Python stores, first start",
    ("python", "warm"): "Python stores, later starts",
}


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


def start_stores(captured: Captured) -> tuple[GroupStart, GroupComparison]:
    """Start the three stores of one group on the shared topics and compare them with what REST said.

    Raises:
        StoreError: the stores could not be started or read.
    """
    with ConnectStorage(WorkerConfig.from_file(captured.shared_worker_file)) as storage:
        startup = storage.startup
        comparison = compare_views(captured.cluster.group_id, captured.view, view_from_storage(storage))
    stores = tuple(
        StoreStart(
            topic=store.topic,
            milliseconds=store.seconds * 1e3,
            own_records=store.own_records,
            foreign_records=store.foreign_records,
        )
        for store in (startup.config, startup.status, startup.offsets)
    )
    group = captured.cluster.group_id
    return GroupStart(cluster_group_id=group, milliseconds=startup.seconds * 1e3, stores=stores), comparison


def run_benchmark(bootstrap_servers: str, folder: Path) -> Benchmark:
    """Time the starts of Java's and our stores on KIP-1173's workload.

    Args:
        bootstrap_servers: of the cluster.
        folder: for worker files.

    Raises:
        ConnectShareError: a part of the benchmark failed.
    """
    with ProgressLine(sys.stderr) as progress:
        runs = {name: ALL_RUNS[name] for name in ("python", "java")}
        suite = Suite(chosen("kip", None), runs, 2, lambda: connection_to(bootstrap_servers), folder, progress)
        return benchmark_of(suite.run())


def benchmark_of(result: StartupResult) -> Benchmark:
    """Return the medians of a benchmark's result."""
    scenario = result.scenarios[0]
    seconds = {(starts.contender, starts.warmth): starts.seconds for starts in result.starts}
    bars = tuple(
        BenchmarkBar(
            what=title,
            milliseconds=statistics.median(seconds[kind]) * 1e3,
            fastest_milliseconds=min(seconds[kind]) * 1e3,
            slowest_milliseconds=max(seconds[kind]) * 1e3,
            runs=len(seconds[kind]),
        )
        for kind, title in _TITLES.items()
    )
    workload = (
        f"{scenario.groups} groups of {scenario.jobs} sink jobs, {scenario.config_records:,} config, "
        f"{scenario.status_records:,} status, {scenario.offset_records:,} offset records"
    )
    return Benchmark(workload=workload, bars=bars)
