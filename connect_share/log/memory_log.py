"""A compacted topic in the memory of this process, for unit tests without a broker."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TypeVar

from connect_share.errors import NotStartedError, StoreClosedError
from connect_share.log.protocol import STOP_TIMEOUT_S, RecordMetadata, RecordSink, Steps, waits_for_itself
from connect_share.model.records import Record

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
        self._end = 0
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
            record = Record(self.name, 0, self._end, int(self._clock() * 1000), key, value)
            self._end += 1
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
            return look({0: self._end})

    def check_may_wait(self) -> None:
        """Raise ``UsageError`` in a listener, as a log of Kafka does."""
        if self._deliverer is threading.current_thread():
            raise waits_for_itself(self.name)


class MemoryLog:
    """The log of one store over a topic in memory."""

    def __init__(self, topic: MemoryTopic, sink: RecordSink) -> None:
        self._topic = topic
        self._sink = sink
        self._started = False
        self._stopped = False
        self.foreign_records: int = 0
        self.check_may_wait: Callable[[], None] = topic.check_may_wait

    def take(self, record: Record) -> None:
        """Apply a record of this group; count any other."""
        if record.key is not None and record.key.startswith(self._sink.key_prefix):
            self._sink.apply([record])
        else:
            self.foreign_records += 1

    def positions(self) -> Mapping[int, int]:
        """Return the next offset to be read of the one partition."""
        return self._topic.at_rest(lambda positions: positions)

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
