"""What many groups in one process cost: over one reader, for threads and on asyncio, side by side, and one group alone.

The topics hold far more groups than the process, as in the start-up benchmark: 1,300 records of each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from connect_share import AsyncSharedTopics, ConnectStorage, SharedTopics, WorkerConfig
from connect_share.kafka import client
from connect_share.model.records import TopicType
from spark_jobs import command_line
from spark_jobs.benchmark.topics import PLANS
from spark_jobs.workload import WorkloadSize
from tests.lab.benchmarks.frame import (
    READY,
    Site,
    new_prefix,
    parser,
    records_of_others,
    run,
    running,
    topics_of,
    write_groups,
)
from tests.lab.embedded.worker import worker_properties
from tests.support.topics import written_evenly

_FULL: Final = PLANS["groups-1000"].size
_TAIL: Final = (TopicType.CONFIG,) * 2 + (TopicType.STATUS,) * 4 + (TopicType.OFFSET,) * 20
"""Of these each group writes one while the contenders follow, about as the topics are filled."""
_TAIL_S: Final = 10.0
_HELD: Final = {"memory_mb": (8, 1), "threads": (9, 1), "connections": (13, 1)}
"""What a process holds; of that, a process without groups has something, too."""
_FIGURES: Final = ("start_s", "start_cpu_s", "tail_cpu_s", *_HELD)
_LATE: Final = "late_ms"


@dataclass(frozen=True)
class Topics:
    """Brokers, the names of the topics, and what is on them."""

    servers: str
    prefix: str
    size: WorkloadSize

    def worker(self, group: int) -> WorkerConfig:
        """Return the worker of a group."""
        properties = worker_properties(self.servers, self.size.group_id(group), self.prefix, sharing="python")
        return WorkerConfig.from_properties(properties)

    def load(self) -> None:
        """Write records of all groups in turns, evenly over ten seconds."""
        worker = self.worker(0)
        producer = client.producer(worker.producer_settings(), client_id="load", overrides={"linger.ms": "5"})
        per_second = len(_TAIL) * self.size.groups / _TAIL_S
        with written_evenly(producer, records_of_others(worker, self.size.groups, _TAIL), per_second, every_s=0.01):
            time.sleep(_TAIL_S)


def contend(site: Topics, kind: str, groups: int) -> dict[str, float]:
    """Start, then follow while another process writes; return seconds and CPU seconds. Runs in a process of its own."""
    with ExitStack() as stack:
        began, cpu = time.perf_counter(), time.process_time()
        storages: list[ConnectStorage]
        if kind == "shared":
            topics = stack.enter_context(SharedTopics(site.worker(0)))
            storages = [topics.storage(site.size.group_id(group)) for group in range(groups)]
            for storage in storages:
                storage.start()
        else:
            storages = [stack.enter_context(ConnectStorage(site.worker(group))) for group in range(groups)]
        start_s, start_cpu_s = time.perf_counter() - began, time.process_time() - cpu
        print(READY, flush=True)
        sys.stdin.readline()
        cpu = time.process_time()
        sys.stdin.readline()
        for storage in storages[:1] if kind == "shared" else storages:  # what one has read, all have
            for store in (storage.config, storage.status, storage.offsets):
                store.refresh()
        tail_cpu_s = time.process_time() - cpu
        return {"start_s": start_s, "start_cpu_s": start_cpu_s, "tail_cpu_s": tail_cpu_s, **_held()}


def _held() -> dict[str, float]:
    """Return what this process holds: memory, threads and connections."""
    said = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    tables = [Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:] for name in ("tcp", "tcp6")]
    connected = {line.split()[9] for table in tables for line in table if line.split()[3] == "01"}
    own = set()
    for opened in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            own.add(str(opened.readlink()).removeprefix("socket:[").rstrip("]"))
    memory_mb = int(said["VmRSS"].split()[0]) / 1024
    return {"memory_mb": memory_mb, "threads": int(said["Threads"]), "connections": len(own & connected)}


async def _latest(ended: asyncio.Event) -> float:
    """Return by how many milliseconds an event loop was late at most, asked every 10 ms."""
    late_s, loop = 0.0, asyncio.get_running_loop()
    while not ended.is_set():
        due = loop.time() + 0.01
        await asyncio.sleep(0.01)
        late_s = max(late_s, loop.time() - due)
    return late_s * 1000


async def contend_on_loop(site: Topics, groups: int) -> dict[str, float]:
    """Do as :func:`contend` over one reader, on an event loop that does nothing else."""
    ended = asyncio.Event()
    late = asyncio.create_task(_latest(ended))
    began, cpu = time.perf_counter(), time.process_time()
    async with AsyncSharedTopics(site.worker(0)) as topics:
        storages = [topics.storage(site.size.group_id(group)) for group in range(groups)]
        await asyncio.gather(*(storage.start() for storage in storages))
        start_s, start_cpu_s = time.perf_counter() - began, time.process_time() - cpu
        print(READY, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        cpu = time.process_time()
        await asyncio.to_thread(sys.stdin.readline)
        for store in (storages[0].config, storages[0].status, storages[0].offsets):
            await store.refresh()
        found = {"start_s": start_s, "start_cpu_s": start_cpu_s, "tail_cpu_s": time.process_time() - cpu, **_held()}
    ended.set()
    return {**found, _LATE: await late}


def measure(site: Topics, kind: str, groups: int) -> dict[str, float]:
    """Run one contender, and write while it follows."""
    where = ("-B", site.servers, "--prefix", site.prefix, "--groups", groups, "--all", site.size.groups)
    with running("tests.lab.benchmarks.many_groups", "--contender", kind, *where) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for at_once in (site.load, lambda: None):
            process.stdin.write("\n")
            process.stdin.flush()
            at_once()
        found: dict[str, float] = json.loads(process.stdout.readline())
    return found


def _site(options: argparse.Namespace, servers: str, prefix: str) -> Topics:
    share = options.all / _FULL.groups
    numbers = ("config_records", "status_records", "offset_records", "config_bytes", "status_bytes")
    scaled = {name: round(getattr(_FULL, name) * share) for name in numbers}
    return Topics(servers, prefix, replace(_FULL, groups=options.all, **scaled))


def _measure(options: argparse.Namespace, where: Site) -> dict[str, Any]:
    contenders = {
        "one": 1,
        "shared": options.groups,
        "on asyncio": options.groups,
        "side by side": options.side_by_side,
    }
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    site = _site(options, where.servers, new_prefix("many-groups"))
    with topics_of(site.worker(0)) as worker:
        write_groups(worker, site.size, where.progress)
        measure(site, "one", 1)  # the first one makes the broker's caches warm
        for _ in range(options.rounds):
            for name, groups in contenders.items():
                rounds[name].append(measure(site, name, groups))
    medians = {
        name: {figure: statistics.median(found[figure] for found in each) for figure in _FIGURES}
        for name, each in rounds.items()
    }
    medians["on asyncio"][_LATE] = statistics.median(found[_LATE] for found in rounds["on asyncio"])
    times = options.groups / options.side_by_side
    one, beside = medians["one"], medians["side by side"]
    more = (options.groups - options.side_by_side) / max(1, options.side_by_side - 1)
    medians["side by side, extrapolated"] = {
        name: beside[name] + more * (beside[name] - one[name]) if name in _HELD else beside[name] * times
        for name in _FIGURES
    }
    return {
        "groups": contenders,
        "all_groups": options.all,
        "records": site.size.config_records + site.size.status_records + site.size.offset_records,
        "rounds": rounds,
        "medians": medians,
        "shared_to_one": {name: medians["shared"][name] / medians["one"][name] for name in _FIGURES},
    }


def many_groups_table(report: Mapping[str, Any]) -> list[str]:
    """Return the report as lines."""
    groups = report["groups"]
    labels = {
        "one": "one group alone",
        "shared": f"{groups['shared']} over one reader",
        "on asyncio": f"{groups['shared']} over one reader, asyncio",
        "side by side": f"{groups['side by side']} side by side",
        "side by side, extrapolated": f"{groups['shared']} side by side, extrapolated",
    }
    lines = [
        f"{report['records']:,} records of {report['all_groups']:,} groups; medians of {len(report['rounds']['one'])}"
    ]
    lines.append(f"{'':<34}{'start s':>10}{'CPU s':>10}{'tail CPU s':>12}{'MB':>8}{'threads':>9}{'connections':>13}")
    rows = [(label, report["medians"][name]) for name, label in labels.items()]
    for label, row in [*rows, ("over one reader / alone", report["shared_to_one"])]:
        held = "".join(f"{row[name]:>{width}.{digits}f}" for name, (width, digits) in _HELD.items())
        lines.append(f"{label:<34}{row['start_s']:>10.2f}{row['start_cpu_s']:>10.2f}{row['tail_cpu_s']:>12.2f}{held}")
    late = report["medians"]["on asyncio"][_LATE]
    return [*lines, f"the event loop was late by at most {late:.1f} ms, start and stop included"]


def main(argv: Sequence[str]) -> int:
    """Measure many groups in one process."""
    arguments = parser("many_groups", __doc__, rounds=3)
    arguments.add_argument("--groups", type=int, default=100, help="in the process; default 100")
    arguments.add_argument("--all", type=int, default=_FULL.groups, help="on the topics; default 1000")
    arguments.add_argument("--side-by-side", type=int, default=10, help="storages without SharedTopics; default 10")
    arguments.add_argument("--contender", help=argparse.SUPPRESS)
    arguments.add_argument("--prefix", help=argparse.SUPPRESS)
    options = arguments.parse_args(argv)
    if options.contender is None:
        return run(options, _measure, many_groups_table)
    site = _site(options, options.bootstrap_servers, options.prefix)
    if options.contender == "on asyncio":
        print(json.dumps(asyncio.run(contend_on_loop(site, options.groups))))
    else:
        print(json.dumps(contend(site, options.contender, options.groups)))
    return 0


if __name__ == "__main__":
    command_line.exit_with(main)
