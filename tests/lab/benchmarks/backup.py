"""Export and restore of one group with many source offsets: seconds, CPU seconds and memory of the commands.

The offsets are exported to a file, restored to new topics, and followed: a base, and an increment of a tenth of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from connect_share.files import Progress
from connect_share.kafka import client
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import WorkerConfig
from spark_jobs import command_line
from tests.lab.benchmarks.frame import Site, create_topics, delete_topics, new_prefix, parser, run
from tests.lab.benchmarks.process_cost import Cost, measured
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.topics import ANYWHERE, send

_GROUP: Final = "bench.orders"
_PRODUCER: Final = {"linger.ms": "50", "queue.buffering.max.kbytes": "65536"}


def _offsets(topic: str, count: int) -> Iterator[Record]:
    for number in range(count):
        key = f'{_GROUP}.["connector-{number % 100}",{{"table":"public.t{number}"}}]'.encode()
        value = f'{{"lsn":{number * 7919},"ts_usec":{number * 104_729}}}'.encode()
        yield Record(topic, ANYWHERE, 0, 0, key, value)


def _write(worker: WorkerConfig, count: int, progress: Progress) -> None:
    producer = client.producer(worker.producer_settings(), client_id="benchmark", overrides=_PRODUCER)
    progress.phase("writing offsets", 1)
    send(producer, _offsets(worker.topic(TopicType.OFFSET), count))


def _worker(site: Site, name: str) -> Path:
    properties = worker_properties(site.servers, _GROUP, new_prefix(name), sharing="python")
    file = write_properties(site.folder / f"{name}.properties", properties)
    site.stack.callback(delete_topics, WorkerConfig.from_file(file))
    return file


def _steps(site: Site, records: int) -> dict[str, Cost]:
    source, target = (_worker(site, name) for name in ("source", "target"))
    worker, folder, progress = WorkerConfig.from_file(source), site.folder, site.progress
    create_topics(worker)
    _write(worker, records, progress)
    program = [sys.executable, "-m", "connect_share"]
    file, continuous = folder / "export.avro", folder / "continuous"
    follow = [*program, "export", "-w", str(source), "--follow", str(continuous), "--once"]
    steps: dict[str, list[str]] = {
        "export": [*program, "export", "-w", str(source), "-o", str(file)],
        "restore": [*program, "restore", str(file), "-w", str(target), "--yes"],
        "first base": follow,
    }
    found = {}
    for what, command in steps.items():
        progress.phase(what, 1)
        found[what] = measured(command)[0]
    _write(worker, records // 10, progress)
    found["increment of a tenth"] = measured(follow)[0]
    found["restore of both"] = measured([*program, "restore", str(continuous), "-w", str(target), "--yes"])[0]
    return found


def backup_table(report: Mapping[str, Any]) -> list[str]:
    lines = [f"{report['records']:,} source offsets, file of {report['file_bytes']:,} bytes"]
    lines.append(f"{'':<24}{'seconds':>10}{'CPU s':>10}{'MB':>10}")
    for what, cost in report["steps"].items():
        lines.append(f"{what:<24}{cost['seconds']:>10.1f}{cost['cpu_seconds']:>10.1f}{cost['peak_mb']:>10,.0f}")
    return lines


def _measure(options: argparse.Namespace, site: Site) -> dict[str, Any]:
    steps = {
        what: {
            "seconds": round(cost.wall_s, 1),
            "cpu_seconds": round(cost.cpu_s, 1),
            "peak_mb": round(cost.peak_bytes / 1_000_000),
        }
        for what, cost in _steps(site, options.records).items()
    }
    file_bytes = (site.folder / "export.avro").stat().st_size
    return {"records": options.records, "file_bytes": file_bytes, "steps": steps}


def main(argv: Sequence[str]) -> int:
    """Measure export, restore and a continuous backup."""
    arguments = parser("backup", __doc__)
    arguments.add_argument("--records", type=int, default=1_000_000, help="source offsets; default 1,000,000")
    return run(arguments.parse_args(argv), _measure, backup_table)


if __name__ == "__main__":
    command_line.exit_with(main)
