"""How long the console takes for many groups and connectors: seconds of whole processes, from the shell's point of view."""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from connect_share.console import ProgressLine
from connect_share.errors import ConfigError, ConnectShareError
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.keys import prefix_key
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.model.status import State, TaskStatus, task_status_record
from connect_share.worker_config import ClientSettings
from spark_jobs import command_line
from spark_jobs.workload import WorkloadSize, group_records
from tests.lab.benchmarks.output import hand_out
from tests.lab.embedded.broker import LocalBroker
from tests.support.topics import ANYWHERE, create_known, send

GOAL_S: Final = {"get connectors": 3.0}
_COMMANDS: Final = ("get connectors", "get connectors --state FAILED", "get tasks --output json", "get groups")
_PARTITIONS: Final = {TopicType.CONFIG: 1, TopicType.STATUS: 5, TopicType.OFFSET: 25}
_FAILED_EVERY: Final = 10


def workload(groups: int, connectors: int) -> WorkloadSize:
    """Return groups of as many connectors each: a configuration, target state, task and commit, three statuses, a topic."""
    records = groups * connectors * 4
    return WorkloadSize(
        groups=groups,
        jobs=connectors,
        config_records=records + groups,
        status_records=records,
        offset_records=records,
        config_bytes=1_000 * records,
        status_bytes=200 * records,
    )


def _records(size: WorkloadSize, topics: Mapping[TopicType, str]) -> Iterator[Record]:
    for group in range(size.groups):
        for topic_type, topic in topics.items():
            for key, value in group_records(size, group, topic_type):
                yield Record(topic, ANYWHERE, 0, 0, key, value)
        if group % _FAILED_EVERY == 0:
            task = ConnectorTaskId(size.connector(group, size.jobs - 1), 0)
            key, value = task_status_record(TaskStatus(task, State.FAILED, "10.0.0.1:8083", 1_000, "trace"))
            yield Record(topics[TopicType.STATUS], ANYWHERE, 0, 0, prefix_key(size.group_id(group), key), value)


def _run(command: Sequence[str], flags: Sequence[str]) -> tuple[float, float]:
    """Return the seconds a command took, and those of its CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-m", "connect_share", *command, *flags], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode:
        raise ConnectShareError(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(servers: str, size: WorkloadSize, rounds: int, progress: ProgressLine) -> dict[str, Any]:
    """Fill topics, run each command in turn, and remove the topics; return the report."""
    settings = ClientSettings({"bootstrap.servers": servers})
    prefix = f"connect-share-benchmark-{int(time.time())}-console"
    topics = {topic_type: f"{prefix}-{topic_type.value}" for topic_type in TopicType}
    flags = ["-B", servers]
    flags += [text for kind, topic in topics.items() for text in (f"--{kind.value}-storage-topic", topic)]
    found: dict[str, list[tuple[float, float]]] = {command: [] for command in _COMMANDS}
    with Admin(settings, client_id="benchmark") as admin:
        try:
            for topic_type, topic in topics.items():
                request = NewTopicRequest(topic, _PARTITIONS[topic_type], 1, {"cleanup.policy": "compact"})
                create_known(admin, request)
            progress.phase("writing groups", 1)
            producer = client.producer(settings, client_id="benchmark", overrides={"linger.ms": "20"})
            records = send(producer, _records(size, topics))
            progress.phase("measuring", rounds)
            for _ in range(rounds):
                for command, measured in found.items():
                    measured.append(_run(command.split(), flags))
                progress.advance(1)
        finally:
            admin.delete_topics(list(admin.describe_topics(topics.values())))
    return {
        "groups": size.groups,
        "connectors": size.groups * size.jobs,
        "records": records,
        "commands": {
            command: {
                "seconds": round(statistics.median(seconds for seconds, _ in measured), 2),
                "cpu_seconds": round(statistics.median(cpu_seconds for _, cpu_seconds in measured), 2),
                "worst_seconds": round(max(measured)[0], 2),
            }
            for command, measured in found.items()
        },
        "goals": GOAL_S,
    }


def console_table(report: Mapping[str, Any]) -> list[str]:
    """Return the report as lines."""
    lines = [f"{report['groups']:,} groups, {report['connectors']:,} connectors, {report['records']:,} records"]
    lines.append(f"{'median of whole processes':<32}{'seconds':>10}{'CPU':>10}{'worst':>10}{'goal':>10}")
    for command, values in report["commands"].items():
        figures = (values["seconds"], values["cpu_seconds"], values["worst_seconds"], report["goals"].get(command, ""))
        lines.append(f"{command:<32}" + "".join(f"{figure:>10}" for figure in figures))
    return lines


def _body(options: argparse.Namespace) -> int:
    if min(options.rounds, options.groups, options.connectors) < 1:
        raise ConfigError("--rounds, --groups and --connectors have to be at least 1")
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressLine(sys.stderr))
        servers = options.bootstrap_servers or stack.enter_context(LocalBroker("bench")).bootstrap_servers
        report = measure(servers, workload(options.groups, options.connectors), options.rounds, progress)
    hand_out(options, "benchmark_console", report, console_table(report))
    return 0


def main(argv: Sequence[str]) -> int:
    """Measure the console over many connectors. 0 done (whatever the figures), 1 failed, 2 usage."""
    arguments = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.console", description=__doc__)
    arguments.add_argument("-B", "--bootstrap-servers", help="a broker to use; default: a local one")
    arguments.add_argument("--groups", type=int, default=200, help="default 200")
    arguments.add_argument("--connectors", type=int, default=25, help="of each group; default 25")
    arguments.add_argument("--rounds", type=int, default=5, help="default 5")
    arguments.add_argument("--result", type=Path, help="file for the whole report as JSON")
    arguments.add_argument("--output", choices=("text", "json"), default="text")
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
