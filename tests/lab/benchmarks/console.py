"""How long the console takes for many groups and connectors: seconds of whole processes, from the shell's point of view."""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from connect_share.errors import ConnectShareError
from connect_share.kafka import client
from connect_share.model.keys import prefix_key
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.model.status import State, TaskStatus, task_status_record
from connect_share.worker_config import WorkerConfig
from spark_jobs import command_line
from spark_jobs.workload import WorkloadSize
from tests.lab.benchmarks.frame import Site, at_least_1, new_prefix, parser, run, topics_of, write_groups
from tests.lab.embedded.worker import worker_properties
from tests.support.topics import ANYWHERE, send

GOAL_S: Final = {"get connectors": 3.0}
_COMMANDS: Final = ("get connectors", "get connectors --state FAILED", "get tasks --output json", "get groups")
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


def _failed(worker: WorkerConfig, size: WorkloadSize) -> Iterator[Record]:
    """Yield a failed task of every tenth group."""
    for group in range(0, size.groups, _FAILED_EVERY):
        task = ConnectorTaskId(size.connector(group, size.jobs - 1), 0)
        key, value = task_status_record(TaskStatus(task, State.FAILED, "10.0.0.1:8083", 1_000, "trace"))
        yield Record(worker.topic(TopicType.STATUS), ANYWHERE, 0, 0, prefix_key(size.group_id(group), key), value)


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


def measure(site: Site, size: WorkloadSize, rounds: int) -> dict[str, Any]:
    """Fill topics, run each command in turn, and remove the topics; return the report."""
    properties = worker_properties(site.servers, "benchmark", new_prefix("console"))
    worker = WorkerConfig.from_properties({**properties, "offset.storage.partitions": "25"})
    flags = ["-B", site.servers]
    flags += [text for kind in TopicType for text in (f"--{kind.value}-storage-topic", worker.topic(kind))]
    found: dict[str, list[tuple[float, float]]] = {command: [] for command in _COMMANDS}
    with topics_of(worker):
        records = write_groups(worker, size, site.progress)
        producer = client.producer(worker.producer_settings(), client_id="benchmark")
        records += send(producer, _failed(worker, size))
        site.progress.phase("measuring", rounds)
        for _ in range(rounds):
            for command, measured in found.items():
                measured.append(_run(command.split(), flags))
            site.progress.advance(1)
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


def _measure(options: argparse.Namespace, site: Site) -> tuple[dict[str, Any], list[str]]:
    report = measure(site, workload(options.groups, options.connectors), options.rounds)
    return report, console_table(report)


def main(argv: Sequence[str]) -> int:
    """Measure the console over many connectors."""
    arguments = parser("console", __doc__, rounds=5)
    arguments.add_argument("--groups", type=at_least_1, default=200, help="default 200")
    arguments.add_argument("--connectors", type=at_least_1, default=25, help="of each group; default 25")
    return run("console", arguments.parse_args(argv), _measure)


if __name__ == "__main__":
    command_line.exit_with(main)
