"""The start-up benchmark in small, as a part of the demo."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from connect_share.console import ProgressLine
from spark_jobs.demo.result import Benchmark, BenchmarkBar
from spark_jobs.startup.result import StartupResult, Warmth
from spark_jobs.startup.scenarios import chosen
from spark_jobs.startup.suite import Suite, SuiteRequest

_TITLES: Final[Mapping[tuple[str, Warmth], str]] = {
    ("java", "cold"): "Java stores, first start of a JVM",
    ("java", "warm"): "Java stores, warm JVM",
    ("python", "cold"): "Python stores, first start",
    ("python", "warm"): "Python stores, later starts",
}
_REQUEST: Final = SuiteRequest(
    plans=chosen("kip", None),
    contenders=frozenset(("python", "java")),
    rounds=2,
    storms=(),
    puts=0,
    settle_s=0.0,
)


def run_benchmark(bootstrap_servers: str, folder: Path) -> Benchmark:
    """Time the starts of Java's and our stores on KIP-1173's workload.

    Args:
        bootstrap_servers: of the cluster.
        folder: for worker files.

    Raises:
        ConnectShareError: a part of the benchmark failed.
    """
    with ProgressLine(sys.stderr) as progress:
        suite = Suite(
            _REQUEST, StartupResult(), bootstrap_servers=lambda: bootstrap_servers, folder=folder, progress=progress
        )
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
