"""The three stores of one Connect worker, started side by side."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from connect_share.admin import Admin
from connect_share.checkpoint import CheckpointRejected
from connect_share.errors import BrokerError, ConfigError, NotStartedError, PlainTopicsError, UsageError
from connect_share.keys import ClusterGroupId
from connect_share.log import KafkaBasedLog
from connect_share.log.health import OnFailed
from connect_share.log.protocol import STOP_TIMEOUT_S, CompactedLog, RecordSink
from connect_share.records import TopicType
from connect_share.storage.checkpointing import SAVE_EVERY_S, CheckpointWriter
from connect_share.storage.connector_offset_stores import ConnectorOffsetStores
from connect_share.storage.counting import CountingSink, KeyWatch
from connect_share.storage.life import StorageLife
from connect_share.storage.live_members import LiveMembersGuard
from connect_share.storage.side_by_side import side_by_side
from connect_share.storage.start_context import StartContext, start_at_a_checkpoint, start_at_the_beginning
from connect_share.storage.startup import StorageStartup, store_startup
from connect_share.stores.alter_offsets import OffsetPair, alter_offsets, reset_offsets
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.stores.config_listener import ConfigUpdateListener
from connect_share.stores.offset_reader import OffsetStorageReader
from connect_share.stores.offset_writer import OffsetStorageWriter
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.status import KafkaStatusBackingStore
from connect_share.stores.topic_based import KafkaTopicBasedBackingStore, WriteGuard, kafka_based_log
from connect_share.topics import check_known_policy, topic_spec
from connect_share.worker_config import WorkerConfig

_logger = logging.getLogger(__name__)


class ConnectStorage:
    """Config, status and offset store of one Connect worker, as a context manager.

    Entering makes sure of the topics and reads them side by side; leaving closes everything, also after an
    exception. Sharing is decided by the worker's properties: with
    ``connect.management.topic.sharing.support=enabled`` keys carry ``group.id`` as prefix.

    Args:
        worker_config: a Java worker's properties, as ``WorkerConfig``.
        allow_empty: start although sharing is on and the topics hold plain records only. By default that is
            refused: the group was never moved onto these topics, and would look empty.
        allow_live_members: write although Java workers of the same Connect group are alive. By default that
            is refused: two writers would overwrite each other.
        update_listener: told of changes on the config topic after the start.
        on_failed: called once with :attr:`failed`, on a thread of its own; it may close this storage.
        checkpoint: file to go on from, where that is provably as good as reading everything (see
            ``docs/start-up.md``), and to write while this runs and on leaving. Holds secrets, mode 0600.
        checkpoint_every_s: time between two versions of it.

    Raises (on entering):
        PlainTopicsError: see ``allow_empty``.
        TopicError: a topic is missing and cannot be created, or is not as Connect demands.
        BrokerError: the cluster cannot be reached, or refuses.
        ReadToEndTimeoutError: the end of a topic was not reached in time.
    """

    def __init__(
        self,
        worker_config: WorkerConfig,
        *,
        allow_empty: bool = False,
        allow_live_members: bool = False,
        update_listener: ConfigUpdateListener | None = None,
        on_failed: OnFailed | None = None,
        checkpoint: Path | str | None = None,
        checkpoint_every_s: float = SAVE_EVERY_S,
    ) -> None:
        self._worker_config = worker_config
        self._group = worker_config.cluster_group_id
        self._allow_empty = allow_empty
        self._allow_live_members = allow_live_members
        self._listener = update_listener
        self._checkpoint = None if checkpoint is None else Path(checkpoint)
        self._checkpoint_every_s = checkpoint_every_s
        self._stack: ExitStack | None = None
        self._parts: _Parts | None = None
        self._life = StorageLife(on_failed)

    def __enter__(self) -> Self:
        with self._life.starting(), ExitStack() as stack:
            parts = self._start(stack)
            parts.connector_offsets = ConnectorOffsetStores(
                self._worker_config,
                config=parts.config,
                offsets=parts.offsets,
                write_guard=parts.write_guard,
                stack=stack.enter_context(ExitStack()),
                left_s=self._life.left_s,
            )
            self._life.check_not_closed()
            self._stack, self._parts = stack.pop_all(), parts
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what was put, stop the stores and close every client; may be called twice, and from any thread.

        A start that is under way ends with ``StoreClosedError``.

        Args:
            timeout_s: how long what was put may take to be acknowledged; without brokers that long is waited.
        """
        if self._life.close(timeout_s):
            self._parts = None
            stack, self._stack = self._stack, None
            if stack is not None:
                stack.close()

    @property
    def failed(self) -> BaseException | None:
        """What ended the log of a store, so that every call of that store raises it; ``None`` while all is well."""
        return self._life.failure

    @property
    def config(self) -> KafkaConfigBackingStore:
        """Connectors, their tasks and target states."""
        return self._running.config

    @property
    def status(self) -> KafkaStatusBackingStore:
        """How connectors and tasks are doing."""
        return self._running.status

    @property
    def offsets(self) -> KafkaOffsetBackingStore:
        """Offsets of source connectors in the worker's topic."""
        return self._running.offsets

    @property
    def startup(self) -> StorageStartup:
        """What the start took."""
        return self._running.startup

    def save_checkpoint(self) -> None:
        """Write the checkpoint now.

        Raises:
            ConfigError: no file was named.
            RecordFileError: it cannot be written.
            ConnectShareError: a store does not run, or did not reach the end of its topic within 10 s.
        """
        writer = self._running.checkpoint_writer
        if writer is None:
            raise ConfigError("this ConnectStorage was given no checkpoint file; name one with checkpoint=")
        writer.save()

    @property
    def cluster_group_id(self) -> ClusterGroupId | None:
        """The group whose records are read and written; ``None`` without sharing."""
        return self._group

    def offset_reader(self, connector: str) -> OffsetStorageReader:
        """Make a reader of a connector's offsets, in the connector's own offsets topic if it has one."""
        store = self._running.connector_offsets.store_of(connector)
        return OffsetStorageReader(store, connector, cluster_group_id=self._group)

    def offset_writer(self, connector: str, *, transactional: Literal[False] | None = None) -> OffsetStorageWriter:
        """Make a writer of a connector's offsets, into the connector's own offsets topic if it has one.

        Args:
            connector: the connector's name.
            transactional: ``False`` has to be said where ``exactly.once.source.support`` is ``enabled``: this writer joins no
                transaction, so its offsets and the records of a task may not go together.

        Raises:
            UsageError: exactly-once is enabled, and ``transactional=False`` was not said.
        """
        if self._worker_config.exactly_once_source_support == "enabled" and transactional is not False:
            raise UsageError(
                f"exactly.once.source.support is enabled, but an offset writer of connector {connector!r} would write "
                "outside of the transaction in which a task writes its records: write offsets with the task's own "
                "transactional producer, or say transactional=False where at least once is enough"
            )
        store = self._running.connector_offsets.store_of(connector)
        return OffsetStorageWriter(store, connector, cluster_group_id=self._group)

    def alter_offsets(self, connector: str, offsets: Iterable[OffsetPair], *, force: bool = False) -> int:
        """Set offsets of a connector that is stopped, ``None`` to forget one, wherever it keeps them.

        With exactly-once in one transaction of its first task; all its tasks are fenced first, whoever runs them.

        Args:
            connector: the connector's name.
            offsets: pairs (source partition, source offset).
            force: do not ask whether the connector is stopped; a task that runs may write over the new offsets.

        Returns:
            How many records were written.

        Raises:
            UsageError: the connector is not stopped; nothing was written or fenced.
            ValueFormatError: a partition or offset is not a map Connect can write; nothing was written.
            LiveMembersError: Java workers of the group are alive; nothing was written or fenced.
            TaskCountError: the config topic speaks of more tasks than can be fenced; nothing was written or fenced.
            StoreError: not written, or not known to be; read them again.
        """
        stores = self._running.connector_offsets
        if not force:
            stores.check_stopped(connector)
        writer = stores.tasks_writer(connector)
        return alter_offsets(stores.store_of(connector), connector, offsets, transactional_writer=writer)

    def reset_offsets(self, connector: str, *, force: bool = False) -> int:
        """Forget all offsets of a connector that is stopped; else as :meth:`alter_offsets`."""
        stores = self._running.connector_offsets
        if not force:
            stores.check_stopped(connector)
        writer = stores.tasks_writer(connector)
        return reset_offsets(stores.store_of(connector), connector, transactional_writer=writer)

    @property
    def _running(self) -> _Parts:
        self._life.check_process()
        parts = self._parts  # another thread may close at any moment
        if parts is None:
            raise NotStartedError("ConnectStorage is not running; use it in a with statement")
        return parts

    def _start(self, stack: ExitStack) -> _Parts:
        began = time.monotonic()
        worker = self._worker_config
        admin = stack.enter_context(Admin(worker.admin_settings(), client_id=worker.client_id("shared-admin")))
        self._life.on_abort(admin.close)
        reason = None
        if self._checkpoint is not None:
            parts, reason = self._go_on(stack, admin, self._checkpoint, began)
            if parts is not None:
                return parts
        start = start_at_the_beginning(stack, admin, worker, began=began)
        start.full_read_reason = reason
        return self._start_stores(stack, admin, start)

    def _go_on(self, stack: ExitStack, admin: Admin, path: Path, began: float) -> tuple[_Parts | None, str | None]:
        """Start from a checkpoint; without one, why everything has to be read."""
        with ExitStack() as attempt:
            try:
                start = start_at_a_checkpoint(attempt, admin, self._worker_config, path, began=began)
            except CheckpointRejected as rejected:
                _logger.info("Reading everything instead of going on from checkpoint %s: %s", path, rejected)
                return None, str(rejected)
            try:
                parts = self._start_stores(attempt, admin, start)
            except (BrokerError, LookupError, TypeError, ValueError, AttributeError) as error:
                # Whatever is wrong with it, or with the cluster: reading everything does without it, or says so.
                _logger.warning(
                    "Reading everything, going on from checkpoint %s failed: %s",
                    path,
                    error if isinstance(error, BrokerError) else type(error).__name__,
                )
                return None, "going on from it failed"
            stack.enter_context(attempt.pop_all())
            return parts, None

    def _start_stores(self, stack: ExitStack, admin: Admin, start: StartContext) -> _Parts:
        worker, found, began, common = self._worker_config, start.facts, start.began, start.common
        live_members = None if self._allow_live_members else LiveMembersGuard(admin, worker.group_id)
        connect_seconds = 0.0 if common is None else common.connect_s
        admin_seconds = time.monotonic() - began - connect_seconds
        # A checkpoint comes from a start that was not refused.
        known = start.checkpoint is not None
        watch = None if self._group is None or self._allow_empty or known else KeyWatch()
        counted: dict[TopicType, CountingSink] = {}
        logs: dict[TopicType, KafkaBasedLog] = {}
        policies: Future[None] = Future()
        all_ready = threading.Event()
        stack.callback(all_ready.set)
        if live_members is not None:
            stack.callback(live_members.stop)

        def check_policies() -> None:
            """Runs beside the reads; a topic that is made now needs no look."""
            try:
                told = admin.settings_of_topics(found) if start.settings is None else start.settings
                for spec in [topic_spec(worker, topic_type) for topic_type in TopicType]:
                    if spec.topic in found:
                        check_known_policy(spec, told[spec.topic], admin.bootstrap_servers)
            except BaseException as error:
                policies.set_exception(error)
                raise
            policies.set_result(None)

        def guard(within_s: float = 0.0, *, at_once: bool = False) -> None:
            policies.result()  # nothing is written to a topic that will be refused
            if live_members is not None:
                live_members(within_s, at_once=at_once)

        def log_of(topic_type: TopicType) -> Callable[[RecordSink], CompactedLog]:
            def make(sink: RecordSink) -> CompactedLog:
                counting = counted[topic_type] = CountingSink(sink, topic_type, watch)
                log = logs[topic_type] = kafka_based_log(
                    worker,
                    topic_type,
                    sink=counting,
                    admin=admin,
                    facts=found.get(worker.topic(topic_type)),
                    common=common,
                    hold_tail=all_ready,
                    on_failed=self._life.fail,
                )
                return log

            return make

        parts = _Parts(
            config=KafkaConfigBackingStore(
                worker,
                cluster_group_id=self._group,
                update_listener=self._listener,
                log=log_of(TopicType.CONFIG),
                admin=admin,
                write_guard=guard,
            ),
            status=KafkaStatusBackingStore(
                worker, cluster_group_id=self._group, log=log_of(TopicType.STATUS), admin=admin, write_guard=guard
            ),
            offsets=KafkaOffsetBackingStore(
                worker, cluster_group_id=self._group, log=log_of(TopicType.OFFSET), admin=admin, write_guard=guard
            ),
            write_guard=guard,
        )
        stores: dict[TopicType, KafkaConfigBackingStore | KafkaStatusBackingStore | KafkaOffsetBackingStore] = {
            TopicType.CONFIG: parts.config,
            TopicType.STATUS: parts.status,
            TopicType.OFFSET: parts.offsets,
        }
        for topic_type, store in stores.items():
            stack.callback(partial(self._stop, store))
            if start.checkpoint is not None:
                store.restore(start.checkpoint.of(topic_type).state)

        seconds: dict[TopicType, float] = {}

        def start_store(topic_type: TopicType) -> None:
            stores[topic_type].start()
            seconds[topic_type] = time.monotonic() - began

        def stop_all() -> None:
            """Also when one of them is interrupted: the others would read on, and be waited for."""
            with ExitStack() as each:
                for store in stores.values():
                    each.callback(store.stop)
                if live_members is not None:
                    each.callback(live_members.stop)

        self._life.on_abort(stop_all)
        # The check first: a store may wait for it, and whether all of them begin is not certain.
        tasks: list[Callable[[], None]] = [check_policies, *(partial(start_store, each) for each in TopicType)]
        if live_members is not None:
            tasks.append(live_members.start)
        side_by_side(tasks, stop=stop_all)
        if watch is not None:
            self._refuse_plain_topics(watch)
        facts = {
            topic_type: store_startup(log, seconds[topic_type], counted[topic_type]) for topic_type, log in logs.items()
        }
        parts.startup = StorageStartup(
            seconds=time.monotonic() - began,
            admin_seconds=admin_seconds,
            config=facts[TopicType.CONFIG],
            status=facts[TopicType.STATUS],
            offsets=facts[TopicType.OFFSET],
            connect_seconds=connect_seconds,
            read_seconds=max(0.0 if log.caught_up is None else log.caught_up.wait_s for log in logs.values()),
            from_checkpoint=known,
            full_read_reason=start.full_read_reason,
        )
        if self._checkpoint is not None:
            ids = {topic_type: log.topic_id for topic_type, log in logs.items()}
            writer = parts.checkpoint_writer = CheckpointWriter(
                self._checkpoint, worker, admin, stores, ids, every_s=self._checkpoint_every_s
            )
            stack.callback(lambda: writer.stop(self._life.left_s()))
            writer.start()
        if common is not None:
            closing = threading.Thread(target=common.close, name="connect-storage-close", daemon=True)
            closing.start()
            stack.callback(closing.join)
        # Last: those who follow make their clients now, and each keeps this thread waiting for a millisecond or two.
        all_ready.set()
        return parts

    def _stop(self, store: KafkaTopicBasedBackingStore) -> None:
        store.stop(self._life.left_s())

    def _refuse_plain_topics(self, watch: KeyWatch) -> None:
        if watch.prefixed_seen or not watch.plain_topics:
            return
        plain = [topic_type for topic_type in TopicType if topic_type in watch.plain_topics]
        topics = ", ".join(self._worker_config.topic(topic_type) for topic_type in plain)
        raise PlainTopicsError(
            f"sharing is enabled for cluster group {self._group!r}, but {topics} hold only plain records, which "
            "no cluster group may read: the group would look empty. Move the records first "
            "(connect-share-migrate plan --source-worker-config OLD --destination-worker-config NEW -o PLAN, then "
            "apply), or, if the group is meant to start empty beside a plain cluster, use allow_empty=True"
        )


class _Parts:
    """What is there while the storage runs."""

    startup: StorageStartup
    checkpoint_writer: CheckpointWriter | None = None
    connector_offsets: ConnectorOffsetStores

    def __init__(
        self,
        *,
        config: KafkaConfigBackingStore,
        status: KafkaStatusBackingStore,
        offsets: KafkaOffsetBackingStore,
        write_guard: WriteGuard,
    ) -> None:
        self.config = config
        self.status = status
        self.offsets = offsets
        self.write_guard = write_guard
