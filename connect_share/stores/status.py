"""The status topic of a worker: how connectors and tasks are doing, and which topics they use."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, Protocol, Unpack, overload

from connect_share.errors import AuthorizationError, BrokerError
from connect_share.kafka.client import Deadline, is_unknown_topic
from connect_share.log.protocol import STOP_TIMEOUT_S, RecordMetadata
from connect_share.log.threads import JobThread, SafeCondition
from connect_share.model import writable as wire
from connect_share.model.keys import StatusKey, own_key, subject_of
from connect_share.model.limited_log import LimitedLog
from connect_share.model.records import ConnectorTaskId, Record, TopicType, now_ms
from connect_share.model.status import ConnectorStatus, StatusFold, StatusSnapshot, TaskStatus, TopicStatus
from connect_share.stores.base import NOT_GIVEN, GivenGroup, KafkaTopicBasedBackingStore, StoreOptions
from connect_share.worker_config import WorkerConfig

_logger = logging.getLogger(__name__)

FLUSH_TIMEOUT_S: Final = 30.0
# Connect resends at once; a broker that is away would be asked thousands of times a second.
RETRY_BACKOFF_S: Final = 0.1
AHEAD_MS: Final = 60_000


class StatusBackingStore(Protocol):
    """How connectors and tasks are doing, and which topics they use. Source: ``StatusBackingStore``."""

    def start(self) -> None:
        """Read what is there; called once before anything else."""

    def stop(self) -> None:
        """Let go of clients and threads; may be called twice."""

    def put(self, status: ConnectorStatus | TaskStatus | TopicStatus) -> None:
        """Write a status whatever was written before."""

    def put_safe(self, status: ConnectorStatus | TaskStatus) -> None:
        """Write a status unless another worker has written a newer generation."""

    def delete_topic(self, connector: str, topic: str) -> None:
        """Forget that a connector uses a topic."""

    @overload
    def get(self, subject: str) -> ConnectorStatus | None: ...

    @overload
    def get(self, subject: ConnectorTaskId) -> TaskStatus | None: ...

    def get(self, subject: str | ConnectorTaskId) -> ConnectorStatus | TaskStatus | None:
        """Return the status of a connector or task."""

    def get_all(self, connector: str) -> list[TaskStatus]:
        """Return the statuses of all tasks of a connector."""

    def get_topic(self, connector: str, topic: str) -> TopicStatus | None:
        """Return what is known of a connector's use of a topic."""

    def get_all_topics(self, connector: str) -> list[TopicStatus]:
        """Return all topics a connector uses."""

    def connectors(self) -> frozenset[str]:
        """Name the connectors that have a status."""

    def snapshot(self) -> StatusSnapshot:
        """Return everything, immutable."""

    def refresh(self, timeout_s: float = ...) -> None:
        """Return once everything that was written before was applied."""

    def flush(self, timeout_s: float = ...) -> None:
        """Wait until everything put so far is acknowledged or has failed once."""


