"""The status topic of a worker: how connectors and tasks are doing, and which topics they use."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from connect_share.admin import Admin
from connect_share.errors import ConnectShareError
from connect_share.keys import own_key
from connect_share.log.protocol import RecordMetadata
from connect_share.records import ConnectorTaskId, Record, TopicType
from connect_share.state import (
    ConnectorStatus,
    StatusFold,
    StatusSnapshot,
    TaskStatus,
    TopicStatus,
)
from connect_share.state import writable as wire
from connect_share.stores.topic_based import (
    KafkaTopicBasedBackingStore,
    LogFactory,
    WriteGuard,
)
from connect_share.worker_config import WorkerConfig

_logger = logging.getLogger(__name__)

FLUSH_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 10.0
# Connect resends at once; a broker that is away would be asked thousands of times a second.
RETRY_BACKOFF_S: Final = 0.1
AHEAD_MS: Final = 60_000

_CONNECTOR_KEY: Final = b"status-connector-"


class KafkaStatusBackingStore(KafkaTopicBasedBackingStore):
    """Statuses in a compacted topic.

    What is put becomes visible only when it is read back. ``put`` does not wait: a failure that may pass is
    retried from a thread of the store's own, other failures are logged. Thread-safe.

    Args:
        worker_config: names the topic (``status.storage.topic``) and how to reach it.
        cluster_group_id: only keys with this prefix are read, and written; ``None``: plain keys.
        log: makes the log around the store's sink; by default a ``KafkaBasedLog``.
        admin: shared with others and left open; by default one of the store's own.
        write_guard: called before anything is written; what it raises is raised by the write.

    Source: ``KafkaStatusBackingStore``.
    """

    def __init__(
        self,
        worker_config: WorkerConfig,
        *,
        cluster_group_id: str | None = None,
        log: LogFactory | None = None,
        admin: Admin | None = None,
        write_guard: WriteGuard | None = None,
    ) -> None:
        super().__init__(
            worker_config,
            TopicType.STATUS,
            cluster_group_id=cluster_group_id,
            log=log,
            admin=admin,
            write_guard=write_guard,
        )
        self._state_lock = threading.RLock()
        self._fold: StatusFold = StatusFold(self._group)
        self._entries: dict[bytes, _Entry] = {}
        self._last_generation_sent: int | None = None
        self._told_of_two_clusters = False
        self._told_of_clocks = False
        self._retries = _RetryThread()

    def start(self) -> None:
        """Make sure of the topic and read it to its end.

        Raises:
            TopicError: the topic is missing or not compacted.
            ReadToEndTimeoutError: the end was not reached in time.
            BrokerError: the cluster refused.
        """
        _logger.info("Starting status store on %s", self.topic)
        self._start_log()
        _logger.info("Started status store on %s", self.topic)

    def stop(self) -> None:
        """End the log, then the retries (10 s at most); may be called twice."""
        try:
            super().stop()
        finally:
            self._retries.stop(STOP_TIMEOUT_S)

    def put(self, status: ConnectorStatus | TaskStatus | TopicStatus) -> None:
        """Write a status whatever was written before; ``DESTROYED`` is written as a tombstone.

        Does not wait and does not raise for a broker that refuses.

        Raises:
            ValueFormatError: Java could not read it back, or its worker id is missing; nothing was sent.
            LiveMembersError: the guard refuses writing.
        """
        self._check_write_allowed()
        if isinstance(status, TopicStatus):
            self._send_until_done(*wire.status_record(status))
        else:
            self._send_status(status, safe=False)

    def put_safe(self, status: ConnectorStatus | TaskStatus) -> None:
        """Write a status unless another worker has written a newer generation; then nothing happens.

        Raises:
            ValueFormatError: Java could not read it back, or its worker id is missing; nothing was sent.
            LiveMembersError: the guard refuses writing.
        """
        self._check_write_allowed()
        self._send_status(status, safe=True)

    def delete_topic(self, connector: str, topic: str) -> None:
        """Forget that a connector uses a topic; does not wait.

        Raises:
            ValueFormatError: one of the names cannot be part of a key.
        """
        self._check_write_allowed()
        self._send_until_done(wire.topic_key(connector, topic), None)

    def get(self, subject: str | ConnectorTaskId) -> ConnectorStatus | TaskStatus | None:
        """Give the status of a connector (its name) or of a task, as last read."""
        self._check_topic()
        with self._state_lock:
            if isinstance(subject, ConnectorTaskId):
                return self._fold.task_status(subject)
            return self._fold.connector_status(subject)

    def get_all(self, connector: str) -> list[TaskStatus]:
        """Give the statuses of all tasks of a connector, as last read."""
        self._check_topic()
        with self._state_lock:
            return self._fold.task_statuses(connector)

    def get_topic(self, connector: str, topic: str) -> TopicStatus | None:
        """Give what is known of a connector's use of a topic, as last read."""
        self._check_topic()
        with self._state_lock:
            return self._fold.topic_status(connector, topic)

    def get_all_topics(self, connector: str) -> list[TopicStatus]:
        """Give all topics a connector uses, as last read."""
        self._check_topic()
        with self._state_lock:
            return self._fold.topic_statuses(connector)

    def connectors(self) -> frozenset[str]:
        """Name the connectors that have a status, or of which one was put."""
        self._check_topic()
        with self._state_lock:
            pending = {entry.connector for entry in self._entries.values() if entry.is_connector}
            return self._fold.connectors() | pending

    def snapshot(self) -> StatusSnapshot:
        """Give what was read so far, immutable."""
        self._check_topic()
        with self._state_lock:
            return self._fold.snapshot()

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Wait until everything put so far is acknowledged or has failed once."""
        self._log.flush(timeout_s)

    def _send_status(self, status: ConnectorStatus | TaskStatus, *, safe: bool) -> None:
        key, value = wire.status_record(status)
        is_connector = isinstance(status, ConnectorStatus)
        connector = status.task_id.connector if isinstance(status, TaskStatus) else status.connector
        with self._state_lock:
            self._last_generation_sent = status.generation
            entry = self._entries.setdefault(key, _Entry(connector, is_connector))
            if safe and not self._may_replace(status):
                return
            entry.sequence += 1
            sequence = entry.sequence

        def still_wanted() -> bool:
            with self._state_lock:
                if entry.deleted or status.generation != self._last_generation_sent:
                    return False
                return not safe or (entry.sequence == sequence and self._may_replace(status))

        self._send_with_retries(key, value, still_wanted)

    def _may_replace(self, status: ConnectorStatus | TaskStatus) -> bool:
        subject = status.task_id if isinstance(status, TaskStatus) else status.connector
        cached = self.get(subject)
        return cached is None or cached.worker_id == status.worker_id or cached.generation <= status.generation

    def _send_until_done(self, key: bytes, value: bytes | None) -> None:
        self._send_with_retries(key, value, lambda: True)

    def _send_with_retries(self, key: bytes, value: bytes | None, still_wanted: Callable[[], bool]) -> None:
        def on_acknowledged(sent: Future[RecordMetadata]) -> None:
            error = sent.exception()
            if error is None:
                return
            if isinstance(error, ConnectShareError) and error.retriable:
                self._retries.submit(retry)
            else:
                _logger.error("Failed to write a status to %s: %s", self.topic, error)

        def retry() -> None:
            if still_wanted():
                send()

        def send() -> None:
            self._send(self._wire_key(key), value).add_done_callback(on_acknowledged)

        _ = self._log  # a stopped or not started store says so itself
        send()

    def _apply(self, records: Sequence[Record]) -> None:
        with self._state_lock:
            for record in records:
                self._fold.apply(record)
                if record.value is None and record.key is not None:
                    self._look_at_clock(record)
                    if self._entries:
                        self._forget(record.key)
            found = self._fold.clusters.found
        if found is not None and not self._told_of_two_clusters:
            self._told_of_two_clusters = True
            _logger.warning("%s", found.told(self.topic))

    def _look_at_clock(self, record: Record) -> None:
        """A removal takes task statuses that are not later than itself: one of the future would take new ones, too."""
        ahead_ms = record.timestamp_ms - int(time.time() * 1000)
        if ahead_ms < AHEAD_MS or self._told_of_clocks:
            return
        original = own_key(TopicType.STATUS, record.key or b"", self._group)
        if original is not None and original.startswith(_CONNECTOR_KEY):
            self._told_of_clocks = True
            _logger.warning(
                "The removal at %s[%d]@%d is dated %d s ahead of the clock here: until then, task statuses of a new "
                "connector of that name do not show. Set the clocks of the workers",
                record.topic,
                record.partition,
                record.offset,
                ahead_ms // 1000,
            )

    def _forget(self, wire_key: bytes) -> None:
        """Stop retries for what a tombstone removed: the connector with its tasks, or the task."""
        original = own_key(TopicType.STATUS, wire_key, self._group)
        if original is None:
            return
        removed = [original]
        if original.startswith(_CONNECTOR_KEY):
            connector = original[len(_CONNECTOR_KEY) :].decode("utf-8", "replace")
            removed += [key for key, entry in self._entries.items() if entry.connector == connector]
        for key in removed:
            entry = self._entries.pop(key, None)
            if entry is not None:
                entry.deleted = True


@dataclass(slots=True)
class _Entry:
    """What was sent about one connector or task."""

    connector: str
    is_connector: bool
    sequence: int = 0
    deleted: bool = False


class _RetryThread:
    """Runs resends one after the other, apart from the producer's own thread."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], None]) -> None:
        with self._lock:
            if self._stopping.is_set():
                return
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="status-retries", daemon=True)
                thread.start()  # there may be no more threads, and stop() can only wait for one that has begun
                self._thread = thread
        self._jobs.put(job)

    def stop(self, timeout_s: float) -> None:
        with self._lock:
            self._stopping.set()
            thread = self._thread
        self._jobs.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._stopping.wait(RETRY_BACKOFF_S):
                return
            job()
