"""Reading a topic from the beginning to an end known beforehand, as fast as the client can.

What made the difference, measured: a short back-off of the fetcher's queue (librdkafka's default of one second stops it
again and again), large fetches that do not wait, batches that never wait for more records than there are, the key's
prefix looked at before anything else, and progress asked once a round instead of once a record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from connect_share.client import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
    TopicRight,
    consumer,
    translate,
)
from connect_share.errors import BrokerError, ReadToEndTimeoutError
from connect_share.log.record_feed import RecordFeed
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
    # What is fetched far ahead only costs memory: with 64 MiB and a million records, a third more time and 400 MB.
    "fetch.max.bytes": "8388608",
    "queued.min.messages": "50000",
    "queued.max.messages.kbytes": "32768",
}
_BATCH: Final = 500
"""Python's collector looks at what is young after 700 new objects: fewer at a time, and it never runs, which was a third
of the time of a million records."""
_FIRST_BATCH: Final = 120
_FIRST: Final = 20_000
"""While the client takes its first, large answer apart, it and the thread that frees records get into each other's way: small
batches of these many records gave a start on the KIP's workload a tenth less time, and cost large ones seven percent."""
_IDLE_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What a read to the end found in one topic.

    Attributes:
        positions: next offset of each partition.
        own: records whose key has the sink's prefix.
        foreign: all others.
        first_record_s: seconds from the start until the first record was there; 0 if there was none.
        wait_s: seconds in which the client was asked for records; of all topics that are read together.
        apply_s: seconds in which the sink applied records.
    """

    positions: Mapping[int, int]
    own: int
    foreign: int
    first_record_s: float
    wait_s: float
    apply_s: float


@dataclass(frozen=True, slots=True)
class TopicRead:
    """One topic's part of a read.

    Attributes:
        end_offsets: of all partitions.
        starts: where to begin, for partitions that do not begin at 0.
        check: called once a round, also while no record comes; what it raises ends the read.
    """

    topic: str
    end_offsets: Mapping[int, int]
    feed: RecordFeed
    starts: Mapping[int, int] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None


def catch_up_consumer(
    settings: ClientSettings, *, client_id: str, isolation: Isolation, from_the_beginning: bool = True
) -> Consumer:
    """Make a consumer for one read; it asks the broker too often to be kept afterwards.

    An offset that is gone means the beginning if the read is ``from_the_beginning``; else it is an error.
    """
    overrides = {**CATCH_UP_SETTINGS, "auto.offset.reset": "earliest" if from_the_beginning else "error"}
    return consumer(settings, client_id=client_id, isolation=isolation, overrides=overrides)


class CatchUpRead:
    """Feeds sinks with everything before the ends given (and what a batch holds beyond), all topics by one client.

    Progress is the consumer's position, which passes compaction holes, transaction markers and aborted records; an
    empty partition, and one of which everything was compacted away, is done at once.

    ``reader`` is made by :func:`catch_up_consumer` and fetches all partitions from the starts already; ``reads`` are of
    different topics.
    """

    def __init__(self, reader: Consumer, reads: Sequence[TopicRead]) -> None:
        self._reader = reader
        self._reads = {read.topic: read for read in reads}
        self._topics = list(self._reads)
        self._positions = {
            (read.topic, partition): read.starts.get(partition, 0) for read in reads for partition in read.end_offsets
        }
        self._waiting = {
            (read.topic, partition): end
            for read in reads
            for partition, end in read.end_offsets.items()
            if end > read.starts.get(partition, 0)
        }
        self._wait_s = 0.0

    def run(self, timeout_s: float, isolation: Isolation) -> dict[str, CatchUp]:
        """Read to the ends; return what was found, by topic. ``isolation``: for the message of a time-out.

        Raises:
            ReadToEndTimeoutError: an end was not reached in time, with read_committed perhaps because a transaction is open.
            BrokerError: a partition cannot be read.
        """
        began = time.monotonic()
        budget = sum(end - self._positions[at] for at, end in self._waiting.items())
        small_until = budget - _FIRST
        while self._waiting:
            for read in self._reads.values():
                read.check()
            wanted = max(1, min(_FIRST_BATCH if budget > small_until else _BATCH, budget))
            asked_s = time.monotonic()
            try:
                messages = self._reader.consume(wanted, _IDLE_S)
            except KafkaException as exc:
                raise translate(exc, f"reading topic {', '.join(self._topics)}", TopicRight.READ) from exc
            self._wait_s += time.monotonic() - asked_s
            got = len(messages)
            if messages:
                self._deliver(messages)
                messages.clear()
            budget -= got
            if got < wanted or budget <= 0:
                budget = self._advance()
                if self._waiting and time.monotonic() - began > timeout_s:
                    self._give_up(timeout_s, isolation)
        # The client fetches on from a partition that was done early, and its records are in the sink already.
        self._note_positions([TopicPartition(*at) for at in self._positions])
        return {topic: self._found(topic, began) for topic in self._topics}

    def _deliver(self, messages: list[Message]) -> None:
        for topic, batch in self._by_topic(messages).items():
            self._reads[topic].feed.deliver(batch, partial(raise_unless_passing, topic=topic))

    def _by_topic(self, messages: list[Message]) -> Mapping[str, list[Message]]:
        only = self._topics[0]
        if len(self._topics) == 1:
            return {only: messages}
        topics = [message.topic() or only for message in messages]
        # Counting one name in a list takes half the time of splitting it, and most batches are of one topic.
        first = topics[0]
        if topics.count(first) == len(topics):
            return {first: messages}
        split: dict[str, list[Message]] = {}
        for topic, message in zip(topics, messages, strict=True):
            split.setdefault(topic, []).append(message)
        return split

    def _advance(self) -> int:
        """Note which partitions have reached their end; return the most records that may be left.

        Records beyond the known ends have come as well, of partitions that were done before others.
        """
        self._note_positions([TopicPartition(*at) for at in self._waiting])
        left = {at: end - self._positions[at] for at, end in self._waiting.items()}
        self._waiting = {at: end for at, end in self._waiting.items() if left[at] > 0}
        return sum(left[at] for at in self._waiting)

    def _note_positions(self, partitions: list[TopicPartition]) -> None:
        for at in self._reader.position(partitions):
            place = (at.topic, at.partition)
            self._positions[place] = max(self._reads[at.topic].feed.position(at), self._positions[place])

    def _found(self, topic: str, began: float) -> CatchUp:
        feed = self._reads[topic].feed
        return CatchUp(
            positions={partition: offset for (name, partition), offset in self._positions.items() if name == topic},
            own=feed.own,
            foreign=feed.foreign,
            first_record_s=0.0 if feed.first_at_s is None else feed.first_at_s - began,
            wait_s=self._wait_s,
            apply_s=feed.apply_s,
        )

    def _give_up(self, timeout_s: float, isolation: Isolation) -> None:
        topic = min(self._waiting)[0]
        waiting = {partition: end for (name, partition), end in self._waiting.items() if name == topic}
        positions = {partition: offset for (name, partition), offset in self._positions.items() if name == topic}
        raise not_at_end(topic, waiting, positions, timeout_s, isolation)


def raise_unless_passing(error: KafkaError, topic: str) -> None:
    """Log an error that passes by itself.

    Raises:
        BrokerError: the topic is gone, may not be read, or has lost the records at this offset.
    """
    translated = translate(error, f"reading topic {topic}", TopicRight.READ)
    if is_about_groups(translated):
        return
    if not translated.retriable:
        raise translated
    _log.warning("Reading topic %s: %s", topic, translated)


def is_about_groups(error: BrokerError) -> bool:
    """Return whether an error only says that the right on a consumer group is missing: no log ever uses one.

    The library looks up a coordinator although nothing is ever committed; without the right nothing is lost.
    """
    return error.name == "GROUP_AUTHORIZATION_FAILED"


def not_at_end(
    topic: str,
    waiting: Mapping[int, int],
    positions: Mapping[int, int],
    timeout_s: float,
    isolation: Isolation,
    *,
    trouble: BrokerError | None = None,
) -> ReadToEndTimeoutError:
    """Return the error that names the partition that is behind; ``trouble``: what the reader met since it moved last."""
    partition = min(waiting)
    position, end = positions.get(partition, 0), waiting[partition]
    why = (
        str(trouble)
        if trouble
        else (
            "a transaction may be open there: wait for it to end or find its producer"
            if isolation is Isolation.READ_COMMITTED
            else "check the brokers, or allow more time"
        )
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
