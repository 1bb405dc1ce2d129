"""What the offset reader and writer need of a place that keeps offsets.

What a runtime needs of its config and status store, whichever it is. Errors: the Kafka stores.

The listener of changes on the config topic.

What the three stores have in common: one topic, one group's keys, one log that is followed.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, Unpack, assert_never, overload

from connect_share.errors import ConnectShareError, NotStartedError, StoreClosedError, UsageError
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Deadline
from connect_share.kafka.create import topic_spec
from connect_share.log.first_read import StartContext
from connect_share.log.kafka_based_log import KafkaBasedLog
from connect_share.log.protocol import STOP_TIMEOUT_S, CompactedLog, KeyWatch, RecordFeed, RecordMetadata, RecordSink
from connect_share.log.tail import OnFailed
from connect_share.model.config import (
    ConfigEvent,
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    LoggerLevelUpdated,
    RestartRequested,
    SessionKeyUpdated,
    TargetStateChanged,
    TaskConfigsUpdated,
)
from connect_share.model.config_state import ClusterConfigState, RestartRequest, SessionKey, TargetState
from connect_share.model.keys import ClusterGroupId, SkipKind, prefix_key, prefix_of
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.model.status import ConnectorStatus, StatusSnapshot, TaskStatus, TopicStatus
from connect_share.stores.given_group import GivenGroup, group_of_worker
from connect_share.worker_config import ClientSettings, WorkerConfig

if TYPE_CHECKING:
    from connect_share.stores.transactional_writer import TransactionalWriter


SetCallback = Callable[[ConnectShareError | None], None]


class OffsetBackingStore(Protocol):
    """Serialised offsets under serialised keys. Source: ``OffsetBackingStore``.

    Keys are *wire keys*: with ``<cluster group id>.`` before the JSON array where :attr:`cluster_group_id`
    is set, plain otherwise.
    """

    @property
    def cluster_group_id(self) -> ClusterGroupId | None:
        """Group whose prefix the keys carry, ``None`` for plain keys."""

    @property
    def topic(self) -> str:
        """Topic that decides: of two the first."""

    def start(self) -> None:
        """Read what is there; called once before anything else."""

    def stop(self) -> None:
        """Let go of clients and threads; may be called twice."""

    def get(self, keys: Collection[bytes]) -> Future[dict[bytes, bytes | None]]:
        """Look up wire keys after reading to the end; every key asked for is in the result."""

    def set(self, values: Mapping[bytes, bytes | None], callback: SetCallback | None = None) -> Future[None]:
        """Write all values (``None``: tombstone); ``callback`` is called once, before the future ends."""

    def claim(self, writer: TransactionalWriter) -> None:
        """Fence all producers with the transactional ids of a writer to :attr:`topic`; the caller closes it."""

    def set_in_transaction(self, values: Mapping[bytes, bytes | None], writer: TransactionalWriter) -> None:
        """Write all values in one transaction, with a writer that was claimed."""

    def connector_partitions(self, connector: str) -> list[dict[str, Any]]:
        """List the source partitions for which the connector has offsets."""

    def wire_keys(self, connector: str, partition: Mapping[str, Any] | None) -> tuple[bytes, ...]:
        """Return the keys, as written, under which offsets of this source partition lie; may be several."""


def wire_key(key: bytes, cluster_group_id: ClusterGroupId | None) -> bytes:
    """Return the key as it goes to the topic."""
    return key if cluster_group_id is None else prefix_key(cluster_group_id, key)


def translated_key(key: bytes, from_group: ClusterGroupId | None, to_group: ClusterGroupId | None) -> bytes | None:
    """Rewrite a wire key of one store as the wire key of another; ``None`` if it is not ``from_group``'s."""
    if from_group is not None:
        prefix = prefix_key(from_group, b"")
        if not key.startswith(prefix):
            return None
        key = key[len(prefix) :]
    return wire_key(key, to_group)


class WriteOutcome:
    """How a write ends: once, for its callback and then for its future."""

    def __init__(self, callback: SetCallback | None) -> None:
        self.future: Future[None] = Future()
        self.future.set_running_or_notify_cancel()  # what is sent cannot be called back
        self._callback = callback

    def end(self, error: ConnectShareError | None) -> Future[None]:
        """End with an error, or ``None``; return the future."""
        # An acknowledgement that is still held does not keep its store alive.
        callback, self._callback = self._callback, None
        try:
            if callback is not None:
                callback(error)
        finally:
            if error is None:
                self.future.set_result(None)
            else:
                self.future.set_exception(error)
        return self.future


