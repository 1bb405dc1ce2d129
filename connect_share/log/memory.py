"""Kafka in the memory of this process, for unit tests without a broker: compacted topics, producers with transactions."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from connect_share.errors import NotStartedError, StoreClosedError
from connect_share.kafka.client import TRANSACTION_TIMEOUT_MS, KafkaError, KafkaException
from connect_share.log.protocol import STOP_TIMEOUT_S, RecordFeed, RecordMetadata, Steps, waits_for_itself
from connect_share.model.records import Record
from connect_share.worker_config import ClientSettings

T = TypeVar("T")


class MemoryTopic:
    """Records of one topic with one partition; the newest of each key is kept, as behind the log cleaner.

    Stores that are given the same topic see each other's writes, like workers of one cluster. What one writes is applied to
    all of them, in order, before the write returns.

    >>> from connect_share import MemoryConfigBackingStore
    >>> topic = MemoryTopic()
    >>> leader, follower = MemoryConfigBackingStore(topic), MemoryConfigBackingStore(topic)
    >>> leader.start(), follower.start()
    (None, None)
    >>> leader.put_connector_config("c", {"name": "c"})
    >>> follower.contains("c")
    True
    """

    def __init__(
        self,
        name: str = "memory",
        *,
        clock: Callable[[], float] = time.time,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self.name = name
        self._clock = clock
        self._lock = lock or threading.RLock()
        self._records: dict[bytes, Record] = {}
        self.end = 0
        self._logs: list[MemoryLog] = []
        self._undelivered: deque[Record] = deque()
        self._deliverer: threading.Thread | None = None

    def records(self) -> list[Record]:
        """Return the records that are there."""
        with self._lock:
            return list(self._records.values())

    def append(self, key: bytes, value: bytes | None) -> Record:
        """Write a record, and hand it to all who follow; from a listener, behind the record that it was called for."""
        with self._lock:
            record = Record(self.name, 0, self.end, int(self._clock() * 1000), key, value)
            self.end += 1
            self._records.pop(key, None)  # the order is that of offsets
            self._records[key] = record
            self._undelivered.append(record)
            if self._deliverer is None:
                self._deliver()
        return record

    def _deliver(self) -> None:
        self._deliverer = threading.current_thread()
        try:
            while self._undelivered:
                record = self._undelivered.popleft()
                for log in tuple(self._logs):
                    log.take(record)
        finally:
            self._deliverer = None

    def attach(self, log: MemoryLog) -> None:
        """Hand everything that is there to a log, and then what is new."""
        with self._lock:
            for record in self._records.values():
                log.take(record)
            self._logs.append(log)

    def detach(self, log: MemoryLog) -> None:
        """Hand nothing more to a log."""
        with self._lock:
            if log in self._logs:
                self._logs.remove(log)

    def at_rest(self, look: Callable[[Mapping[int, int]], T]) -> T:
        """Return the result of ``look``, called with the positions while nothing is being applied."""
        with self._lock:
            return look({0: self.end})

    def check_may_wait(self) -> None:
        """Raise ``UsageError`` in a listener, as a log of Kafka does."""
        if self._deliverer is threading.current_thread():
            raise waits_for_itself(self.name)


class MemoryLog:
    """The log of one store over a topic in memory."""

    def __init__(self, topic: MemoryTopic, feed: RecordFeed) -> None:
        self._topic = topic
        self._feed = feed
        self._started = False
        self._stopped = False
        self.foreign_records: int = 0
        self.check_may_wait: Callable[[], None] = topic.check_may_wait

    def take(self, record: Record) -> None:
        """Apply a record of this group; count any other."""
        if record.key is not None and record.key.startswith(self._feed.key_prefix):
            self._feed.apply([record])
        else:
            self.foreign_records += 1

    def positions(self) -> Mapping[int, int]:
        """Return the next offset to be read of the one partition."""
        return {0: self._topic.end}  # no lock: who asks may hold what an apply waits for

    def start(self) -> None:
        """Read everything, then follow."""
        self._topic.attach(self)
        self._started = True

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:  # noqa: ARG002 - nothing is under way
        """Follow no more; may be called twice."""
        self._stopped = True
        self._topic.detach(self)

    def fail(self, error: BaseException) -> None:
        """Raise: in memory no thread can end."""
        raise error

    def check_topic(self) -> None:
        """Return: memory does not fail."""

    def send(self, key: bytes, value: bytes | None, partition: int = -1) -> Future[RecordMetadata]:  # noqa: ARG002 - one
        """Write one record; it is acknowledged and applied when this returns."""
        self._check_running()
        written: Future[RecordMetadata] = Future()
        record = self._topic.append(key, value)
        written.set_result(RecordMetadata(record.topic, 0, record.offset))
        return written

    def flush(self, timeout_s: float) -> None:  # noqa: ARG002 - nothing is under way
        """Return: everything is acknowledged."""
        self._check_running()

    def read_to_end(self, timeout_s: float) -> None:  # noqa: ARG002 - everything was applied
        """Return: everything was applied; raises as :meth:`send`, and ``UsageError`` in a listener."""
        self._check_running()
        self.check_may_wait()

    def reading_past(self, written: RecordMetadata, timeout_s: float) -> Steps[None]:  # noqa: ARG002
        """Wait for nothing: everything was applied; raises as :meth:`read_to_end`."""
        self.read_to_end(timeout_s)
        yield from ()

    def between_batches(self, read: Callable[[Mapping[int, int]], T], timeout_s: float) -> T:
        """Return the result of ``read`` while nothing is being applied."""
        self.read_to_end(timeout_s)
        return self._topic.at_rest(read)

    def _check_running(self) -> None:
        if self._stopped:
            raise StoreClosedError(f"the log of topic {self._topic.name} was stopped")
        if not self._started:
            raise NotStartedError(f"the log of topic {self._topic.name} was not started; call start()")


class MemoryKafka:
    """Topics and producers in memory. Storages that are given the same one see each other, as workers on one cluster do.

    Transactions are as Kafka's: whoever claims a transactional id fences its producer of before, whose open transaction is
    dropped; one that is open for longer than ``transaction.timeout.ms`` is dropped, too. Records of a transaction are there
    from its commit on; an open one holds up no reader. Topics have one partition, and are made when they are used first.

    Args:
        clock: seconds since the epoch: the times of records, and how long transactions are open.

    >>> from connect_share import MemoryConnectStorage
    >>> kafka = MemoryKafka(clock=lambda: 1_700_000_000.0)
    >>> with MemoryConnectStorage(kafka=kafka) as one, MemoryConnectStorage(kafka=kafka) as other:
    ...     one.config.put_connector_config("c", {"name": "c"})
    ...     other.config.contains("c")
    True
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.lock: threading.RLock = threading.RLock()
        self._topics: dict[str, MemoryTopic] = {}
        self._written: dict[str, list[Record]] = {}
        self.owners: dict[str, MemoryProducer] = {}

    def topic(self, name: str) -> MemoryTopic:
        """Return a topic for stores, of which the newest record of each key is kept."""
        with self.lock:
            return self._topics.setdefault(name, MemoryTopic(name, clock=self.clock, lock=self.lock))

    def records(self, topic: str) -> list[Record]:
        """Return the records of a topic, in order: all that were written, of a topic of stores the newest of each key."""
        with self.lock:
            stores = self._topics.get(topic)
            return list(self._written.get(topic, ())) if stores is None else stores.records()

    def append(self, record: Record) -> Record:
        """Write a record, and return it with its offset; the newest producer of a transaction calls it."""
        stores = self._topics.get(record.topic)
        if stores is not None and record.key is not None:
            return stores.append(record.key, record.value)
        written = self._written.setdefault(record.topic, [])
        written.append(
            Record(record.topic, 0, len(written), record.timestamp_ms, record.key, record.value, record.headers)
        )
        return written[-1]

    def producer(self, settings: ClientSettings, *, overrides: Mapping[str, str] | None = None, **_: object) -> Any:
        """Make a producer as ``confluent_kafka.Producer`` is one, with transactions if a ``transactional.id`` is given."""
        merged = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, **settings.properties, **(overrides or {})}
        return MemoryProducer(self, merged.get("transactional.id"), int(merged["transaction.timeout.ms"]) / 1000)

    def fence(self, settings: ClientSettings, transactional_id: str, *, client_id: str, timeout_s: float = 0) -> None:
        """Take a transactional id over: its producer of before can write no more, its open transaction is dropped."""
        overrides = {"transactional.id": transactional_id}
        self.producer(settings, client_id=client_id, overrides=overrides).init_transactions(timeout_s)


