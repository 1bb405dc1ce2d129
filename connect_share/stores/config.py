"""The config topic of a worker: connectors, their tasks and what is wanted of them."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, Unpack, assert_never

from connect_share.errors import (
    BrokerError,
    ConnectShareError,
    GroupMovedError,
    LiveMembersError,
    LogFailedError,
    NotStartedError,
    StoreClosedError,
    TopicError,
    UsageError,
    WriteError,
    command_line,
)
from connect_share.kafka import client
from connect_share.kafka.client import Deadline
from connect_share.log.protocol import STOP_TIMEOUT_S, Call, RecordMetadata, Steps, Wait, operation, run_blocking
from connect_share.log.threads import where_raised
from connect_share.model import writable as wire
from connect_share.model.config import (
    ConfigEvent,
    ConfigFold,
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    LoggerLevelUpdated,
    RestartRequested,
    SessionKeyUpdated,
    TargetStateChanged,
    TaskConfigsUpdated,
    task_commit_record,
)
from connect_share.model.config_state import ClusterConfigState, RestartRequest, SessionKey, TargetState
from connect_share.model.keys import MARKER, ConfigKey
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.model.removal import removal_value
from connect_share.stores.base import FENCE_GUARD_S, NOT_GIVEN, GivenGroup, KafkaTopicBasedBackingStore, StoreOptions
from connect_share.stores.transactional_writer import ABORT_TIMEOUT_S, TransactionalWriter
from connect_share.worker_config import WorkerConfig, WorkerConfigTransformer

_logger = logging.getLogger(__name__)

# Connect's READ_WRITE_TOTAL_TIMEOUT: one budget for sending, acknowledgement and reading back.
WRITE_BUDGET_S: Final = 30.0

_Write = tuple[bytes, bytes | None]


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
        self,
        connector: str,
        properties: Mapping[str, str | None],
        target_state: TargetState | None = None,
        *,
        timeout_s: float = ...,
    ) -> None:
        """Write a connector's configuration, and read it back."""

    def remove_connector_config(self, connector: str, *, timeout_s: float = ...) -> None:
        """Remove a connector, and read that back."""

    def put_task_configs(
        self, connector: str, configs: Sequence[Mapping[str, str | None]], *, timeout_s: float = ...
    ) -> None:
        """Write the configurations of all tasks of a connector, commit them, and read that back."""

    def put_target_state(self, connector: str, state: TargetState, *, timeout_s: float = ...) -> None:
        """Write what is wanted of a connector."""

    def put_task_count_record(self, connector: str, task_count: int, *, timeout_s: float = ...) -> None:
        """Write how many tasks the next generation may have started, and read it back."""

    def put_session_key(self, session_key: SessionKey, *, timeout_s: float = ...) -> None:
        """Write the key that workers sign internal requests with, and read it back."""

    def put_restart_request(self, request: RestartRequest, *, timeout_s: float = ...) -> None:
        """Write a request to restart a connector, and read it back."""

    def put_logger_level(self, namespace: str, level: str, *, timeout_s: float = ...) -> None:
        """Write the level of a logger."""

    def claim_write_privileges(self) -> None:
        """Become the one writer, where that is asked for."""


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

    def on_connector_tasks_update(self, connector: str, tasks: Sequence[ConnectorTaskId]) -> None:  # noqa: ARG002
        """Task configurations of a connector were committed; no tasks when it has none, or the commit was incomplete."""
        self.on_task_config_update(tasks)

    def on_task_config_update(self, tasks: Sequence[ConnectorTaskId]) -> None:
        """As :meth:`on_connector_tasks_update`, with Connect's own name and argument, which do not say of which connector."""

    def on_connector_target_state_change(self, connector: str) -> None:
        """A connector is to be started, paused or stopped."""

    def on_session_key_update(self, session_key: SessionKey) -> None:
        """The leader has written a new session key."""

    def on_restart_request(self, request: RestartRequest) -> None:
        """A restart was requested."""

    def on_logging_level_update(self, namespace: str, level: str) -> None:
        """The level of a logger changes in the whole cluster."""


