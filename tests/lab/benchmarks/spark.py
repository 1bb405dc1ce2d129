"""Spark beside the local engine, in one warm session: copies, verifications and a resume; beside them a plain Spark job.

CPU seconds are those of this process, of Spark's JVM and of its Python workers together; the broker's are not counted. The
plain job is what a data engineer writes in minutes: Spark's own Kafka connector and a prefix before every key.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.functions import concat, lit

from connect_share.files import Silent
from connect_share.kafka import client
from connect_share.kafka.create import topic_spec
from connect_share.model.keys import ConfigKey
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from migrator.copy.copy_job import CopyJob, Engine, SliceEvidence, Wave
from migrator.planner import make_plan
from migrator.run import MigrationRun
from migrator.verify.verification import compare_sides
from spark_jobs import apply_plan, command_line, verify_plan
from spark_jobs.session import spark_session
from spark_jobs.workload import WorkloadSize
from tests.lab.benchmarks.frame import Site, new_prefix, parser, run, topics_of, write_groups
from tests.lab.benchmarks.migration_audit import records_of
from tests.lab.benchmarks.process_cost import Cost, Family
from tests.lab.embedded.artifacts import class_path, ensure_artifacts
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support import migration_runs
from tests.support.topics import ANYWHERE, in_transaction, send

SIZES: Final = ("1x1000000", "60x16000", "20x50000")
BUDGETS: Final = {
    "1x1000000": {"apply": 1.6, "verify": 1.5, "resume": 1.5},
    "60x16000": {"verify": 2.0},
    "20x50000": {"apply": 2.0},
}
_ABORTED: Final = 1_000
_MASTER: Final = "local[2,3]"
_PARTITIONS: Final = {"offset.storage.partitions": "25", "status.storage.partitions": "5"}
_KAFKA: Final = "spark-kafka"
"""The set with Spark's Kafka connector."""


class HalfDoneError(Exception):
    """A copy ends here as if its process had been killed."""


def _measured(step: Callable[[], object]) -> Cost:
    family, began_s = Family(os.getpid()), time.perf_counter()
    before_s = family.look()
    step()
    return Cost(time.perf_counter() - began_s, family.look(memory=True) - before_s, family.peak_bytes)


def _half(jobs: Sequence[CopyJob], slices: int) -> Iterator[SliceEvidence | Wave]:
    """Copy as Spark does until half of the slices have evidence, and a wave has begun."""
    evidence = 0
    for each in apply_plan.copy_engine(Silent())(jobs):
        if isinstance(each, Wave) and evidence >= slices / 2:
            yield each
            raise HalfDoneError
        evidence += isinstance(each, SliceEvidence)
        yield each


