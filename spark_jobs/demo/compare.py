"""After the move: the Python stores of every group, beside what REST said; and the start-up benchmark."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from connect_share.embedded.errors import EmbeddedError
from connect_share.storage import ConnectStorage, StoreStartup
from connect_share.worker_config import WorkerConfig
from spark_jobs import benchmark_startup
from spark_jobs.command_line import INTERRUPTED
from spark_jobs.demo.result import Benchmark, BenchmarkBar, GroupAgain, GroupStart, SharedTopic, StoreStart
from spark_jobs.demo.views import GroupComparison, compare_views, view_from_storage
from spark_jobs.demo.workers import Captured
from spark_jobs.startup.result import StartupResult, Warmth

_TITLES: Final[Mapping[tuple[str, Warmth], str]] = {
    ("java", "cold"): "Java stores, first start of a JVM",
    ("java", "warm"): "Java stores, warm JVM",
    ("python", "cold"): "Python stores, first start",
    ("python", "warm"): "Python stores, later starts",
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
    arguments = ["-B", bootstrap_servers, "--suite", "kip", "--rounds", str(_ROUNDS), "--contenders", "python,java"]
    arguments += ["--no-storm", "--no-latency", "--again", "--result", str(result_file)]
    code = benchmark_startup.main(arguments)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code != 0:
        raise EmbeddedError(f"the start-up benchmark ended with exit code {code}, see above")
    return benchmark_of(StartupResult.model_validate_json(result_file.read_bytes()))


def benchmark_of(result: StartupResult) -> Benchmark:
    """Take the medians out of the benchmark's result."""
    scenario = result.scenarios[0]
    counts = {
        "config": scenario.config_records,
        "status": scenario.status_records,
        "offset": scenario.offset_records,
    }
    seconds = {(starts.contender, starts.warmth): starts.seconds for starts in result.starts}
    bars = tuple(
        BenchmarkBar(
            what=title,
            milliseconds=statistics.median(seconds[contender]) * 1e3,
            fastest_milliseconds=min(seconds[contender]) * 1e3,
            slowest_milliseconds=max(seconds[contender]) * 1e3,
            runs=len(seconds[contender]),
        )
        for contender, title in _TITLES.items()
    )
    told = ", ".join(f"{count:,} {topic}" for topic, count in counts.items())
    return Benchmark(workload=f"{scenario.groups} groups of {scenario.jobs} sink jobs, {told} records", bars=bars)


def summary_lines(
    groups: Sequence[GroupComparison], again: Sequence[GroupAgain] = (), shared_topics: Sequence[SharedTopic] = ()
) -> list[str]:
    """Give per group what REST said, what the stores say, what REST says again, and whether all is equal.

    These are the demo's last lines. What is wrong with the shared topics themselves stands before them.
    """
    second = {group.cluster_group_id: group for group in again}
    lines = [
        f"differs: {topic.topic}: {topic.plain_keys} of {topic.records} keys without a group's prefix"
        for topic in shared_topics
        if topic.plain_keys
    ]
    for group in groups:
        back = second.get(group.cluster_group_id)
        lines += [
            f"{group.cluster_group_id}",
            f"  REST said:         {group.rest}",
            f"  Python stores say: {group.stores}",
        ]
        if back is not None:
            lines += [f"  REST says again:   {back.again}", f"  and since then:    {_since(back)}"]
        lines += [
            f"  differs: {line.connector!r}: {difference}"
            for line in group.connectors
            for difference in line.differences
        ]
        lines += [f"  differs: {difference}" for difference in (back.differences if back else ())]
        equal = group.equal and (back is None or back.equal)
        lines.append(f"  equal: {'yes' if equal else 'no'}")
    return lines


def _since(group: GroupAgain) -> str:
    appended = sum(topic.lines_appended for topic in group.topics)
    arrived = sum(topic.lines_arrived for topic in group.topics)
    in_files = sum(file.lines_arrived for file in group.files)
    twice = sum(max(topic.records_at_end - topic.records_before - topic.lines_appended, 0) for topic in group.topics)
    return (
        f"{appended} lines appended to source files, {arrived} arrived in topics, {in_files} in sink files; "
        f"{twice} records read twice; Python stores beside it: {'equal' if group.stores.equal else 'not equal'}"
    )
