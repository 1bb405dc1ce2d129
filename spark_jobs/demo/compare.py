"""After the move: the Python stores of every group, beside what REST said; and the start-up benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from connect_share.errors import EmbeddedError
from connect_share.storage import ConnectStorage, StoreStartup
from connect_share.worker_config import WorkerConfig
from spark_jobs import benchmark_startup
from spark_jobs.command_line import INTERRUPTED
from spark_jobs.demo.result import Benchmark, BenchmarkBar, GroupStart, StoreStart
from spark_jobs.demo.views import GroupComparison, compare_views, view_from_storage
from spark_jobs.demo.workers import Captured

_TITLES: Final = {
    "java_cold": "Java stores, first start of a JVM",
    "java_warm": "Java stores, warm JVM",
    "python_cold": "Python stores, first start",
    "python_warm": "Python stores, later starts",
}
_ROUNDS: Final = 2


def start_stores(captured: Captured) -> tuple[GroupStart, GroupComparison]:
    """Start the three stores of one group on the shared topics and compare them with what REST said.

    Raises:
        StoreError: the stores could not be started or read.
    """
    with ConnectStorage(WorkerConfig.from_file(captured.shared_worker_file)) as storage:
        startup = storage.startup
        comparison = compare_views(captured.cluster.group_id, captured.view, view_from_storage(storage))
    start = GroupStart(
        cluster_group_id=captured.cluster.group_id,
        milliseconds=startup.seconds * 1e3,
        stores=tuple(_store_start(store) for store in (startup.config, startup.status, startup.offsets)),
    )
    return start, comparison


def _store_start(store: StoreStartup) -> StoreStart:
    return StoreStart(
        topic=store.topic,
        milliseconds=store.seconds * 1e3,
        own_records=store.own_records,
        foreign_records=store.foreign_records,
    )


def run_benchmark(bootstrap_servers: str, result_file: Path) -> Benchmark:
    """Time the starts of Java's and our stores on KIP-1173's workload, twice over.

    Raises:
        EmbeddedError: the benchmark failed; it has said why on stderr.
    """
    arguments = ["-B", bootstrap_servers, "--rounds", str(_ROUNDS), "--result", str(result_file)]
    code = benchmark_startup.main(arguments)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code != 0:
        raise EmbeddedError(f"the start-up benchmark ended with exit code {code}, see above")
    return benchmark_of(json.loads(result_file.read_text(encoding="utf-8")))


def benchmark_of(report: dict[str, Any]) -> Benchmark:
    """Take the medians out of the benchmark's report."""
    workload, seconds = report["workload"], report["seconds"]
    records = ", ".join(f"{facts['records']:,} {topic}" for topic, facts in workload["topics"].items())
    bars = []
    for contender, title in _TITLES.items():
        total = seconds[contender]["total_s"]
        bars.append(
            BenchmarkBar(
                what=title,
                milliseconds=total["median_s"] * 1e3,
                fastest_milliseconds=total["min_s"] * 1e3,
                slowest_milliseconds=total["max_s"] * 1e3,
                runs=total["n"],
            )
        )
    return Benchmark(
        workload=f"{workload['groups']} groups of {workload['jobs']} sink jobs, {records} records", bars=tuple(bars)
    )


def summary_lines(groups: Sequence[GroupComparison]) -> list[str]:
    """Give per group what REST said, what the stores say, and whether that is equal; the demo's last lines."""
    lines = []
    for group in groups:
        lines += [
            f"{group.cluster_group_id}",
            f"  REST said:         {group.rest}",
            f"  Python stores say: {group.stores}",
            *(
                f"  differs: {line.connector!r}: {difference}"
                for line in group.connectors
                for difference in line.differences
            ),
            f"  equal: {'yes' if group.equal else 'no'}",
        ]
    return lines
