"""Many workers that start at once: each Spark task is one start of the three stores with clients of its own.

The same starts one after another are the measure: the same tasks, which take turns by a lock on a file, so that nothing
but the starts themselves differs, and Spark's own time for a task is hidden in both.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from connect_share.errors import ConnectShareError
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from migrator.progress import Progress, Silent
from spark_jobs.startup.result import Storm
from spark_jobs.tasks import run_as_tasks

AT_ONCE: Final = 2
"""Of the session's ``local[2,3]``."""

_WARM_UP: Final = 2 * AT_ONCE


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


class Storms:
    """Storms on the topics of one scenario.

    Args:
        spark: its tasks run side by side as its master says.
        scenario: name.
        groups: worker files' lines of the groups that start, in turn.
        folder: for the lock; every task has to see it.
    """

    def __init__(self, spark: SparkSession, scenario: str, groups: Sequence[dict[str, str]], folder: Path) -> None:
        self._spark = spark
        self._scenario = scenario
        self._groups = groups
        self._turn = folder / "turn.lock"
        self._warm = False

    def run(self, starts: int, at_once: int, progress: Progress) -> Storm:
        """Run so many starts, side by side or (1) one after another.

        The session's first tasks import everything: a few that nobody counts go before.
        """
        if not self._warm:
            self._run(_WARM_UP, None, Silent(), "warming up")
            self._warm = True
        what = f"storm of {starts}, {at_once} at once"
        ends = self._run(starts, self._turn if at_once == 1 else None, progress, what)
        return Storm(
            scenario=self._scenario,
            starts=starts,
            at_once=at_once,
            seconds=[end.seconds for end in ends],
            wall_seconds=max(end.ended_s for end in ends) - min(end.began_s for end in ends),
            cpu_seconds=sum(end.cpu_seconds for end in ends),
            failed=sum(end.failed for end in ends),
        )

    def _run(self, starts: int, turn: Path | None, progress: Progress, what: str) -> list[StormEnd]:
        jobs = [StormStart(self._groups[number % len(self._groups)], turn) for number in range(starts)]
        return run_as_tasks(self._spark, jobs, start_in_task, progress=progress, what=what)
