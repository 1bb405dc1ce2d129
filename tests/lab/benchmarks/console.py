"""How long the console takes for many groups and connectors: seconds of whole processes, from the shell's point of view."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from connect_share.kafka import client
from connect_share.model.keys import prefix_key
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.model.status import State, TaskStatus, status_record
from connect_share.worker_config import WorkerConfig
from spark_jobs import command_line
from spark_jobs.workload import WorkloadSize
from tests.lab.benchmarks.frame import Site, at_least_1, new_prefix, parser, run, topics_of, write_groups
from tests.lab.benchmarks.process_cost import Cost, measured
from tests.lab.embedded.worker import worker_properties
from tests.support.topics import ANYWHERE, send

GOAL_S: Final = {"get connectors": 3.0}
_COMMANDS: Final = (
    "get connectors",
    "get connectors --state FAILED",
    "get tasks --output json",
    "get groups",
    "check all",
)
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
        key, value = status_record(TaskStatus(task, State.FAILED, "10.0.0.1:8083", 1_000, "trace"))
        yield Record(worker.topic(TopicType.STATUS), ANYWHERE, 0, 0, prefix_key(size.group_id(group), key), value)


def measure(site: Site, size: WorkloadSize, rounds: int) -> dict[str, Any]:
    """Fill topics, run each command in turn, and remove the topics; return the report."""
    properties = worker_properties(site.servers, "benchmark", new_prefix("console"))
    worker = WorkerConfig.from_properties({**properties, "offset.storage.partitions": "25"})
    flags = ["-B", site.servers]
    flags += [text for kind in TopicType for text in (f"--{kind.value}-storage-topic", worker.topic(kind))]
    found: dict[str, list[Cost]] = {command: [] for command in _COMMANDS}
    with topics_of(worker):
        records = write_groups(worker, size, site.progress)
        producer = client.producer(worker.producer_settings(), client_id="benchmark")
        records += send(producer, _failed(worker, size))
        site.progress.phase("measuring", rounds)
        for _ in range(rounds):
            for command, costs in found.items():
                program = [sys.executable, "-m", "connect_share", *command.split(), *flags]
                costs.append(measured(program, codes=(0, 1))[0])  # 1: there is a finding
            site.progress.advance(1)
    return {
        "groups": size.groups,
        "connectors": size.groups * size.jobs,
        "records": records,
        "commands": {
            command: {
                "seconds": round(statistics.median(cost.wall_s for cost in costs), 2),
                "cpu_seconds": round(statistics.median(cost.cpu_s for cost in costs), 2),
                "worst_seconds": round(max(cost.wall_s for cost in costs), 2),
                "peak_mb": round(max(cost.peak_bytes for cost in costs) / 1e6),
            }
            for command, costs in found.items()
        },
        "goals": GOAL_S,
    }


def console_table(report: Mapping[str, Any]) -> list[str]:
    """Return the report as lines."""
    lines = [f"{report['groups']:,} groups, {report['connectors']:,} connectors, {report['records']:,} records"]
    lines.append(f"{'median of whole processes':<32}{'seconds':>10}{'CPU':>10}{'worst':>10}{'peak MB':>10}{'goal':>10}")
    for command, values in report["commands"].items():
        names = ("seconds", "cpu_seconds", "worst_seconds", "peak_mb")
        figures = (*map(values.__getitem__, names), report["goals"].get(command, ""))
        lines.append(f"{command:<32}" + "".join(f"{figure:>10}" for figure in figures))
    return lines


def _measure(options: argparse.Namespace, site: Site) -> dict[str, Any]:
    return measure(site, workload(options.groups, options.connectors), options.rounds)


def main(argv: Sequence[str]) -> int:
    """Measure the console over many connectors."""
    arguments = parser("console", __doc__, rounds=5)
    arguments.add_argument("--groups", type=at_least_1, default=200, help="default 200")
    arguments.add_argument("--connectors", type=at_least_1, default=25, help="of each group; default 25")
    return run(arguments.parse_args(argv), _measure, console_table)


if __name__ == "__main__":
    command_line.exit_with(main)
