"""A producer and a consumer that run while topic ids are broken and repaired, and the count of their records."""

from __future__ import annotations

import itertools
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from connect_share.kafka.client import Message, TopicPartition, consumer, is_end_of_partition, producer
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.worker_config import Isolation
from tests.lab.cluster import LocalCluster
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.waiting import holds, until
from tests.lab.zookeeper_cluster import ZooKeeperCluster
from tests.support.topics import read_topic

RECORDS: Final = 200
WAIT_S: Final = 180.0
_PAUSE_S: Final = 0.02

Record = tuple[str, int, int]
"""Topic, partition, offset."""


class Traffic:
    """A producer (all replicas have to acknowledge) and a consumer on one topic, each in a thread of its own.

    Args:
        cluster: of the drill.
        topics: partitions and replicas by name.
        live: the topic that is written and read all the time.

    Attributes:
        acknowledged: checksum of each acknowledged record.
        unplaced: topic, partition and checksum of records acknowledged without an offset: a retry of a write that had
            succeeded.
        refused: failed writes.
        seen: checksums of the records that were read.
        read_errors: names of the consumer's errors.
    """

    def __init__(
        self, cluster: LocalCluster | ZooKeeperCluster, topics: Mapping[str, tuple[int, int]], live: str
    ) -> None:
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
        """Create the topics, write records into each, and wait for all replicas."""
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
                on_delivery=self._on_delivery,
            )
        if writer.flush(WAIT_S) or self.refused > refused:
            raise EmbeddedError(f"{topic}: records were not acknowledged within {WAIT_S:g} s")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run both, until the consumer has read the last acknowledged record; then check that nothing is lost."""
        for one in self._threads:
            one.start()
        try:
            yield
        except BaseException:
            self._abandoned.set()  # both end at once
            self._stop()
            raise
        self._stop()
        self.check_nothing_lost()

    def _stop(self) -> None:
        self._stopped.set()
        for one in self._threads:
            one.join(2 * WAIT_S)

    def _on_delivery(self, error: object, message: Message) -> None:
        if error is not None:
            self.refused += 1
            return
        value = checksum(message.key(), message.value())
        if message.offset() is None:
            self.unplaced.append((str(message.topic()), int(message.partition() or 0), value))
        else:
            self.acknowledged[position_of(message)] = value

    def _produce(self) -> None:
        writer = producer(self._cluster.client_settings, client_id="drill-producer", idempotent=True)
        for number in itertools.count():
            if self._stopped.is_set():
                break
            writer.produce(
                self.live,
                key=f"live{number}",
                value=f"live {number}",
                partition=number % 2,
                on_delivery=self._on_delivery,
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
                self.twice += position_of(message) in self.seen
                self.seen[position_of(message)] = checksum(message.key(), message.value())
        finally:
            reader.close()

    def not_in_sync(self) -> list[str]:
        """Return the partitions that are missing, or whose ISR is not full."""
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
        await_that(lambda: not self.not_in_sync(), "a full ISR")

    def contents(self) -> dict[Record, int]:
        """Read all topics to their ends; return the checksum of each record."""
        with self._cluster.admin() as admin:
            records = [one for topic in self.topics for one in read_topic(admin, self._cluster.client_settings, topic)]
        return {(one.topic, one.partition, one.offset): checksum(one.key, one.value) for one in records}

    def check_unchanged(self, before: Mapping[Record, int]) -> None:
        """Raise ``EmbeddedError`` if a record is not as before."""
        now = self.contents()
        if any(now.get(place) != checksum for place, checksum in before.items()):
            raise EmbeddedError("records of before are not what they were")
        log(f"   the checksum of each of the {len(before):,} records of before is the same; the ISR is full")

    def check_nothing_lost(self) -> None:
        """Raise ``EmbeddedError`` if an acknowledged record is missing, or there twice."""
        found = self.contents()
        there = Counter((topic, number, checksum) for (topic, number, _), checksum in found.items())
        lost: list[object] = [place for place, checksum in self.acknowledged.items() if found.get(place) != checksum]
        lost += [one for one in self.unplaced if one not in there]
        twice = [one for one, count in there.items() if count > 1]
        read = [place for place in found if place[0] == self.live and place[1] in self._read]
        missed = [place for place in read if self.seen.get(place) != found[place]]
        errors = ", ".join(f"{name} {count} times" for name, count in sorted(self.read_errors.items()))
        number = len(self.acknowledged) + len(self.unplaced)
        log(
            f"   {number:,} records acknowledged, {self.refused} writes failed, {len(lost)} lost, {len(twice)} there twice"
        )
        log(f"   the consumer had {errors or 'no error'}; it missed {len(missed)} records, {self.twice} came twice")
        if lost or twice or missed or self.twice or self.refused:
            raise EmbeddedError(f"records were lost, missed or came twice, such as {[*lost, *missed, *twice][:3]}")


def await_that(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition; raise ``EmbeddedError`` if it does not hold in time."""
    until(lambda: holds(condition), bool, what=what, timeout_s=WAIT_S)


def position_of(message: Message) -> Record:
    """Return topic, partition and offset."""
    return str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)


def checksum(key: Any, value: Any) -> int:
    """Return the CRC32 of key and value."""
    return zlib.crc32(bytes(value or b""), zlib.crc32(bytes(key or b"")))


def log(text: str) -> None:
    """Print a line of progress."""
    print(text, flush=True)
