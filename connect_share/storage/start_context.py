"""What a start learns before it reads, and where reading begins: at the beginning, or at a checkpoint."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from connect_share.admin import Admin
from connect_share.checkpoint import Checkpoint
from connect_share.errors import BrokerError
from connect_share.log import SharedReader, TopicFacts, gather_facts, with_ends
from connect_share.records import TopicType
from connect_share.storage.checkpointing import own_checkpoint, proven
from connect_share.worker_config import WorkerConfig


@dataclass(slots=True)
class StartContext:
    """What a start knows before it reads.

    Attributes:
        began: on the monotonic clock.
        facts: of the topics that exist, with where to begin.
        common: fetches those that are read alike; closed with the stack.
        settings: of the topics, or why they may not be told; ``None`` if nobody asked yet.
        checkpoint: to go on from.
        full_read_reason: why a checkpoint is not used.
    """

    began: float
    facts: Mapping[str, TopicFacts] = field(default_factory=dict)
    common: SharedReader | None = None
    settings: Mapping[str, Mapping[str, str] | BrokerError] | None = None
    checkpoint: Checkpoint | None = None
    full_read_reason: str | None = None


def start_at_the_beginning(stack: ExitStack, admin: Admin, worker: WorkerConfig, *, began: float) -> StartContext:
    """Find the topics and begin to fetch them; their ends are asked for meanwhile.

    First it is learnt which topic it is, by its id, then fetching begins: the other way round, records of one that is
    deleted at that moment could be taken for those of its successor.

    Raises:
        BrokerError: not reachable, or not allowed to describe a topic.
    """
    asked_s = time.monotonic()
    descriptions = admin.describe_topics(worker.topic(topic_type) for topic_type in TopicType)
    begin = {
        topic: {partition.id: 0 for partition in description.partitions} for topic, description in descriptions.items()
    }
    common = _closed_with(stack, SharedReader.of_worker(worker, begin, from_the_beginning=True))
    return StartContext(began, with_ends(admin, descriptions, asked_s), common)


def start_at_a_checkpoint(
    stack: ExitStack, admin: Admin, worker: WorkerConfig, path: Path, *, began: float
) -> StartContext:
    """Begin to fetch what is new since a checkpoint, while it is proven that this is as good as reading everything.

    Nothing that comes is looked at until that is known.

    Raises:
        CheckpointRejected: it is not.
        BrokerError: not reachable, or not allowed to describe a topic.
    """
    checkpoint = own_checkpoint(path, worker)
    begin = {worker.topic(topic_type): checkpoint.of(topic_type).positions for topic_type in TopicType}
    common = _closed_with(stack, SharedReader.of_worker(worker, begin, from_the_beginning=False))
    facts = gather_facts(admin, begin)
    facts, settings = proven(checkpoint, worker, admin, facts)
    return StartContext(began, facts, common, settings, checkpoint)


def _closed_with(stack: ExitStack, common: SharedReader | None) -> SharedReader | None:
    if common is not None:
        stack.callback(common.close)
    return common
