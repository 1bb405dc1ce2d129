"""Start-up read on shared topics: our stores, Java's with and without the jar and a plain client, side by side in one run.

Reproduces the table of KIP-1173 (20 clusters of 5 sink jobs; config topic 32 MB, status topic 3 MB) on a real broker.
Every round measures each contender once, in turn, so that a machine whose speed drifts harms all alike.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from connect_share.admin import Admin
from connect_share.cli.output import Output
from connect_share.client import TopicPartition, consumer
from connect_share.embedded.broker import LocalBroker
from connect_share.embedded.cache import run_folder
from connect_share.embedded.java_program import compiled, time_java_stores
from connect_share.embedded.worker import worker_properties, write_properties
from connect_share.errors import ConfigError, EmbeddedError
from connect_share.records import TopicType
from connect_share.worker_config import SHARING_PROPERTY, Isolation, WorkerConfig
from connect_share.worker_plugin import INTERCEPTOR_CLASS, jar_path
from migrator.cli.progress_line import ProgressLine
from migrator.progress import Progress
from spark_jobs import command_line
from spark_jobs.generate_workload import add_size_arguments, generate
from spark_jobs.session import spark_session
from spark_jobs.startup_report import PARTS, startup_report, startup_table
from spark_jobs.workload import WorkloadSize

WARM_STARTS: Final = 3
"""Warm starts of each contender in each round, after the cold one of the same process."""

CONTENDERS: Final = ("python", "java", "java-jar", "java-foreign", "plain-client")
_PROBE_S: Final = 300
_PARTITIONS: Final = {"offset.storage.partitions": "25", "status.storage.partitions": "5"}


def _worker_file(
    folder: Path, bootstrap_servers: str, group_id: str, prefix: str, *, sharing: bool, jar: bool = False
) -> Path:
    properties = {
        **worker_properties(bootstrap_servers, group_id, prefix),
        **_PARTITIONS,
        SHARING_PROPERTY: "enabled" if sharing else "disabled",
        **({"interceptor.classes": INTERCEPTOR_CLASS} if jar else {}),
    }
    return write_properties(folder / f"{prefix}-{group_id}{'-jar' if jar else ''}.properties", properties)


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


def _measure(
    files: Mapping[str, Path], contenders: Collection[str], rounds: int, progress: Progress
) -> dict[str, dict[str, list[float]]]:
    """Give seconds by contender and part (``total_s``, ``config_s``, ...)."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    compiled("TimeStores")
    progress.phase("measuring rounds", rounds)

    def note(contender: str, values: Mapping[str, Any]) -> None:
        for part in PARTS:
            found[contender][part].append(float(values[part]))

    def java(contender: str, worker_file: Path, jars: Sequence[Path] = ()) -> None:
        for start in time_java_stores(worker_file, 1 + WARM_STARTS, jars=jars):
            note(f"{contender}_cold" if start.run == 0 else f"{contender}_warm", asdict(start))

    for _ in range(rounds):
        if "python" in contenders:
            for start in _python_starts(files["shared"], 1 + WARM_STARTS):
                note("python_cold" if start["run"] == 0 else "python_warm", start)
        if "java" in contenders:
            java("java", files["plain"])
        if "java-jar" in contenders:
            java("java_jar", files["jar"], [jar_path()])
        if "java-foreign" in contenders:
            java("java_foreign", files["shared"])
        if "plain-client" in contenders:
            found["plain_client"]["total_s"].append(_plain_client_read(WorkerConfig.from_file(files["shared"])))
        progress.advance(1)
    return {contender: dict(parts) for contender, parts in found.items()}


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
        files = {
            "shared": _worker_file(folder, servers, group, f"{prefix}-shared", sharing=True),
            "jar": _worker_file(folder, servers, group, f"{prefix}-shared", sharing=True, jar=True),
            "plain": _worker_file(folder, servers, "benchmark", f"{prefix}-plain", sharing=False),
        }
        workers = {name: WorkerConfig.from_file(file) for name, file in files.items()}
        stack.callback(_delete_topics, workers["shared"], workers["plain"])
        with spark_session("connect-share benchmark_startup") as spark:
            generate(spark, workers["shared"], WorkloadSize(**size, prefixed=True), progress=progress)
            if "java" in options.contenders:
                generate(spark, workers["plain"], WorkloadSize(**size, prefixed=False), progress=progress)
        facts = _topic_facts(workers["shared"])
        seconds = _measure(files, options.contenders, options.rounds, progress)
    report = startup_report(seconds, WorkloadSize(**size), facts)
    if options.result is not None:
        options.result.parent.mkdir(parents=True, exist_ok=True)
        options.result.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    output = Output("benchmark_startup", options.output)
    if output.is_json:
        output.json(report)
    else:
        output.lines(*startup_table(report))
    return 0


def _delete_topics(*workers: WorkerConfig) -> None:
    for worker in workers:
        with Admin(worker.admin_settings(), client_id="benchmark") as admin:
            admin.delete_topics([worker.topic(topic_type) for topic_type in TopicType])


def _contenders(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(","))
    if not names <= set(CONTENDERS):
        raise argparse.ArgumentTypeError(f"only {', '.join(CONTENDERS)}")
    return names


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
    arguments.add_argument(
        "--contenders",
        type=_contenders,
        default=frozenset(CONTENDERS),
        help=f"comma list of {', '.join(CONTENDERS)}; all by default",
    )
    arguments.add_argument("--result", type=Path, help="file for the whole report as JSON")
    arguments.add_argument("--output", choices=("text", "json"), default="text")
    add_size_arguments(arguments)
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
