"""Start-up read on shared topics: our stores, the real Java stores and a plain client, side by side in one run.

Reproduces the table of KIP-1173 (20 clusters of 5 sink jobs; config topic 32 MB, status topic 3 MB) on a real broker.
Every round measures each contender once, in turn, so that a machine whose speed drifts harms all alike.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from connect_share.admin import Admin
from connect_share.cli.output import Output
from connect_share.client import TopicPartition, consumer, library_versions
from connect_share.embedded.broker import DEFAULT_VERSION, LocalBroker
from connect_share.embedded.cache import run_folder
from connect_share.embedded.java_program import compiled, time_java_stores
from connect_share.embedded.worker import worker_properties, write_properties
from connect_share.errors import ConfigError, EmbeddedError
from connect_share.records import TopicType
from connect_share.worker_config import SHARING_PROPERTY, Isolation, WorkerConfig
from migrator.cli.progress_line import ProgressLine
from migrator.progress import Progress
from spark_jobs import command_line
from spark_jobs.generate_workload import add_size_arguments, generate
from spark_jobs.machine import describe_machine
from spark_jobs.session import spark_session
from spark_jobs.workload import WorkloadSize

WARM_STARTS: Final = 3
"""Warm starts of each contender in each round, after the cold one of the same process."""

TARGETS: Final = {"warm": 3.0, "cold": 12.0}
_PROBE_S: Final = 300
_PARTITIONS: Final = {"offset.storage.partitions": "25", "status.storage.partitions": "5"}


def _worker_file(folder: Path, bootstrap_servers: str, group_id: str, prefix: str, *, sharing: bool) -> Path:
    properties = {
        **worker_properties(bootstrap_servers, group_id, prefix),
        **_PARTITIONS,
        SHARING_PROPERTY: "enabled" if sharing else "disabled",
    }
    return write_properties(folder / f"{prefix}-{group_id}.properties", properties)


def _python_starts(worker_file: Path, starts: int) -> list[dict[str, Any]]:
    """Start our stores in a new process; the first start is a cold one."""
    command = [sys.executable, "-m", "spark_jobs.startup_probe", str(worker_file), str(starts)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_S, check=False)
    if done.returncode != 0:
        raise EmbeddedError(f"the start of the Python stores failed: {done.stderr[-1500:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _plain_client_read(worker: WorkerConfig) -> float:
    """Read the three topics one after the other with the client's default settings, until it says "end"."""
    began = time.perf_counter()
    for topic_type in (TopicType.OFFSET, TopicType.STATUS, TopicType.CONFIG):
        topic = worker.topic(topic_type)
        reader = consumer(
            worker.client_settings(),
            client_id="plain",
            isolation=Isolation.READ_UNCOMMITTED,
            overrides={"enable.partition.eof": "true"},
        )
        partitions = set(reader.list_topics(topic, timeout=30).topics[topic].partitions)
        reader.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while partitions:
            for message in reader.consume(1000, 1.0):
                if message.error() is not None:
                    partitions.discard(message.partition())
        reader.close()
    return time.perf_counter() - began