@dataclass(frozen=True, slots=True)
class _Delivered:
    """What a delivery callback gets."""

    record: Record

    def partition(self) -> int:
        return self.record.partition

    def offset(self) -> int:
        return self.record.offset


class MemoryProducer:
    """What is used of a producer of the client library, over a :class:`MemoryKafka`."""

    def __init__(self, kafka: MemoryKafka, transactional_id: str | None, timeout_s: float) -> None:
        self._kafka = kafka
        self._transactional_id = transactional_id
        self._timeout_s = timeout_s
        self._begun_s: float | None = None
        self._pending: list[tuple[Record, Callable[..., object] | None]] = []

    def __len__(self) -> int:
        return 0

    def init_transactions(self, _timeout_s: float = 0) -> None:
        """Become the one that writes under the transactional id."""
        with self._kafka.lock:
            self._kafka.owners[str(self._transactional_id)] = self

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        with self._kafka.lock:
            self._check()
            self._begun_s = self._kafka.clock()

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int = -1,
        on_delivery: Callable[..., object] | None = None,
        timestamp: int = 0,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> None:
        """Take a record; without transactions it is written at once."""
        with self._kafka.lock:
            self._check()
            if partition > 0:
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))  # noqa: SLF001
            time_ms = timestamp or int(self._kafka.clock() * 1000)
            self._pending.append((Record(topic, 0, -1, time_ms, key, value, tuple(headers or ())), on_delivery))
            if self._transactional_id is None:
                self._write()

    def poll(self, _timeout_s: float = 0) -> int:
        """Return how many callbacks were called."""
        return 0

    flush = poll

    def commit_transaction(self, _timeout_s: float = 0) -> None:
        """Write all records of the transaction."""
        with self._kafka.lock:
            self._check()
            self._begun_s = None
            self._write()

    def abort_transaction(self, _timeout_s: float = 0) -> None:
        """Drop the records of the transaction."""
        with self._kafka.lock:
            self.purge()
            self._check()
            self._begun_s = None

    def purge(self) -> None:
        """Drop what is not written."""
        self._pending.clear()

    def _write(self) -> None:
        pending, self._pending = self._pending, []
        for record, on_delivery in pending:
            written = self._kafka.append(record)
            if on_delivery is not None:
                on_delivery(None, _Delivered(written))

    def _check(self) -> None:
        if self._transactional_id is None:
            return
        owners = self._kafka.owners
        if self._begun_s is not None and self._kafka.clock() - self._begun_s > self._timeout_s:
            owners.pop(self._transactional_id, None)
        if owners.get(self._transactional_id) is not self:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced by another producer", fatal=True))  # noqa: SLF001