class ConfigBackingStore(Protocol):
    """Connectors, their tasks, and what is wanted of them. Source: ``ConfigBackingStore``."""

    def start(self) -> None:
        """Read what is there; called once before anything else."""

    def stop(self) -> None:
        """Let go of clients and threads; may be called twice."""

    def set_update_listener(self, listener: ConfigUpdateListener | None) -> None:
        """Call a listener with changes from now on, in place of the one before."""

    def snapshot(self) -> ClusterConfigState:
        """Return what is configured, immutable."""

    def contains(self, connector: str) -> bool:
        """Return whether a connector of this name is configured."""

    def refresh(self, timeout_s: float = ...) -> None:
        """Return once everything that was written before was applied."""

    def put_connector_config(
        self, connector: str, properties: Mapping[str, str | None], target_state: TargetState | None = None
    ) -> None:
        """Write a connector's configuration, and read it back."""

    def remove_connector_config(self, connector: str) -> None:
        """Remove a connector, and read that back."""

    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        """Write the configurations of all tasks of a connector, commit them, and read that back."""

    def put_target_state(self, connector: str, state: TargetState) -> None:
        """Write what is wanted of a connector."""

    def put_task_count_record(self, connector: str, task_count: int) -> None:
        """Write how many tasks the next generation may have started, and read it back."""

    def put_session_key(self, session_key: SessionKey) -> None:
        """Write the key that workers sign internal requests with, and read it back."""

    def put_restart_request(self, request: RestartRequest) -> None:
        """Write a request to restart a connector, and read it back."""

    def put_logger_level(self, namespace: str, level: str) -> None:
        """Write the level of a logger."""

    def claim_write_privileges(self) -> None:
        """Become the one writer, where that is asked for."""


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


_logger = logging.getLogger(__name__)


class ConfigUpdateListener:
    """The receiver of changes: derive from it, and write the methods that are of interest; the others do nothing.

    Called on the thread that follows the topic, never before the store has started. A refresh of the store from here, or
    a write that is read back, raises at once: it would wait for the thread it blocks.

    Source: ``ConfigBackingStore.UpdateListener``.

    >>> from connect_share import MemoryConfigBackingStore
    >>> class Herder(ConfigUpdateListener):
    ...     def on_connector_config_update(self, connector):
    ...         print("changed:", connector)
    >>> store = MemoryConfigBackingStore(update_listener=Herder())
    >>> store.start()
    >>> store.put_connector_config("c", {"name": "c"})
    changed: c
    """

    def on_connector_config_update(self, connector: str) -> None:
        """A connector's configuration was written."""

    def on_connector_config_remove(self, connector: str) -> None:
        """A connector was removed."""

    def on_task_config_update(self, tasks: Sequence[ConnectorTaskId]) -> None:
        """Task configurations of one connector were committed; empty when the commit was incomplete."""

    def on_connector_target_state_change(self, connector: str) -> None:
        """A connector is to be started, paused or stopped."""

    def on_session_key_update(self, session_key: SessionKey) -> None:
        """The leader has written a new session key."""

    def on_restart_request(self, request: RestartRequest) -> None:
        """A restart was requested."""

    def on_logging_level_update(self, namespace: str, level: str) -> None:
        """The level of a logger changes in the whole cluster."""


_METHODS: Final = tuple(name for name in vars(ConfigUpdateListener) if name.startswith("on_"))


def check_listener(listener: object) -> None:
    """Refuse a listener of which an event could not be given to.

    Raises:
        UsageError: names the method that it does not have.
    """
    for name in _METHODS:
        if not callable(getattr(listener, name, None)):
            raise UsageError(
                f"the update listener {type(listener).__name__} has no method {name}; derive it from "
                "ConfigUpdateListener, whose methods do nothing"
            )


class EventReceiver(ConfigUpdateListener, ABC):
    """A listener that gets the events themselves: those of the project that hand them on."""

    @abstractmethod
    def receive(self, event: ConfigEvent) -> None:
        """Note an event; called by the thread that follows the topic."""