def _measure(shared: Path, plain: Path, rounds: int, progress: Progress) -> dict[str, dict[str, list[float]]]:
    """Give seconds by contender and part (``total_s``, ``config_s``, ...)."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    shared_worker = WorkerConfig.from_file(shared)
    compiled("TimeStores")
    progress.phase("measuring rounds", rounds)

    def note(contender: str, values: dict[str, Any]) -> None:
        for part in ("total_s", "config_s", "status_s", "offsets_s"):
            found[contender][part].append(float(values[part]))

    for _ in range(rounds):
        for start in _python_starts(shared, 1 + WARM_STARTS):
            note("python_cold" if start["run"] == 0 else "python_warm", start)
        for java in time_java_stores(plain, 1 + WARM_STARTS):
            values = {part: getattr(java, part) for part in ("total_s", "config_s", "status_s", "offsets_s")}
            note("java_cold" if java.run == 0 else "java_warm", values)
        for java in time_java_stores(shared, 1 + WARM_STARTS):
            values = {part: getattr(java, part) for part in ("total_s", "config_s", "status_s", "offsets_s")}
            note("java_foreign_cold" if java.run == 0 else "java_foreign_warm", values)
        found["plain_client"]["total_s"].append(_plain_client_read(shared_worker))
        progress.advance(1)
    return {contender: dict(parts) for contender, parts in found.items()}


def _summary(values: Sequence[float]) -> dict[str, float | int]:
    return {
        "n": len(values),
        "median_s": round(statistics.median(values), 6),
        "min_s": round(min(values), 6),
        "max_s": round(max(values), 6),
    }


def _topic_facts(worker: WorkerConfig) -> dict[str, dict[str, int]]:
    with Admin(worker.admin_settings(), client_id="benchmark") as admin:
        topics = {topic_type: worker.topic(topic_type) for topic_type in TopicType}
        described = admin.describe_topics(topics.values())
        facts = {}
        for topic_type, topic in topics.items():
            partitions = len(described[topic].partitions)
            ends = admin.end_offsets((topic, partition) for partition in range(partitions))
            facts[topic_type.value] = {"partitions": partitions, "records": sum(ends.values())}
    return facts


def _report(seconds: dict[str, dict[str, list[float]]], size: WorkloadSize, facts: dict[str, Any]) -> dict[str, Any]:
    medians = {contender: statistics.median(parts["total_s"]) for contender, parts in seconds.items()}
    ratios = {
        "warm_java_to_python": round(medians["java_warm"] / medians["python_warm"], 2),
        "cold_java_to_python": round(medians["java_cold"] / medians["python_cold"], 2),
        "plain_client_to_python_warm": round(medians["plain_client"] / medians["python_warm"], 2),
    }
    return {
        "workload": {
            "groups": size.groups,
            "jobs": size.jobs,
            "config_bytes": size.config_bytes,
            "status_bytes": size.status_bytes,
            "topics": facts,
        },
        "ratios": ratios,
        "targets": {
            "warm_java_to_python": TARGETS["warm"],
            "cold_java_to_python": TARGETS["cold"],
            "met": ratios["warm_java_to_python"] >= TARGETS["warm"]
            and ratios["cold_java_to_python"] >= TARGETS["cold"],
        },
        "seconds": {
            contender: {part: _summary(values) for part, values in parts.items()}
            for contender, parts in seconds.items()
        },
        "machine": describe_machine(),
        "versions": {**library_versions(), "kafka": DEFAULT_VERSION},
        "measured_at_ms": int(time.time() * 1000),
    }


_TITLES: Final = {
    "python_warm": "Python stores, shared topics, one group's records (warm)",
    "python_cold": "Python stores, first start of a process",
    "java_warm": "Java stores, plain keys (warm JVM)",
    "java_cold": "Java stores, first start of a JVM",
    "java_foreign_warm": "Java stores, every record foreign (warm JVM)",
    "java_foreign_cold": "Java stores, every record foreign, first start",
    "plain_client": "plain client, default settings, records only read",
}


def table(report: dict[str, Any]) -> list[str]:
    """Give the report as lines: ratios first, then milliseconds."""
    ratios, seconds = report["ratios"], report["seconds"]
    lines = [
        f"warm: Java needs {ratios['warm_java_to_python']:.1f} times as long as Python",
        f"cold: Java needs {ratios['cold_java_to_python']:.1f} times as long as Python",
        "",
        f"{'milliseconds, median (min-max)':<58}{'all three':>20}{'config':>9}{'status':>9}{'offsets':>9}",
    ]
    for contender, title in _TITLES.items():
        if contender not in seconds:
            continue
        parts = seconds[contender]
        total = parts["total_s"]
        spread = f"{total['median_s'] * 1e3:.0f} ({total['min_s'] * 1e3:.0f}-{total['max_s'] * 1e3:.0f})"
        cells = "".join(
            f"{parts[part]['median_s'] * 1e3:>9.0f}" if part in parts else f"{'':>9}"
            for part in ("config_s", "status_s", "offsets_s")
        )
        lines.append(f"{title:<58}{spread:>20}{cells}")
    lines += ["", "KIP-1173's own figures: config about 500 ms, status 400-500 ms"]
    return lines


def _body(options: argparse.Namespace) -> int:
    if not options.embedded and not options.bootstrap_servers:
        raise ConfigError("give --embedded for a broker of its own, or --bootstrap-servers")
    if options.rounds < 1:
        raise ConfigError("--rounds has to be at least 1")
    size = {name: getattr(options, name) for name in _SIZE_OPTIONS}
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressLine(sys.stderr))
        folder = run_folder("benchmark")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        servers = options.bootstrap_servers
        if options.embedded:
            servers = stack.enter_context(LocalBroker("bench")).bootstrap_servers
        prefix = f"connect-share-benchmark-{int(time.time())}"
        group = WorkloadSize(**size).group_id(min(3, size["groups"] - 1))
        shared = _worker_file(folder, servers, group, f"{prefix}-shared", sharing=True)
        plain = _worker_file(folder, servers, "benchmark", f"{prefix}-plain", sharing=False)
        shared_worker, plain_worker = WorkerConfig.from_file(shared), WorkerConfig.from_file(plain)
        stack.callback(_delete_topics, shared_worker, plain_worker)
        with spark_session("connect-share benchmark_startup") as spark:
            generate(spark, shared_worker, WorkloadSize(**size, prefixed=True), progress=progress)
            generate(spark, plain_worker, WorkloadSize(**size, prefixed=False), progress=progress)
        facts = _topic_facts(shared_worker)
        seconds = _measure(shared, plain, options.rounds, progress)
    report = _report(seconds, WorkloadSize(**size), facts)
    if options.result is not None:
        options.result.parent.mkdir(parents=True, exist_ok=True)
        options.result.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    output = Output("benchmark_startup", options.output)
    if output.is_json:
        output.json(report)
    else:
        output.lines(*table(report))
    return 0


def _delete_topics(*workers: WorkerConfig) -> None:
    for worker in workers:
        with Admin(worker.admin_settings(), client_id="benchmark") as admin:
            admin.delete_topics([worker.topic(topic_type) for topic_type in TopicType])


_SIZE_OPTIONS: Final = (
    "groups",
    "jobs",
    "config_records",
    "status_records",
    "offset_records",
    "config_bytes",
    "status_bytes",
    "seed",
)


def main(argv: Sequence[str]) -> int:
    """Measure starts. 0 done (whatever the figures), 1 failed, 2 usage."""
    arguments = command_line.parser("benchmark_startup", __doc__ or "")
    where = arguments.add_mutually_exclusive_group()
    where.add_argument("--embedded", action="store_true", help="on a local broker of its own")
    where.add_argument("-B", "--bootstrap-servers", help="on this cluster, in topics of its own that are deleted after")
    arguments.add_argument("--rounds", type=int, default=5, help="default 5")
    arguments.add_argument("--result", type=Path, help="file for the whole report as JSON")
    arguments.add_argument("--output", choices=("text", "json"), default="text")
    add_size_arguments(arguments)
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
