"""Reading topics from the beginning to an end known beforehand, several with one client, as fast as the client can.

What made the difference, measured: a short back-off of the fetcher's queue (librdkafka's default of one second stops it
again and again), large fetches that do not wait, batches that never wait for more records than there are, the key's
prefix looked at before anything else, and progress asked once a round instead of once a record.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from connect_share.errors import BrokerError, ReadToEndTimeoutError
from connect_share.kafka.client import Consumer, KafkaException, Message, TopicPartition, translate
from connect_share.kafka.facts import TopicFacts
from connect_share.kafka.read import ASKED_AFTER_S, CATCH_UP_SETTINGS, Reader, raise_unless_passing, require_readable
from connect_share.log.protocol import RecordFeed
from connect_share.worker_config import Isolation

_CHECK_EVERY_S = 0.05


class SharedReader:
    """The first read of the logs of one or several topics; each log asks for its own part, and waits for all.

    The last log to ask reads for all, in its thread. A log that fails before it asks has to withdraw, or the others
    would wait for it.

    Fetching begins at once at ``starts``, all partitions of the topics whose logs will ask, while the caller still asks
    whether these positions are good, or for the ends. An offset that is gone means the beginning if the read is
    ``from_the_beginning``; else it is an error.

    Attributes:
        connect_s: seconds in which the client was made.
    """

    def __init__(
        self,
        starts: Mapping[str, Mapping[int, int]],
        reader: Reader,
        *,
        from_the_beginning: bool = True,
    ) -> None:
        began = time.monotonic()
        self._isolation = reader.isolation
        self._client: Consumer | None = catch_up_consumer(reader, from_the_beginning=from_the_beginning)
        self._starts = starts
        self._assign(self._client, starts)
        self._expected = set(starts)
        self._asked: dict[str, TopicRead] = {}
        self._changed = threading.Condition()
        self._reading = False
        self._ended = False
        self._found: dict[str, CatchUp] = {}
        self._error: BaseException | None = None
        self._closing = threading.Thread(target=self._close, name="connect-log-reader-close", daemon=True)
        self.connect_s: float = time.monotonic() - began

    def covers(self, topic: str, isolation: Isolation) -> bool:
        """Return whether the log of a topic takes part."""
        return topic in self._expected and isolation is self._isolation

    def withdraw(self, topic: str) -> None:
        """Take note that a log will not ask; harmless afterwards."""
        with self._changed:
            self._expected.discard(topic)
            self._changed.notify_all()

    def release(self) -> None:
        """Let go of the client, which takes a while, in a thread of its own; :meth:`join` and :meth:`close` wait for it."""
        self._closing.start()

    def join(self) -> None:
        """Wait until a client that was released is gone."""
        if self._closing.ident is not None:
            self._closing.join()

    def close(self) -> None:
        """Let go of the client; may be called twice."""
        self._close()
        self.join()

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def read(self, read: TopicRead, timeout_s: float) -> CatchUp:
        """Read everything together with the others; return what was found in this topic."""
        with self._changed:
            self._asked[read.topic] = read
            self._changed.notify_all()
            while not self._ended and (self._reading or self._asked.keys() < self._expected):
                read.check()
                self._changed.wait(_CHECK_EVERY_S)
            mine = not self._ended
            self._reading = True
        if mine:
            self._read(timeout_s)
        if self._error is not None:
            raise self._error
        return self._found[read.topic]

    def _read(self, timeout_s: float) -> None:
        client = self._client
        try:
            if client is not None:
                if self._asked.keys() != self._starts.keys():
                    # What one that withdrew would have read is fetched as well, until the client is assigned anew.
                    self._assign(client, {topic: self._starts[topic] for topic in self._asked})
                self._found = CatchUpRead(client, list(self._asked.values())).run(timeout_s, self._isolation)
        except BaseException as error:  # noqa: BLE001 - each log raises it in its own thread
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    @staticmethod
    def _assign(client: Consumer, starts: Mapping[str, Mapping[int, int]]) -> None:
        # Offset 0, and "earliest" where that is gone: asking for the beginning by name costs librdkafka half a second.
        places = [(topic, partition, at) for topic in sorted(starts) for partition, at in starts[topic].items()]
        client.assign([TopicPartition(*place) for place in places])


@dataclass(frozen=True, slots=True)
class StartContext:
    """What logs that start together share. A log that starts alone has an empty one: it asks, and reads, by itself.

    Attributes:
        facts: of those of the topics that exist.
        reader: reads the topics that it covers.
        all_read: nothing is followed before it is set, unless a caller waits for the end: making another client takes
            time from the first reads of others. Without it there is nothing to wait for.
        gapless: every offset behind where the facts begin has to come, or ``OffsetsMissing`` is raised: of what was cleaned
            away it is not known whether removals were among it. Settings of the topic do not tell: they may have been others.
    """

    facts: Mapping[str, TopicFacts] = field(default_factory=dict)
    reader: SharedReader | None = None
    all_read: threading.Event | None = None
    gapless: bool = False


class OffsetsMissing(Exception):  # noqa: N818 - no error: a read from the beginning follows
    """Between where a read began and its end there are offsets without a record; the text says where."""


_log = logging.getLogger(__name__)

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
        starts: where to begin, for partitions that do not begin at 0.
        check: called once a round, also while no record comes; what it raises ends the read.
    """

    topic: str
    end_offsets: Mapping[int, int]
    feed: RecordFeed
    starts: Mapping[int, int] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None


def catch_up_consumer(reader: Reader, *, from_the_beginning: bool = True) -> Consumer:
    """Make a consumer for one read; it asks the broker too often to be kept afterwards.

    An offset that is gone means the beginning if the read is ``from_the_beginning``; else it is an error.
    """
    return reader.consumer({**CATCH_UP_SETTINGS, "auto.offset.reset": "earliest" if from_the_beginning else "error"})


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
        """Read to the ends; return what was found, by topic. ``isolation``: for the message of a time-out."""
        began = time.monotonic()
        budget = sum(end - self._positions[at] for at, end in self._waiting.items())
        small_until, quiet_since_s = budget - _FIRST, began
        while self._waiting:
            for read in self._reads.values():
                read.check()
            wanted = max(1, min(_FIRST_BATCH if budget > small_until else _BATCH, budget))
            asked_s = time.monotonic()
            try:
                messages = self._reader.consume(wanted, _IDLE_S)
            except KafkaException as exc:
                raise translate(exc, f"reading topic {', '.join(self._topics)}", "READ") from exc
            self._wait_s += time.monotonic() - asked_s
            got = len(messages)
            if messages:
                self._deliver(messages)
                messages.clear()
                quiet_since_s = time.monotonic()
            elif time.monotonic() - quiet_since_s > ASKED_AFTER_S:
                quiet_since_s = require_readable(self._reader, self._waiting)
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