_SINCE_0_4: Final = "on_connector_tasks_update"
_METHODS: Final = tuple(name for name in vars(ConfigUpdateListener) if name.startswith("on_") and name != _SINCE_0_4)


def check_listener(listener: object) -> None:
    """Refuse a listener of which an event could not be given to."""
    for name in _METHODS:
        if not callable(getattr(listener, name, None)):
            raise UsageError(
                f"the update listener {type(listener).__name__} has no method {name}; derive it from "
                "ConfigUpdateListener, whose methods do nothing"
            )


class EventReceiver(ConfigUpdateListener, ABC):
    """A listener that takes note of the events themselves, and has another behind it."""

    @abstractmethod
    def receive(self, event: ConfigEvent) -> ConfigUpdateListener | None:
        """Take note of an event at once, on the thread that follows the topic; return who is to be called for it."""


def call_method(event: ConfigEvent, listener: ConfigUpdateListener) -> None:
    """Call the method of an event, which may raise."""
    match event:
        case ConnectorConfigUpdated(connector):
            listener.on_connector_config_update(connector)
        case ConnectorConfigRemoved(connector):
            listener.on_connector_config_remove(connector)
        case TaskConfigsUpdated(tasks, connector) if hasattr(listener, _SINCE_0_4):
            listener.on_connector_tasks_update(connector, tasks)
        case TaskConfigsUpdated(tasks):  # a listener that is not derived from ours
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


