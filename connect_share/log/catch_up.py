"""Reading a topic from the beginning to an end known beforehand, as fast as the client can.

What made the difference, measured: a short back-off of the fetcher's queue (librdkafka's default of one second stops it
again and again), large fetches that do not wait, batches that never wait for more records than there are, the key's
prefix looked at before anything else, and progress asked once a round instead of once a record.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share.client import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
    TopicRight,
    consumer,
    is_end_of_partition,
    to_record,
    translate,
)
from connect_share.errors import BrokerError, ReadToEndTimeoutError
from connect_share.log.protocol import RecordSink
from connect_share.records import Record
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
"""While the client takes its first, large answer apart, it and whoever frees records get into each other's way: small
batches of these many records gave a start on the KIP's workload a tenth less time, and cost large ones seven percent."""
_IDLE_S: Final = 0.005
_SEPARATOR: Final = b"\n"


@dataclass(slots=True)
class CatchUp:
    """What a read to the end found in one topic.

    Attributes:
        positions: next offset of each partition.
        records: all records, own and foreign.
        own: those whose key has the sink's prefix.
        first_record_s: seconds from the start until the first record was there; 0 if there was none.
        wait_s: seconds in which the client was asked for records; of all topics that are read together.
        apply_s: seconds in which the sink took records.
        seconds: seconds altogether, until the last of the topics that are read together was done.
        ends_seen: offsets at which the client met the end of a partition.
    """

    positions: dict[int, int]
    records: int = 0
    own: int = 0
    first_record_s: float = 0.0
    wait_s: float = 0.0
    apply_s: float = 0.0
    seconds: float = 0.0
    ends_seen: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """One topic's part of a read.

    Attributes:
        end_offsets: of all partitions.
        starts: where to begin, for partitions that do not begin at 0.
        go_on: called once a round, also while no record comes; what it raises ends the read.
    """

    topic: str
    end_offsets: Mapping[int, int]
    sink: RecordSink
    starts: Mapping[int, int] = field(default_factory=dict)
    go_on: Callable[[], None] = lambda: None


def catch_up_consumer(
    settings: ClientSettings, *, client_id: str, isolation: Isolation, from_the_beginning: bool = True
) -> Consumer:
    """Make a consumer for one read; it asks the broker too often to be kept afterwards.

    Args:
        settings: how to reach the cluster.
        client_id: shown in the broker's logs.
        isolation: which records of transactions are seen.
        from_the_beginning: an offset that is gone means the beginning; else it is an error.
    """
    reset = "earliest" if from_the_beginning else "error"
    overrides = {**CATCH_UP_SETTINGS, "auto.offset.reset": reset}
    return consumer(settings, client_id=client_id, isolation=isolation, overrides=overrides)


def catch_up(
    reader: Consumer, readings: Sequence[Reading], *, timeout_s: float, isolation: Isolation, assigned: bool = False
) -> dict[str, CatchUp]:
    """Feed sinks with everything before the ends given (and what a batch holds beyond), all topics by one client.

    Progress is the consumer's position, which passes compaction holes, transaction markers and aborted records; an
    empty partition, and one of which everything was compacted away, is done at once.

    Args:
        reader: made by :func:`catch_up_consumer`.
        readings: different topics, whose sinks have the same ``key_prefix``.
        timeout_s: limit of the whole.
        isolation: the reader's, for the message of a time-out.
        assigned: the reader fetches from these starts already.

    Returns:
        What was found, by topic.

    Raises:
        ReadToEndTimeoutError: an end was not reached in time, with read_committed perhaps because a transaction is open.
        BrokerError: a partition cannot be read.
    """
    return _CatchingUp(reader, readings, assigned=assigned).run(timeout_s, isolation)


