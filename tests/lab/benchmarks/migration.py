"""A move of dedicated topics onto shared ones: our engines and MirrorMaker 2 with a key transform, side by side in one run.

Every contender is a process of its own, measured as a whole. Every round runs bare clients and the local engine, every third
one all; every other round goes backwards. Each run has topics of its own. What each copy got wrong is counted once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from connect_share.files import Progress
from connect_share.model.records import TopicType
from connect_share.worker_config import WorkerConfig
from migrator.copy.copy_job import LOCAL_ENGINE
from migrator.run import Manifest, manifest_path
from spark_jobs import command_line
from spark_jobs.workload import WorkloadSize
from tests.lab.benchmarks.frame import Site, at_least_1, delete_topics, parser, run, topics_of, write_groups
from tests.lab.benchmarks.migration_audit import records_of, wrong_in
from tests.lab.benchmarks.migration_report import KIP, migration_report, migration_table, size_report
from tests.lab.benchmarks.mirror_maker import mirrored, programs
from tests.lab.benchmarks.process_cost import Cost, measured
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.worker import worker_properties, write_properties

CONTENDERS: Final = ("mirror-maker", "bare", "local", "backup", "spark")
_ALWAYS: Final = ("bare", "local")
SIZES: Final = (KIP, "10000", "100000", "1000000")

_GROUP: Final = "big"
_PARTITIONS: Final = {"offset.storage.partitions": "25", "status.storage.partitions": "5"}
_MOST_GROUPS: Final = 1_000
_GIVE_UP_S: Final = 120.0
_LARGEST_AUDIT: Final = 2_000_000
"""Records; each takes half a kilobyte."""
_SLOWEST: Final = 2_000.0
"""Records a second that MirrorMaker 2 has to copy on average, or it is given up."""


def size_of(name: str) -> WorkloadSize:
    """Return the workload of a name: KIP-1173's, or a number of offset records, each of a key of its own.

    A million is 1,000 clusters of 5 jobs with 200 source partitions; each group has 20 config and 20 status records.
    """
    if name == KIP:
        return WorkloadSize(prefixed=False)
    records = int(name)
    groups = max(1, min(_MOST_GROUPS, records // 1_000))
    jobs = 5
    return WorkloadSize(
        groups=groups,
        jobs=jobs,
        config_records=4 * jobs * groups,
        status_records=4 * jobs * groups,
        offset_records=records,
        config_bytes=4 * jobs * groups * 1_000,
        status_bytes=4 * jobs * groups * 375,
        source_partitions=-(-records // (groups * jobs)),
        prefixed=False,
    )


def _migrate(*arguments: str | Path) -> Cost:
    return measured([sys.executable, "-m", "migrator.cli", *map(str, arguments)])[0]


def _apply(plan: Path, *options: str) -> dict[str, float]:
    cost = _migrate("apply", plan, "--yes", *options)
    manifest = Manifest.load(manifest_path(plan))
    copy_s = ((manifest.finished_at_ms or 0) - manifest.started_at_ms) / 1000
    return {**asdict(cost), "copy_s": copy_s}


class Rounds:
    """Runs the contenders of one size, and keeps what they cost and got wrong.

    Args:
        servers: ``host:port`` of source and destination.
        folder: for worker files and plans.
        name: begins the names of all topics.
    """

    def __init__(self, servers: tuple[str, str], folder: Path, name: str) -> None:
        self._source, self._destination = servers
        self._folder = folder
        self._name = name
        properties = {**worker_properties(self._source, "own", f"{name}-own"), **_PARTITIONS}
        self._own_file = write_properties(folder / f"{name}-own.properties", properties)
        self.own = WorkerConfig.from_file(self._own_file)
        self._topics = {topic_type: self.own.topic(topic_type) for topic_type in TopicType}
        self._runs = 0
        self._audits = False
        self.records = self.bytes = 0
        self.found: dict[str, list[dict[str, float]]] = defaultdict(list)
        self.wrong: dict[str, dict[str, int]] = {}

    def fill(self, size: WorkloadSize, progress: Progress) -> None:
        """Write the source's topics, and count records and bytes."""
        self.records = write_groups(self.own, size, progress)
        found = (row for topic in self._topics.values() for row in records_of(self._source, topic))
        self.bytes = sum(len(key) + len(value or b"") for _, key, (value, _) in found)

    def run(self, contenders: Collection[str], number: int) -> None:
        """Run the contenders of a round, once each; in the first one what each copy got wrong is counted."""
        self._audits = number == 0 and self.records <= _LARGEST_AUDIT  # larger copies are verified only
        each: dict[str, Callable[[], None]] = {
            "mirror-maker": self._mirror_maker,
            "bare": self._bare,
            "local": partial(self._move, "local"),
            "backup": self._with_backup,
            "spark": partial(self._move, "spark"),
        }
        for name, measure in list(each.items())[:: -1 if number % 2 else 1]:
            if name in contenders and (name in _ALWAYS or number % 3 == 0):
                measure()

    @contextmanager
    def _new_topics(self) -> Iterator[Path]:
        """Yield a worker file for destination topics that do not exist yet; they are deleted at the end."""
        self._runs += 1
        prefix = f"{self._name}-{self._runs}"
        properties = {**worker_properties(self._destination, _GROUP, prefix, sharing="python"), **_PARTITIONS}
        file = write_properties(self._folder / f"{prefix}.properties", properties)
        try:
            yield file
        finally:
            delete_topics(WorkerConfig.from_file(file))

    def _mirror_maker(self) -> None:
        self._runs += 1
        alias, topics = f"{self._name}-{self._runs}".replace("-", ""), list(self._topics.values())
        give_up_s = _GIVE_UP_S + self.records / _SLOWEST
        with mirrored(alias, self._source, self._destination, topics, f"{_GROUP}.", give_up_s=give_up_s) as run:
            self.found["mirror_maker"].append({**asdict(run.cost), "copy_s": run.copy_s})
            self._audit("mirror_maker", {kind: run.topics[topic] for kind, topic in self._topics.items()})

    def _bare(self) -> None:
        with self._new_topics() as file:
            copy = ("-m", "tests.lab.benchmarks.bare_copy", str(self._own_file), str(file))
            cost, printed = measured([sys.executable, *copy])
            self.found["bare"].append({**asdict(cost), "copy_s": json.loads(printed)["copy_s"]})

    def _plan(self, worker_file: Path) -> tuple[Path, Cost]:
        plan = worker_file.with_suffix(".plan.json")
        files = ("--source-worker-config", self._own_file, "--destination-worker-config", worker_file)
        return plan, _migrate("plan", *files, "-o", plan)

    def _move(self, engine: str) -> None:
        with self._new_topics() as file:
            plan, cost = self._plan(file)
            if engine == LOCAL_ENGINE:  # plans have no engine
                self.found["local_plan"].append(asdict(cost))
            self.found[f"{engine}_apply"].append(_apply(plan, "--no-backup", "--engine", engine))
            self.found[f"{engine}_verify"].append(asdict(_migrate("verify", plan, "--engine", engine)))
            worker = WorkerConfig.from_file(file)
            self._audit(f"{engine}_apply", {topic_type: worker.topic(topic_type) for topic_type in TopicType})

    def _with_backup(self) -> None:
        with self._new_topics() as file:
            plan, _ = self._plan(file)
            self.found["local_backup"].append(asdict(_migrate("apply", plan, "--yes")))

    def _audit(self, contender: str, topics: Mapping[TopicType, str]) -> None:
        if self._audits:
            total: Counter[str] = Counter(dict.fromkeys(("misplaced", "session_keys", "duplicates", "missing"), 0))
            for kind, topic in self._topics.items():
                total.update(wrong_in(kind, _GROUP, (self._source, topic), (self._destination, topics[kind])))
            self.wrong[contender] = dict(total)


