"""Filling topics in tests."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice

from confluent_kafka.admin import AdminClient, NewPartitions

from connect_share.files import repeated
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.kafka.read import Reader
from connect_share.model.records import OffsetRange, Record
from connect_share.worker_config import ClientSettings, Isolation
from tests.support.waiting import await_that

# Records of the past would roll the segment at the next append, and the cleaner would take superseded ones at once.
ONE_SEGMENT = {"segment.ms": "10000000000000"}
# One segment that is never closed: compaction would change the numbers of records.
UNTOUCHED = {"cleanup.policy": "compact", "segment.ms": str(2**63 - 1)}
# Segments roll and are cleaned as fast as a broker can.
COMPACT_NOW = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.0",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "100",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "100",
}
ANYWHERE = -1
"""The partition of a record that goes where its key is hashed to."""
_READY = 3
_ready: dict[str, deque[client.Producer]] = {}


def create_known(admin: Admin, request: NewTopicRequest) -> None:
    """Create a topic and wait until the broker knows its leaders: the controller answers first."""
    admin.create_topic(request)

    def leaders() -> list[int | None]:
        found = admin.describe_topics([request.topic]).get(request.topic)
        return [] if found is None else [partition.leader for partition in found.partitions]

    await_that(leaders, lambda found: bool(found) and None not in found, what=f"{request.topic} known")


def delete_known(admin: Admin, *topics: str) -> None:
    """Delete topics and wait until the broker that is asked knows none of them any more."""
    admin.delete_topics(topics)
    await_that(lambda: admin.describe_topics(topics), lambda found: not found, what="the topics gone")


def add_partitions(admin: Admin, settings: ClientSettings, topic: str, count: int) -> None:
    """Raise the number of a topic's partitions, and wait until the broker that is asked knows it."""
    kafka = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    kafka.create_partitions([NewPartitions(topic, count)])[topic].result()
    await_that(lambda: len(admin.describe_topics([topic])[topic].partitions), count.__eq__, what=topic)


def newest_by_partition(records: Iterable[Record], prefix: bytes = b"") -> dict[bytes, dict[int, bytes]]:
    """Return the newest values of each key with this prefix, by partition; removed ones are not in it."""
    found: dict[bytes, dict[int, bytes]] = {}
    for record in records:
        if record.key is not None and record.key.startswith(prefix):
            places = found.setdefault(record.key, {})
            places.pop(record.partition, None)
            if record.value is not None:
                places[record.partition] = record.value
    return {key: places for key, places in found.items() if places}


def alter_known(admin: Admin, topic: str, changes: Mapping[str, str]) -> None:
    """Change settings of a topic and wait until the brokers return the new values: the controller answers first."""
    admin.alter_topic_configs(topic, changes)
    await_that(
        lambda: admin.topic_configs(topic),
        lambda now: all(now.get(name) == value for name, value in changes.items()),
        what=f"{topic} changed",
    )


