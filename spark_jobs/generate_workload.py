"""Fill three topics with the records of many Connect clusters; by default KIP-1173's benchmark (20 clusters of 5 jobs)."""

from __future__ import annotations

import argparse
import itertools
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from connect_share.console.options import add_worker_file
from connect_share.console.output import Output, ProgressLine, Result
from connect_share.console.program import NEEDS_YES, confirmed
from connect_share.errors import BrokerError, ConfigError, WriteError
from connect_share.files import Progress
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import ensure_topic, topic_spec
from connect_share.kafka.facts import config_facts, require_keys_of
from connect_share.kafka.read import Reader, batches
from connect_share.kafka.write import PRODUCER_OVERRIDES, CheckedWriter, Producers
from connect_share.kafka.write_access import TopicNeed, require_access
from connect_share.model.keys import connector_of, split_key
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.worker_config import ClientSettings, Isolation, WorkerConfig
from migrator.copy.copy_job import BROKER_HANDLES_S
from spark_jobs import command_line
from spark_jobs.session import require_single_attempts, spark_session
from spark_jobs.tasks import run_as_tasks
from spark_jobs.workload import WorkloadSize, Written, group_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FEW_GROUPS: Final = 50
_GROUPS_A_TASK: Final = 25
_CLIENT_ID: Final = "generate-workload"


@dataclass(frozen=True)
class GroupJob:
    """All records of one group: written by one task, so their order is kept. Holds client settings, hence secrets.

    Attributes:
        starts: by topic and partition, where it ended before anything was written.
        settings: of a worker's producers, with the compression.
        transaction_records: configs and offsets are written in transactions of so many; 0: without. Statuses never are.
    """

    size: WorkloadSize
    group: int
    topics: Mapping[TopicType, str]
    starts: Mapping[tuple[str, int], int]
    settings: ClientSettings
    consumer_settings: ClientSettings
    transaction_records: int = 0

    def entries(self, topic_type: TopicType, written: Mapping[tuple[str, int], int]) -> Iterator[Written]:
        """Yield the records but for those ``written``, the first ones of each partition."""
        topic, left = self.topics[topic_type], dict(written)
        partitions = sum(name == topic for name, _ in self.starts)
        for key, value in group_records(self.size, self.group, topic_type):
            at = (topic, partition_for(key, partitions)) if left else None
            if at is None or not left.get(at):
                yield key, value
            else:
                left[at] -= 1

    def written(self) -> Counter[tuple[str, int]]:
        """Count what an attempt before this one has written, by topic and partition; it wrote each in order."""
        time.sleep(BROKER_HANDLES_S)
        found: Counter[tuple[str, int]] = Counter()
        with Admin(self.consumer_settings, client_id=_CLIENT_ID) as admin:
            ends = admin.end_offsets(list(self.starts))
        reader = Reader(self.consumer_settings, _CLIENT_ID, Isolation.READ_COMMITTED)
        own = f"{self.size.group_id(self.group)}."
        for topic_type, topic in self.topics.items():
            parts = [OffsetRange(*at, start, ends[at]) for at, start in self.starts.items() if at[0] == topic]
            for record in reader.records(parts):
                key = split_key(topic_type, record.key)
                # The name of each connector of a group begins so, whether or not its keys do.
                if key is not None and (connector_of(topic_type, key[1]) or "").startswith(own):
                    found[topic, record.partition] += 1
        return found


def write_groups(jobs: Sequence[GroupJob]) -> int:
    """Write the records of several groups, one after the other, through the same clients; return how many are there.

    An attempt after a failed one writes what is missing. A record that is refused is a ``WriteError``.
    """
    from pyspark import TaskContext

    context, first = TaskContext.get(), jobs[0]
    name = f"{_CLIENT_ID}-{first.group}"
    producers, committer = Producers(), None
    if first.transaction_records:
        in_time = {"transactional.id": f"{name}-{first.topics[TopicType.CONFIG]}", "message.timeout.ms": "60000"}
        committer = client.producer(first.settings, client_id=name, overrides={**PRODUCER_OVERRIDES, **in_time})
        committer.init_transactions()
    count = 0
    for job in jobs:
        before = job.written() if context is not None and context.attemptNumber() else Counter()
        count += before.total()
        writers = []
        try:
            for topic_type, topic in job.topics.items():
                entries = job.entries(topic_type, before)
                if committer is not None and topic_type is not TopicType.STATUS:
                    count += _commit(committer, topic, entries, job.transaction_records)
                    continue
                writers.append(CheckedWriter(producers, job.settings, topic, name))
                for key, value in entries:
                    writers[-1].write(Record(topic, 0, 0, 0, key, value))
            for writer in writers:
                writer.finish()
                count += writer.acknowledged
        except BrokerError as error:
            raise WriteError(f"the workload of group {job.group} is not whole: {error}") from error
    return count


