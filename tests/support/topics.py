"""Filling topics in tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect_share import client
from connect_share.admin import Admin, NewTopicRequest
from connect_share.records import Record
from connect_share.worker_config import ClientSettings
from tests.support.waiting import await_that

# Records of the past would roll the segment at the next append, and the cleaner would take superseded ones at once.
ONE_SEGMENT = {"segment.ms": "10000000000000"}


def create_known(admin: Admin, request: NewTopicRequest) -> None:
    """Create a topic and wait until the broker knows it: the controller answers first."""
    admin.create_topic(request)
    await_that(lambda: admin.describe_topics([request.topic]), what=f"{request.topic} known")


def create_topic(
    settings: ClientSettings, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    with Admin(settings, client_id="tests") as admin:
        create_known(
            admin,
            NewTopicRequest(topic, partitions, 1, {"cleanup.policy": "compact", **ONE_SEGMENT, **(configs or {})}),
        )


def write_records(
    settings: ClientSettings, topic: str, records: Iterable[Record], *, keep_partition: bool = True
) -> int:
    """Write records in order, to their own partition or to where their key hashes; return how many."""
    producer = client.producer(settings, client_id="tests", overrides={"linger.ms": "5"})
    failures: list[client.KafkaError] = []

    def delivered(error: client.KafkaError | None, _message: client.Message) -> None:
        if error is not None:
            failures.append(error)

    count = 0
    for record in records:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            timestamp=record.timestamp_ms,
            headers=list(record.headers or ()) or None,
            on_delivery=delivered,
            partition=record.partition if keep_partition else -1,
        )
        producer.poll(0)
        count += 1
    producer.flush()
    assert failures == []
    return count