def _measure_size(name: str, servers: tuple[str, str], site: Site, options: argparse.Namespace) -> dict[str, Any]:
    rounds, size = Rounds(servers, site.folder, f"migration-{int(time.time())}-{name}"), size_of(name)
    with topics_of(rounds.own):
        rounds.fill(size, site.progress)
        site.progress.phase(f"measuring rounds of {name}", options.rounds)
        for number in range(options.rounds):
            rounds.run(options.contenders, number)
            site.progress.advance(1)
    return size_report(rounds.records, rounds.bytes, rounds.found, rounds.wrong)


def _measure(options: argparse.Namespace, site: Site) -> dict[str, Any]:
    if "mirror-maker" in options.contenders:
        programs()
    other = options.bootstrap_servers or site.stack.enter_context(LocalBroker("bench")).bootstrap_servers
    sizes = {name: _measure_size(name, (site.servers, other), site, options) for name in options.sizes}
    return migration_report(sizes, options.rounds)


def _size(text: str) -> str:
    return text if text == KIP else str(at_least_1(text))


def main(argv: Sequence[str]) -> int:
    """Measure moves."""
    arguments = parser("migration", __doc__, rounds=9)
    arguments.add_argument("--sizes", nargs="+", type=_size, default=SIZES, help=f"{KIP} and numbers of offset records")
    arguments.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=CONTENDERS, help="default: all")
    return run(arguments.parse_args(argv), _measure, migration_table)


if __name__ == "__main__":
    command_line.exit_with(main)
