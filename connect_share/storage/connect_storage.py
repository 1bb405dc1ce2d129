"""The three stores of one Connect worker, started side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, TypeVar

from connect_share.errors import ConfigError, NotStartedError, UsageError
from connect_share.log.protocol import STOP_TIMEOUT_S
from connect_share.log.tail import OnFailed
from connect_share.model.keys import ClusterGroupId, SkipKind
from connect_share.model.records import TopicType
from connect_share.storage.checkpoint import SAVE_EVERY_S
from connect_share.storage.live_members import AllowLiveMembers
from connect_share.storage.start import RunningStorage, StorageLife, StorageOptions, StorageStartup, start_storage
from connect_share.stores.alter_offsets import OffsetPair, StoredOffset, alter_offsets, reset_offsets, stored_offsets
from connect_share.stores.config import ConfigUpdateListener, KafkaConfigBackingStore
from connect_share.stores.offsets import (
    KafkaOffsetBackingStore,
    OffsetBackingStore,
    OffsetStorageReader,
    OffsetStorageWriter,
)
from connect_share.stores.status import KafkaStatusBackingStore
from connect_share.stores.task_offset_writer import TaskOffsetWriter
from connect_share.stores.transactional_writer import TransactionalWriter
from connect_share.worker_config import WorkerConfig, WorkerConfigTransformer

F = TypeVar("F", bound=Callable[..., Any])


class StorageArguments(TypedDict, total=False):
    """What every storage takes; see ``ConnectStorage``."""

    allow_empty: bool
    allow_live_members: AllowLiveMembers
    update_listener: ConfigUpdateListener | None
    config_transformer: WorkerConfigTransformer | None
    on_failed: OnFailed | None


class CheckpointArguments(StorageArguments, total=False):
    """What a storage of one worker takes beside that."""

    checkpoint: Path | str | None
    checkpoint_every_s: float


def spelled_out(taken: type[StorageArguments]) -> Callable[[F], F]:
    """Let help() show what a function takes as ``**arguments``, each with the default of ``ConnectStorage``."""

    def spell(function: F) -> F:
        own = signature(function)
        known = signature(ConnectStorage).parameters
        first = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        more = [known[name] for name in known if name in taken.__annotations__]
        vars(function)["__signature__"] = own.replace(parameters=[*first, *more])
        return function

    return spell


class ConnectStorage:
    """Config, status and offset store of one Connect worker, as a context manager.

    Entering makes sure of the topics and reads them side by side; leaving closes everything, also after an
    exception. Sharing is decided by the worker's properties: with
    ``connect.management.topic.sharing.support=enabled`` keys carry ``group.id`` as prefix.

    Args:
        worker_config: a Java worker's properties, as ``WorkerConfig``.
        allow_empty: start although sharing is on and the topics hold plain records only. By default that is
            refused: the group was never moved onto these topics, and would look empty. Also start although a topic is
            missing and the group has records in the others: it is lost, and would be made anew, empty.
        allow_live_members: write although workers of the same Connect group are alive. By default that is refused: two
            writers would overwrite each other. A function of ``GroupMember`` allows the members it returns True for, such as
            ``ConnectGroupMember.is_own_member``.
        update_listener: called with changes on the config topic after the start.
        config_transformer: resolves references to config providers in the snapshots of :attr:`config`, and keeps what they
            stand for out of the task configurations that are written. By default snapshots are raw.
        on_failed: called once with :attr:`failed`, on a thread of its own; it may close this storage.
        checkpoint: file to go on from, where that is provably as good as reading everything (see
            ``docs/start-up.md``), and to write while this runs and on leaving. Holds secrets, mode 0600.
        checkpoint_every_s: seconds between two versions of it. Without a file it is refused (``ConfigError``).

    Raises (on entering):
        PlainTopicsError, LostTopicError: see ``allow_empty``.
        TopicError: a topic is missing and cannot be created, or is not as Connect demands.
        BrokerError: the cluster cannot be reached, or refuses.
        ReadToEndTimeoutError: the end of a topic was not reached in time.

    >>> with ConnectStorage(worker_config) as storage:
    ...     storage.config.put_connector_config("c", {"name": "c"})
    ...     sorted(storage.config.snapshot().connectors())
    ['c']
    """

    def __init__(
        self,
        worker_config: WorkerConfig,
        *,
        allow_empty: bool = False,
        allow_live_members: AllowLiveMembers = False,
        update_listener: ConfigUpdateListener | None = None,
        config_transformer: WorkerConfigTransformer | None = None,
        on_failed: OnFailed | None = None,
        checkpoint: Path | str | None = None,
        checkpoint_every_s: float = SAVE_EVERY_S,
    ) -> None:
        if checkpoint is None and checkpoint_every_s != SAVE_EVERY_S:
            raise ConfigError("checkpoint_every_s has no effect without checkpoint=: name a file, or leave it out")
        if not 0 < checkpoint_every_s <= threading.TIMEOUT_MAX:
            raise ConfigError("checkpoint_every_s has to be a number of seconds above 0")
        self._worker_config = worker_config
        self._options = StorageOptions(
            worker_config,
            allow_empty,
            allow_live_members,
            update_listener,
            config_transformer,
            None if checkpoint is None else Path(checkpoint),
            checkpoint_every_s,
        )
        self._stack: ExitStack | None = None
        self._parts: RunningStorage | None = None
        self._on_failed = on_failed
        self._life = StorageLife(on_failed)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Make sure of the topics, read them, and return this storage; a with statement does it, too.

        After :meth:`stop`, also after a failure, it starts anew: with new clients and threads, from everything that is on the
        topics then. Readers and writers of before do not work any more.

        Raises:
            NotStartedError: it runs, or is being started.
            ConnectShareError: as the class says.
        """
        if self._life.ended:
            self._life = StorageLife(self._on_failed)
        life = self._life
        with life.starting():
            try:
                with ExitStack() as stack:
                    parts = self._start_parts(life, stack)
                    life.check_not_closed()
                    self._stack, self._parts = stack.pop_all(), parts
            except BaseException:
                life.ended = True
                raise
        return self

    def _start_parts(self, life: StorageLife, stack: ExitStack) -> RunningStorage:
        return start_storage(self._options, life, stack)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what was put, stop the stores and close every client; may be called twice, and from any thread.

        A start that is under way ends with ``StoreClosedError``.

        Args:
            timeout_s: how long what was put may take to be acknowledged; without brokers that long is waited.
        """
        life = self._life
        if life.close(timeout_s):
            self._parts = None
            stack, self._stack = self._stack, None
            if stack is not None:
                try:
                    stack.close()
                finally:
                    life.ended = True

    close = stop

    @property
    def failed(self) -> BaseException | None:
        """What ended the log of a store, so that every call of that store raises it; ``None`` while all is well."""
        return self._life.failure

    @property
    def config(self) -> KafkaConfigBackingStore:
        """Connectors, their tasks and target states."""
        return self._running.stores.config

    @property
    def status(self) -> KafkaStatusBackingStore:
        """How connectors and tasks are doing."""
        return self._running.stores.status

    @property
    def offsets(self) -> KafkaOffsetBackingStore:
        """Offsets of source connectors in the worker's topic."""
        return self._running.stores.offsets

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
        return self._worker_config.cluster_group_id

    def offset_reader(self, connector: str) -> OffsetStorageReader:
        """Make a reader of a connector's offsets, in the connector's own offsets topic if it has one."""
        store = self._running.connector_offsets.store_of(connector)
        return OffsetStorageReader(store, connector)

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
                "outside of the transaction in which a task writes its records: use task_offset_writer(), or "
                "transactional=False if at least once is enough"
            )
        store = self._running.connector_offsets.store_of(connector)
        return OffsetStorageWriter(store, connector)

    def task_offset_writer(self, connector: str, task: int) -> TaskOffsetWriter:
        """Make what writes the records of a source task and their offsets in one transaction, with exactly-once.

        Offsets go to the connector's own topic if it has one. The producer has the transactional id that Java's worker gives
        to this task, and the connector's ``producer.override.*``.

        Args:
            connector: the connector's name.
            task: its number, from 0.

        Raises:
            UsageError: ``exactly.once.source.support`` is not ``enabled``.
            ConfigError: the connector's configuration contradicts itself, or the worker's policy.
            ValueFormatError: that is no connector, or no task.
        """
        return self._running.source_tasks.offset_writer(connector, task)

    def fence_tasks(self, connector: str, count: int) -> None:
        """Fence the producers of tasks 0 to ``count - 1`` of a source connector, wherever they run.

        They can write no more, and what they have open is aborted. Only the leader should do it, see
        :meth:`fence_zombie_source_tasks`.

        Raises:
            UsageError: ``exactly.once.source.support`` is not ``enabled``.
            TaskCountError: more tasks than anybody means; nothing was fenced.
            LiveMembersError: Java workers of the group are alive; the same.
            StoreError: not all of them were fenced; try again.

        Source: ``Worker.fenceZombies``.
        """
        self._running.source_tasks.fence(connector, count)

    def fence_zombie_source_tasks(self, connector: str) -> None:
        """Fence the tasks of before and write the new task count record: the leader's work before a connector's tasks start.

        Does nothing if that was done since the last task configurations. Needs ``config.claim_write_privileges()``.

        Raises:
            UsageError: exactly-once is not enabled, or there is no such connector.
            PrivilegedWriteError: write privileges are not held.
            StoreError: not all of them were fenced, or there are new task configurations meanwhile; try again.
            TaskCountError, LiveMembersError: as :meth:`fence_tasks`.

        Source: ``DistributedHerder.fenceZombieSourceTasks``.
        """
        self._running.source_tasks.fence_zombies(connector)

    def stored_offsets(self, connector: str) -> list[StoredOffset]:
        """Return a connector's source partitions and value bytes, wherever it keeps them; one entry for each key.

        Raises:
            ReadToEndTimeoutError: the end was not reached in time.
            StoreError: the store cannot be read.
        """
        return stored_offsets(self._running.connector_offsets.store_of(connector), connector)

    def alter_offsets(self, connector: str, offsets: Iterable[OffsetPair], *, force: bool = False) -> int:
        """Set offsets of a connector that is stopped, ``None`` to forget one, wherever it keeps them.

        With exactly-once in one transaction of its first task; all its tasks are fenced first, wherever they run.

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
        store, writer = self._changing(connector, force=force)
        return alter_offsets(store, connector, offsets, transactional_writer=writer)

    def reset_offsets(self, connector: str, *, force: bool = False) -> int:
        """Forget all offsets of a connector that is stopped; else as :meth:`alter_offsets`."""
        store, writer = self._changing(connector, force=force)
        return reset_offsets(store, connector, transactional_writer=writer)

    def _changing(self, connector: str, *, force: bool) -> tuple[OffsetBackingStore, TransactionalWriter | None]:
        stores = self._running.connector_offsets
        if not force:
            stores.check_stopped(connector)
        return stores.store_of(connector), self._running.source_tasks.first_task_writer(connector)

    @property
    def _running(self) -> RunningStorage:
        self._life.process.check()
        parts = self._parts  # another thread may close at any moment
        if parts is None:
            raise NotStartedError("ConnectStorage is not running; call start(), or use it in a with statement")
        return parts


def refused_by(storage: ConnectStorage) -> dict[TopicType, int]:
    """Return how many records of the group its stores have refused, by topic; of plain keys none can be."""
    stores = {TopicType.CONFIG: storage.config, TopicType.STATUS: storage.status, TopicType.OFFSET: storage.offsets}
    skipped = {kind: store.skipped() for kind, store in stores.items() if storage.cluster_group_id is not None}
    return {kind: each.get(SkipKind.REFUSED, 0) for kind, each in skipped.items()}
