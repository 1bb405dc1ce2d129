"""Fill three topics with the records of many Connect clusters; by default KIP-1173's benchmark (20 clusters of 5 jobs)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from connect_share import client
from connect_share.admin import Admin
from connect_share.cli.output import Output
from connect_share.errors import ConfigError, ConnectShareError, WriteError
from connect_share.records import TopicType
from connect_share.topics import ensure_topic, topic_spec
from connect_share.worker_config import ClientSettings, WorkerConfig
from migrator.cli.progress_line import ProgressLine
from migrator.progress import Progress
from spark_jobs import command_line
from spark_jobs.session import spark_session
from spark_jobs.tasks import run_as_tasks
from spark_jobs.workload import WorkloadSize, group_records

_PRODUCER: Final = {"linger.ms": "20", "queue.buffering.max.kbytes": "65536", "message.timeout.ms": "120000"}


@dataclass(frozen=True)
class GroupJob:
    """All records of one group: written by one task, so their order is kept. Holds client settings, hence secrets."""

    size: WorkloadSize
    group: int
    topics: tuple[tuple[TopicType, str], ...]
    settings: ClientSettings


def write_group(job: GroupJob) -> int:
    """Write the records of one group; gives how many.

    Raises:
        WriteError: a record was refused.
    """
    sender = client.producer(job.settings, client_id=f"generate-workload-{job.group}", overrides=_PRODUCER)
    refused: list[ConnectShareError] = []

    def delivered(error: client.KafkaError | None, _message: client.Message) -> None:
        if error is not None and not refused:
            refused.append(client.translate(error, "writing the workload"))

    written = 0
    for topic_type, topic in job.topics:
        for key, value in group_records(job.size, job.group, topic_type):
            while True:
                try:
                    sender.produce(topic, key=key, value=value, on_delivery=delivered)
                except BufferError:
                    sender.poll(0.1)
                    continue
                break
            written += 1
    sender.flush()
    if refused:
        raise WriteError(f"the workload of group {job.group} is not whole: {refused[0]}")
    return written


def generate(spark: SparkSession, worker: WorkerConfig, size: WorkloadSize, *, progress: Progress) -> int:
    """Create the topics of a worker file if needed and fill them; gives the number of records written.

    Raises:
        ConnectShareError: a topic cannot be used, or a record was refused.
    """
    with Admin(worker.admin_settings(), client_id="generate-workload") as admin:
        for topic_type in TopicType:
            ensure_topic(admin, topic_spec(worker, topic_type))
    topics = tuple((topic_type, worker.topic(topic_type)) for topic_type in TopicType)
    jobs = [GroupJob(size, group, topics, worker.producer_settings()) for group in range(size.groups)]
    return sum(run_as_tasks(spark, jobs, write_group, progress=progress, what="writing groups"))


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


def add_size_arguments(arguments: argparse.ArgumentParser) -> None:
    """Add one option for each number of :class:`WorkloadSize`."""
    defaults = WorkloadSize()
    for field in fields(WorkloadSize):
        if field.name != "prefixed":
            default = getattr(defaults, field.name)
            arguments.add_argument(
                "--" + field.name.replace("_", "-"), type=int, default=default, help=f"default {default:,}"
            )


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
    add_size_arguments(arguments)
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
