"""One run of the benchmark: what is missing in its file is measured, part by part, and each part is kept at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from connect_share.errors import ConfigError
from migrator.progress import Progress
from spark_jobs.session import spark_session
from spark_jobs.startup import latency, resume
from spark_jobs.startup.contenders import measure
from spark_jobs.startup.cost_fit import fitted, points
from spark_jobs.startup.filling import filled, worker_properties_of, write_files
from spark_jobs.startup.result import StartupResult
from spark_jobs.startup.scenarios import Plan
from spark_jobs.startup.storm import AT_ONCE, Storms

MASTER: Final = f"local[{AT_ONCE},3]"


@dataclass(frozen=True, slots=True)
class SuiteRequest:
    """Everything that is to be measured.

    Attributes:
        contenders: on every scenario those of its own list that are named here.
        storms: numbers of starts; on the first scenario with shared topics.
        puts: into each store; 0: no latencies.
        settle_s: how long a compacted topic has to stay as it is to be believed clean.
    """

    plans: Sequence[Plan]
    contenders: frozenset[str]
    rounds: int
    storms: Sequence[int]
    puts: int
    settle_s: float

    def contenders_of(self, plan: Plan) -> list[str]:
        """Return who is measured on a scenario."""
        return [contender for contender in plan.contenders if contender in self.contenders]

    def storm_plan(self) -> Plan | None:
        """Return the scenario of the storms."""
        return next((plan for plan in self.plans if plan.scenario.shared), None)


class Suite:
    """Measures, and keeps the result.

    Args:
        request: what to measure.
        result: what there is already.
        bootstrap_servers: of the cluster; topics of its own are made there and deleted.
        folder: for worker files.
        progress: reports how far it is.
        keep: called with the result after each part.
        say: called with a line about each finished part.
    """

    def __init__(
        self,
        request: SuiteRequest,
        result: StartupResult,
        *,
        bootstrap_servers: Callable[[], str],
        folder: Path,
        progress: Progress,
        keep: Callable[[StartupResult], None] = lambda _: None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._request = request
        self._keep = keep
        self._servers = bootstrap_servers
        self._folder = folder
        self._progress = progress
        self._say = say
        self._prefix = f"connect-share-benchmark-{time.time_ns() // 1_000_000}"
        self.result = result

    def run(self) -> StartupResult:
        """Measure what is missing.

        Raises:
            ConnectShareError: a part failed; those before it are kept.
        """
        with ExitStack() as stack:
            # Idle, the one Spark session of a run costs the starts nothing. It is made when it is first needed.
            spark = cache(lambda: stack.enter_context(spark_session("connect-share benchmark_startup", master=MASTER)))
            for plan in self._request.plans:
                self._scenario(plan, spark)
        contenders = [each for each in latency.CONTENDERS if each in self._request.contenders]
        if self._request.puts and not resume.has_latencies(self.result, contenders, latency.GROUPS, self._request.puts):
            with self._timed("latency"):
                found = latency.measure_latency(
                    self._folder,
                    self._servers(),
                    f"{self._prefix}-latency",
                    puts=self._request.puts,
                    contenders=contenders,
                    progress=self._progress,
                )
                self._keep_now(resume.with_latencies(self.result, found))
        model, predictions = fitted(points(self.result))
        self._keep_now(self.result.model_copy(update={"model": model, "predictions": predictions}))
        return self.result

    def _keep_now(self, result: StartupResult) -> None:
        self.result = result.model_copy(update={"measured_at_ms": int(time.time() * 1e3)})
        self._keep(self.result)

    def _scenario(self, plan: Plan, spark: Callable[[], SparkSession]) -> None:
        scenario, contenders = plan.scenario, self._request.contenders_of(plan)
        has_starts = resume.has_starts(self.result, scenario, contenders, self._request.rounds)
        storms = [
            (starts, at_once)
            for starts in (self._request.storms if plan is self._request.storm_plan() else ())
            for at_once in (1, AT_ONCE)
            if not has_starts or not resume.has_storm(self.result, scenario.name, starts, at_once)
        ]
        if has_starts and not storms:
            self._say(f"{scenario.name}: was measured before")
            return
        prefix = f"{self._prefix}-{scenario.name}"
        servers = self._servers()
        files = write_files(self._folder, plan, servers, prefix)
        with (
            self._timed(scenario.name),
            filled(
                spark(),
                plan,
                files,
                [] if has_starts else contenders,
                settle_s=self._request.settle_s,
                progress=self._progress,
            ),
        ):
            if not has_starts:
                starts = measure(plan, files, contenders, self._request.rounds, self._progress)
                self._keep_now(resume.with_starts(self.result, scenario, starts))
            if storms:
                groups = [worker_properties_of(plan, servers, prefix, group) for group in range(scenario.groups)]
                if spark().sparkContext.master != MASTER:
                    raise ConfigError(
                        f"a storm needs a Spark session of its own, {MASTER}: leave it out with --no-storm, or start this "
                        "job without spark-submit"
                    )
                storms_of_groups = Storms(spark(), scenario.name, groups, self._folder)
                for number, at_once in storms:
                    self._keep_now(
                        resume.with_storm(self.result, storms_of_groups.run(number, at_once, self._progress))
                    )

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._say(f"{what}: took {time.monotonic() - began:.0f} s")