def _commit(committer: client.Producer, topic: str, entries: Iterator[Written], at_once: int) -> int:
    count = 0
    try:
        while batch := list(itertools.islice(entries, at_once)):
            committer.begin_transaction()
            for key, value in batch:
                committer.produce(topic, key=key, value=value)
            committer.commit_transaction()
            count += len(batch)
    except client.KafkaException as exc:
        raise client.translate(exc, f"writing to {topic} in a transaction", "WRITE") from exc
    return count


def generate(
    spark: SparkSession,
    worker: WorkerConfig,
    size: WorkloadSize,
    *,
    progress: Progress,
    compression: str = "none",
    transaction_records: int = 0,
    group: int | None = None,
) -> tuple[int, int]:
    """Create the topics of a worker file if needed and fill them, with one ``group`` of all or with all.

    Returns:
        The number of records written, and by how many offsets the topics have grown: more, where others write, too, where an
        attempt of a task that was given up went on, or with transactions.

    Raises:
        ConnectShareError: a topic cannot be used, one of the groups is there and looks sealed, a record was refused, or the
            topics have grown by less.
    """
    topics = {topic_type: worker.topic(topic_type) for topic_type in TopicType}
    with Admin(worker.admin_settings(), client_id=_CLIENT_ID) as admin:
        require_access(TopicNeed(worker, topic, ("CREATE", "WRITE")) for topic in topics.values())
        if size.prefixed:
            require_keys_of(worker, [size.group_id(each) for each in range(size.groups)], config_facts(worker))
        require_single_attempts(spark)
        for topic_type in TopicType:
            ensure_topic(admin, topic_spec(worker, topic_type))
        starts, settings = _ends(admin, topics.values()), worker.producer_settings()
        settings = settings.overlaid({"compression.type": compression})
        jobs = [
            GroupJob(size, each, topics, starts, settings, worker.consumer_settings(), transaction_records)
            for each in (range(size.groups) if group is None else [group])
        ]
        # A new client for each of a thousand groups would take longer than their records.
        at_once = 1 if len(jobs) <= _FEW_GROUPS else _GROUPS_A_TASK
        several = [*batches(jobs, at_once)]
        written = sum(run_as_tasks(spark, several, write_groups, progress=progress, what="writing groups"))
        grown = sum(_ends(admin, topics.values()).values()) - sum(starts.values())
    if grown < written:
        raise WriteError(f"{written:,} records were written, and {', '.join(topics.values())} have {grown:,} more")
    return written, grown


def _ends(admin: Admin, topics: Collection[str]) -> dict[tuple[str, int], int]:
    described = admin.describe_topics(topics)
    return admin.end_offsets([(name, each.id) for name, topic in described.items() for each in topic.partitions])


def _body(options: argparse.Namespace) -> int:
    worker = WorkerConfig.from_file(options.worker_config)
    if min(options.groups, options.jobs, options.source_partitions) < 1:
        raise ConfigError("--groups, --jobs and --source-partitions have to be at least 1")
    chosen = {
        field.name: getattr(options, field.name) for field in fields(WorkloadSize) if hasattr(options, field.name)
    }
    size = WorkloadSize(**chosen, prefixed=worker.sharing_enabled)
    topics = {topic_type.value: worker.topic(topic_type) for topic_type in TopicType}
    with Admin(worker.admin_settings(), client_id=_CLIENT_ID) as admin:
        held = sorted({name for (name, _), end in _ends(admin, topics.values()).items() if end})
    found = f"{', '.join(held)}: records were written there before"
    question = f"{found}. Write those of {size.groups} made-up groups, too?"
    if held and not options.yes and not confirmed(question, otherwise=f"{found}; {NEEDS_YES}"):
        return 1
    with ProgressLine() as progress, spark_session("connect-share generate_workload") as spark:
        written, grown = generate(spark, worker, size, progress=progress)
    more = (
        f"the topics have {grown:,} records more than before: others write there, or an attempt of a task that was given up "
        "went on"
    )
    kind = "prefixed" if size.prefixed else "plain"
    members = {"records": written, "grown": grown, "groups": size.groups, "jobs": size.jobs, "topics": topics}
    line = f"{written:,} {kind} records of {size.groups} groups in {', '.join(topics.values())}"
    result = Result(members, [line], notes=[more] if grown > written else [])
    return Output("generate_workload", options.output).show(result)


def main(argv: Sequence[str]) -> int:
    """Write a workload. 0 done, 1 failed, 2 usage."""
    arguments = command_line.parser("generate_workload", __doc__ or "")
    add_worker_file(
        arguments, "worker file with the topics; sharing enabled there gives prefixed keys, disabled plain ones"
    )
    arguments.add_argument("--yes", action="store_true", help="do not ask before records go to topics that have some")
    for field in fields(WorkloadSize):
        if field.name != "prefixed":
            option = "--" + field.name.replace("_", "-")
            arguments.add_argument(option, type=int, default=field.default, help=f"default {field.default:,}")
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
