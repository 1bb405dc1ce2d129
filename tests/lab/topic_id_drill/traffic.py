"""What runs while topic ids are broken and mended: a producer, a consumer, and who counts what both were told."""

from __future__ import annotations

import itertools
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from connect_share.admin import Admin
from connect_share.admin.descriptions import NewTopicRequest
from connect_share.client import Message, TopicPartition, consumer, is_end_of_partition, producer
from connect_share.embedded.errors import EmbeddedError
from connect_share.worker_config.client_settings import ClientSettings, Isolation
from tests.lab.waiting import holds, until

RECORDS: Final = 200
WAIT_S: Final = 180.0
_PAUSE_S: Final = 0.02

Record = tuple[str, int, int]
"""Topic, partition, offset."""


class Cluster(Protocol):
    """Brokers that can be reached."""

    @property
    def client_settings(self) -> ClientSettings:
        """Settings for clients."""

    def admin(self, timeout_s: float = 10.0) -> Admin:
        """Make an admin client."""


class Traffic:
    """A producer (all replicas have to acknowledge) and a consumer on one topic, each in a thread of its own.

    Args:
        cluster: that is broken and mended.
        topics: partitions and replicas by name.
        live: the topic that is written and read all the time.

    Attributes:
        acknowledged: checksum of each record that a broker said it has.
        unplaced: topic, partition and checksum of those whose offset it did not say: a repeated write that it had already.
        refused: writes that were reported as failed.
        seen: checksums of what the consumer was given.
        read_errors: what the consumer was told instead.
    """

    def __init__(self, cluster: Cluster, topics: Mapping[str, tuple[int, int]], live: str) -> None:
        self._cluster = cluster
        self.topics = dict(topics)
        self.live = live
        self._read = range(self.topics[live][0])
        self._stopped = threading.Event()
        self._drained = threading.Event()
        self._abandoned = threading.Event()
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._produce, self._consume)]
        self.acknowledged: dict[Record, int] = {}
        self.unplaced: list[Record] = []
        self.refused = 0
        self.seen: dict[Record, int] = {}
        self.read_errors: Counter[str] = Counter()
        self.twice = 0
        self._run = 0

    def create(self) -> None:
        """Make the topics, write records into each, and wait for all replicas."""
        with self._cluster.admin(WAIT_S) as admin:
            for topic, (partitions, replicas) in self.topics.items():
                admin.create_topic(NewTopicRequest(topic, partitions, replicas))
        for topic, (partitions, _) in self.topics.items():
            self.fill(topic, range(partitions))
        self.await_isr()

    def fill(self, topic: str, partitions: Sequence[int], number_of_records: int = RECORDS) -> None:
        """Write records that have to be acknowledged."""
        self._run += 1
        refused = self.refused
        writer = producer(self._cluster.client_settings, client_id="drill-fill", idempotent=True)
        for number in range(number_of_records):
            writer.produce(
                topic,
                key=f"k{number % 50}",
                value=f"{topic} {number} {self._run}",
                partition=partitions[number % len(partitions)],
                on_delivery=self._told,
            )
        if writer.flush(WAIT_S) or self.refused > refused:
            raise EmbeddedError(f"{topic}: records were not acknowledged within {WAIT_S:g} s")

    def start(self) -> None:
        """Begin."""
        for one in self._threads:
            one.start()

    def stop(self) -> None:
        """End the producer, wait for its last acknowledgement, and for the consumer to have seen that."""
        self._stopped.set()
        for one in self._threads:
            one.join(2 * WAIT_S)

    def abandon(self) -> None:
        """End both at once; what is not acknowledged is given up."""
        self._abandoned.set()
        self.stop()

    def _told(self, error: object, message: Message) -> None:
        if error is not None:
            self.refused += 1
            return
        value = checksum(message.key(), message.value())
        if message.offset() is None:
            self.unplaced.append((str(message.topic()), int(message.partition() or 0), value))
        else:
            self.acknowledged[place_of(message)] = value

    def _produce(self) -> None:
        writer = producer(self._cluster.client_settings, client_id="drill-producer", idempotent=True)
        for number in itertools.count():
            if self._stopped.is_set():
                break
            writer.produce(
                self.live, key=f"live{number}", value=f"live {number}", partition=number % 2, on_delivery=self._told
            )
            writer.poll(_PAUSE_S)
            self._stopped.wait(_PAUSE_S)
        if self._abandoned.is_set():
            writer.purge()
        self.refused += writer.flush(WAIT_S)
        self._drained.set()

    def _written(self) -> int:
        places = [*self.acknowledged, *self.unplaced]
        return sum(place[0] == self.live and place[1] in self._read for place in places)

    def _consume(self) -> None:
        overrides = {"auto.offset.reset": "error"}
        reader = consumer(
            self._cluster.client_settings,
            client_id="drill-consumer",
            isolation=Isolation.READ_UNCOMMITTED,
            overrides=overrides,
        )
        reader.assign([TopicPartition(self.live, partition, 0) for partition in self._read])
        end_s = None
        try:
            while end_s is None or time.monotonic() < end_s:
                message = reader.poll(0.2)
                if self._drained.is_set():
                    end_s = end_s or time.monotonic() + WAIT_S
                    if self._abandoned.is_set() or len(self.seen) >= self._written():
                        return
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    if not is_end_of_partition(error):
                        self.read_errors[error.name()] += 1
                    continue
                self.twice += place_of(message) in self.seen
                self.seen[place_of(message)] = checksum(message.key(), message.value())
        finally:
            reader.close()

    def short(self) -> list[str]:
        """Name partitions whose ISR is not full, or that are not there."""
        with self._cluster.admin() as admin:
            found = admin.describe_topics(self.topics)
        return [
            f"{topic}-{one.id}"
            for topic in self.topics
            for one in (found[topic].partitions if topic in found else ())
            if one.missing or len(one.isr) < self.topics[topic][1]
        ] + [
            topic for topic in self.topics if topic not in found or len(found[topic].partitions) < self.topics[topic][0]
        ]

    def await_isr(self) -> None:
        """Wait until all replicas are in sync."""
        await_that(lambda: not self.short(), "a full ISR")

    def contents(self) -> dict[Record, int]:
        """Read all topics to their ends; gives the checksum of each record."""
        partitions = [(topic, number) for topic, (count, _) in self.topics.items() for number in range(count)]
        with self._cluster.admin() as admin:
            ends = admin.end_offsets(partitions)
        reader = consumer(self._cluster.client_settings, client_id="drill-reader", isolation=Isolation.READ_UNCOMMITTED)
        found: dict[Record, int] = {}
        positions = dict.fromkeys(partitions, 0)
        deadline_s = time.monotonic() + WAIT_S
        try:
            reader.assign([TopicPartition(topic, number, 0) for topic, number in partitions])
            while any(positions[one] < ends[one] for one in partitions) and time.monotonic() < deadline_s:
                message = reader.poll(0.5)
                if message is not None and message.error() is None:
                    topic, number, offset = place = place_of(message)
                    found[place] = checksum(message.key(), message.value())
                    positions[topic, number] = offset + 1
        finally:
            reader.close()
        return found

    def same(self, before: Mapping[Record, int]) -> None:
        """See to it that each record of before is what it was.

        Raises:
            EmbeddedError: one is not.
        """
        now = self.contents()
        if any(now.get(place) != checksum for place, checksum in before.items()):
            raise EmbeddedError("records of before are not what they were")
        say(f"   the checksum of each of the {len(before):,} records of before is the same; the ISR is full")

    def judge(self) -> None:
        """Compare all that was acknowledged with all that is there.

        Raises:
            EmbeddedError: something is missing, or there twice.
        """
        found = self.contents()
        there = Counter((topic, number, checksum) for (topic, number, _), checksum in found.items())
        lost: list[object] = [place for place, checksum in self.acknowledged.items() if found.get(place) != checksum]
        lost += [one for one in self.unplaced if one not in there]
        twice = [one for one, count in there.items() if count > 1]
        read = [place for place in found if place[0] == self.live and place[1] in self._read]
        missed = [place for place in read if self.seen.get(place) != found[place]]
        errors = ", ".join(f"{name} {count} times" for name, count in sorted(self.read_errors.items()))
        number = len(self.acknowledged) + len(self.unplaced)
        say(
            f"   {number:,} records acknowledged, {self.refused} writes failed, {len(lost)} lost, {len(twice)} there twice"
        )
        say(
            f"   the consumer was told {errors or 'no error'}; it missed {len(missed)} records, {self.twice} came twice"
        )
        if lost or twice or missed or self.twice or self.refused:
            raise EmbeddedError(f"records were lost, missed or came twice, such as {[*lost, *missed, *twice][:3]}")


def await_that(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition.

    Raises:
        EmbeddedError: it did not come true in time.
    """
    until(lambda: holds(condition), bool, what=what, timeout_s=WAIT_S)


def place_of(message: Message) -> Record:
    """Give topic, partition and offset."""
    return str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)


def checksum(key: Any, value: Any) -> int:
    """CRC32 over key and value."""
    return zlib.crc32(bytes(value or b""), zlib.crc32(bytes(key or b"")))


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, flush=True)
