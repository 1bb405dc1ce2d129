"""Reads of the three topics by a client alone: with default settings, with ours and nothing done, and to count."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Final

from connect_share.admin import Admin
from connect_share.client import Consumer, Message, TopicPartition, consumer, to_record
from connect_share.errors import ReadToEndTimeoutError
from connect_share.keys import prefix_key
from connect_share.log import gather_facts, read_batches
from connect_share.log.catch_up import catch_up_consumer
from connect_share.records import OffsetRange, Record, TopicType
from connect_share.startup import StartSize
from connect_share.worker_config import WorkerConfig

_BATCH: Final = 2_000
_IDLE_S: Final = 0.005
_GIVE_UP_S: Final = 300.0
_WORKER_ORDER: Final = (TopicType.OFFSET, TopicType.STATUS, TopicType.CONFIG)


def plain_client_read(worker: WorkerConfig) -> int:
    """Read the topics one after another with default settings until the client says "end"; return the number of records."""
    records = 0
    for topic_type in _WORKER_ORDER:
        topic = worker.topic(topic_type)
        reader = consumer(
            worker.client_settings(),
            client_id="plain",
            isolation=worker.isolation(topic_type),
            overrides={"enable.partition.eof": "true"},
        )
        partitions = set(reader.list_topics(topic, timeout=30).topics[topic].partitions)
        reader.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while partitions:
            message = reader.poll(1.0)
            if message is None:
                continue
            if message.error() is None:
                records += 1
            else:
                partitions.discard(message.partition() or 0)
        reader.close()
    return records


def librdkafka_read(worker: WorkerConfig) -> None:
    """Fetch the three topics as our stores do, with the same settings through one client, and look at no record.

    This is the limit of what a store in Python can reach: the client hands out one object a record, and that is all.

    Raises:
        ReadToEndTimeoutError: an end was not reached.
    """
    with Admin(worker.admin_settings(), client_id="bare-admin") as admin:
        found = gather_facts(admin, [worker.topic(topic_type) for topic_type in TopicType])
        isolation = worker.isolation(TopicType.CONFIG)
        reader = catch_up_consumer(worker.consumer_settings(), client_id="bare", isolation=isolation)
        try:
            _throw_away(
                reader,
                {
                    (topic, partition): end
                    for topic, facts in found.items()
                    for partition, end in facts.end_offsets.items()
                    if end > 0
                },
            )
        finally:
            # Closing is no part of a start: our stores do it in a thread of its own.
            threading.Thread(target=reader.close).start()


def _throw_away(reader: Consumer, ends: dict[tuple[str, int], int]) -> None:
    reader.assign([TopicPartition(topic, partition, 0) for topic, partition in sorted(ends)])
    left, deadline_s = sum(ends.values()), time.monotonic() + _GIVE_UP_S
    while ends:
        wanted = max(1, min(_BATCH, left))
        taken = len(reader.consume(wanted, _IDLE_S))
        left -= taken
        if taken == wanted and left > 0:
            continue
        for at in reader.position([TopicPartition(topic, partition) for topic, partition in ends]):
            if at.offset >= ends[at.topic, at.partition]:
                del ends[at.topic, at.partition]
        if ends and time.monotonic() > deadline_s:
            topic, partition = min(ends)
            raise ReadToEndTimeoutError(f"{topic}[{partition}] was not read to its end within {_GIVE_UP_S:g} s")


def own_records(worker: WorkerConfig) -> dict[TopicType, list[Record]]:
    """Read the records of the worker's group; without sharing all."""
    prefix = _prefix(worker)
    return {
        topic_type: [
            to_record(message)
            for batch in batches
            for message in batch
            if prefix == b"" or (message.key() or b"").startswith(prefix)
        ]
        for topic_type, batches in _everything(worker)
    }


def start_size(worker: WorkerConfig) -> StartSize:
    """Return what a start has to read."""
    prefix = _prefix(worker)
    records = size = own = 0
    for _, batches in _everything(worker):
        for batch in batches:
            keys = [message.key() or b"" for message in batch]
            records += len(batch)
            size += sum(map(len, keys)) + sum(len(message.value() or b"") for message in batch)
            own += sum(key.startswith(prefix) for key in keys)
    return StartSize(records=records, bytes=size, own_records=own)


def _prefix(worker: WorkerConfig) -> bytes:
    return b"" if worker.cluster_group_id is None else prefix_key(worker.cluster_group_id, b"")


def _everything(worker: WorkerConfig) -> Iterator[tuple[TopicType, Iterator[list[Message]]]]:
    with Admin(worker.admin_settings(), client_id="count-admin") as admin:
        found = gather_facts(admin, [worker.topic(topic_type) for topic_type in TopicType])
    for topic_type in TopicType:
        topic = worker.topic(topic_type)
        ranges = [OffsetRange(topic, partition, 0, end) for partition, end in found[topic].end_offsets.items()]
        isolation = worker.isolation(topic_type)
        yield topic_type, read_batches(worker.client_settings(), ranges, isolation=isolation, client_id="count")
