"""The topics of one scenario on a broker: worker files that lead to them, their records, and the cleaner's work."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from connect_share.checks.worker_file import worker_lines
from connect_share.errors import WriteError
from connect_share.files import Progress
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import producer
from connect_share.model.keys import ClusterGroupId, prefix_key
from connect_share.model.records import TopicType
from connect_share.model.status import TopicStatus, topic_status_record
from connect_share.storage import ConnectStorage
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from spark_jobs.generate_workload import generate
from spark_jobs.startup.connection import SERVERS, Connection
from spark_jobs.startup.probe import start_size
from spark_jobs.startup.scenarios import CHECKPOINT, NEW_SHARE, PARTITIONS, TRANSACTION_RECORDS, Plan, workload
from spark_jobs.workload import WorkloadSize
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.worker import worker_properties, write_properties

_SEGMENT_MS: Final = 1_000
_CLEANER_S: Final = 180.0
_LOOK_EVERY_S: Final = 0.5
_ROLLER: Final = ClusterGroupId("benchmark-roller")


@dataclass(frozen=True, slots=True)
class Files:
    """Worker files of one scenario.

    Attributes:
        ours: our stores' file; for a dedicated scenario with plain keys.
        jar: of an unmodified Java worker with the sharing jar, on the same topics.
        plain: of a Java worker on a copy with plain keys, where all records are its own.
        foreign: of an unmodified Java worker on the prefixed keys.
        checkpoint: of our stores, made when 1 % of the records were still missing; holds secrets.
    """

    ours: Path
    jar: Path
    plain: Path
    foreign: Path
    checkpoint: Path


def worker_properties_of(plan: Plan, connection: Connection, prefix: str, group: int) -> dict[str, str]:
    """Return the worker file of one group of a scenario, by the group's number."""
    properties = {**worker_properties(connection[SERVERS], plan.size.group_id(group), prefix), **connection}
    properties[SHARING_PROPERTY] = "enabled" if plan.scenario.shared else "disabled"
    if plan.scenario.transactions:
        properties["exactly.once.source.support"] = "enabled"
    for topic, partitions in PARTITIONS.items():
        if topic != "config":
            properties[f"{topic}.storage.partitions"] = str(partitions)
        if plan.scenario.compacted:
            properties[f"{topic}.storage.segment.ms"] = str(_SEGMENT_MS)
            properties[f"{topic}.storage.min.cleanable.dirty.ratio"] = "0.001"
    return properties


def write_files(folder: Path, plan: Plan, connection: Connection, prefix: str) -> Files:
    """Write the worker files of a scenario; its topics are named after the prefix."""
    group = min(3, plan.size.groups - 1)
    ours = worker_properties_of(plan, connection, prefix, group)
    plain = worker_properties_of(plan, connection, f"{prefix}-plain" if plan.scenario.shared else prefix, group)
    jar_lines = dict(line.split("=", 1) for line in worker_lines(exactly_once=plan.scenario.transactions))
    not_sharing = {SHARING_PROPERTY: "disabled"}

    def write(name: str, properties: dict[str, str]) -> Path:
        return write_properties(folder / f"{prefix}-{name}.properties", properties)

    return Files(
        ours=write("ours", ours),
        jar=write("jar", {**ours, **jar_lines}),
        plain=write("plain", {**plain, **not_sharing}),
        foreign=write("foreign", {**ours, **not_sharing}),
        checkpoint=folder / f"{prefix}.checkpoint",
    )


@contextmanager
def filled(
    spark: SparkSession, plan: Plan, files: Files, contenders: Collection[str], *, settle_s: float, progress: Progress
) -> Iterator[None]:
    """Fill the topics of a scenario and delete them afterwards.

    Args:
        spark: writes the records.
        plan: the scenario.
        files: the worker files.
        contenders: those that will be measured; a copy with plain keys is only made for those that read it.
        settle_s: how long nothing may change until the log cleaner is believed to be done.
        progress: reports how far it is.

    Raises:
        ConnectShareError: a topic cannot be used, a record was refused, or the cleaner does not come.
    """
    worker, plain = WorkerConfig.from_file(files.ours), WorkerConfig.from_file(files.plain)
    scenario = plan.scenario
    try:
        written = generate(
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
            generate(spark, worker, _newer(plan.size), progress=progress)
        if "java" in contenders and scenario.shared:
            generate(spark, plain, workload(scenario, prefixed=False), progress=progress)
        yield
    finally:
        with Admin(worker.admin_settings(), client_id="benchmark") as admin:
            admin.delete_topics([each.topic(topic_type) for each in (worker, plain) for topic_type in TopicType])


def _newer(size: WorkloadSize) -> WorkloadSize:
    """Return the size of the records that come after the checkpoint."""
    numbers = ("config_records", "status_records", "offset_records", "config_bytes", "status_bytes")
    return replace(size, **{name: max(1, getattr(size, name) // NEW_SHARE) for name in numbers})


def _await_cleaner(worker: WorkerConfig, written: int, settle_s: float, progress: Progress) -> None:
    """Close every active segment, which is never cleaned, and wait until the number of records stays as it is."""
    progress.phase("waiting for the log cleaner", 0)
    time.sleep(_SEGMENT_MS / 1e3 * 1.2)
    _write_everywhere(worker)
    began_s = same_since_s = time.monotonic()
    records = start_size(worker).records
    while records >= written or time.monotonic() - same_since_s < settle_s:
        if time.monotonic() - began_s > _CLEANER_S:
            raise EmbeddedError(
                f"the brokers' log cleaner has not been over {worker.config_storage_topic} within {_CLEANER_S:g} s; "
                "check log.cleaner.enable, or leave the scenario out"
            )
        time.sleep(_LOOK_EVERY_S)
        now = start_size(worker).records
        if now != records:
            records, same_since_s = now, time.monotonic()


def _write_everywhere(worker: WorkerConfig) -> None:
    """Write a record of no real group to every partition: a record behind a segment's age begins a new segment."""
    key, value = topic_status_record(TopicStatus("none", "none", 0, 0))
    sender = producer(worker.producer_settings(), client_id="benchmark-roller")
    for topic_type in TopicType:
        for partition in range(PARTITIONS[topic_type.value]):
            sender.produce(worker.topic(topic_type), key=prefix_key(_ROLLER, key), value=value, partition=partition)
    if sender.flush(30) > 0:
        raise WriteError(f"records for {worker.config_storage_topic} were not acknowledged within 30 s")
