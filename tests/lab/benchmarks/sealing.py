"""The cost of sealing: starts of a sealed group and puts into running stores, side by side with the same group in plain.

Every start is one of a process of its own, cold once and warm afterwards; every round measures plain and sealed in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from connect_share.console import ProgressLine
from connect_share.errors import ConfigError
from connect_share.files import Progress
from connect_share.jar.cache import run_folder
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import ensure_topic, topic_spec
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY, TopicSeals
from connect_share.worker_config import WorkerConfig
from spark_jobs import command_line
from spark_jobs.benchmark.results import Start
from spark_jobs.benchmark.scenarios import PLANS
from spark_jobs.benchmark.starts import run_python
from spark_jobs.benchmark.topics import connection_to, worker_of, worker_properties_of, write_worker
from spark_jobs.workload import WorkloadSize, group_records
from tests.lab.benchmarks.output import hand_out
from tests.lab.embedded.broker import LocalBroker
from tests.support.topics import ANYWHERE, send

SCENARIOS: Final = ("kip", "groups-1000")
FORMS: Final = ("plain", "sealed")
GOALS: Final = {"start": 1.15, "put": 1.2}
_WARM_STARTS: Final = 3
_UNCOUNTED_PUTS: Final = 50
_GROUP: Final = 3
_PRODUCER: Final = {"linger.ms": "20", "queue.buffering.max.kbytes": "65536"}

Found = dict[str, dict[str, list[float]]]
"""Seconds by what was measured and its form."""


def _fill(worker: WorkerConfig, size: WorkloadSize, progress: Progress) -> None:
    """Create the topics and write all groups: sealed, if the worker file has keys."""
    with Admin(worker.admin_settings(), client_id="benchmark") as admin:
        for topic_type in TopicType:
            ensure_topic(admin, topic_spec(worker, topic_type))
    progress.phase("writing groups", size.groups)
    producer = client.producer(worker.producer_settings(), client_id="benchmark", overrides=_PRODUCER)
    for group in range(size.groups):
        for kind in TopicType:
            seals = TopicSeals(kind, size.group_id(group), worker.sealing_keys)
            pairs = ((key, seals.seal(key, value)) for key, value in group_records(size, group, kind))
            send(producer, (Record(worker.topic(kind), ANYWHERE, 0, 0, *pair) for pair in pairs))
        progress.advance(1)


def _measure_starts(file: Path) -> dict[str, list[float]]:
    lines = run_python("spark_jobs.benchmark.starts", "stores", file, 1 + _WARM_STARTS)
    starts = [Start.model_validate_json(line) for line in lines]
    return {
        "cold start": [starts[0].seconds],
        "warm start": [start.seconds for start in starts[1:]],
        "warm start, CPU": [start.cpu_seconds or 0.0 for start in starts[1:]],
    }


def _measure_puts(file: Path, count: int) -> dict[str, list[float]]:
    lines = run_python("tests.lab.benchmarks.startup.latency", "puts", file, count, _UNCOUNTED_PUTS)
    found: dict[str, list[float]] = json.loads(lines[-1])
    return {f"put {store}": seconds for store, seconds in found.items()}


def _measure(scenario: str, servers: str, folder: Path, rounds: int, puts: int, progress: Progress) -> Found:
    plan = PLANS[scenario]
    files, workers = {}, {}
    for form in FORMS:
        prefix = f"connect-share-benchmark-{int(time.time())}-{scenario}-{form}"
        properties = worker_properties_of(plan, connection_to(servers), prefix, _GROUP)
        if form == "sealed":
            properties[KEYS_PROPERTY] = f"7:{b64encode(os.urandom(32)).decode()}"
        files[form] = write_worker(folder / f"{prefix}.json", properties)
        workers[form] = worker_of(files[form])
    found: Found = {}
    try:
        for worker in workers.values():
            _fill(worker, plan.size, progress)
        for file in files.values():
            _measure_starts(file)  # a broker in use has served these reads before
        progress.phase(f"measuring {scenario}", rounds)
        for _ in range(rounds):
            for form, file in files.items():
                measured = _measure_starts(file) | (_measure_puts(file, puts) if puts else {})
                for what, seconds in measured.items():
                    found.setdefault(what, {}).setdefault(form, []).extend(seconds)
            progress.advance(1)
    finally:
        with Admin(workers["plain"].admin_settings(), client_id="benchmark") as admin:
            topics = [worker.topic(topic_type) for worker in workers.values() for topic_type in TopicType]
            admin.delete_topics(list(admin.describe_topics(topics)))
    return found


def sealing_report(found: Mapping[str, Found]) -> dict[str, Any]:
    """Return the medians in milliseconds by scenario, and what sealed takes to plain."""
    scenarios: dict[str, Any] = {}
    for scenario, parts in found.items():
        scenarios[scenario] = {}
        for what, forms in parts.items():
            medians = {form: statistics.median(seconds) for form, seconds in forms.items()}
            scenarios[scenario][what] = {
                **{f"{form}_ms": round(median * 1000, 2) for form, median in medians.items()},
                "ratio": round(medians["sealed"] / medians["plain"], 2),
                "measured": len(forms["sealed"]),
            }
    return {
        "scenarios": scenarios,
        "goals": GOALS,
    }


def sealing_table(report: Mapping[str, Any]) -> list[str]:
    """Return the report as lines."""
    lines = [f"{'median':<32}{'plain, ms':>12}{'sealed, ms':>12}{'ratio':>8}"]
    for scenario, parts in report["scenarios"].items():
        for what, values in parts.items():
            times = f"{values['plain_ms']:>12,.2f}{values['sealed_ms']:>12,.2f}"
            lines.append(f"{scenario + ': ' + what:<32}{times}{values['ratio']:>8.2f}")
    return lines


def _body(options: argparse.Namespace) -> int:
    if options.rounds < 1 or options.puts < 0:
        raise ConfigError("--rounds has to be at least 1, --puts at least 0")
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressLine(sys.stderr))
        folder = run_folder("benchmark")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        servers = options.bootstrap_servers or stack.enter_context(LocalBroker("bench")).bootstrap_servers
        found = {
            name: _measure(name, servers, folder, options.rounds, options.puts if name == SCENARIOS[0] else 0, progress)
            for name in options.scenarios
        }
    report = sealing_report(found)
    hand_out(options, "benchmark_sealing", report, sealing_table(report))
    return 0


def main(argv: Sequence[str]) -> int:
    """Measure plain and sealed side by side. 0 done (whatever the figures), 1 failed, 2 usage."""
    arguments = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.sealing", description=__doc__)
    arguments.add_argument("-B", "--bootstrap-servers", help="a broker to use; default: a local one")
    arguments.add_argument("--scenarios", nargs="+", choices=tuple(PLANS), default=SCENARIOS)
    arguments.add_argument("--rounds", type=int, default=5, help="default 5")
    arguments.add_argument(
        "--puts", type=int, default=100, help=f"a round into each store, in {SCENARIOS[0]}; default 100"
    )
    arguments.add_argument("--result", type=Path, help="file for the whole report as JSON")
    arguments.add_argument("--output", choices=("text", "json"), default="text")
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
