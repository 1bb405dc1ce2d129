"""A move of dedicated topics onto shared ones: our engines and MirrorMaker 2 with a key transform, side by side in one run.

Every contender is a process of its own, measured as a whole; every round runs each once, in turn. The source's topics
are written once for each size, each run has destination topics of its own. What each copy got wrong is counted once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from connect_share.files import Progress
from connect_share.kafka.admin import Admin
from connect_share.model.records import TopicType
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from migrator.run import Manifest, manifest_path
from spark_jobs import command_line
from spark_jobs.generate_workload import GroupJob, write_groups
from spark_jobs.workload import WorkloadSize
from tests.lab.benchmarks.frame import Site, create_topics, delete_topics, parser, run
from tests.lab.benchmarks.migration_audit import records_of, wrong_in
from tests.lab.benchmarks.migration_report import KIP, migration_report, migration_table, size_report
from tests.lab.benchmarks.mirror_maker import mirror, partitions_of, programs, remove
from tests.lab.benchmarks.process_cost import Cost, measured
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.worker import worker_properties, write_properties

CONTENDERS: Final = ("mirror-maker", "bare", "local", "backup", "spark", "warm")
SIZES: Final = (KIP, "10000", "100000", "1000000")
WARM_RUNS: Final = 2
"""Copies in one process that count, after the first, which does not."""

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


@dataclass
class Scene:
    """Where one size is measured.

    Attributes:
        source, destination: ``host:port``.
        folder: for worker files and plans.
        name: begins the names of all topics.
    """

    source: str
    destination: str
    folder: Path
    name: str
    runs: int = 0

    @property
    def own_file(self) -> Path:
        """Worker file of the source, written by :meth:`write_own_file`."""
        return self.folder / f"{self.name}-own.properties"

    def write_own_file(self) -> WorkerConfig:
        """Write the source's worker file."""
        properties = {**worker_properties(self.source, "own", f"{self.name}-own"), **_PARTITIONS}
        return WorkerConfig.from_file(write_properties(self.own_file, properties))

    def new_file(self) -> Path:
        """Write a worker file for destination topics that do not exist yet."""
        self.runs += 1
        prefix = f"{self.name}-{self.runs}"
        properties = {
            **worker_properties(self.destination, _GROUP, prefix),
            **_PARTITIONS,
            SHARING_PROPERTY: "enabled",
        }
        return write_properties(self.folder / f"{prefix}.properties", properties)


def _parts(cost: Cost) -> dict[str, float]:
    return {"wall_s": cost.wall_s, "cpu_s": cost.cpu_s, "peak_bytes": cost.peak_bytes}


def _migrate(*arguments: str | Path) -> Cost:
    # As it is once installed: with bytecode, whatever is set for this process.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return measured([sys.executable, "-m", "migrator.cli", *map(str, arguments)], env=env)[0]


def _apply(plan: Path, *options: str) -> dict[str, float]:
    cost = _migrate("apply", plan, "--yes", *options)
    manifest = Manifest.load(manifest_path(plan))
    copy_s = ((manifest.finished_at_ms or 0) - manifest.started_at_ms) / 1000
    return {**_parts(cost), "copy_s": copy_s}


Found = dict[str, list[dict[str, float]]]
Wrong = dict[str, dict[str, int]]


