"""The topics that starts are measured on: the KIP's table, and curves over groups, records, record sizes and settings.

The topics of one scenario: the cluster they are on, worker files that lead to them, their records, the cleaner's work.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connect_share.contents.cost_model import StartSize
from connect_share.errors import ConfigError, ConnectShareError
from connect_share.files import Progress, write_private_file
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Message, to_record
from connect_share.kafka.facts import read_facts
from connect_share.kafka.read import Reader
from connect_share.kafka.write import write_records
from connect_share.model.keys import ClusterGroupId, prefix_key
from connect_share.model.records import Record, TopicType
from connect_share.model.status import TopicStatus, status_record
from connect_share.storage import ConnectStorage
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from connect_share.worker_config.worker import connection_settings, profile_in_use
from spark_jobs.benchmark.results import Scenario
from spark_jobs.generate_workload import generate
from spark_jobs.workload import WorkloadSize, group_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS: Final[Mapping[str, int]] = {"config": 1, "status": 5, "offset": 25}
"""Connect's defaults."""

CONTENDERS: Final = (
    "python",
    "python-dedicated",
    "python-checkpoint",
    "java-jar",
    "java-dedicated",
    "librdkafka",
    "librdkafka-dedicated",
)
"""All that can be measured beside each other. ``starts.py`` measures those in Python, the lab also Java's stores."""

TRANSACTION_RECORDS: Final = 50
"""Records of one transaction where a scenario has them: a marker in every partition that was written to."""

CHECKPOINT: Final = "python-checkpoint"
DEDICATED: Final = "-dedicated"
"""Contenders with this ending read dedicated topics, on which each group has the records that it has on the shared ones."""

NEW_SHARE: Final = 100
"""One of so many records is written after the checkpoint."""

_USUAL: Final = ("python", "librdkafka")
_WITH_JAVA: Final = ("python", "java-jar", "librdkafka")
_SAMPLE: Final = 100
_ROUNDS: Final = 6


@dataclass(frozen=True, slots=True)
class Plan:
    """A scenario and the contenders that are measured on it.

    Attributes:
        warm_starts: of each process after its cold start.
        rounds: by default: of the rows that decide a comparison as many as their intervals need.
    """

    scenario: Scenario
    contenders: tuple[str, ...]
    warm_starts: int
    rounds: int

    @property
    def size(self) -> WorkloadSize:
        """The records of the shared topics."""
        return workload(self.scenario, prefixed=True)

    def has_dedicated(self, contenders: Collection[str]) -> bool:
        """Return whether one of these contenders reads dedicated topics here."""
        return any(each.endswith(DEDICATED) for each in self.contenders if each in contenders)


def workload(scenario: Scenario, *, prefixed: bool) -> WorkloadSize:
    """Return the records of a scenario."""
    members = {field.name for field in fields(WorkloadSize)} & Scenario.model_fields.keys()
    return WorkloadSize(**{name: getattr(scenario, name) for name in members}, prefixed=prefixed)


def _plan(
    name: str,
    title: str,
    series: str,
    records: tuple[int, int, int],
    *,
    contenders: Sequence[str] = _USUAL,
    warm_starts: int = 3,
    rounds: int = _ROUNDS,
    **settings: Any,
) -> Plan:
    """Return a scenario with so many configs, statuses and offsets; further members as in :class:`Scenario`."""
    config_records, status_records, offset_records = records
    members = {
        "name": name,
        "title": title,
        "series": series,
        "groups": 20,
        "jobs": 5,
        "config_records": config_records,
        "status_records": status_records,
        "offset_records": offset_records,
        "status_bytes": status_records * 150,
        "offset_bytes": 0,
        "partitions": PARTITIONS,
        **settings,
    }
    scenario = Scenario.model_validate(members)
    # Nothing pads an offset: the size of the first ones stands for all.
    size = workload(scenario, prefixed=True)
    first = list(itertools.islice(group_records(size, 0, TopicType.OFFSET), _SAMPLE))
    total = sum(len(key) + len(value or b"") for key, value in first)
    offset_bytes = round(total / max(1, len(first)) * offset_records)
    return Plan(scenario.model_copy(update={"offset_bytes": offset_bytes}), tuple(contenders), warm_starts, rounds)


_KIP: Final[Mapping[str, Any]] = {
    "records": (8_000, 8_000, 8_000),
    "config_bytes": 32_000_000,
    "status_bytes": 3_000_000,
}
_KIP_ALL: Final = tuple(contender for contender in CONTENDERS if contender != CHECKPOINT)
_TINY: Final = _plan(
    "tiny",
    "a few hundred records, to try the benchmark out",
    "tiny",
    (120, 120, 120),
    contenders=CONTENDERS,
    warm_starts=1,
    groups=3,
    jobs=2,
    config_bytes=60_000,
)
"""In no suite."""


