"""Starts of a real Connect worker with and without the jar, on topics of its own and beside 8,000 records of other groups.

The last kind has keys, too: what its group wrote is sealed, and what it writes at the start.

Seconds from the start of the JVM to "Herder started", and what the worker logs meanwhile. Every round starts each once.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from connect_share.console import ProgressLine
from connect_share.errors import ConfigError
from connect_share.files import Progress
from connect_share.jar import INTERCEPTOR_CLASS, jar_path
from connect_share.jar.cache import run_folder
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import ensure_topic, topic_spec
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY
from connect_share.sealing.key_ring import new_key
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from spark_jobs import command_line
from spark_jobs.workload import WorkloadSize, group_records
from tests.lab.benchmarks.output import hand_out
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.worker import worker_properties
from tests.lab.worker import LabWorker
from tests.support.topics import pairs_of, send

FOREIGN: Final = WorkloadSize(
    groups=20,
    config_records=1_799,
    status_records=5_186,
    offset_records=1_015,
    config_bytes=900_000,
    status_bytes=900_000,
)
"""8,000 records of 20 groups, as many of each kind as captured workers had written."""

_CONNECTORS: Final = 3
_START_S: Final = 120.0
_STARTED: Final = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\].*Herder started", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of worker on one kind of topics."""

    name: str
    title: str
    jar: bool
    shared: bool
    sealed: bool = False


CELLS: Final = (
    Cell("plain_dedicated", "without the jar, topics of its own", jar=False, shared=False),
    Cell("jar_dedicated", "with the jar, topics of its own", jar=True, shared=False),
    Cell("plain_shared", "without the jar, beside 8,000 foreign records", jar=False, shared=True),
    Cell("jar_shared", "with the jar, beside 8,000 foreign records", jar=True, shared=True),
    Cell("sealed_shared", "with the jar and keys, beside 8,000 foreign", jar=True, shared=True, sealed=True),
)


def _properties(bootstrap_servers: str, prefix: str, cell: Cell) -> dict[str, str]:
    return {
        **worker_properties(bootstrap_servers, f"bench-{cell.name}".replace("_", "-"), f"{prefix}-{cell.name}"),
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "2000",
        **({SHARING_PROPERTY: "enabled", "interceptor.classes": INTERCEPTOR_CLASS} if cell.jar else {}),
        **({KEYS_PROPERTY: new_key()} if cell.sealed else {}),
    }


def _write_foreign(worker: WorkerConfig) -> None:
    producer = client.producer(worker.producer_settings(), client_id="benchmark", overrides={"linger.ms": "5"})
    for kind in TopicType:
        for group in range(FOREIGN.groups):
            send(producer, pairs_of(worker.topic(kind), group_records(FOREIGN, group, kind)))


def _start_once(worker: LabWorker) -> dict[str, float]:
    """Start a worker that ran before, and stop it when its herder has started."""
    begin, began_s = len(worker.log()), time.time()
    worker.start()
    deadline_s = time.monotonic() + _START_S
    while (found := _STARTED.search(worker.log(), begin)) is None:
        if time.monotonic() > deadline_s:
            raise EmbeddedError(f"the worker's herder did not start within {_START_S:g} s")
        time.sleep(0.05)
    text = worker.log()[begin : found.end()]
    worker.stop()  # in order: for a member that was killed the next start would wait until its session ends
    lines = text.splitlines()
    started = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").astimezone()
    return {
        "seconds": started.timestamp() - began_s,
        "log_lines": len(lines),
        "log_bytes": len(text),
        "warn_and_error": sum(1 for line in lines if re.search(r"\] (WARN|ERROR) ", line)),
    }