class Round:
    """Runs the contenders of one size once each."""

    def __init__(self, scene: Scene, found: Found, wrong: Wrong, *, audit: bool) -> None:
        self._scene = scene
        self._own = WorkerConfig.from_file(scene.own_file)
        self._found = found
        self._wrong = wrong
        self._audit = audit

    def run(self, contenders: Collection[str]) -> None:
        """Run them in turn."""
        each = {
            "mirror-maker": self._mirror_maker,
            "bare": self._bare,
            "local": self._local,
            "backup": self._with_backup,
            "spark": self._spark,
            "warm": self._warm,
        }
        for name, measure in each.items():
            if name in contenders:
                measure()

    def _source_topics(self) -> dict[TopicType, str]:
        return {topic_type: self._own.topic(topic_type) for topic_type in TopicType}

    def _mirror_maker(self) -> None:
        scene, topics = self._scene, self._source_topics()
        scene.runs += 1
        alias = f"{scene.name}-{scene.runs}".replace("-", "")
        with Admin(self._own.admin_settings(), client_id="benchmark") as admin:
            records = sum(admin.end_offsets(partitions_of(admin, list(topics.values()))).values())
        give_up_s = _GIVE_UP_S + records / _SLOWEST
        names = [f"{alias}.{topic}" for topic in topics.values()]
        try:
            run = mirror(
                alias, scene.source, scene.destination, list(topics.values()), f"{_GROUP}.", give_up_s=give_up_s
            )
            self._found["mirror_maker"].append({**_parts(run.cost), "copy_s": run.copy_s})
            self._audit_copy("mirror_maker", {topic_type: run.topics[topic] for topic_type, topic in topics.items()})
        finally:
            remove(alias, scene.destination, names)

    def _bare(self) -> None:
        worker_file = self._scene.new_file()
        create_topics(WorkerConfig.from_file(worker_file))
        command = [sys.executable, "-m", "tests.lab.benchmarks.bare_copy", self._scene.own_file, worker_file]
        cost, printed = measured(list(map(str, command)))
        self._found["bare"].append({**_parts(cost), "copy_s": json.loads(printed)["copy_s"]})
        delete_topics(WorkerConfig.from_file(worker_file))

    def _plan(self, worker_file: Path) -> tuple[Path, Cost]:
        plan = worker_file.with_suffix(".plan.json")
        files = ("--source-worker-config", self._scene.own_file, "--destination-worker-config", worker_file)
        return plan, _migrate("plan", *files, "-o", plan)

    def _local(self) -> None:
        worker_file = self._scene.new_file()
        plan, cost = self._plan(worker_file)
        self._found["local_plan"].append(_parts(cost))
        self._found["local_apply"].append(_apply(plan, "--no-backup"))
        self._found["local_verify"].append(_parts(_migrate("verify", plan)))
        self._audit_and_remove("local_apply", worker_file)

    def _with_backup(self) -> None:
        worker_file = self._scene.new_file()
        plan, _ = self._plan(worker_file)
        self._found["local_backup"].append(_parts(_migrate("apply", plan, "--yes")))
        delete_topics(WorkerConfig.from_file(worker_file))

    def _spark(self) -> None:
        worker_file = self._scene.new_file()
        plan, _ = self._plan(worker_file)
        self._found["spark_apply"].append(_apply(plan, "--no-backup", "--engine", "spark"))
        self._found["spark_verify"].append(_parts(_migrate("verify", plan, "--engine", "spark")))
        self._audit_and_remove("spark_apply", worker_file)

    def _warm(self) -> None:
        for engine in ("local", "spark"):
            files = [self._scene.new_file() for _ in range(1 + WARM_RUNS)]
            command = [
                sys.executable,
                "-m",
                "tests.lab.benchmarks.migration_probe",
                engine,
                self._scene.own_file,
                *files,
            ]
            _, printed = measured(list(map(str, command)))
            for line in printed.splitlines():
                run = json.loads(line) if line.startswith("{") else {"run": 0}
                if run["run"]:
                    part = {"wall_s": run["wall_s"], "copy_s": run["wall_s"], "cpu_s": run["cpu_s"]}
                    self._found[f"{engine}_warm"].append(part)
            for file in files:
                delete_topics(WorkerConfig.from_file(file))

    def _audit_and_remove(self, contender: str, worker_file: Path) -> None:
        worker = WorkerConfig.from_file(worker_file)
        self._audit_copy(contender, {topic_type: worker.topic(topic_type) for topic_type in TopicType})
        delete_topics(worker)

    def _audit_copy(self, contender: str, topics: Mapping[TopicType, str]) -> None:
        """Count what is wrong in a copy, in the first round; larger ones are verified only."""
        if self._audit:
            total: Counter[str] = Counter(dict.fromkeys(("misplaced", "session_keys", "duplicates", "missing"), 0))
            for topic_type, topic in self._source_topics().items():
                total.update(
                    wrong_in(
                        topic_type, _GROUP, (self._scene.source, topic), (self._scene.destination, topics[topic_type])
                    )
                )
            self._wrong[contender] = dict(total)


def _fill(scene: Scene, size: WorkloadSize, progress: Progress) -> tuple[int, int]:
    """Write the source's topics; return the numbers of records and bytes."""
    own, records, byte_count = scene.write_own_file(), 0, 0
    create_topics(own)
    topics = tuple((topic_type, own.topic(topic_type)) for topic_type in TopicType)
    for group in range(size.groups):
        write_groups([GroupJob(size, group, topics, own.producer_settings())])
        progress.advance(1)
    for _, topic in topics:
        for _, key, (value, _) in records_of(scene.source, topic):
            records += 1
            byte_count += len(key) + len(value or b"")
    return records, byte_count


def _sizes_measured(options: argparse.Namespace, servers: tuple[str, str], site: Site) -> dict[str, Any]:
    reports: dict[str, Any] = {}
    progress = site.progress
    for name in options.sizes:
        scene = Scene(*servers, site.folder, f"migration-{int(time.time())}-{name}")
        size = size_of(name)
        progress.phase(f"writing the groups of {name}", size.groups)
        try:
            records, byte_count = _fill(scene, size, progress)
            found: Found = defaultdict(list)
            wrong: Wrong = {}
            progress.phase(f"measuring rounds of {name}", options.rounds)
            for number in range(options.rounds):
                audit = number == 0 and records <= _LARGEST_AUDIT
                Round(scene, found, wrong, audit=audit).run(options.contenders)
                progress.advance(1)
        finally:
            delete_topics(WorkerConfig.from_file(scene.own_file))
        reports[name] = size_report(records, byte_count, found, wrong)
    return reports


def _measure(options: argparse.Namespace, site: Site) -> tuple[dict[str, Any], list[str]]:
    if "mirror-maker" in options.contenders:
        programs()
    other = options.bootstrap_servers or site.stack.enter_context(LocalBroker("bench")).bootstrap_servers
    report = migration_report(_sizes_measured(options, (site.servers, other), site), options.rounds)
    return report, migration_table(report)


def _contenders(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(","))
    if not names <= set(CONTENDERS):
        raise argparse.ArgumentTypeError(f"only {', '.join(CONTENDERS)}")
    return names


def _sizes(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(name == KIP or (name.isascii() and name.isdigit() and int(name) > 0) for name in names):
        raise argparse.ArgumentTypeError(f"only {KIP} and numbers of offset records")
    return names


def main(argv: Sequence[str]) -> int:
    """Measure moves."""
    arguments = parser("migration", __doc__, rounds=3)
    arguments.add_argument(
        "--sizes",
        type=_sizes,
        default=SIZES,
        help=f"comma list of {KIP} and numbers of offset records; default {','.join(SIZES)}",
    )
    arguments.add_argument(
        "--contenders",
        type=_contenders,
        default=frozenset(CONTENDERS),
        help=f"comma list of {', '.join(CONTENDERS)}; default all",
    )
    return run("migration", arguments.parse_args(argv), _measure)


if __name__ == "__main__":
    command_line.exit_with(main)
