"""Reading a topic from the beginning to an end known beforehand, as fast as the client can.

What made the difference, measured: a short back-off of the fetcher's queue (librdkafka's default of one second stops it
again and again), large fetches that do not wait, batches that never wait for more records than there are, the key's
prefix looked at before anything else, and progress asked once a round instead of once a record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_share.client import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
    consumer,
    is_end_of_partition,
    to_record,
    translate,
)
from connect_share.errors import ReadToEndTimeoutError
from connect_share.log.protocol import RecordSink
from connect_share.worker_config.client_settings import ClientSettings, Isolation

_log = logging.getLogger(__name__)

CATCH_UP_SETTINGS: Final[Mapping[str, str]] = {
    "enable.partition.eof": "true",
    "fetch.queue.backoff.ms": "10",
    "fetch.wait.max.ms": "10",
    "fetch.min.bytes": "1",
    # A broker puts an answer together before it sends the first byte: with 16 MiB the first record of a large partition
    # came 20 ms later, and the whole read took half as long again.
    "max.partition.fetch.bytes": "4194304",
    "fetch.max.bytes": "67108864",
    "queued.min.messages": "1000000",
    "queued.max.messages.kbytes": "65536",
}
_BATCH: Final = 2_000
_IDLE_S: Final = 0.005


@dataclass(slots=True)
class CatchUp:
    """What a read to the end found.

    Attributes:
        positions: next offset of each partition.
        records: all records, own and foreign.
        own: those whose key has the sink's prefix.
        first_record_s: seconds from the start until the first record was there; 0 if there was none.
        seconds: seconds altogether.
        ends_seen: offsets at which the client met the end of a partition.
    """

    positions: dict[int, int]
    records: int = 0
    own: int = 0
    first_record_s: float = 0.0
    seconds: float = 0.0
    ends_seen: dict[int, int] = field(default_factory=dict)


def catch_up_consumer(settings: ClientSettings, *, client_id: str, isolation: Isolation) -> Consumer:
    """Make a consumer for one read from the beginning; it asks the broker too often to be kept afterwards."""
    overrides = {**CATCH_UP_SETTINGS, "auto.offset.reset": "earliest"}
    return consumer(settings, client_id=client_id, isolation=isolation, overrides=overrides)


def catch_up(
    reader: Consumer,
    topic: str,
    end_offsets: Mapping[int, int],
    sink: RecordSink,
    *,
    timeout_s: float,
    isolation: Isolation,
    go_on: Callable[[], None] = lambda: None,
) -> CatchUp:
    """Feed a sink with everything before the ends given (and what a batch holds beyond).

    Progress is the consumer's position, which passes compaction holes, transaction markers and aborted records; an
    empty partition, and one of which everything was compacted away, is done at once.

    ``go_on`` is called once a round, also while no record comes; what it raises ends the read.

    Raises:
        ReadToEndTimeoutError: an end was not reached in time, with read_committed perhaps because a transaction is open.
        BrokerError: a partition cannot be read.
    """
    began = time.monotonic()
    waiting = {partition: end for partition, end in end_offsets.items() if end > 0}
    found = CatchUp(dict.fromkeys(end_offsets, 0))
    if waiting:
        # Offset 0, and "earliest" where that is gone: asking for the beginning by name costs librdkafka half a second.
        reader.assign([TopicPartition(topic, partition, 0) for partition in sorted(waiting)])
    assigned = tuple(waiting)
    budget = sum(waiting.values())
    while waiting:
        go_on()
        wanted = max(1, min(_BATCH, budget))
        try:
            messages = reader.consume(wanted, _IDLE_S)
        except KafkaException as exc:
            raise translate(exc, f"reading topic {topic}") from exc
        if messages:
            taken = _take(messages, sink, found, topic)
            budget -= taken
            if taken and not found.first_record_s:
                found.first_record_s = time.monotonic() - began
        if len(messages) < wanted or budget <= 0:
            _advance(reader, topic, waiting, found)
            if waiting and time.monotonic() - began > timeout_s:
                raise not_at_end(topic, waiting, found.positions, timeout_s, isolation)
    # A partition that was done early has gone on meanwhile, and its records are in the sink already.
    _note_positions(reader, topic, assigned, found)
    found.seconds = time.monotonic() - began
    return found


def _take(messages: list[Message], sink: RecordSink, found: CatchUp, topic: str) -> int:
    """Hand a batch to the sink; give the number of records in it."""
    keys = [message.key() for message in messages]
    if None in keys:
        # Only now can there be events among the records; a null key itself is rare on a compacted topic.
        messages = [message for message in messages if not _is_event(message, found, topic)]
        keys = [message.key() for message in messages]
    prefix = sink.key_prefix
    if not prefix:
        own = messages
    else:
        own = [
            message for message, key in zip(messages, keys, strict=True) if key is not None and key.startswith(prefix)
        ]
        if len(own) < len(messages):
            foreign = [key for key in keys if key is None or not key.startswith(prefix)] if own else keys
            sink.skip(foreign)
    if own:
        sink.apply([to_record(message) for message in own])
    found.records += len(messages)
    found.own += len(own)
    return len(messages)


def _is_event(message: Message, found: CatchUp, topic: str) -> bool:
    error = message.error()
    if error is None:
        return False
    if is_end_of_partition(error):
        found.ends_seen[message.partition() or 0] = message.offset() or 0
        return True
    raise_unless_passing(error, topic)
    return True


def raise_unless_passing(error: KafkaError, topic: str) -> None:
    """Raise what ends a reader; log what passes by itself.

    Raises:
        BrokerError: the topic is gone, may not be read, or has lost the records at this offset.
    """
    translated = translate(error, f"reading topic {topic}")
    if translated.name == "GROUP_AUTHORIZATION_FAILED":
        # The library looks up a coordinator although nothing is ever committed; without the right nothing is lost.
        return
    if not translated.retriable:
        raise translated
    _log.warning("Reading topic %s: %s", topic, translated)


def _advance(reader: Consumer, topic: str, waiting: dict[int, int], found: CatchUp) -> None:
    """Note how far each partition is, and which have reached their end."""
    _note_positions(reader, topic, waiting, found)
    for partition in [partition for partition, end in waiting.items() if found.positions[partition] >= end]:
        del waiting[partition]


def _note_positions(reader: Consumer, topic: str, partitions: Iterable[int], found: CatchUp) -> None:
    for at in reader.position([TopicPartition(topic, partition) for partition in partitions]):
        found.positions[at.partition] = max(
            at.offset, found.ends_seen.get(at.partition, 0), found.positions[at.partition]
        )


def not_at_end(
    topic: str, waiting: Mapping[int, int], positions: Mapping[int, int], timeout_s: float, isolation: Isolation
) -> ReadToEndTimeoutError:
    """Say which partition is behind and why that may be."""
    partition = min(waiting)
    position, end = positions.get(partition, 0), waiting[partition]
    why = (
        "a transaction may be open there: wait for it to end or find its producer"
        if isolation is Isolation.READ_COMMITTED
        else "check the brokers, or allow more time"
    )
    others = f" and {len(waiting) - 1} more partitions" if len(waiting) > 1 else ""
    return ReadToEndTimeoutError(
        f"{topic}[{partition}]{others} was not read to the end within {timeout_s:g} s: position {position}, "
        f"end offset {end}; {why}",
        topic=topic,
        partition=partition,
        position=position,
        end_offset=end,
    )