class _CatchingUp:
    def __init__(self, reader: Consumer, readings: Sequence[Reading], *, assigned: bool) -> None:
        self._reader = reader
        self._begun = assigned
        self._readings = {reading.topic: reading for reading in readings}
        self._topics = [reading.topic for reading in readings]
        (self._prefix,) = {reading.sink.key_prefix for reading in readings}
        self._found = {
            each.topic: CatchUp({partition: each.starts.get(partition, 0) for partition in each.end_offsets})
            for each in readings
        }
        self._waiting = {
            (each.topic, partition): end
            for each in readings
            for partition, end in each.end_offsets.items()
            if end > each.starts.get(partition, 0)
        }
        # One that fetches already does so from all partitions, also from those that had nothing new a moment ago.
        everywhere = [(each.topic, partition) for each in readings for partition in each.end_offsets]
        self._assigned = [TopicPartition(*at) for at in sorted(everywhere if assigned else self._waiting)]
        self._wait_s = 0.0

    def run(self, timeout_s: float, isolation: Isolation) -> dict[str, CatchUp]:
        began = time.monotonic()
        starts = {at: self._found[at[0]].positions[at[1]] for at in sorted(self._waiting)}
        if starts and not self._begun:
            # Offset 0, and "earliest" where that is gone: asking for the beginning by name costs librdkafka half a second.
            self._reader.assign([TopicPartition(topic, partition, at) for (topic, partition), at in starts.items()])
        budget = sum(end - starts[at] for at, end in self._waiting.items())
        small_until = budget - _FIRST
        while self._waiting:
            for reading in self._readings.values():
                reading.go_on()
            wanted = max(1, min(_FIRST_BATCH if budget > small_until else _BATCH, budget))
            asked_s = time.monotonic()
            try:
                messages = self._reader.consume(wanted, _IDLE_S)
            except KafkaException as exc:
                raise translate(exc, f"reading topic {', '.join(self._topics)}", TopicRight.READ) from exc
            came_s = time.monotonic()
            self._wait_s += came_s - asked_s
            got = len(messages)
            if messages:
                budget -= self._take(messages, came_s - began)
                messages.clear()
            if got < wanted or budget <= 0:
                budget = self._advance()
                if self._waiting and time.monotonic() - began > timeout_s:
                    self._give_up(timeout_s, isolation)
        # A partition that was done early has gone on meanwhile, and its records are in the sink already.
        self._note_positions(self._assigned)
        for found in self._found.values():
            found.seconds = time.monotonic() - began
            found.wait_s = self._wait_s
        return self._found

    def _take(self, messages: list[Message], now_s: float) -> int:
        """Hand a batch to the sinks; give the number of records in it."""
        keys: list[Any] = [message.key() for message in messages]
        try:
            together: bytes = _SEPARATOR.join(keys)
        except TypeError:
            # There is a null: only now can there be events among the records; a null key itself is rare.
            messages = [message for message in messages if not self._is_event(message)]
            keys = [message.key() for message in messages]
            together = _SEPARATOR.join(key for key in keys if key is not None)
        own: list[Message] = messages
        if self._prefix:
            # One look at all keys at once: most batches of a large topic hold nothing of one's own.
            if self._prefix in together:
                prefix = self._prefix
                pairs = zip(messages, keys, strict=True)
                own = [message for message, key in pairs if key is not None and key.startswith(prefix)]
            else:
                own = []
        counts = self._by_topic(messages)
        for topic, count in counts.items():
            found = self._found[topic]
            if count and not found.records:
                found.first_record_s = now_s
            found.records += count
        if own:
            self._apply(own)
        if len(own) < len(messages):
            self._skip(Counter(counts), messages, keys, own)
        return len(messages)

    def _by_topic(self, messages: list[Message]) -> Mapping[Any, int]:
        if len(self._topics) == 1 or not messages:
            return {self._topics[0]: len(messages)}
        topics = [message.topic() for message in messages]
        # Counting one name in a list takes half the time of counting all of them, and most batches are of one topic.
        first = topics[0]
        return {first: len(topics)} if topics.count(first) == len(topics) else Counter(topics)

    def _apply(self, own: list[Message]) -> None:
        records: dict[str, list[Record]] = {}
        for message in own:
            record = to_record(message)
            records.setdefault(record.topic, []).append(record)
        for topic, theirs in records.items():
            found = self._found[topic]
            began = time.monotonic()
            self._readings[topic].sink.apply(theirs)
            found.apply_s += time.monotonic() - began
            found.own += len(theirs)

    def _skip(self, counts: Counter[Any], messages: list[Message], keys: list[Any], own: list[Message]) -> None:
        if own:
            counts.subtract(self._by_topic(own))
        for topic, count in counts.items():
            sink = self._readings[topic].sink
            if not count:
                continue
            told: list[Any] = []
            if sink.wants_foreign_keys:
                pairs = zip(messages, keys, strict=True)
                theirs = [key for message, key in pairs if message.topic() == topic]
                told = [key for key in theirs if key is None or not key.startswith(self._prefix)]
            sink.skip(count, told)

    def _is_event(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return False
        topic = message.topic() or self._topics[0]
        if is_end_of_partition(error):
            self._found[topic].ends_seen[message.partition() or 0] = message.offset() or 0
            return True
        raise_unless_passing(error, topic)
        return True

    def _advance(self) -> int:
        """Note how far each partition is, and which have reached their end; give the most records that may be left.

        Records beyond the known ends have come as well, of partitions that were done before others.
        """
        self._note_positions([TopicPartition(*at) for at in self._waiting])
        left = {at: end - self._found[at[0]].positions[at[1]] for at, end in self._waiting.items()}
        self._waiting = {at: end for at, end in self._waiting.items() if left[at] > 0}
        return sum(left[at] for at in self._waiting)

    def _note_positions(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        for at in self._reader.position(partitions):
            found, number = self._found[at.topic], at.partition
            found.positions[number] = max(at.offset, found.ends_seen.get(number, 0), found.positions[number])

    def _give_up(self, timeout_s: float, isolation: Isolation) -> None:
        topic = min(self._waiting)[0]
        waiting = {partition: end for (name, partition), end in self._waiting.items() if name == topic}
        raise not_at_end(topic, waiting, self._found[topic].positions, timeout_s, isolation)


def raise_unless_passing(error: KafkaError, topic: str) -> None:
    """Raise what ends a reader; log what passes by itself.

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
    """Say which partition is behind and why that may be; ``trouble``: what the reader met since it moved last."""
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
