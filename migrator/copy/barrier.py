"""A write barrier: makes visible what an interrupted copy has written.

A record that was not acknowledged may be in its partition all the same. It lies behind the high watermark while replicas
are missing, and becomes visible when they are back. A resume that reads before that would write it once more. When all
replicas have acknowledged a record behind it, everything before that record is visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from connect_share import client
from connect_share.keys import MARKER, StatusKey
from connect_share.records import TopicType
from connect_share.state import offset_key
from connect_share.worker_config.client_settings import ClientSettings
from migrator.copy.checked_writer import PRODUCER_OVERRIDES

BARRIER_RECORDS: Final[Mapping[TopicType, tuple[bytes, bytes | None]]] = {
    TopicType.CONFIG: MARKER,  # the marker that closes a config topic anyway
    # Removals for a connector " ", a name that Connect refuses: no worker has anything to remove.
    TopicType.STATUS: (StatusKey.CONNECTOR.key(" "), None),
    TopicType.OFFSET: (offset_key(" ", {}), None),
}
"""Original key and value of the record that is written, by topic type."""


def write_barrier(
    settings: ClientSettings,
    topic_type: TopicType,
    topic: str,
    partitions: Iterable[int],
    *,
    prefix: bytes,
    client_id: str,
) -> None:
    """Write one record to each partition; return when all replicas have it.

    Args:
        settings: of the destination's producers.
        topic_type: decides on key and value.
        topic: of the destination.
        partitions: all that may have been written to.
        prefix: of the destination's key space.
        client_id: of the producer.

    Raises:
        BrokerError: one was not acknowledged, such as while replicas are missing.
    """
    key, value = BARRIER_RECORDS[topic_type]
    producer = client.producer(settings, client_id=client_id, overrides=PRODUCER_OVERRIDES, idempotent=True)
    failures: list[client.KafkaError] = []

    @client.callback
    def delivered(error: client.KafkaError | None, _: client.Message) -> None:
        if error is not None:
            failures.append(error)

    for partition in partitions:
        producer.produce(topic, key=prefix + key, value=value, partition=partition, on_delivery=delivered)
    while len(producer):  # each record has a time-out of its own
        producer.flush(0.5)
    if failures:
        raise client.translate(failures[0], doing=f"writing to {topic}", needs=client.TopicRight.WRITE)
