"""Fill three topics with the records of many Connect clusters; by default KIP-1173's benchmark (20 clusters of 5 jobs)."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from connect_share.console import Output, ProgressLine
from connect_share.errors import ConfigError, ConnectShareError, WriteError
from connect_share.files import Progress
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import ensure_topic, topic_spec
from connect_share.kafka.facts import read_facts, require_keys_of
from connect_share.kafka.write_access import CREATE, WRITE, TopicNeed, require_access
from connect_share.model.records import TopicType
from connect_share.worker_config import ClientSettings, WorkerConfig
from spark_jobs import command_line
from spark_jobs.session import refuse_speculation, run_as_tasks, spark_session
from spark_jobs.workload import WorkloadSize, Written, group_records

_FEW_GROUPS: Final = 50
_GROUPS_A_TASK: Final = 25
_PRODUCER: Final = {"linger.ms": "20", "queue.buffering.max.kbytes": "65536", "message.timeout.ms": "120000"}


@dataclass(frozen=True)
class GroupJob:
    """All records of one group: written by one task, so their order is kept. Holds client settings, hence secrets.

    Attributes:
        compression: of the record batches, in Kafka's words.
        transaction_records: configs and offsets are written in transactions of so many; 0: without. Statuses never are.
    """

    size: WorkloadSize
    group: int
    topics: tuple[tuple[TopicType, str], ...]
    settings: ClientSettings
    compression: str = "none"
    transaction_records: int = 0


def write_groups(jobs: Sequence[GroupJob]) -> int:
    """Write the records of several groups, one after the other, through the same clients; return how many.

    A record that is refused is a ``WriteError``.
    """
    first = jobs[0]
    overrides = {**_PRODUCER, "compression.type": first.compression}
    name = f"generate-workload-{first.group}"
    sender = client.producer(first.settings, client_id=name, overrides=overrides, idempotent=True)  # in order
    committer = None
    if first.transaction_records:
        transactional_id = f"{name}-{first.topics[0][1]}"
        in_time = {"transactional.id": transactional_id, "message.timeout.ms": "60000"}
        committer = client.producer(first.settings, client_id=name, overrides={**overrides, **in_time})
        committer.init_transactions()
    written = 0
    for job in jobs:
        refused: list[ConnectShareError] = []
        for topic_type, topic in job.topics:
            entries = group_records(job.size, job.group, topic_type)
            if committer is None or topic_type is TopicType.STATUS:
                written += _send(sender, topic, entries, refused)
                continue
            while batch := list(itertools.islice(entries, job.transaction_records)):
                try:
                    committer.begin_transaction()
                    written += _send(committer, topic, batch, refused)
                    committer.commit_transaction()
                except client.KafkaException as exc:
                    raise client.translate(
                        exc, f"writing to {topic} in a transaction", client.TopicRight.WRITE
                    ) from exc
        sender.flush()
        if refused:
            raise WriteError(f"the workload of group {job.group} is not whole: {refused[0]}")
    return written


def _send(sender: client.Producer, topic: str, entries: Iterable[Written], refused: list[ConnectShareError]) -> int:
    def delivered(error: client.KafkaError | None, _message: client.Message) -> None:
        if error is not None and not refused:
            refused.append(client.translate(error, "writing the workload", client.TopicRight.WRITE))

    sent = 0
    for sent, (key, value) in enumerate(entries, 1):  # noqa: B007 - it is returned
        client.produce(sender, client.Deadline.after(120), topic, value, key, on_delivery=delivered)
    return sent


def generate(
    spark: SparkSession,
    worker: WorkerConfig,
    size: WorkloadSize,
    *,
    progress: Progress,
    compression: str = "none",
    transaction_records: int = 0,
) -> int:
    """Create the topics of a worker file if needed and fill them; return the number of records written.

    Raises:
        ConnectShareError: a topic cannot be used, one of the groups is there and looks sealed, or a record was refused.
    """
    with Admin(worker.admin_settings(), client_id="generate-workload") as admin:
        require_access(TopicNeed(worker, worker.topic(each), (CREATE, WRITE)) for each in TopicType)
        config = read_facts(admin, {worker.config_storage_topic}).get(worker.config_storage_topic)
        if size.prefixed:
            require_keys_of(worker, [size.group_id(group) for group in range(size.groups)], config)
        refuse_speculation(spark)
        for topic_type in TopicType:
            ensure_topic(admin, topic_spec(worker, topic_type))
    topics = tuple((topic_type, worker.topic(topic_type)) for topic_type in TopicType)
    jobs = [
        GroupJob(size, group, topics, worker.producer_settings(), compression, transaction_records)
        for group in range(size.groups)
    ]
    # A new client for each of a thousand groups would take longer than their records.
    several = [jobs[first : first + _GROUPS_A_TASK] for first in range(0, len(jobs), _GROUPS_A_TASK)]
    if len(jobs) <= _FEW_GROUPS:
        several = [[job] for job in jobs]
    return sum(run_as_tasks(spark, several, write_groups, progress=progress, what="writing groups"))


def _body(options: argparse.Namespace) -> int:
    worker = WorkerConfig.from_file(options.worker_config)
    if options.groups < 1 or options.jobs < 1:
        raise ConfigError("--groups and --jobs have to be at least 1")
    chosen = {
        field.name: getattr(options, field.name) for field in fields(WorkloadSize) if hasattr(options, field.name)
    }
    size = WorkloadSize(**chosen, prefixed=worker.sharing_enabled)
    with ProgressLine(sys.stderr) as progress, spark_session("connect-share generate_workload") as spark:
        written = generate(spark, worker, size, progress=progress)
    output = Output("generate_workload", options.output)
    topics = {topic_type.value: worker.topic(topic_type) for topic_type in TopicType}
    if output.is_json:
        output.json({"records": written, "groups": size.groups, "jobs": size.jobs, "topics": topics})
    else:
        kind = "prefixed" if size.prefixed else "plain"
        output.lines(f"{written:,} {kind} records of {size.groups} groups in {', '.join(topics.values())}")
    return 0


def main(argv: Sequence[str]) -> int:
    """Write a workload. 0 done, 1 failed, 2 usage."""
    arguments = command_line.parser("generate_workload", __doc__ or "")
    arguments.add_argument(
        "-w",
        "--worker-config",
        type=Path,
        required=True,
        help="worker file with the topics; sharing enabled there gives prefixed keys, disabled plain ones",
    )
    arguments.add_argument("--output", choices=("text", "json"), default="text")
    for field in fields(WorkloadSize):
        if field.name != "prefixed":
            option = "--" + field.name.replace("_", "-")
            arguments.add_argument(option, type=int, default=field.default, help=f"default {field.default:,}")
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
