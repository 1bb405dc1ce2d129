"""One run of the benchmark: what is missing in its file is measured, part by part, and each part is kept at once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from connect_share.errors import ConfigError
from connect_share.files import Progress
from spark_jobs.session import spark_session
from spark_jobs.startup import latency, resume
from spark_jobs.startup.connection import PREFIX, Connection
from spark_jobs.startup.contenders import measure
from spark_jobs.startup.cost_fit import fitted, points
from spark_jobs.startup.filling import filled, worker_properties_of, write_files
from spark_jobs.startup.result import StartupResult
from spark_jobs.startup.scenarios import Plan
from spark_jobs.startup.storm import AT_ONCE, measure_storms

MASTER: Final = f"local[{AT_ONCE},3]"


@dataclass
class Suite:
    """Measures, and keeps the result.

    Attributes:
        contenders: on every scenario those of its own list that are named here.
        connection: to the cluster; topics of its own are made there and deleted.
        folder: for worker files.
        progress: reports how far it is.
        result: what there is already, and then all.
        file: is written after each part.
        storms: numbers of starts; on the first scenario with shared topics.
        puts: into each store; 0: no latencies.
        settle_s: how long a compacted topic has to stay as it is to be believed clean.
        say: called with a line about each finished part.
    """

    plans: Sequence[Plan]
    contenders: frozenset[str]
    rounds: int
    connection: Callable[[], Connection]
    folder: Path
    progress: Progress
    result: StartupResult = field(default_factory=StartupResult)
    file: Path | None = None
    storms: Sequence[int] = ()
    puts: int = 0
    settle_s: float = 0.0
    say: Callable[[str], None] = lambda _: None
    _prefix: str = field(init=False, default_factory=lambda: f"{PREFIX}{time.time_ns() // 1_000_000}")

    def run(self) -> StartupResult:
        """Measure what is missing.

        Raises:
            ConnectShareError: a part failed; those before it are kept.
        """
        with ExitStack() as stack:
            # Idle, the one Spark session of a run costs the starts nothing. It is made when it is first needed.
            spark = cache(lambda: stack.enter_context(spark_session("connect-share benchmark_startup", master=MASTER)))
            shared = next((plan for plan in self.plans if plan.scenario.shared), None)
            for plan in self.plans:
                self._measure(plan, self.storms if plan is shared else (), spark)
        contenders = [each for each in latency.CONTENDERS if each in self.contenders]
        if self.puts and not resume.has_latencies(self.result, contenders, latency.GROUPS, self.puts):
            with self._timed("latency"):
                found = latency.measure_latency(
                    self.folder,
                    self.connection(),
                    f"{self._prefix}-latency",
                    puts=self.puts,
                    contenders=contenders,
                    progress=self.progress,
                )
                self._keep(self.result.model_copy(update={"latencies": found}))
        model, predictions = fitted(points(self.result))
        self._keep(self.result.model_copy(update={"model": model, "predictions": predictions}))
        return self.result

    def _keep(self, result: StartupResult) -> None:
        self.result = result.model_copy(update={"measured_at_ms": int(time.time() * 1e3)})
        if self.file is not None:
            resume.save(self.file, self.result)

    def _measure(self, plan: Plan, starts_at_once: Sequence[int], spark: Callable[[], SparkSession]) -> None:
        """Measure the starts and the storms of a scenario."""
        scenario = plan.scenario
        contenders = [contender for contender in plan.contenders if contender in self.contenders]
        has_starts = resume.has_starts(self.result, scenario, contenders, self.rounds)
        storms = [
            (starts, at_once)
            for starts, at_once in itertools.product(starts_at_once, (1, AT_ONCE))
            if not has_starts or not resume.has_storm(self.result, scenario.name, starts, at_once)
        ]
        if has_starts and not storms:
            self.say(f"{scenario.name}: was measured before")
            return
        prefix, connection = f"{self._prefix}-{scenario.name}", self.connection()
        files = write_files(self.folder, plan, connection, prefix)
        missing = [] if has_starts else contenders
        with (
            self._timed(scenario.name),
            filled(spark(), plan, files, missing, settle_s=self.settle_s, progress=self.progress),
        ):
            if not has_starts:
                starts = measure(plan, files, contenders, self.rounds, self.progress)
                self._keep(resume.with_starts(self.result, scenario, starts))
            if storms and spark().sparkContext.master != MASTER:
                raise ConfigError(
                    f"a storm needs a Spark session of its own, {MASTER}: leave it out with --no-storm, or start this "
                    "job without spark-submit"
                )
            groups = [worker_properties_of(plan, connection, prefix, group) for group in range(scenario.groups)]
            for storm in measure_storms(
                spark(), groups, storms, self.folder, scenario=scenario.name, progress=self.progress
            ):
                self._keep(resume.with_storm(self.result, storm))

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.say(f"{what}: took {time.monotonic() - began:.0f} s")