def deliver(event: ConfigEvent, listener: ConfigUpdateListener) -> bool:
    """Give an event to a listener; return whether that succeeded: what the listener raises is logged, no more."""
    try:
        call_method(event, listener)
    except BaseException:  # also sys.exit(): one mistake in a listener must not stop the log
        _logger.exception("The update listener failed for %s", type(event).__name__)
        return False
    return True


def call_method(event: ConfigEvent, listener: ConfigUpdateListener) -> None:
    """Call the method of an event, which may raise."""
    if isinstance(listener, EventReceiver):
        listener.receive(event)
        return
    match event:
        case ConnectorConfigUpdated(connector):
            listener.on_connector_config_update(connector)
        case ConnectorConfigRemoved(connector):
            listener.on_connector_config_remove(connector)
        case TaskConfigsUpdated(tasks):
            listener.on_task_config_update(tasks)
        case TargetStateChanged(connector):
            listener.on_connector_target_state_change(connector)
        case SessionKeyUpdated(session_key):
            listener.on_session_key_update(session_key)
        case RestartRequested(request):
            listener.on_restart_request(request)
        case LoggerLevelUpdated(namespace, level):
            listener.on_logging_level_update(namespace, level)
        case _:
            assert_never(event)


LogFactory = Callable[[RecordSink], CompactedLog]

REFRESH_TIMEOUT_S: Final = 30.0
FENCE_GUARD_S: Final = 30.0
"""How long a claim or a fencing waits for the write guard: those it would fence may be alive."""
# Connect sets delivery.timeout.ms of the config and offset producers to the largest int: a write waits as
# long as its caller does, and is never given up behind the caller's back. 0 is librdkafka's "no limit".
_ENDLESS_DELIVERY: Final = {"message.timeout.ms": "0"}
# The status store retries itself, because a status that is outdated meanwhile must not be written any more.
_NO_RETRIES: Final = {"message.send.max.retries": "0", "message.timeout.ms": "120000"}
# Java's default. A record larger than this is sent alone; the broker refuses whole batches, and librdkafka's
# batches of a megabyte would let one record too large for the topic take others with it.
_SMALL_BATCHES: Final = {"batch.size": "16384"}
# Only the leader's producer has transactions.
_NEVER_ORDINARY: Final = frozenset({"transactional.id", "transaction.timeout.ms"})

_CLIENT_SUFFIXES: Final = {
    TopicType.CONFIG: "configs",
    TopicType.STATUS: "statuses",
    TopicType.OFFSET: "offsets",
}


def kafka_based_log(
    worker_config: WorkerConfig,
    topic_type: TopicType,
    *,
    sink: RecordSink,
    admin: Admin,
    context: StartContext | None = None,
    key_watch: KeyWatch | None = None,
    feed: RecordFeed | None = None,
    on_failed: OnFailed | None = None,
) -> KafkaBasedLog:
    """Make the log of one of the three topics, with the client settings Connect gives it.

    The policy of a topic whose facts are in ``context`` is checked by the caller.
    """
    producer = worker_config.producer_settings()
    ordinary = {name: value for name, value in producer.properties.items() if name not in _NEVER_ORDINARY}
    delivery = _NO_RETRIES if topic_type is TopicType.STATUS else _ENDLESS_DELIVERY
    return KafkaBasedLog(
        topic_spec(worker_config, topic_type),
        sink=sink,
        admin=admin,
        consumer_settings=worker_config.consumer_settings(),
        producer_settings=ClientSettings({**_SMALL_BATCHES, **ordinary, **delivery}),
        isolation=worker_config.isolation(topic_type),
        client_id=worker_config.client_id(_CLIENT_SUFFIXES[topic_type]),
        context=context,
        key_watch=key_watch,
        feed=feed,
        on_failed=on_failed,
    )


class WriteGuard(Protocol):
    """Called before anything is written; what it raises is raised by the write."""

    def __call__(self, within_s: float = 0.0, *, at_once: bool = False) -> None:
        """Refuse, or return.

        Args:
            within_s: how long it may ask; 0: what it knows counts, as for a write that is queued while brokers are away.
            at_once: only what it learns now will do, as before others are fenced.
        """


