"""Running jobs as Spark tasks: one job is one task, and only its result comes back, as a row of :data:`RESULTS`.

``spark.range(0, n, 1, n)`` has exactly n tasks and needs no context, so this works on Spark Connect, too; there is no
shuffle before or after it. Jobs travel in the function that runs, pickled: they hold client settings and keys, which so
never get into columns, options, plans or logs. Records never cross the JVM.

An error of ours that no repetition mends is a result like others: Spark neither repeats the task nor prints its traceback,
and the driver raises it. All other failures are left to Spark, which repeats the task.
"""

from __future__ import annotations

import gc
import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from connect_share.errors import ConnectShareError
from connect_share.files import Progress, Silent, repeated
from connect_share.kafka.write import PROCESS_PRODUCERS, Producers
from migrator.copy.copy_job import CopyJob, SliceEvidence, copy_all
from spark_jobs.session import failures_explained, is_connect, require_on_executors, warn_of_missing_protection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

J = TypeVar("J")
R = TypeVar("R")

RESULTS: Final = "job bigint, failed boolean, result binary"
"""Number of the job, whether it failed, and what came of it or the error, pickled."""
_BULK_PRODUCERS: Final = Producers(bulk=True)
"""As ``PROCESS_PRODUCERS``."""
_TICK_S: Final = 0.5
_numbers: Final = itertools.count()


def run_as_tasks(
    spark: SparkSession, jobs: Sequence[J], function: Callable[[J], R], *, progress: Progress, what: str
) -> list[R]:
    """Run each job once (again if its task fails); return the results in the order of the jobs.

    Jobs are pickled; the function is imported by name on the executors.

    Raises:
        ConnectShareError: that of the first job that failed; what could not be started was not.
    """
    if not jobs:
        return []
    warn_of_missing_protection(spark)
    require_on_executors(spark)
    every = list(jobs)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _result(number, every[number], function)

    run.__name__ = what.replace(" ", "_")  # plans show it
    frame = spark.range(0, len(every), 1, len(every)).mapInArrow(run, RESULTS)
    with _reported(spark, len(every), progress, what), failures_explained(what):
        rows = frame.collect()
    results: dict[int, Any] = {}
    for row in sorted(rows, key=lambda row: row["job"]):
        results[row["job"]] = pickle.loads(bytes(row["result"]))  # noqa: S301 - from our own tasks
        if row["failed"]:
            raise results[row["job"]]
    return [results[number] for number in range(len(every))]


def _result(number: int, job: J, function: Callable[[J], R]) -> Any:
    """Return the row of one job; raises what Spark is to try again."""
    import pyarrow as pa

    try:
        failed, result = False, pickle.dumps(function(job))
        _keep_modules()
    except ConnectShareError as error:
        if error.retriable:
            raise
        failed, result = True, pickle.dumps(error)
    return pa.RecordBatch.from_pydict({"job": [number], "failed": [failed], "result": [result]})


@cache
def _keep_modules() -> None:
    """Keep what is imported out of the collection that Spark makes after each task: it takes longer than small tasks."""
    gc.collect()
    gc.freeze()


def copy_in_task(jobs: Sequence[CopyJob], *, bulk: bool = False) -> list[SliceEvidence]:
    """Copy slices; an attempt after a failed one first reads back what that has written."""
    from pyspark import TaskContext

    context = TaskContext.get()
    again = context is not None and context.attemptNumber() > 0
    begun = [replace(job, resumed=True) for job in jobs] if again else jobs
    return list(copy_all(begun, _BULK_PRODUCERS if bulk else PROCESS_PRODUCERS, Silent()))


@contextmanager
def _reported(spark: SparkSession, total: int, progress: Progress, what: str) -> Iterator[None]:
    """Report regularly how many tasks have ended, and describe the job and its stages."""
    progress.phase(what, total)
    seen = 0

    def report(ended: int) -> None:
        nonlocal seen
        if seen < ended <= total:
            progress.advance(ended - seen)
            seen = ended

    with (_reported_by_server if is_connect(spark) else _reported_by_context)(spark, what, report):
        yield
    report(total)


@contextmanager
def _reported_by_server(spark: Any, _what: str, report: Callable[[int], None]) -> Iterator[None]:
    def handler(stages: Any = (), **_others: Any) -> None:
        report(sum(stage.num_completed_tasks for stage in stages or ()))

    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)


@contextmanager
def _reported_by_context(spark: SparkSession, what: str, report: Callable[[int], None]) -> Iterator[None]:
    context: Any = spark.sparkContext
    tracker, group = context.statusTracker(), f"connect-share-{what.replace(' ', '-')}-{next(_numbers)}"

    def tick() -> None:
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
        stages = filter(None, (tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds))
        report(sum(stage.numCompletedTasks for stage in stages))

    context.setJobGroup(group, what)
    try:
        with repeated(_TICK_S, tick):
            yield
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)
