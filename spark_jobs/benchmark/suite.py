"""One run of the benchmark: what is missing in its file is measured, part by part, and each part is kept at once.

In a storm many workers start at once, as many as the Spark session runs tasks, on whatever machines: each task starts the
three stores of one group after another, with clients of their own. The same starts in one task are the measure, so that
nothing but the starts themselves differs. No clock of one machine is compared with that of another.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from connect_share.errors import ConnectShareError
from connect_share.files import Progress, Silent
from connect_share.model.records import now_ms
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from spark_jobs.benchmark import results
from spark_jobs.benchmark.cost_fit import fitted, points
from spark_jobs.benchmark.results import StartupResult, Storm
from spark_jobs.benchmark.starts import Run, measure
from spark_jobs.benchmark.topics import PREFIX, Connection, Plan, filled, worker_properties_of, write_files
from spark_jobs.session import spark_session, task_slots
from spark_jobs.tasks import run_as_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class StormEnd:
    """The cost of one start, and when it ended: seconds since its task began."""

    ended_s: float
    seconds: float
    cpu_seconds: float
    failed: bool


def start_in_task(groups: Sequence[dict[str, str]]) -> list[StormEnd]:
    """Start the stores of one group after another. They are stopped while the next start runs: real workers stay up."""
    task_began, ends = time.perf_counter(), list[StormEnd]()
    for properties in groups:
        began, cpu = time.perf_counter(), time.process_time()
        storage = ConnectStorage(WorkerConfig.from_properties(properties), allow_live_members=True)
        failed = False
        try:
            storage.__enter__()
        except ConnectShareError:
            failed = True
        now = time.perf_counter()
        ends.append(StormEnd(now - task_began, now - began, time.process_time() - cpu, failed))
        threading.Thread(target=storage.close, daemon=True).start()
    return ends


def measure_storms(
    spark: SparkSession,
    groups: Sequence[dict[str, str]],
    wanted: Sequence[tuple[int, int]],
    *,
    scenario: str,
    progress: Progress,
) -> Iterator[Storm]:
    """Yield storms on the topics of one scenario; ``wanted`` are numbers of starts, and how many at once."""

    def run(starts: int, at_once: int, reported: Progress, what: str) -> list[list[StormEnd]]:
        each = [groups[number % len(groups)] for number in range(starts)]
        tasks = [each[task::at_once] for task in range(at_once)]
        return run_as_tasks(spark, tasks, start_in_task, progress=reported, what=what)

    if wanted:
        # The session's first tasks import everything: a few that nobody counts go before.
        slots = task_slots(spark)
        run(2 * slots, slots, Silent(), "warming up")
    for starts, at_once in wanted:
        tasks = run(starts, at_once, progress, f"storm of {starts}, {at_once} at once")
        ends = [*itertools.chain(*tasks)]
        yield Storm(
            scenario=scenario,
            starts=starts,
            at_once=at_once,
            seconds=[end.seconds for end in ends],
            wall_seconds=max(end.ended_s for end in ends),
            cpu_seconds=sum(end.cpu_seconds for end in ends),
            failed=sum(end.failed for end in ends),
        )


_MASTER: Final = "local[2,3]"
"""Of a session that this process makes; ``spark-submit`` and a session that is there decide otherwise."""


@dataclass
class Suite:
    """Measures, and keeps the result.

    Attributes:
        runs: on every scenario those of its own contenders that are here.
        connection: to the cluster; topics of its own are made there and deleted.
        result: what there is already, and then all.
        file: is written after each part.
        rounds: of each scenario; ``None``: its plan's.
        storms: numbers of starts; on the first scenario.
        settle_s: how long a compacted topic has to stay as it is to count as clean.
        say: called with a line about each finished part.
    """

    plans: Sequence[Plan]
    runs: Mapping[str, Run]
    rounds: int | None
    connection: Callable[[], Connection]
    folder: Path
    progress: Progress
    result: StartupResult = field(default_factory=StartupResult)
    file: Path | None = None
    storms: Sequence[int] = ()
    settle_s: float = 0.0
    say: Callable[[str], None] = lambda _: None
    prefix: str = field(init=False, default_factory=lambda: f"{PREFIX}{now_ms()}")

    def run(self) -> StartupResult:
        """Measure what is missing; if a part fails, those before it are kept."""
        with ExitStack() as stack:
            # Idle, the one Spark session of a run costs the starts nothing. It is made when it is first needed.
            spark = cache(lambda: stack.enter_context(spark_session("connect-share benchmark_startup", master=_MASTER)))
            for plan in self.plans:
                self._measure(plan, self.storms if plan is self.plans[0] else (), spark)
        model, predictions = fitted(points(self.result))
        self.keep(self.result.model_copy(update={"model": model, "predictions": predictions}))
        return self.result

    def keep(self, result: StartupResult) -> None:
        """Make this the result, and write the file."""
        self.result = result.model_copy(update={"measured_at_ms": now_ms()})
        if self.file is not None:
            results.save(self.file, self.result)

    def _measure(self, plan: Plan, starts_at_once: Sequence[int], spark: Callable[[], SparkSession]) -> None:
        scenario, rounds = plan.scenario, plan.rounds if self.rounds is None else self.rounds
        runs = {contender: self.runs[contender] for contender in plan.contenders if contender in self.runs}
        has_starts = results.has_starts(self.result, scenario, list(runs), rounds)
        known = {(storm.scenario, storm.starts, storm.at_once) for storm in self.result.storms}
        storms = [
            (starts, at_once)
            for starts in starts_at_once
            for at_once in sorted({1, min(starts, task_slots(spark()))})
            if not has_starts or (scenario.name, starts, at_once) not in known
        ]
        if has_starts and not storms:
            self.say(f"{scenario.name}: was measured before")
            return
        prefix, connection = f"{self.prefix}-{scenario.name}", self.connection()
        files = write_files(self.folder, plan, connection, prefix)
        missing = [] if has_starts else list(runs)
        with (
            self.timed(scenario.name),
            filled(spark(), plan, files, missing, settle_s=self.settle_s, progress=self.progress),
        ):
            if not has_starts:
                starts = measure(plan, files, runs, rounds, self.progress)
                self.keep(results.with_starts(self.result, scenario, starts))
            groups = [worker_properties_of(plan, connection, prefix, group) for group in range(scenario.groups)]
            for storm in measure_storms(spark(), groups, storms, scenario=scenario.name, progress=self.progress):
                place = (storm.scenario, storm.starts, storm.at_once)
                others = [each for each in self.result.storms if (each.scenario, each.starts, each.at_once) != place]
                self.keep(self.result.model_copy(update={"storms": [*others, storm]}))

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Say how long it took."""
        began = time.monotonic()
        yield
        self.say(f"{what}: took {time.monotonic() - began:.0f} s")