def _groups(groups: int) -> Plan:
    """Return a scenario of groups of 100 configs, 200 statuses, 1,000 offsets of as many tables or files each."""
    many = groups >= 1_000
    return _plan(
        f"groups-{groups}",
        f"{groups:,} {'group' if groups == 1 else 'groups'}, {1_300 * groups:,} records",
        "groups",
        (100 * groups, 200 * groups, 1_000 * groups),
        groups=groups,
        config_bytes=99_000 * groups,
        status_bytes=30_000 * groups,
        source_partitions=200,
        contenders=(*_WITH_JAVA, CHECKPOINT) if many else _WITH_JAVA,
        warm_starts=1 if many else 3,
    )


def _records(name: str, total: int) -> Plan:
    """Return a scenario of mostly offsets, ten of each table or file."""
    return _plan(
        f"records-{name}",
        f"{total:,} records of 20 groups",
        "records",
        (total // 10, total // 5, total - total // 10 - total // 5),
        config_bytes=total // 10 * 600,
        source_partitions=total * 7 // 10 // 1_000,
        warm_starts=1 if total >= 1_000_000 else 3,
    )


def _record_size(kilobytes: int) -> Plan:
    return _plan(
        f"record-size-{kilobytes}k",
        f"1,000 configs of {kilobytes} kB on average",
        "record-size",
        (1_000, 1_000, 1_000),
        config_bytes=1_000_000 * kilobytes,
    )


_FULL: Final = (
    _plan("kip", "KIP-1173's workload: 20 groups of 5 sink jobs", "kip", contenders=_KIP_ALL, rounds=24, **_KIP),
    *map(_groups, (1, 10, 20, 100, 1_000)),
    *(_records(*each) for each in (("10k", 10_000), ("100k", 100_000), ("300k", 300_000), ("1m", 1_000_000))),
    *map(_record_size, (1, 10, 50, 100, 250)),
    _plan("compacted", "the KIP's workload, compacted", "compaction", compacted=True, **_KIP),
    _plan("zstd", "the KIP's workload, compressed with zstd", "compression", compression="zstd", **_KIP),
    _plan("lz4", "the KIP's workload, compressed with lz4", "compression", compression="lz4", **_KIP),
    _plan("transactions", "the KIP's workload, read committed past markers", "transactions", transactions=True, **_KIP),
)
PLANS: Final[Mapping[str, Plan]] = {plan.scenario.name: plan for plan in (*_FULL, _TINY)}
SUITES: Final[Mapping[str, Sequence[str]]] = {
    "kip": ("kip",),
    "quick": ("kip", "groups-1"),
    "full": [plan.scenario.name for plan in _FULL],
}


def chosen(suite: str, names: Sequence[str] | None) -> list[Plan]:
    """Return the scenarios of a suite, or those that are named (else ``ConfigError``), in the order of the whole list."""
    wanted = SUITES[suite] if names is None else names
    unknown = sorted(set(wanted) - PLANS.keys())
    if unknown:
        raise ConfigError(f"there is no scenario {unknown[0]!r}, only {', '.join(PLANS)}")
    return [plan for name, plan in PLANS.items() if name in wanted]


SERVERS: Final = "bootstrap.servers"
PREFIX: Final = "connect-share-benchmark-"
"""All topics that a benchmark makes, and deletes, begin with it."""

_SECURITY: Final = re.compile(r"((producer|consumer|admin)\.)?(security|ssl|sasl)\..+")
_PLACE: Final = re.compile(
    rf"((producer|consumer|admin)\.)?({re.escape(SERVERS)}|client\.dns\.lookup)"
    r"|(config|offset|status)\.storage\.replication\.factor"
)
_BROKERS_DEFAULT: Final = {f"{kind}.storage.replication.factor": "-1" for kind in ("config", "offset", "status")}
_SHOWN: Final = 3

Connection = Mapping[str, str]
"""Properties of a worker file, at least :data:`SERVERS`; may hold secrets."""


def connection_from(worker_file: Path | None, servers: str | None, profile: str | None) -> Connection:
    """Return how to get to the cluster, and how many replicas its topics have: the brokers' default unless a file says it.

    Args:
        worker_file: a worker's; only its connection is read, references to config providers are resolved.
        servers: instead of a worker file.
        profile: as ``--profile`` of the console; wins over the file, but for its brokers. ``None``: that of the environment.

    Raises:
        ConfigError, InvalidClusterGroupIdError: as :meth:`WorkerConfig.from_file`; no brokers are named.
    """
    with profile_in_use(profile):
        if worker_file is not None:
            given: Mapping[str, str] = WorkerConfig.from_file(worker_file).originals
        else:
            given = connection_settings() | ({SERVERS: servers} if servers else {})
    if SERVERS not in given:
        raise ConfigError(
            f"name the cluster: --worker-config, --bootstrap-servers, or a profile with {SERVERS}",
            property_name=SERVERS,
        )
    found = {name: value for name, value in given.items() if _PLACE.fullmatch(name) or _SECURITY.fullmatch(name)}
    return _BROKERS_DEFAULT | found


def look_at(connection: Connection) -> tuple[dict[str, object], list[str]]:
    """Return what a result says of the cluster, and the topics of benchmarks that are there already."""
    worker = WorkerConfig.from_properties(_properties("benchmark", "benchmark", connection))
    with Admin(worker.admin_settings(), client_id="benchmark") as admin:
        known: dict[str, object] = {"cluster": admin.cluster_id(), "brokers": len(admin.brokers())}
        return known, sorted(name for name in admin.topic_names() if name.startswith(PREFIX))


def announcement(
    connection: Connection, plans: Sequence[Plan], contenders: Collection[str], left: Sequence[str]
) -> Iterator[str]:
    """Yield what will be done on a user's cluster; ``left``: topics of benchmarks that are there already."""
    records, total, most = 0, 0, 0
    for plan in plans:
        copies = 2 if plan.has_dedicated(contenders) else 1
        records += copies * plan.scenario.records
        total += copies * plan.scenario.bytes
        most = max(most, copies * plan.scenario.bytes)
    yield f"cluster: {connection[SERVERS]}"
    megabytes = " MB, at most ".join(f"{each / 1e6:,.1f}" for each in (total, most))
    yield f"writes: about {records:,} made-up records, {megabytes} MB at a time; each replica once"
    yield f"topics: only its own, {PREFIX}...; deleted at the end, and when it is interrupted"
    if left:
        more = ", ..." if len(left) > _SHOWN else ""
        yield (
            f"note: {len(left)} such topics are there ({', '.join(left[:_SHOWN])}{more}): another benchmark runs, or was "
            "killed; this one leaves them alone"
        )


_SEGMENT_MS: Final = 1_000
_CLEANER_S: Final = 180.0
_LOOK_AGAIN_S: Final = 0.5
_ROLLER: Final = ClusterGroupId("benchmark-roller")


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one scenario; they may hold secrets. Those of workers hold properties as JSON, see :func:`worker_of`.

    Attributes:
        ours: one group's, on the shared topics.
        group: its number.
        alone: those of all groups, each on topics of its own.
        checkpoint: of our stores, made when 1 % of the records were still missing.
    """

    ours: Path
    group: int
    alone: tuple[Path, ...]
    checkpoint: Path

    @property
    def dedicated(self) -> Path:
        """The same group's as ``ours``, on topics of its own."""
        return self.alone[self.group]


def _properties(group_id: str, prefix: str, connection: Connection) -> dict[str, str]:
    names = {"config": "configs", "offset": "offsets", "status": "status"}
    topics = {f"{kind}.storage.topic": f"{prefix}-{name}" for kind, name in names.items()}
    return {"group.id": group_id, **topics, **connection}


def worker_properties_of(plan: Plan, connection: Connection, prefix: str, group: int) -> dict[str, str]:
    """Return the properties of a worker of one group of a scenario, by the group's number."""
    properties = _properties(plan.size.group_id(group), prefix, connection)
    properties[SHARING_PROPERTY] = "enabled"
    if plan.scenario.transactions:
        properties["exactly.once.source.support"] = "enabled"
    for topic, partitions in PARTITIONS.items():
        if topic != "config":
            properties[f"{topic}.storage.partitions"] = str(partitions)
        if plan.scenario.compacted:
            properties[f"{topic}.storage.segment.ms"] = str(_SEGMENT_MS)
            properties[f"{topic}.storage.min.cleanable.dirty.ratio"] = "0.001"
    return properties


def worker_of(file: Path) -> WorkerConfig:
    """Return the worker of a file of :class:`Files`."""
    return WorkerConfig.from_properties(json.loads(file.read_bytes()))


def write_worker(file: Path, properties: Mapping[str, str]) -> Path:
    """Write a file that :func:`worker_of` reads, and that only its owner may read."""
    write_private_file(file, json.dumps(properties).encode())
    return file


def write_files(folder: Path, plan: Plan, connection: Connection, prefix: str) -> Files:
    """Write the worker files of a scenario; its topics are named after the prefix."""
    group = min(3, plan.size.groups - 1)
    alone = []
    for number in range(plan.size.groups if plan.has_dedicated(plan.contenders) else 0):
        properties = worker_properties_of(plan, connection, f"{prefix}-{number}", number)
        alone.append(write_worker(folder / f"{prefix}-{number}.json", {**properties, SHARING_PROPERTY: "disabled"}))
    return Files(
        ours=write_worker(folder / f"{prefix}-ours.json", worker_properties_of(plan, connection, prefix, group)),
        group=group,
        alone=tuple(alone),
        checkpoint=folder / f"{prefix}.checkpoint",
    )


@contextmanager
def filled(
    spark: SparkSession, plan: Plan, files: Files, contenders: Collection[str], *, settle_s: float, progress: Progress
) -> Iterator[None]:
    """Fill the topics of a scenario and delete them afterwards.

    Dedicated topics are only made for contenders that read them, then of all groups. The log cleaner counts as done when
    nothing has changed for ``settle_s``.

    Raises:
        ConnectShareError: a topic cannot be used, a record was refused, or the cleaner does not come.
    """
    worker, scenario = worker_of(files.ours), plan.scenario
    alone = list(map(worker_of, files.alone)) if plan.has_dedicated(contenders) else []
    try:
        written, _ = generate(
            spark,
            worker,
            plan.size,
            progress=progress,
            compression=scenario.compression,
            transaction_records=TRANSACTION_RECORDS if scenario.transactions else 0,
        )
        if scenario.compacted:
            _await_cleaner(worker, written, settle_s, progress)
        if CHECKPOINT in contenders:
            with ConnectStorage(worker, allow_live_members=True, checkpoint=files.checkpoint) as storage:
                storage.save_checkpoint()
            numbers = ("config_records", "status_records", "offset_records", "config_bytes", "status_bytes")
            newer = {name: max(1, getattr(plan.size, name) // NEW_SHARE) for name in numbers}
            generate(spark, worker, replace(plan.size, **newer), progress=progress)
        for group, each in enumerate(alone):
            generate(spark, each, workload(scenario, prefixed=False), progress=progress, group=group)
        yield
    finally:
        with Admin(worker.admin_settings(), client_id="benchmark") as admin:
            admin.delete_topics([each.topic(topic_type) for each in (worker, *alone) for topic_type in TopicType])


def _await_cleaner(worker: WorkerConfig, written: int, settle_s: float, progress: Progress) -> None:
    """Close every active segment, which is never cleaned, and wait until the number of records stays as it is."""
    progress.phase("waiting for the log cleaner", 0)
    time.sleep(_SEGMENT_MS / 1e3 * 1.2)
    _write_everywhere(worker)
    began_s = same_since_s = time.monotonic()
    records = start_size(worker).records
    while records >= written or time.monotonic() - same_since_s < settle_s:
        if time.monotonic() - began_s > _CLEANER_S:
            raise ConnectShareError(
                f"the brokers' log cleaner has not been over {worker.config_storage_topic} within {_CLEANER_S:g} s; "
                "check log.cleaner.enable, or leave the scenario out"
            )
        time.sleep(_LOOK_AGAIN_S)
        now = start_size(worker).records
        if now != records:
            records, same_since_s = now, time.monotonic()


def _write_everywhere(worker: WorkerConfig) -> None:
    """Write a record of no real group to every partition: a record behind a segment's age begins a new segment."""
    key, value = status_record(TopicStatus("none", "none", 0, 0))
    records = (
        Record(worker.topic(topic_type), partition, 0, 0, prefix_key(_ROLLER, key), value)
        for topic_type in TopicType
        for partition in range(PARTITIONS[topic_type.value])
    )
    write_records([worker], ((0, record, record.partition) for record in records))


def start_size(worker: WorkerConfig) -> StartSize:
    """Return what a start has to read."""
    records = size = own_records = 0
    for _, message, own in _everything(worker):
        records += 1
        size += len(message.key() or b"") + len(message.value() or b"")
        own_records += own
    return StartSize(records=records, bytes=size, own_records=own_records)


def _everything(worker: WorkerConfig) -> Iterator[tuple[TopicType, Message, bool]]:
    """Yield all records, and whether each is one of the worker's group."""
    prefix = b"" if worker.cluster_group_id is None else prefix_key(worker.cluster_group_id, b"")
    with Admin(worker.admin_settings(), client_id="count-admin") as admin:
        found = read_facts(admin, [worker.topic(topic_type) for topic_type in TopicType])
    for topic_type in TopicType:
        reader = Reader(worker.client_settings(), "count", worker.isolation(topic_type))
        for batch in reader.batches(found[worker.topic(topic_type)].ranges()):
            for message in batch:
                yield topic_type, message, (message.key() or b"").startswith(prefix)


def own_records(worker: WorkerConfig) -> dict[TopicType, list[Record]]:
    """Read the records of the worker's group; without sharing all."""
    found: dict[TopicType, list[Record]] = {topic_type: [] for topic_type in TopicType}
    for topic_type, message, own in _everything(worker):
        if own:
            found[topic_type].append(to_record(message))
    return found
