"""Starts of a real Connect worker with and without the jar, on topics of its own and beside 8,000 records of other groups.

The last kind has keys, too: what its group wrote is sealed, and what it writes at the start.

Seconds from the start of the JVM to "Herder started", and what the worker logs meanwhile. Every round starts each once.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

from connect_share.files import Progress
from connect_share.jar import INTERCEPTOR_CLASS, jar_path
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY
from connect_share.sealing.key_ring import new_key
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from spark_jobs import command_line
from spark_jobs.workload import WorkloadSize
from tests.lab.benchmarks.frame import Site, new_prefix, parser, run, topics_of, write_groups
from tests.lab.compatibility.worker_log import read_log
from tests.lab.embedded.worker import ConnectWorker, worker_properties
from tests.lab.waiting import until

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


def _start_once(worker: ConnectWorker) -> dict[str, float]:
    """Start a worker that ran before, and stop it when its herder has started."""
    begin, began_s = len(worker.log()), time.time()
    worker.start()
    at = until(lambda: _STARTED.search(worker.log(), begin), bool, what="the start of the herder", timeout_s=_START_S)
    found = cast("re.Match[str]", at)
    reading = read_log(worker.log()[begin : found.end()], ())
    worker.stop()  # in order: for a member that was killed the next start would wait until its session ends
    started = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").astimezone()
    return {
        "seconds": started.timestamp() - began_s,
        "log_lines": reading.lines,
        "log_bytes": reading.bytes,
        "warn_and_error": reading.warnings + reading.errors,
    }


def _prepare(
    stack: ExitStack, properties: Mapping[str, str], cell: Cell, folder: Path, progress: Progress
) -> ConnectWorker:
    """Create the topics, the foreign records, and three connectors of the worker's own."""
    config = stack.enter_context(topics_of(WorkerConfig.from_properties(properties)))
    if cell.shared:
        write_groups(config, FOREIGN, progress)
    worker = stack.enter_context(ConnectWorker(properties, class_path=(jar_path(),) if cell.jar else ()))
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


def _starts(site: Site, rounds: int) -> dict[str, list[dict[str, float]]]:
    prefix = new_prefix("workers")
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    workers = {
        cell: _prepare(site.stack, _properties(site.servers, prefix, cell), cell, site.folder, site.progress)
        for cell in CELLS
    }
    site.progress.phase("measuring rounds", rounds)
    for _ in range(rounds):
        for cell, worker in workers.items():
            found[cell.name].append(_start_once(worker))
        site.progress.advance(1)
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


def _measure(options: argparse.Namespace, site: Site) -> dict[str, Any]:
    return workers_report(_starts(site, options.rounds))


def main(argv: Sequence[str]) -> int:
    """Measure starts of workers."""
    return run(parser("workers", __doc__, rounds=5).parse_args(argv), _measure, workers_table)


if __name__ == "__main__":
    command_line.exit_with(main)