class Moves:
    """Groups on topics of their own, and moves of all of them onto shared ones, each onto its own.

    Args:
        size: ``groups`` and offset records of each, such as ``60x16000``.
    """

    def __init__(self, size: str, site: Site, stack: ExitStack) -> None:
        self._groups, each = map(int, size.split("x"))
        self._site, self._stack, self._prefix, self._moves = site, stack, new_prefix(size), 0
        workload = WorkloadSize(
            groups=1,
            jobs=5,
            config_records=200,
            status_records=200,
            offset_records=each,
            config_bytes=200_000,
            status_bytes=60_000,
            prefixed=False,
            source_partitions=max(1, each // 5),
        )
        self.sources = [self._file(f"own-{number}", f"group-{number}") for number in range(self._groups)]
        for file in self.sources:
            write_groups(stack.enter_context(topics_of(WorkerConfig.from_file(file))), workload, site.progress)

    def _file(self, topics: str, group: str, **more: str) -> Path:
        properties = {**worker_properties(self._site.servers, group, f"{self._prefix}-{topics}"), **_PARTITIONS, **more}
        return write_properties(self._site.folder / f"{self._prefix}-{topics}-{group}.properties", properties)

    def shared(self) -> list[Path]:
        """Return worker files of all groups on shared topics that exist from now on."""
        self._moves += 1
        sharing = {SHARING_PROPERTY: "enabled"}
        files = [self._file(f"shared-{self._moves}", f"new-{number}", **sharing) for number in range(self._groups)]
        self._stack.enter_context(topics_of(WorkerConfig.from_file(files[0])))
        return files

    def plan(self) -> Path:
        """Return a new plan onto topics of its own."""
        files = self.shared()
        path = files[0].with_suffix(".plan.json")
        make_plan(self.sources, files, now_ms=int(time.time() * 1000), progress=Silent()).save(path)
        return path


def _copied(plan: Path, engine: Engine | None = None) -> None:
    options: dict[str, Any] = {} if engine is None else {"engine": engine, "engine_name": "spark"}
    migration_runs.apply_plan(plan, backup=False, **options)


def _resumed(plan: Path, slices: int) -> Cost:
    """Return the cost of a resume of a copy that ended half-way."""
    with contextlib.suppress(HalfDoneError):
        _copied(plan, lambda jobs: _half(jobs, slices))
    engine = apply_plan.copy_engine(Silent())
    return _measured(lambda: migration_runs.resume_plan(plan, engine=engine, engine_name="spark"))


def _verified(plan: Path, engine: Any = None) -> Cost:
    run, options = MigrationRun.load(plan), {} if engine is None else {"engine": engine}
    found: list[bool] = []
    cost = _measured(lambda: found.append(compare_sides(run, **options).equal))
    if found != [True]:
        raise RuntimeError(f"the copy of {plan.name} is not equal")
    return cost


def _warm_up(small: Moves) -> None:
    """Let Spark's Python workers load what they need: they end when they have had nothing to do for a minute."""
    _copied(plan := small.plan(), apply_plan.copy_engine(Silent()))
    _verified(plan, verify_plan.verify_engine(Silent()))


def _round(moves: Moves, small: Moves, *, resumes: bool) -> dict[str, tuple[Cost, Cost]]:
    """Return what each step costs with the local engine and with Spark; a resume stands beside a whole copy by Spark."""
    local, spark = moves.plan(), moves.plan()
    first = _measured(lambda: _copied(local)), _verified(local)
    _warm_up(small)
    copied = _measured(lambda: _copied(spark, apply_plan.copy_engine(Silent())))
    second = copied, _verified(spark, verify_plan.verify_engine(Silent()))
    found = {"apply": (first[0], second[0]), "verify": (first[1], second[1])}
    if resumes:
        half = moves.plan()
        found["resume"] = copied, _resumed(half, len(MigrationRun.load(half).plan.slices()))
        _verified(half)
    return found


def _median(costs: Sequence[Cost]) -> dict[str, float]:
    return {what: round(statistics.median(getattr(each, what) for each in costs), 2) for what in ("cpu_s", "wall_s")}


def _scenario(rounds: Sequence[Mapping[str, tuple[Cost, Cost]]]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for step in rounds[0]:
        first, second = (_median([each[step][side] for each in rounds]) for side in (0, 1))
        rows[step] = {"first": first, "second": second, "ratio": round(second["cpu_s"] / first["cpu_s"], 2)}
    return rows


def plain_job(spark: SparkSession, servers: str, topics: Mapping[str, str], prefix: str) -> None:
    """Copy topics with Spark's own Kafka connector and this prefix before every key."""
    for here, there in topics.items():
        read = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
        records = read.option("subscribe", here).option("includeHeaders", "true").load()
        renamed = records.select(concat(lit(prefix.encode()), "key").alias("key"), "value", "headers")
        renamed.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", there).save()


def _plain(spark: SparkSession, moves: Moves, servers: str) -> dict[str, Any]:
    """Return what the plain job costs, cold and warm, and what it gets wrong beside a session key and aborted records."""
    source, costs = WorkerConfig.from_file(moves.sources[0]), []
    session_key = Record(source.topic(TopicType.CONFIG), ANYWHERE, 0, 0, ConfigKey.SESSION_KEY.prefix, b"{}")
    offsets = source.topic(TopicType.OFFSET)
    given_up = [Record(offsets, ANYWHERE, 0, 0, b'["aborted",{"n":%d}]' % number, b"{}") for number in range(_ABORTED)]
    send(client.producer(source.producer_settings(), client_id="benchmark"), [session_key])
    in_transaction(source.admin_settings(), "benchmark", given_up).abort_transaction(30)
    for _ in range(2):
        destination = WorkerConfig.from_file(moves.shared()[0])
        topics = {source.topic(kind): destination.topic(kind) for kind in TopicType}
        costs.append(_measured(partial(plain_job, spark, servers, topics, "new-0.")))
    wrong: Counter[str] = Counter()
    for kind, (here, there) in zip(TopicType, topics.items(), strict=True):
        times = {at_ms for _, _, (_, at_ms) in records_of(servers, here)}
        for partition, key, (_, at_ms) in records_of(servers, there):
            wrong["misplaced"] += partition_for(key, topic_spec(source, kind).partitions) != partition
            wrong["session_keys"] += key == b"new-0." + ConfigKey.SESSION_KEY.prefix
            wrong["aborted"] += key.startswith(b'new-0.["aborted"')
            wrong["times_changed"] += at_ms not in times
    return {"cold": _median(costs[:1]), "warm": _median(costs[1:]), "wrong": dict(wrong)}


def _measure(options: argparse.Namespace, site: Site) -> dict[str, Any]:
    jars = class_path(ensure_artifacts(_KAFKA)).replace(os.pathsep, ",")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jars} pyspark-shell"
    report: dict[str, Any] = {"rounds": options.rounds, "sizes": {}, "budgets": BUDGETS}
    with spark_session("benchmark", master=_MASTER) as spark, ExitStack() as stack:
        small = Moves("1x20000", site, stack)
        for size in options.sizes:
            with ExitStack() as inner:
                moves = Moves(size, site, inner)
                resumes = "resume" in BUDGETS.get(size, {})
                rounds = [_round(moves, small, resumes=resumes) for _ in range(options.rounds)]
                report["sizes"][size] = _scenario(rounds)
                if size.startswith("1x"):
                    report["plain"] = _plain(spark, moves, site.servers)
    return report


def spark_table(report: Mapping[str, Any]) -> list[str]:
    """Return the report as lines."""
    head = f"{'local, CPU s':>14}{'Spark, CPU s':>14}{'times':>8}   budget"
    title = f"groups x offsets: step, median of {report['rounds']}"
    lines = [f"{title:<46}{head}"]
    for size, rows in report["sizes"].items():
        groups, offsets = map(int, size.split("x"))
        for step, row in rows.items():
            of = "resume, beside a copy by Spark" if step == "resume" else step
            cpu_s = "".join(f"{row[which]['cpu_s']:>14.1f}" for which in ("first", "second"))
            most = report["budgets"].get(size, {}).get(step)
            verdict = "" if most is None else f"   {most:g}, {'kept' if row['ratio'] <= most else 'MISSED'}"
            lines.append(f"{f'{groups} x {offsets:,}: {of}':<46}{cpu_s}{row['ratio']:>8.2f}{verdict}")
    if plain := report.get("plain"):
        cold, warm = (
            f"{plain[which]['cpu_s']:.1f} CPU s in {plain[which]['wall_s']:.1f} s" for which in ("cold", "warm")
        )
        lines.append(f"plain job, one group: {cold} cold, {warm} warm")
        lines.append("wrong in its copy: " + ", ".join(f"{what} {count:,}" for what, count in plain["wrong"].items()))
    return lines


def main(argv: Sequence[str]) -> int:
    """Measure Spark beside the local engine."""
    arguments = parser("spark", __doc__, rounds=3)
    arguments.add_argument(
        "--sizes", nargs="+", default=SIZES, help="groups and offset records of each, such as 60x16000"
    )
    return run(arguments.parse_args(argv), _measure, spark_table)


if __name__ == "__main__":
    command_line.exit_with(main)