def create_topic(
    settings: ClientSettings, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    with Admin(settings, client_id="tests") as admin:
        create_known(
            admin,
            NewTopicRequest(topic, partitions, 1, {"cleanup.policy": "compact", **ONE_SEGMENT, **(configs or {})}),
        )


def ordered_producer(settings: ClientSettings) -> client.Producer:
    """Return an idempotent producer that nobody has used; only such a one keeps the order on a topic made a moment ago.

    Some of the next callers' are made, too: each waits half a second for its id.
    """
    if str(settings.properties) not in _ready:
        _ready.clear()  # those of another broker, which may have ended
    ready = _ready.setdefault(str(settings.properties), deque())
    overrides = {"linger.ms": "5", "reconnect.backoff.max.ms": "500"}
    while len(ready) <= _READY:
        ready.append(client.producer(settings, client_id="tests", overrides=overrides, idempotent=True))
    return ready.popleft()


def write_records(
    settings: ClientSettings, topic: str, records: Iterable[Record], *, keep_partition: bool = True
) -> int:
    """Write records in order, to their own partition or to where their key hashes; return how many."""
    placed = ((record if keep_partition else replace(record, partition=ANYWHERE)) for record in records)
    return send(ordered_producer(settings), (replace(record, topic=topic) for record in placed))


def send(producer: client.Producer, records: Iterable[Record]) -> int:
    """Send records, wait until all are acknowledged, and return how many; a time of 0 is now."""
    failures: list[client.KafkaError] = []

    def delivered(error: client.KafkaError | None, _message: client.Message) -> None:
        if error is not None:
            failures.append(error)

    def produce(record: Record) -> None:
        producer.produce(
            record.topic,
            key=record.key,
            value=record.value,
            timestamp=record.timestamp_ms,
            headers=list(record.headers or ()) or None,
            on_delivery=delivered,
            partition=record.partition,
        )

    count = 0
    for record in records:
        try:
            produce(record)
        except BufferError:  # the producer's queue is full: as soon as a part of it is acknowledged, there is room
            producer.flush(120)
            produce(record)
        producer.poll(0)
        count += 1
    assert producer.flush(120) == 0
    assert failures == []
    return count


def in_transaction(settings: ClientSettings, transactional_id: str, records: Iterable[Record]) -> client.Producer:
    """Write records in a transaction that nobody else ends, however slow the machine is, and return its producer."""
    overrides = {
        "transactional.id": transactional_id,
        "message.timeout.ms": "60000",
        "transaction.timeout.ms": "600000",
    }
    producer = client.producer(settings, client_id="tests", overrides=overrides)
    producer.init_transactions(120)
    producer.begin_transaction()
    send(producer, records)
    return producer


@contextmanager
def transaction(settings: ClientSettings, name: str, records: Sequence[Record], end: str) -> Iterator[client.Producer]:
    """Write records in a transaction; ``commit`` or ``abort`` it before the block, or after it if it is to be ``open``."""
    writer = in_transaction(settings, f"{name}-{end}-{len(records)}", records)
    if end == "open":
        yield writer
    (writer.commit_transaction if end == "commit" else writer.abort_transaction)(120)
    places = {(record.topic, record.partition) for record in records}
    with Admin(settings, client_id="tests") as admin:  # the coordinator answers before the marker is written

        def ends() -> bool:
            return admin.end_offsets(places) == admin.end_offsets(places, Isolation.READ_COMMITTED)

        await_that(ends, what="the marker of the transaction")
    if end != "open":
        yield writer


@contextmanager
def written_evenly(
    producer: client.Producer, records: Iterator[Record], per_second: float, *, every_s: float
) -> Iterator[None]:
    """Write records while the block runs, looking every so often what is due; wait until all are acknowledged."""
    began_s, sent = time.monotonic(), 0

    def write_due() -> None:
        nonlocal sent
        due = int((time.monotonic() - began_s) * per_second)
        for record in islice(records, due - sent):
            producer.produce(record.topic, key=record.key, value=record.value)
        sent = due
        producer.poll(0)

    try:
        with repeated(every_s, write_due):
            yield
    finally:
        assert producer.flush(120) == 0


def pairs_of(topic: str, pairs: Iterable[tuple[bytes | None, bytes | None]], partition: int = ANYWHERE) -> list[Record]:
    """Make records of keys and values, to be written now."""
    return [Record(topic, partition, 0, 0, key, value) for key, value in pairs]


def read_topic(
    admin: Admin,
    settings: ClientSettings,
    topic: str,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    *,
    up_to: Isolation = Isolation.READ_UNCOMMITTED,
) -> list[Record]:
    """Read a whole topic with headers, partition after partition; with ``up_to`` committed waits for no transaction."""
    at = [(topic, partition.id) for partition in admin.describe_topics([topic])[topic].partitions]
    starts, ends = admin.start_offsets(at), admin.end_offsets(at, up_to)
    ranges = [OffsetRange(*each, starts[each], ends[each]) for each in at]
    found = Reader(settings, "tests", isolation).records(ranges, 120.0)
    return sorted(found, key=lambda record: (record.partition, record.offset))