class KafkaStatusBackingStore(KafkaTopicBasedBackingStore):
    """Statuses in a compacted topic.

    What is put becomes visible only when it is read back. ``put`` does not wait: after a failure that may pass, the newest
    status of each key is sent again from a thread of the store's own; other failures are logged. Thread-safe.

    Args: as of ``KafkaConfigBackingStore``.

    Source: ``KafkaStatusBackingStore``.

    >>> from connect_share import ConnectorStatus, State
    >>> store = KafkaStatusBackingStore(worker_config)
    >>> store.start()
    >>> store.put(ConnectorStatus("c", State.RUNNING, "w:8083", 1))
    >>> store.flush()
    >>> store.refresh()
    >>> store.get("c").state
    <State.RUNNING: 'RUNNING'>
    >>> store.stop()
    """

    def __init__(
        self, worker_config: WorkerConfig, *, cluster_group_id: GivenGroup = NOT_GIVEN, **options: Unpack[StoreOptions]
    ) -> None:
        super().__init__(worker_config, TopicType.STATUS, cluster_group_id=cluster_group_id, **options)
        self._state_lock = threading.RLock()
        self._fold: StatusFold = StatusFold(self._group)
        self._fold.places.partitions = self._partition_count
        self._sent: dict[str, dict[bytes, object]] = {}  # by connector and key; a new object after each removal
        self._unwritten: dict[bytes, object] = {}
        self._writes_ended = SafeCondition(self._state_lock)
        self._refusals = LimitedLog(_logger, at_first=1, every_s=30.0)
        self._last_generation_sent: int | None = None
        self._logged_two_clusters = False
        self._logged_clocks = False
        self._retries = JobThread("status-retries", self.fail, RETRY_BACKOFF_S)  # not the producer's own thread

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what was put, again where that failed, within ``timeout_s``; then end log and retries. May be called twice."""
        deadline = Deadline.after(timeout_s)
        with self._lifecycle:
            self._stopped = True  # nothing new is put
        try:
            self._finish_writes(timeout_s)
            super().stop(deadline.remaining_s())
        finally:
            self._retries.stop(deadline.remaining_s())

    def put(self, status: ConnectorStatus | TaskStatus | TopicStatus) -> None:
        """Write a status whatever was written before; ``DESTROYED`` is written as a tombstone.

        Does not wait and does not raise for a broker that refuses.

        Raises:
            ValueFormatError: Java could not read it back, or its worker id is missing; nothing was sent.
            LiveMembersError: the guard refuses writing.
        """
        self._put(status, safe=False)

    def put_safe(self, status: ConnectorStatus | TaskStatus) -> None:
        """Write a status as :meth:`put`, unless another worker has written a newer generation; then nothing happens."""
        self._put(status, safe=True)

    def delete_topic(self, connector: str, topic: str) -> None:
        """Forget that a connector uses a topic; does not wait.

        Raises:
            ValueFormatError: one of the names cannot be part of a key.
        """
        self._check_write_allowed()
        self._send_with_retries(wire.topic_key(connector, topic), None)

    @overload
    def get(self, subject: str) -> ConnectorStatus | None: ...

    @overload
    def get(self, subject: ConnectorTaskId) -> TaskStatus | None: ...

    def get(self, subject: str | ConnectorTaskId) -> ConnectorStatus | TaskStatus | None:
        """Return the status of a connector (its name) or of a task, as last read."""
        with self._at_rest():
            return self._known(subject)

    def _known(self, subject: str | ConnectorTaskId) -> ConnectorStatus | TaskStatus | None:
        if isinstance(subject, ConnectorTaskId):
            return self._fold.task_status(subject)
        return self._fold.connector_status(subject)

    def get_all(self, connector: str) -> list[TaskStatus]:
        """Return the statuses of all tasks of a connector, as last read."""
        with self._at_rest():
            return self._fold.task_statuses(connector)

    def get_topic(self, connector: str, topic: str) -> TopicStatus | None:
        """Return what is known of a connector's use of a topic, as last read."""
        with self._at_rest():
            return self._fold.topic_status(connector, topic)

    def get_all_topics(self, connector: str) -> list[TopicStatus]:
        """Return all topics a connector uses, as last read."""
        with self._at_rest():
            return self._fold.topic_statuses(connector)

    def connectors(self) -> frozenset[str]:
        """Name the connectors that have a status, or of which one was put."""
        with self._at_rest():
            pending = {name for name, sent in self._sent.items() if StatusKey.CONNECTOR.key(name) in sent}
            return self._fold.connectors() | pending

    def snapshot(self) -> StatusSnapshot:
        """Return what was read so far, immutable."""
        with self._at_rest():
            return self._fold.snapshot()

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Wait until everything put so far is acknowledged or has failed once."""
        self._log.flush(timeout_s)

    def _put(self, status: ConnectorStatus | TaskStatus | TopicStatus, *, safe: bool) -> None:
        self._check_write_allowed()
        key, value = wire.status_record(status)
        if isinstance(status, TopicStatus):  # it has no generation
            self._send_with_retries(key, value)
            return
        connector = status.task_id.connector if isinstance(status, TaskStatus) else status.connector
        with self._state_lock:
            self._last_generation_sent = status.generation
            sent = self._sent.setdefault(connector, {}).setdefault(key, object())
            if safe and not self._may_replace(status):
                return

        def still_wanted() -> bool:
            if self._sent.get(connector, {}).get(key) is not sent or status.generation != self._last_generation_sent:
                return False
            return not safe or self._may_replace(status)

        self._send_with_retries(key, value, still_wanted)

    def _may_replace(self, status: ConnectorStatus | TaskStatus) -> bool:
        cached = self._known(status.task_id if isinstance(status, TaskStatus) else status.connector)
        return cached is None or cached.worker_id == status.worker_id or cached.generation <= status.generation

    def _send_with_retries(
        self, key: bytes, value: bytes | None, still_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Send, and again while that may help and nothing newer was put under the same key."""
        mine = object()

        def on_acknowledged(sent: Future[RecordMetadata]) -> None:
            error = sent.exception()
            if error is None:
                self._ended(key, mine)
            elif _may_pass(error):
                if isinstance(error, AuthorizationError):
                    self._refusals.warning("Statuses wait, and are sent again: %s", error)
                self._retries.add(retry, retry)
            else:
                _logger.error("Failed to write %r to %s: %s", key.decode(), self.topic, error)
                self._ended(key, mine)

        def retry() -> None:
            with self._state_lock:
                wanted = self._unwritten.get(key) is mine and still_wanted()
            if wanted:
                send()
            else:
                self._ended(key, mine)

        def send() -> None:
            self._send(self._key_prefix + key, value).add_done_callback(on_acknowledged)

        try:
            with self._writes_ended:
                self._unwritten[key] = mine
            send()
        except BaseException:
            self._ended(key, mine)
            raise

    def _ended(self, key: bytes, write: object) -> None:
        """Forget a write that was acknowledged or given up, unless a newer one has taken its place."""
        with self._writes_ended:
            if self._unwritten.get(key) is write:
                del self._unwritten[key]
                self._writes_ended.notify_all()

    def _finish_writes(self, timeout_s: float) -> None:
        with self._writes_ended:
            if not self._writes_ended.wait_for(lambda: not self._unwritten, timeout_s):
                _logger.warning(
                    "%d statuses were not written to %s before the store was stopped", len(self._unwritten), self.topic
                )

    def _apply(self, records: Sequence[Record]) -> None:
        with self._state_lock:
            for record in records:
                self._fold.apply(record)
                if record.value is None:
                    self._note_removal(record)
            found = self._fold.clusters.found
        if found is not None and not self._logged_two_clusters:
            self._logged_two_clusters = True
            _logger.warning("%s", found.warning(self.topic))

    def _note_removal(self, record: Record) -> None:
        """Stop retries for what a tombstone removed: the connector with its tasks, or the task.

        Warn of one dated in the future: it removes task statuses that are not later than itself, new ones too.
        """
        ahead_ms = record.timestamp_ms - now_ms()
        if not self._sent and ahead_ms < AHEAD_MS:
            return
        original = own_key(TopicType.STATUS, record.key or b"", self._group)
        subject = None if original is None else subject_of(TopicType.STATUS, original)
        if original is None or subject is None:
            return
        is_connector, sent = subject.kind is StatusKey.CONNECTOR, self._sent.get(subject.connector, {})
        sent.pop(original, None)
        if is_connector or not sent:
            self._sent.pop(subject.connector, None)
        if is_connector and ahead_ms >= AHEAD_MS and not self._logged_clocks:
            self._logged_clocks = True
            _logger.warning(
                "The removal at %s is dated %d s ahead of the clock here: until then, task statuses of a new "
                "connector of that name do not show. Set the clocks of the workers",
                record.place,
                ahead_ms // 1000,
            )


def _may_pass(error: BaseException) -> bool:
    """Return whether it may help to send again: Java's retriable errors, and a right that was taken away for a while."""
    return isinstance(error, BrokerError) and (
        error.retriable
        or is_unknown_topic(error)
        or error.name == "INVALID_MSG"  # damaged on the way
        or isinstance(error, AuthorizationError)
    )
