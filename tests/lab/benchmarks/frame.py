"""What benchmarks share: options, a broker, topics with the records of groups, and where the report goes."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from timeit import timeit
from typing import Any, Final

from connect_share.console.output import ProgressLine
from connect_share.files import Progress, run_folder
from connect_share.kafka import client
from connect_share.kafka.create import ensure_topic, topic_spec
from connect_share.kafka.facts import admin_of
from connect_share.model.records import Record, TopicType
from connect_share.sealing import TopicSeals
from connect_share.worker_config import WorkerConfig
from spark_jobs import command_line
from spark_jobs.benchmark.results import describe_machine, versions
from spark_jobs.benchmark.topics import PLANS
from spark_jobs.workload import WorkloadSize, group_records
from tests.lab.embedded.broker import DEFAULT_VERSION, LocalBroker
from tests.lab.embedded.errors import EmbeddedError
from tests.support.topics import ANYWHERE, pairs_of, send

READY: Final = "ready"
_OTHERS: Final = PLANS["groups-100"].size
_EACH: Final = 50
_PRODUCER: Final = {"linger.ms": "20", "queue.buffering.max.kbytes": "65536"}


@dataclass(frozen=True)
class Site:
    """Where a benchmark measures: brokers (``host:port``), and a folder for worker files that is removed at the end.

    What ``stack`` has is closed before the broker.
    """

    servers: str
    folder: Path
    progress: ProgressLine
    stack: ExitStack


Measure = Callable[[argparse.Namespace, Site], dict[str, Any]]
Table = Callable[..., list[str]]
"""Returns a report as lines, that of moves also with those of further runs."""


def new_prefix(name: str) -> str:
    """Return how names of topics begin that no other run has."""
    return f"connect-share-benchmark-{time.time_ns() // 1_000_000}-{name}"


def at_least_1(text: str) -> int:
    """Return the number of an option."""
    if (number := int(text)) < 1:
        raise ValueError(f"{text} is below 1")
    return number


def parser(name: str, description: str | None, *, rounds: int | None = None) -> argparse.ArgumentParser:
    """Return the parser of a benchmark with what all take, and ``--rounds`` where there is a default for it."""
    arguments = argparse.ArgumentParser(prog=f"python -m tests.lab.benchmarks.{name}", description=description)
    arguments.add_argument(
        "-B",
        "--bootstrap-servers",
        help="brokers to use, topics of its own are made and deleted; default: a local one",
    )
    if rounds is not None:
        arguments.add_argument("--rounds", type=at_least_1, default=rounds, help=f"default {rounds}")
    arguments.add_argument("--result", type=Path, help="file for the whole report as JSON")
    return arguments


def run(options: argparse.Namespace, measure: Measure, table: Table) -> int:
    """Measure, keep the report, and print it. 0 done (whatever the figures), 1 failed, 2 usage."""

    def body(_: argparse.Namespace) -> int:
        with ExitStack() as stack:
            progress = stack.enter_context(ProgressLine())
            folder = run_folder("benchmark")
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            servers = options.bootstrap_servers or stack.enter_context(LocalBroker("bench")).bootstrap_servers
            report = measure(options, Site(servers, folder, progress, stack.enter_context(ExitStack())))
        if options.result is not None:
            keep(options.result, report)
        print(*table(report), sep="\n")
        return 0

    return command_line.run(options, body)


def keep(path: Path, report: Mapping[str, Any]) -> None:
    """Write a report to a file, with machine, its speed, versions and time."""
    used = {**versions(), "kafka": DEFAULT_VERSION, **report.get("versions", {})}
    additions_s = timeit("s += 1", "s = 0", timer=time.process_time, number=10_000_000)
    machine = {**describe_machine(), "cpu_s_of_ten_million_additions": round(additions_s, 2)}
    found = {**report, "machine": machine, "versions": used, "measured_at_ms": int(time.time() * 1000)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


@contextmanager
def running(module: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a module in a process of its own, which says when it is ready, until the block ends."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        try:
            if process.stdout is None or process.stdout.readline().strip() != READY:
                raise EmbeddedError(f"{module} did not start; it says why above")
            yield process
        finally:
            process.kill()


def records_of_others(worker: WorkerConfig, groups: int, kinds: Sequence[TopicType]) -> Iterator[Record]:
    """Yield records of so many groups in turn, for the topics of these types, without an end."""
    return in_turns(_OTHERS, [(worker.topic(kind), group, kind) for kind in kinds for group in range(groups)])


def in_turns(size: WorkloadSize, turns: Iterable[tuple[str, int, TopicType]]) -> Iterator[Record]:
    """Yield a record for each of these topics in turn, of this group and type, and begin again without an end."""
    made = [(topic, cycle(islice(group_records(size, group, kind), _EACH))) for topic, group, kind in turns]
    for topic, pairs in cycle(made):
        yield Record(topic, ANYWHERE, 0, 0, *next(pairs))


def create_topics(worker: WorkerConfig) -> None:
    """Create the topics of a worker."""
    with admin_of(worker) as admin:
        for topic_type in TopicType:
            ensure_topic(admin, topic_spec(worker, topic_type))


def delete_topics(worker: WorkerConfig) -> None:
    """Delete those topics of a worker that exist."""
    with admin_of(worker) as admin:
        admin.delete_topics(list(map(worker.topic, TopicType)))


@contextmanager
def topics_of(worker: WorkerConfig) -> Iterator[WorkerConfig]:
    """Create the topics of a worker, and delete them at the end."""
    try:
        create_topics(worker)
        yield worker
    finally:
        delete_topics(worker)


def write_groups(worker: WorkerConfig, size: WorkloadSize, progress: Progress, *, sealed: bool = False) -> int:
    """Write the records of all groups to a worker's topics, ``sealed`` with its keys; return how many."""
    progress.phase("writing groups", size.groups)
    producer = client.producer(worker.producer_settings(), client_id="benchmark", overrides=_PRODUCER)
    records = 0
    for group in range(size.groups):
        for kind in TopicType:
            seals = TopicSeals(kind, size.group_id(group), worker.sealing_keys if sealed else None)
            pairs = ((key, seals.seal(key, value)) for key, value in group_records(size, group, kind))
            records += send(producer, pairs_of(worker.topic(kind), pairs))
        progress.advance(1)
    return records