class StoreOptions(TypedDict, total=False):
    """Rare options of the three stores.

    Attributes:
        log: makes the log around the store's sink; by default a ``KafkaBasedLog`` on the topic.
        admin: shared with others and left open; by default one of the store's own.
        write_guard: called before anything is written; what it raises is raised by the write.
    """

    log: LogFactory | None
    admin: Admin | None
    write_guard: WriteGuard | None


class Fold(Protocol):
    """What a store makes of its records, seen from here."""

    skipped: Counter[SkipKind]

    def saved(self) -> Any:
        """Return all that is believed as plain values for JSON."""

    def restore(self, saved: Any) -> None:
        """Believe what was saved."""


class KafkaTopicBasedBackingStore(ABC):
    """A store over one compacted internal topic; the three stores derive from it.

    Args:
        worker_config: topic names, settings, exactly-once mode.
        topic_type: which of the three topics.
        cluster_group_id: only keys with this prefix are read and written, ``None``: plain keys, as unmodified workers. Left
            out, the worker file decides; what contradicts it is a ``ConfigError``.
        options: see ``StoreOptions``.

    Source: ``KafkaTopicBasedBackingStore``.
    """

    _fold: Fold
    _state_lock: AbstractContextManager[Any]

    def __init__(
        self,
        worker_config: WorkerConfig,
        topic_type: TopicType,
        *,
        cluster_group_id: GivenGroup,
        **options: Unpack[StoreOptions],
    ) -> None:
        self._worker_config = worker_config
        self._topic_type = topic_type
        self._group = group_of_worker(worker_config, cluster_group_id)
        self._key_prefix = prefix_of(self._group)
        self._topic = worker_config.topic(topic_type)
        # The plain cluster, and a connector's own offsets topic, have no seals.
        self._seals = worker_config.seals(topic_type)
        self._log_factory = options.get("log") or self._kafka_based_log
        self._shared_admin = options.get("admin")
        self._own_admin: Admin | None = None
        self._write_guard = options.get("write_guard")
        self._compacted_log: CompactedLog | None = None
        self._was_started = False
        self._stopped = False
        self._lifecycle = threading.Lock()

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self._topic

    @property
    def cluster_group_id(self) -> ClusterGroupId | None:
        """Group whose keys are read and written, ``None`` for plain keys."""
        return self._group

    def positions(self) -> Mapping[int, int]:
        """Return the next offset to be read of each partition: the consumer's progress, foreign records included."""
        return self._log.positions()

    def skipped(self) -> dict[SkipKind, int]:
        """Count the records that changed nothing, by reason.

        Those of other groups are ``SkipKind.FOREIGN``, those that the group has not sealed ``SkipKind.REFUSED``.
        """
        self._check_topic()
        with self._state_lock:
            counts = Counter(self._fold.skipped)
        if self._compacted_log is not None:
            counts[SkipKind.FOREIGN] += self._compacted_log.foreign_records
        if self._seals is not None:
            counts[SkipKind.REFUSED] += self._seals.refused.total()
        return {kind: count for kind, count in counts.items() if count}

    def start(self) -> None:
        """Make sure of the topic and read it to its end.

        Raises:
            TopicError: the topic is missing or not as Connect demands.
            ReadToEndTimeoutError: the end was not reached in time.
            BrokerError: the cluster refused.
            ConfigError: a record of the group is sealed with a key that is not here.
        """
        _logger.info("Starting %s store on %s", self._topic_type.value, self.topic)
        self._start_log()
        _logger.info("Started %s store on %s", self._topic_type.value, self.topic)

    def refresh(self, timeout_s: float = REFRESH_TIMEOUT_S) -> None:
        """Return once everything that is in the topic now was applied.

        Raises:
            ReadToEndTimeoutError: the end was not reached in time; a later call goes on from there.
            LogFailedError: the log died; stop this store and start another.
        """
        self._log.read_to_end(timeout_s)

    def restore(self, saved: Any) -> None:
        """Believe what was saved, before the start; the log has to begin at the positions that were saved with it.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
            StoreClosedError: the store was started.
        """
        if self._compacted_log is not None:
            raise StoreClosedError(
                f"the {self._topic_type.value} store on {self.topic} was started before; make a new one"
            )
        with self._state_lock:
            self._fold.restore(saved if self._seals is None else self._seals.restore(saved))

    def save(self, timeout_s: float) -> tuple[dict[int, int], Any]:
        """Return positions and what is believed there, of one moment: all that was written before was applied.

        Raises:
            ReadToEndTimeoutError: not within ``timeout_s``.
            LogFailedError, StoreClosedError, NotStartedError: the store does not run.
        """

        def look(positions: Mapping[int, int]) -> tuple[dict[int, int], Any]:
            with self._state_lock:
                state = self._fold.saved()
                return dict(positions), state if self._seals is None else self._seals.saved(state)

        return self._log.between_batches(look, timeout_s)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what is under way, within ``timeout_s``, end the log's thread, close the clients; may be called twice."""
        deadline = Deadline.after(timeout_s)
        with self._lifecycle:
            self._stopped = True
            compacted_log, admin = self._compacted_log, self._own_admin
            self._own_admin = None
        try:
            if compacted_log is not None:
                compacted_log.stop(deadline.remaining_s())
        finally:
            if admin is not None:
                admin.close()

    @property
    def _log(self) -> CompactedLog:
        if self._stopped:
            raise StoreClosedError(f"the {self._topic_type.value} store on {self.topic} was stopped; make a new one")
        if self._compacted_log is None or not self._was_started:
            raise NotStartedError(f"the {self._topic_type.value} store on {self.topic} was not started; call start()")
        self._compacted_log.check_topic()
        return self._compacted_log

    def _check_topic(self) -> None:
        """Raise as :meth:`LogState.check`: nothing is served of a topic that is gone, or not followed any more."""
        if self._compacted_log is not None:
            self._compacted_log.check_topic()

    @abstractmethod
    def _apply(self, records: Sequence[Record]) -> None:
        """Apply the next records; called by the log, from one thread at a time."""

    def _sink(self) -> _Sink:
        seals = self._seals
        if seals is None:
            return _Sink(self._key_prefix, self._apply)
        return _Sink(self._key_prefix, lambda records: self._apply(list(seals.open_all(records))))

    def prepare(self) -> None:
        """Make the log before :meth:`start`: one that is read together with others takes records from now on."""
        if self._compacted_log is None:
            self._compacted_log = self._log_factory(self._sink())

    def _start_log(self) -> CompactedLog:
        with self._lifecycle:
            if self._stopped or self._was_started:
                raise StoreClosedError(
                    f"the {self._topic_type.value} store on {self.topic} was started before; make a new one"
                )
            self._was_started = True
            self.prepare()
            compacted_log = self._compacted_log
            assert compacted_log is not None  # noqa: S101 - just made
        try:
            compacted_log.start()
            if self._seals is not None:
                self._seals.end_start()
        except BaseException:
            self.stop()  # a store that did not start has nothing a caller could still use
            raise
        return compacted_log

    def _admin(self) -> Admin:
        if self._shared_admin is not None:
            return self._shared_admin
        if self._own_admin is None:
            self._own_admin = Admin(
                self._worker_config.admin_settings(), client_id=self._worker_config.client_id("shared-admin")
            )
        return self._own_admin

    def _kafka_based_log(self, sink: RecordSink) -> KafkaBasedLog:
        return kafka_based_log(self._worker_config, self._topic_type, sink=sink, admin=self._admin())

    def _check_write_allowed(self, within_s: float = 0.0, *, at_once: bool = False) -> None:
        _ = self._log  # a store that does not run says so itself
        if self._write_guard is not None:
            self._write_guard(within_s, at_once=at_once)

    def _sealed(self, records: Iterable[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
        """Return records under wire keys with their values as they go to the topic."""
        return [(key, value if self._seals is None else self._seals.seal(key, value)) for key, value in records]

    def _send(self, key: bytes, value: bytes | None) -> Future[RecordMetadata]:
        """Send one record under a wire key, sealed where values are; every failure ends up in the future."""
        try:
            sealed = value if self._seals is None else self._seals.seal(key, value)
            return (self._compacted_log or self._log).send(key, sealed)
        except ConnectShareError as error:
            future: Future[RecordMetadata] = Future()
            future.set_exception(error)
            return future


@dataclass(frozen=True, slots=True)
class _Sink:
    """A store's receiving half."""

    key_prefix: bytes = field(repr=False)
    apply: Callable[[Sequence[Record]], None]
