"""Many workers that start at once: each Spark task is one start of the three stores with clients of its own.

The same starts one after another are the measure: the same tasks, which take turns by a lock on a file, so that nothing
but the starts themselves differs, and Spark's own time for a task is hidden in both.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from connect_share.errors import ConnectShareError
from connect_share.files import Progress, Silent
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from spark_jobs.startup.result import Storm
from spark_jobs.tasks import run_as_tasks

AT_ONCE: Final = 2
"""Of the session's ``local[2,3]``."""


@dataclass(frozen=True)
class StormStart:
    """One start, to be made by a task.

    Attributes:
        properties: of the worker file; they may hold secrets.
        turn: a file whose lock is held during the start; ``None``: side by side.
    """

    properties: dict[str, str] = field(repr=False)
    turn: Path | None = None


@dataclass(frozen=True, slots=True)
class StormEnd:
    """The cost of one start. Begin and end are seconds since the epoch, because processes are compared."""

    began_s: float
    ended_s: float
    seconds: float
    cpu_seconds: float
    failed: bool


def start_in_task(job: StormStart) -> StormEnd:
    """Start the stores of one group. They are stopped while the next start runs: real workers stay up."""
    worker = WorkerConfig.from_properties(job.properties)
    with ExitStack() as stack:
        if job.turn is not None:
            fcntl.flock(stack.enter_context(job.turn.open("w")), fcntl.LOCK_EX)
        began_s, began, cpu = time.time(), time.perf_counter(), time.process_time()
        storage = ConnectStorage(worker, allow_live_members=True)
        failed = False
        try:
            storage.__enter__()
        except ConnectShareError:
            failed = True
        end = StormEnd(began_s, time.time(), time.perf_counter() - began, time.process_time() - cpu, failed)
    threading.Thread(target=storage.close, daemon=True).start()
    return end


def measure_storms(
    spark: SparkSession,
    groups: Sequence[dict[str, str]],
    wanted: Sequence[tuple[int, int]],
    folder: Path,
    *,
    scenario: str,
    progress: Progress,
) -> Iterator[Storm]:
    """Yield storms on the topics of one scenario.

    Args:
        spark: its tasks run side by side as its master says.
        groups: worker files' lines of the groups that start, in turn.
        wanted: numbers of starts, and how many at once: all that the session can, or 1 for one after another.
        folder: for the lock; every task has to see it.
        scenario: name.
        progress: reports how far it is.
    """

    def run(starts: int, at_once: int, reported: Progress, what: str) -> list[StormEnd]:
        turn = folder / "turn.lock" if at_once == 1 else None
        jobs = [StormStart(groups[number % len(groups)], turn) for number in range(starts)]
        return run_as_tasks(spark, jobs, start_in_task, progress=reported, what=what)

    if wanted:
        # The session's first tasks import everything: a few that nobody counts go before.
        run(2 * AT_ONCE, AT_ONCE, Silent(), "warming up")
    for starts, at_once in wanted:
        ends = run(starts, at_once, progress, f"storm of {starts}, {at_once} at once")
        yield Storm(
            scenario=scenario,
            starts=starts,
            at_once=at_once,
            seconds=[end.seconds for end in ends],
            wall_seconds=max(end.ended_s for end in ends) - min(end.began_s for end in ends),
            cpu_seconds=sum(end.cpu_seconds for end in ends),
            failed=sum(end.failed for end in ends),
        )
