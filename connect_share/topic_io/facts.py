"""What a Kafka cluster reports to the clients of a worker file: topics, groups, records; refusals that need no plan."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connect_share.admin import Admin, TopicDescription
from connect_share.client import Message
from connect_share.errors import (
    LiveMembersError,
    OpenTransactionError,
    TopicMissingError,
)
from connect_share.log.ranges import read_batches, read_ranges
from connect_share.records import OffsetRange, Record, TopicType
from connect_share.topic_io.checked_writer import CLIENT_ID
from connect_share.topics import check_cleanup_policy, check_partition_count, topic_spec
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import Isolation

BUSY_TOPIC_WAIT_S: Final = 30.0
"""The wait for open transactions on a busy topic; those of a healthy worker last a second."""
_ASK_AGAIN_S: Final = 0.2
IDLE_TIMEOUT_S: Final = 60.0
"""The longest wait without progress while records are read."""


def admin_of(worker: WorkerConfig) -> Admin:
    """Return an admin client of the worker's cluster; the caller closes it."""
    return Admin(worker.admin_settings(), client_id=worker.client_id(CLIENT_ID))


def read_records(
    worker: WorkerConfig, ranges: Sequence[OffsetRange], isolation: Isolation, *, with_headers: bool = False
) -> Iterator[Record]:
    """Yield the records of offset ranges of the worker's cluster, in offset order within each partition.

    Raises:
        BrokerError: reading was refused.
        ReadToEndTimeoutError: the end of a range was not reached.
    """
    return read_ranges(
        worker.consumer_settings(),
        ranges,
        isolation=isolation,
        client_id=worker.client_id(CLIENT_ID),
        idle_timeout_s=IDLE_TIMEOUT_S,
        with_headers=with_headers,
    )


def read_messages(worker: WorkerConfig, ranges: Sequence[OffsetRange], isolation: Isolation) -> Iterator[list[Message]]:
    """Yield the messages of offset ranges of the worker's cluster in batches, in offset order within each partition.

    Raises:
        BrokerError, ReadToEndTimeoutError: as :func:`read_records`.
    """
    return read_batches(
        worker.consumer_settings(),
        ranges,
        isolation=isolation,
        client_id=worker.client_id(CLIENT_ID),
        idle_timeout_s=IDLE_TIMEOUT_S,
    )


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """One existing topic.

    Attributes:
        starts: first offset of each partition.
        ends: high watermark of each partition, exclusive.
    """

    topic: str
    topic_id: str | None
    starts: dict[int, int]
    ends: dict[int, int]

    def ranges(self) -> list[OffsetRange]:
        """Return the ranges of all records of the topic."""
        return [OffsetRange(self.topic, number, self.starts[number], end) for number, end in self.ends.items()]


def read_facts(admin: Admin, topics: Collection[str]) -> dict[str, ExistingTopic]:
    """Describe the topics that exist; missing ones are left out."""
    descriptions: dict[str, TopicDescription] = admin.describe_topics(list(topics))
    partitions = [(name, part.id) for name, found in descriptions.items() for part in found.partitions]
    starts = admin.start_offsets(partitions)
    ends = admin.end_offsets(partitions, Isolation.READ_UNCOMMITTED)
    return {
        name: ExistingTopic(
            topic=name,
            topic_id=found.topic_id,
            starts={part.id: starts[(name, part.id)] for part in found.partitions},
            ends={part.id: ends[(name, part.id)] for part in found.partitions},
        )
        for name, found in descriptions.items()
    }


def require_topic(facts: dict[str, ExistingTopic], topic: str, *, remedy: str) -> ExistingTopic:
    """Return the facts of a topic that has to exist.

    Raises:
        TopicMissingError: it does not.
    """
    if topic not in facts:
        raise TopicMissingError(f"topic {topic} does not exist; {remedy}", topic=topic)
    return facts[topic]


def destination_settings(
    admin: Admin, worker: WorkerConfig, topic_type: TopicType, found: ExistingTopic | None
) -> Mapping[str, str]:
    """Check a destination topic that exists. Returns its settings, or those with which it will be created.

    Raises:
        TopicError: it is not compacted, or has too many partitions.
    """
    if found is None:
        return worker.topic_settings(topic_type)
    spec = topic_spec(worker, topic_type)
    check_cleanup_policy(admin, spec)
    check_partition_count(spec, len(found.ends))
    return admin.topic_configs(found.topic)


def require_no_open_transaction(admin: Admin, facts: ExistingTopic, *, wait_s: float = 0.0) -> None:
    """Refuse a topic with a transaction open in front of the ends taken before.

    Args:
        admin: of the topic's cluster.
        facts: the topic with its ends.
        wait_s: wait this long for transactions that are open now, seconds.

    Raises:
        OpenTransactionError: a transaction is open in front of an end. A reader of committed records would stop
            there; another reader would take records that may be aborted.
    """
    partitions = [(facts.topic, number) for number in facts.ends]
    deadline_s = time.monotonic() + wait_s
    while True:
        # The ends were read before: what is appended meanwhile can only raise the last stable offset.
        stable = admin.end_offsets(partitions, Isolation.READ_COMMITTED)
        behind = [(number, at) for (_, number), at in stable.items() if at < facts.ends[number]]
        if not behind:
            return
        if time.monotonic() >= deadline_s:
            break
        time.sleep(_ASK_AGAIN_S)
    number, last_stable_offset = behind[0]
    end = facts.ends[number]
    raise OpenTransactionError(
        f"{facts.topic}[{number}]: a transaction is open, the last stable offset is {last_stable_offset} "
        f"but the end is {end}; wait until it is committed, aborted or timed out, or abort it with "
        "kafka-transactions.sh, then try again",
        topic=facts.topic,
        partition=number,
        last_stable_offset=last_stable_offset,
        end_offset=end,
    )


def require_no_live_workers(admin: Admin, group_id: str, *, side: str) -> None:
    """Refuse while workers of a Connect group are alive.

    Raises:
        LiveMembersError: the group has members.
    """
    members = admin.connect_groups().get(group_id, 0)
    if members:
        raise LiveMembersError(
            f"{members} worker(s) of the {side} group {group_id} are alive: stop them all, and keep them "
            "stopped, then try again"
        )