def _prepare(stack: ExitStack, properties: Mapping[str, str], cell: Cell, folder: Path) -> LabWorker:
    """Create the topics, the foreign records, and three connectors of the worker's own."""
    config = WorkerConfig.from_properties(properties)
    with Admin(config.admin_settings(), client_id="benchmark") as admin:
        for topic_type in TopicType:
            ensure_topic(admin, topic_spec(config, topic_type))
        stack.callback(_delete_topics, config)
    if cell.shared:
        _write_foreign(config)
    worker = stack.enter_context(LabWorker(properties, class_path=(jar_path(),) if cell.jar else ()))
    for number in range(_CONNECTORS):
        sink = {
            "connector.class": "FileStreamSink",
            "tasks.max": "1",
            "topics": config.topic(TopicType.STATUS),
            "file": str(folder / f"{cell.name}-{number}.txt"),
        }
        worker.rest.put_config(f"sink-{number}", sink)
        worker.rest.pause(f"sink-{number}")  # its work is no part of the start
    for number in range(_CONNECTORS):
        worker.rest.await_state(f"sink-{number}", "PAUSED")
    worker.kill()
    return worker


def _delete_topics(config: WorkerConfig) -> None:
    with Admin(config.admin_settings(), client_id="benchmark") as admin:
        admin.delete_topics([config.topic(topic_type) for topic_type in TopicType])


def _measure(
    bootstrap_servers: str, rounds: int, folder: Path, progress: Progress
) -> dict[str, list[dict[str, float]]]:
    prefix = f"connect-share-benchmark-{int(time.time())}"
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    with ExitStack() as stack:
        progress.phase("preparing workers", len(CELLS))
        workers = {}
        for cell in CELLS:
            workers[cell] = _prepare(stack, _properties(bootstrap_servers, prefix, cell), cell, folder)
            progress.advance(1)
        progress.phase("measuring rounds", rounds)
        for _ in range(rounds):
            for cell, worker in workers.items():
                found[cell.name].append(_start_once(worker))
            progress.advance(1)
    return dict(found)


def workers_report(found: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """Return the medians of all cells, and what the jar costs or saves."""
    medians = {
        name: {part: round(statistics.median(start[part] for start in starts), 3) for part in starts[0]}
        | {
            "fastest_seconds": round(min(start["seconds"] for start in starts), 3),
            "slowest_seconds": round(max(start["seconds"] for start in starts), 3),
        }
        for name, starts in found.items()
    }

    def ratio(one: str, other: str) -> float:
        return round(medians[one]["seconds"] / medians[other]["seconds"], 2)

    return {
        "workers": medians,
        "starts": {name: len(starts) for name, starts in found.items()},
        "ratios": {
            "jar_to_plain_dedicated": ratio("jar_dedicated", "plain_dedicated"),
            "jar_to_plain_shared": ratio("jar_shared", "plain_shared"),
            "jar_shared_to_plain_dedicated": ratio("jar_shared", "plain_dedicated"),
            "sealed_to_jar_shared": ratio("sealed_shared", "jar_shared"),
        },
    }


def workers_table(report: Mapping[str, Any]) -> list[str]:
    """Return the report as lines."""
    lines = [f"{'start of a worker, median (min-max)':<48}{'seconds':>18}{'log lines':>12}{'WARN, ERROR':>14}"]
    for cell in CELLS:
        values = report["workers"][cell.name]
        spread = f"{values['seconds']:.1f} ({values['fastest_seconds']:.1f}-{values['slowest_seconds']:.1f})"
        lines.append(f"{cell.title:<48}{spread:>18}{values['log_lines']:>12,.0f}{values['warn_and_error']:>14,.0f}")
    return lines


def _body(options: argparse.Namespace) -> int:
    if options.rounds < 1:
        raise ConfigError("--rounds has to be at least 1")
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressLine(sys.stderr))
        folder = run_folder("benchmark")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        servers = options.bootstrap_servers or stack.enter_context(LocalBroker("bench")).bootstrap_servers
        found = _measure(servers, options.rounds, folder, progress)
    report = workers_report(found)
    hand_out(options, "benchmark_workers", report, workers_table(report))
    return 0


def main(argv: Sequence[str]) -> int:
    """Measure starts of workers. 0 done (whatever the figures), 1 failed, 2 usage."""
    arguments = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.workers", description=__doc__)
    arguments.add_argument(
        "-B",
        "--bootstrap-servers",
        help="a broker to use, topics of its own are made and deleted; default: a local one",
    )
    arguments.add_argument("--rounds", type=int, default=5, help="default 5")
    arguments.add_argument("--result", type=Path, help="file for the whole report as JSON")
    arguments.add_argument("--output", choices=("text", "json"), default="text")
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
