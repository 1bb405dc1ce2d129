"""Running jobs of the migrator as Spark tasks: one job is one task, and only its result comes back.

Records never cross the JVM: a task consumes, rewrites and produces in one Python call. What travels is the pickled job,
which holds client settings and keys, and so never goes into options, plans or logs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession

from connect_share.files import Progress
from migrator.copy.copy_job import CopyJob, SliceEvidence, copy_one
from spark_jobs.session import warn_of_missing_protection

J = TypeVar("J")
R = TypeVar("R")

_TICK_S = 0.5


def copy_in_task(job: CopyJob) -> SliceEvidence:
    """Copy one slice; an attempt after a failed one first reads back what that has written."""
    context = TaskContext.get()
    return copy_one(job, resumed=context is not None and context.attemptNumber() > 0)


def run_as_tasks(
    spark: SparkSession, jobs: Sequence[J], function: Callable[[J], R], *, progress: Progress, what: str
) -> list[R]:
    """Run each job once (again if its task fails); return the results in the order of the jobs.

    Jobs are pickled; the function is imported by name on the executors.
    """
    if not jobs:
        return []
    warn_of_missing_protection(spark)
    context: SparkContext = spark.sparkContext
    with _reported(context, len(jobs), progress, what):
        return list(context.parallelize(list(jobs), len(jobs)).map(function).collect())


@contextmanager
def _reported(context: SparkContext, total: int, progress: Progress, what: str) -> Iterator[None]:
    """Report regularly how many tasks have ended."""
    group = f"connect-share-{what.replace(' ', '-')}"
    context.setJobGroup(group, what)
    progress.phase(what, total)
    ended = threading.Event()
    seen = 0

    def finished() -> int:
        tracker: Any = context.statusTracker()
        stages = [
            tracker.getStageInfo(stage)
            for job in tracker.getJobIdsForGroup(group)
            for stage in (tracker.getJobInfo(job) or _NoJob).stageIds
        ]
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)

    def tick() -> None:
        nonlocal seen
        while not ended.wait(_TICK_S):
            now = min(finished(), total)
            if now > seen:
                progress.advance(now - seen)
                seen = now

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
        ended.set()
        thread.join()
        progress.advance(total - seen)
    finally:
        ended.set()
        thread.join()


class _NoJob:
    stageIds: tuple[int, ...] = ()  # noqa: N815 - Spark's name