class KafkaConfigBackingStore(KafkaTopicBasedBackingStore):
    """Configurations in a compacted topic of one partition.

    What is written is there once it was read back. All methods may be called from any thread. Those that read back raise
    as :meth:`put_connector_config`.

    With a ``cluster_group_id`` a removal is written as JSON null, never as a tombstone, so that the group's
    newest record cannot be cleaned away (docs/decisions/0002); without, as a tombstone like Connect's.

    Args:
        worker_config: names the topic (``config.storage.topic``) and how to reach it.
        update_listener: called with changes after the start.
        config_transformer: resolves the configurations in snapshots, and turns those of tasks back before they are written.
        clock: seconds, for the write budget.
        cluster_group_id: only keys with this prefix are read and written, ``None``: plain keys, as unmodified workers. Left
            out, the worker file decides; what contradicts it is a ``ConfigError``.
        options: see ``StoreOptions``.

    Source: ``KafkaConfigBackingStore``.

    >>> store = KafkaConfigBackingStore(worker_config)
    >>> store.start()
    >>> store.put_connector_config("c", {"name": "c"})
    >>> store.snapshot().connector_config("c")
    {'name': 'c'}
    >>> store.stop()
    """

    def __init__(
        self,
        worker_config: WorkerConfig,
        *,
        cluster_group_id: GivenGroup = NOT_GIVEN,
        update_listener: ConfigUpdateListener | None = None,
        config_transformer: WorkerConfigTransformer | None = None,
        clock: Callable[[], float] = time.monotonic,
        **options: Unpack[StoreOptions],
    ) -> None:
        super().__init__(worker_config, TopicType.CONFIG, cluster_group_id=cluster_group_id, **options)
        self._transformer = config_transformer
        self._listener: ConfigUpdateListener | None = None
        self.set_update_listener(update_listener)
        self._listener_failures = 0
        self.dispatch: Callable[[ConfigEvent, ConfigUpdateListener], None] = self.tell
        """Gets each event and who listened when it came; over a reader of many groups this hands both to another thread."""
        self._clock = clock
        self._state_lock = threading.Lock()
        self._fold: ConfigFold = ConfigFold(self._group)
        self._started = False
        self._leader: TransactionalWriter | None = None
        if worker_config.uses_transactional_leader:
            self._leader = TransactionalWriter(
                worker_config.producer_settings(),
                client_id=worker_config.client_id("configs-leader"),
                transactional_id=worker_config.transactional_id,
                topic=self.topic,
                producers=options.get("kafka") or client,
            )

    def restore(self, saved: Any) -> None:
        """Replace the state by a saved one, as :meth:`KafkaTopicBasedBackingStore.restore`."""
        super().restore(saved)
        self._seals.restored(self._fold.living_keys())

    def start(self) -> None:
        """Make sure of the topic and read it to its end; from then on the listener is called.

        Where sharing is on and the group's newest record is a tombstone, the marker
        (``<group>.target-state-`` = JSON null) is written, once: it can never be cleaned away. Where values of a sealed group
        are under several keys, each of these is announced under the others, once.

        Raises:
            PartitionCountError: the topic has more than one partition; the store is stopped.
            TopicError: the topic is missing or not compacted.
            GroupMovedError: the group was moved away from this topic.
            ReadToEndTimeoutError: the end was not reached in time.
            BrokerError: the cluster refused.
        """
        super().start()
        try:
            self._require_not_moved()
            if self._group is not None and self._fold.newest_own_is_tombstone:
                self._write_marker()
            announcements = self._seals.announcements()
            if announcements:
                with suppress(LiveMembersError):  # who write it themselves
                    run_blocking(self._announce_keys(announcements))
        except BaseException:
            self.stop()
            raise
        with self._state_lock:
            self._started = True
        _logger.info("The config store on %s is at position %d", self.topic, self._fold.offset)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Give up write privileges, send what is under way, within ``timeout_s``, and end; may be called twice."""
        deadline = Deadline.after(timeout_s)
        with self._lifecycle:
            self._stopped = True  # a claim at this moment sees it, or is seen
        try:
            if self._leader is not None:
                self._leader.close(min(deadline.remaining_s(), ABORT_TIMEOUT_S))
        finally:
            super().stop(deadline.remaining_s())

    @property
    def listener_failures(self) -> int:
        """How often the listener raised; that is logged, and the log goes on."""
        return self._listener_failures

    def set_update_listener(self, listener: ConfigUpdateListener | None) -> None:
        """Call a listener with changes from now on, in place of the one before; ``None``: call none.

        Raises:
            UsageError: it does not have all methods of :class:`ConfigUpdateListener`.
        """
        if listener is not None:
            check_listener(listener)
        self._listener = listener

    def snapshot(self) -> ClusterConfigState:
        """Return what the cluster is configured to be, as read so far; never changes afterwards."""
        with self._at_rest():
            return self._fold.snapshot().transformed_by(self._transformer)

    def contains(self, connector: str) -> bool:
        """Return whether a connector of this name is configured."""
        with self._at_rest():
            return self._fold.contains(connector)

    @operation
    def put_connector_config(
        self,
        connector: str,
        properties: Mapping[str, str | None],
        target_state: TargetState | None = None,
        *,
        timeout_s: float = WRITE_BUDGET_S,
    ) -> Steps[None]:
        """Write a connector's configuration, its first target state before it where given, and read it back.

        Args:
            connector: its name.
            properties: of the connector; ``None`` is a property without a value.
            target_state: what is wanted of it at first.
            timeout_s: for everything: the check for live workers, acknowledgements and reading back.

        Raises:
            ValueFormatError: Java could not read it back; nothing was sent.
            WriteError: not acknowledged, or not read back, in time. Where a part is there, it says so: repeat the call.
            PrivilegedWriteError: exactly-once mode, and write privileges are not held.
        """
        records = [wire.connector_config_record(connector, properties)]
        if target_state is not None:
            records.insert(0, wire.target_state_record(connector, target_state))
        yield from self._write_and_read_back(f"the configuration of connector {connector!r}", records, timeout_s)

    @operation
    def remove_connector_config(self, connector: str, *, timeout_s: float = WRITE_BUDGET_S) -> Steps[None]:
        """Remove a connector and its target state, and read that back.

        Task, commit and fencing records stay, as with Connect.
        """
        removal = removal_value(TopicType.CONFIG, self._group)
        records = [(key, removal) for key in wire.removal_keys(connector)]
        yield from self._write_and_read_back(f"the removal of connector {connector!r}", records, timeout_s)

    @operation
    def put_task_configs(
        self, connector: str, configs: Sequence[Mapping[str, str | None]], *, timeout_s: float = WRITE_BUDGET_S
    ) -> Steps[None]:
        """Write the configurations of all tasks of a connector, then commit them, and read that back.

        The commit is written only when the tasks were read back, so no reader of a complete log meets a
        commit whose tasks are missing. No configurations: only the commit. Until it is there, all keep to what was committed
        before.

        With a config transformer they are written with the references of their connector, as if ``reverse`` had been called:
        a resolved secret does not get into the topic. Of a connector that is not configured, ``UsageError`` is raised.
        """
        if isinstance(configs, Iterator):
            configs = list(configs)
        tasks = wire.task_config_records(connector, configs)
        what = f"the task configurations of connector {connector!r}"
        writing = yield from self._begin_write(what, timeout_s, len(tasks) + 1, reads_back=True)
        with writing.failing(f"not written within {timeout_s:g} s"):
            yield Call(lambda: self._log.read_to_end(writing.deadline.remaining_s()))
        if self._transformer is not None:
            raw = self.snapshot().raw_connector_config(connector)
            if raw is None:
                raise UsageError(
                    f"there is no connector {connector!r}: nothing says which secrets are in the configurations of its tasks"
                )
            tasks = wire.task_config_records(connector, [self._transformer.reverse(raw, each) for each in configs])
        commit = [task_commit_record(connector, len(tasks))]
        for records in (tasks, commit) if tasks else (commit,):
            yield from self._write_records(writing, records, at_once=True)

    def remove_task_configs(self, connector: str) -> None:
        """Raise ``UsageError``: Connect's store does not support it either."""
        raise UsageError(
            f"task configurations of connector {connector!r} cannot be removed on their own; "
            "put_task_configs() with an empty list, or remove the connector"
        )

    @operation
    def put_target_state(self, connector: str, state: TargetState, *, timeout_s: float = WRITE_BUDGET_S) -> Steps[None]:
        """Write what is wanted of a connector and wait for the acknowledgement; it is not read back.

        Needs no write privileges.

        Raises:
            ValueFormatError: Java could not read it back; nothing was sent.
            WriteError: not acknowledged in time.
        """
        record = wire.target_state_record(connector, state)
        yield from self._write_ordinary(f"the target state of connector {connector!r}", record, timeout_s)

    @operation
    def put_task_count_record(
        self, connector: str, task_count: int, *, timeout_s: float = WRITE_BUDGET_S
    ) -> Steps[None]:
        """Write how many tasks the next generation may have started (for fencing), and read it back."""
        records = [wire.task_count_record(connector, task_count)]
        yield from self._write_and_read_back(f"the task count of connector {connector!r}", records, timeout_s)

    @operation
    def put_session_key(self, session_key: SessionKey, *, timeout_s: float = WRITE_BUDGET_S) -> Steps[None]:
        """Write the key that workers sign internal requests with, and read it back."""
        yield from self._write_and_read_back("the session key", [wire.session_key_record(session_key)], timeout_s)

    @operation
    def put_restart_request(self, request: RestartRequest, *, timeout_s: float = WRITE_BUDGET_S) -> Steps[None]:
        """Write a request to restart a connector, and read it back."""
        yield from self._write_and_read_back("a restart request", [wire.restart_request_record(request)], timeout_s)

    @operation
    def put_logger_level(self, namespace: str, level: str, *, timeout_s: float = WRITE_BUDGET_S) -> Steps[None]:
        """Write the level of a logger; it is not read back. Needs and raises the same as :meth:`put_target_state`."""
        record = wire.logger_level_record(namespace, level)
        yield from self._write_ordinary(f"the level of logger {namespace!r}", record, timeout_s)

    @operation
    def claim_write_privileges(self) -> Steps[None]:
        """In exactly-once mode become the one writer, and fence the writer before; otherwise nothing.

        Holding them already is fine. Stopping the store gives them up.

        Raises:
            StoreError: the claim failed; nothing is held.
            StoreClosedError: the store was stopped; nothing is held.
            LiveMembersError: Java workers of the group are alive, whose leader it would fence.
        """
        if self._leader is not None:
            yield Call(partial(self._claim, self._leader))

    def _claim(self, leader: TransactionalWriter) -> None:
        self._check_write_allowed(FENCE_GUARD_S, at_once=True)
        leader.claim()
        if self._stopped:  # meanwhile: the stop saw nothing to give up
            leader.close()
            _ = self._log  # says that it was stopped

    def _require_not_moved(self) -> None:
        moved = self._fold.snapshot().moved
        if moved is not None:
            who = "the cluster with plain keys" if self._group is None else f"cluster group {self._group}"
            unseals = command_line("connect-share-migrate", "unseal", moved.plan)
            raise GroupMovedError(
                f"{who} was moved away from {self.topic} by {moved.plan} (run {moved.run_id}), as a record under "
                f"{self._key_prefix.decode() + ConfigKey.TARGET_STATE.value} says: start its workers where it was moved to. "
                f"To bring it back, run {unseals} or rollback with that plan"
            )

    def _write_marker(self) -> None:
        what = "the marker behind a tombstone"
        try:
            run_blocking(self._write_and_read_back(what, [MARKER], privileged=False))
        except LiveMembersError:
            _logger.warning(
                "The newest record of cluster group %s on %s is a tombstone, which may be cleaned away, but "
                "live Java members of the group forbid writing the marker",
                self._group,
                self.topic,
            )

    def _announce_keys(self, announcements: Sequence[_Write]) -> Steps[None]:
        writing = yield from self._begin_write("which keys the group uses", WRITE_BUDGET_S, reads_back=True)
        for key, value in announcements:
            sent = yield Wait(self._log.send(key, value), writing.deadline.remaining_s())
            yield from self._log.reading_past(sent, writing.deadline.remaining_s())

    def _begin_write(self, what: str, timeout_s: float, records: int = 1, *, reads_back: bool) -> Steps[_Writing]:
        writing = _Writing(what, self._topic, records, Deadline.after(timeout_s, self._clock))
        if reads_back:
            self._log.check_may_wait()
        try:
            yield Call(lambda: self._check_write_allowed(writing.deadline.remaining_s()))
        except BrokerError as error:
            raise WriteError(f"{what} was not written to {self._topic}: {error}") from error
        return writing

    def _write_and_read_back(
        self, what: str, records: Sequence[_Write], timeout_s: float = WRITE_BUDGET_S, *, privileged: bool = True
    ) -> Steps[None]:
        writing = yield from self._begin_write(what, timeout_s, len(records), reads_back=True)
        yield from self._write_records(writing, records, privileged=privileged)

    def _write_records(
        self, writing: _Writing, records: Sequence[_Write], *, privileged: bool = True, at_once: bool = False
    ) -> Steps[None]:
        """Write, in exactly-once mode through the transactional leader, and wait until the log has passed what was written.

        What others have written behind it is not waited for. ``at_once`` as of :meth:`_send_all`.
        """
        deadline = writing.deadline
        if privileged and self._leader is not None:
            written = yield from self._write_in_transaction(self._leader, records, writing)
        else:
            written = yield from self._send_all(writing, records, at_once=at_once)
        last = max(written, key=lambda record: record.offset)
        with writing.failing(f"written but not read back within {deadline.timeout_s:g} s"):
            yield from self._log.reading_past(last, deadline.remaining_s())
            for key in [self._key_prefix + key for key, _ in records]:
                while (again := self._sent_again.pop(key, None)) is not None:
                    sent = yield Wait(again, deadline.remaining_s())
                    yield from self._log.reading_past(sent, deadline.remaining_s())

    def _write_ordinary(self, what: str, record: _Write, timeout_s: float) -> Steps[None]:
        writing = yield from self._begin_write(what, timeout_s, reads_back=False)
        yield from self._send_all(writing, [record])

    def _write_in_transaction(
        self, leader: TransactionalWriter, records: Sequence[_Write], writing: _Writing
    ) -> Steps[list[RecordMetadata]]:
        _ = self._log  # a stopped or not started store says so itself
        pairs = self._sealed((self._key_prefix + key, value) for key, value in records)
        try:
            written: list[RecordMetadata] = yield Call(
                lambda: leader.write(pairs, timeout_s=writing.deadline.remaining_s())
            )
        except WriteError as error:
            if writing.acknowledged:
                error.args = (writing.in_part(str(error)),)
            raise
        writing.acknowledged += len(written)
        return written

    def _send_all(
        self, writing: _Writing, records: Sequence[_Write], *, at_once: bool = False
    ) -> Steps[list[RecordMetadata]]:
        """Send each record when the one before it is acknowledged; return where they went.

        ``at_once``: their order does not matter. A target state has to lie before its connector, and behind its removal.
        """
        written: list[RecordMetadata] = []
        failed: Exception | None = None
        with writing.failing(f"not written to {self._topic}"):
            for batch in [records] if at_once else [[record] for record in records]:
                for future in [self._send(self._key_prefix + key, value) for key, value in batch]:
                    try:
                        written += [(yield Wait(future, writing.deadline.remaining_s()))]
                        writing.acknowledged += 1
                    except (ConnectShareError, TimeoutError) as error:
                        failed = failed or error  # the others say how much is written
                if failed is not None:
                    raise failed
        return written

    def _apply(self, records: Sequence[Record]) -> None:
        for record in records:
            with self._state_lock:
                events = self._fold.apply(record)
                has_listeners = self._started  # none hears of what the first read brings
            for event in events if has_listeners else ():
                listener = self._listener
                if isinstance(listener, EventReceiver):
                    listener = listener.receive(event)
                if listener is not None:
                    self.dispatch(event, listener)

    def tell(self, event: ConfigEvent, listener: ConfigUpdateListener) -> None:
        """Call a listener's method for an event; what it raises is counted and logged, no more."""
        try:
            call_method(event, listener)
        except BaseException as error:  # noqa: BLE001 - also sys.exit(): one mistake in a listener must not stop the log
            self._listener_failures += 1
            _logger.error("The update listener failed for %s: %s", type(event).__name__, where_raised(error))  # noqa: TRY400 - its text may quote configuration


@dataclass(slots=True)
class _Writing:
    """A write under way: what it is, until when, and how many of its records were acknowledged."""

    what: str
    topic: str
    records: int
    deadline: Deadline
    acknowledged: int = 0

    def in_part(self, reason: str) -> str:
        """Return what is said of a write of which a part is there."""
        return (
            f"{self.what} was written to {self.topic} in part, {self.acknowledged} of {self.records} records: {reason}; "
            "repeat the call, which writes all of them"
        )

    @contextmanager
    def failing(self, how: str) -> Iterator[None]:
        """Raise errors of the cluster as ``WriteError``; those of the store itself stay what they are."""
        try:
            yield
        except (NotStartedError, StoreClosedError, LogFailedError, TopicError):
            raise
        except (ConnectShareError, TimeoutError) as error:
            is_late = isinstance(error, TimeoutError)
            reason = f"not acknowledged within {self.deadline.timeout_s:g} s" if is_late else str(error)
            said = f"{self.what} was {how}: {reason}"
            if 0 < self.acknowledged < self.records:
                said = self.in_part(reason)
            elif is_late:
                said = (
                    f"{self.what} was sent to {self.topic} but {reason}; whether it was written shows when the topic is read "
                    "again"
                )
            raise WriteError(said) from error
