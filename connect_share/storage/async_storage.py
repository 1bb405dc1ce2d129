"""Carries out operations on an event loop, with a few threads for what blocks.

The three stores with awaitable writes; errors, deadlines and what is written are those of the stores behind them.

``ConnectStorage`` on asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Generic, Literal, ParamSpec, Self, TypeVar, overload

from connect_share.errors import ConnectShareError, NotStartedError
from connect_share.log.protocol import STOP_TIMEOUT_S, Steps, Wait, steps_of
from connect_share.log.tail import OnFailed
from connect_share.model.config_state import ClusterConfigState, RestartRequest, SessionKey, TargetState
from connect_share.model.offsets import OffsetSnapshot
from connect_share.model.records import ConnectorTaskId
from connect_share.model.status import ConnectorStatus, StatusSnapshot, TaskStatus, TopicStatus
from connect_share.storage.config_events import ConfigEvents, FanOut
from connect_share.storage.connect_storage import ConnectStorage
from connect_share.storage.live_members import AllowLiveMembers
from connect_share.storage.start import StorageStartup
from connect_share.stores.alter_offsets import OffsetPair
from connect_share.stores.base import REFRESH_TIMEOUT_S, KafkaTopicBasedBackingStore
from connect_share.stores.config import ConfigUpdateListener, KafkaConfigBackingStore, check_listener
from connect_share.stores.offsets import KafkaOffsetBackingStore, OffsetStorageReader, OffsetStorageWriter
from connect_share.stores.status import FLUSH_TIMEOUT_S, KafkaStatusBackingStore
from connect_share.stores.task_offset_writer import TaskOffsetWriter
from connect_share.worker_config import WorkerConfig

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=KafkaTopicBasedBackingStore)

_READERS: Final = 4


class Driver:
    """One thread for calls that change something, in their order; four for reads that wait.

    Operations under one key, such as the name of a connector, are carried out one after the other. An operation whose caller
    was cancelled goes on to its end: what was sent cannot be called back, and what follows belongs to it.
    """

    def __init__(self) -> None:
        self._calls = ThreadPoolExecutor(1, thread_name_prefix="async-storage-calls")
        self._reads = ThreadPoolExecutor(_READERS, thread_name_prefix="async-storage-reads")
        self._last: dict[str, asyncio.Task[Any]] = {}

    async def perform(self, key: str, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Carry out an operation behind those of the same key, and return its result."""
        before = self._last.get(key)
        task = asyncio.ensure_future(self._behind(before, steps_of(method)(*args, **kwargs)))
        self._last[key] = task
        task.add_done_callback(lambda ended: self._forget(key, ended))
        return await asyncio.shield(task)

    async def _behind(self, before: asyncio.Task[Any] | None, steps: Steps[T]) -> T:
        if before is not None:
            await asyncio.wait([before])
        return await self._carry_out(steps)

    async def _carry_out(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, Wait):
                        result = await asyncio.wait_for(asyncio.wrap_future(step.future), step.timeout_s)
                    else:
                        result = await self.call(step.function)
                except BaseException as error:  # noqa: BLE001 - the operation decides what it means
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as ended:
            result_of_all: T = ended.value
            return result_of_all

    def _forget(self, key: str, ended: asyncio.Task[Any]) -> None:
        if self._last.get(key) is ended:
            del self._last[key]
        if not ended.cancelled():
            ended.exception()  # it was raised where it was awaited, or nobody awaits it any more

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call what blocks and changes something; calls follow each other."""
        return await asyncio.get_running_loop().run_in_executor(self._calls, function, *arguments)

    async def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call what blocks and only reads."""
        return await asyncio.get_running_loop().run_in_executor(self._reads, function, *arguments)

    async def wait_for_all(self) -> None:
        """Wait until the operations that have begun are through."""
        while self._last:
            await asyncio.wait(list(self._last.values()))

    def close(self) -> None:
        """Let the threads end when they are through."""
        self._calls.shutdown(wait=False)
        self._reads.shutdown(wait=False)


# No connector has an empty name: what belongs to none is carried out in one order, too.
_NO_CONNECTOR: Final = ""


class _AsyncStore(Generic[S]):
    """What the three stores have in common."""

    def __init__(self, store: S, driver: Driver) -> None:
        self._store = store
        self._driver = driver

    async def refresh(self, timeout_s: float = REFRESH_TIMEOUT_S) -> None:
        """Return once everything that is in the topic now was applied."""
        await self._driver.read(self._store.refresh, timeout_s)


class AsyncConfigStore(_AsyncStore[KafkaConfigBackingStore]):
    """The config store: methods as of ``KafkaConfigBackingStore``, writes awaitable."""

    def __init__(self, store: KafkaConfigBackingStore, driver: Driver, listeners: FanOut) -> None:
        super().__init__(store, driver)
        self._listeners = listeners

    def snapshot(self) -> ClusterConfigState:
        """Return what is configured, as read so far."""
        return self._store.snapshot()

    def contains(self, connector: str) -> bool:
        """Return whether a connector of this name is configured."""
        return self._store.contains(connector)

    def set_update_listener(self, listener: ConfigUpdateListener | None) -> None:
        """Call a listener with changes from now on, on the thread that follows the topic; beside :meth:`events`."""
        if listener is not None:
            check_listener(listener)
        self._listeners.inner = listener or ConfigUpdateListener()

    def events(self) -> ConfigEvents:
        """Return the changes from now on, for ``async for``; several may listen."""
        return self._listeners.listen()

    async def put_connector_config(
        self, connector: str, properties: Mapping[str, str | None], target_state: TargetState | None = None
    ) -> None:
        """Write a connector's configuration, and read it back."""
        await self._driver.perform(connector, self._store.put_connector_config, connector, properties, target_state)

    async def remove_connector_config(self, connector: str) -> None:
        """Remove a connector, and read that back."""
        await self._driver.perform(connector, self._store.remove_connector_config, connector)

    async def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        """Write the configurations of all tasks of a connector, commit them, and read that back."""
        await self._driver.perform(connector, self._store.put_task_configs, connector, configs)

    async def remove_task_configs(self, connector: str) -> None:
        """Raise ``UsageError``: Connect's store does not support it either."""
        self._store.remove_task_configs(connector)

    async def put_target_state(self, connector: str, state: TargetState) -> None:
        """Write what is wanted of a connector."""
        await self._driver.perform(connector, self._store.put_target_state, connector, state)

    async def put_task_count_record(self, connector: str, task_count: int) -> None:
        """Write how many tasks the next generation may have started, and read it back."""
        await self._driver.perform(connector, self._store.put_task_count_record, connector, task_count)

    async def put_session_key(self, session_key: SessionKey) -> None:
        """Write the key that workers sign internal requests with, and read it back."""
        await self._driver.perform(_NO_CONNECTOR, self._store.put_session_key, session_key)

    async def put_restart_request(self, request: RestartRequest) -> None:
        """Write a request to restart a connector, and read it back."""
        await self._driver.perform(_NO_CONNECTOR, self._store.put_restart_request, request)

    async def put_logger_level(self, namespace: str, level: str) -> None:
        """Write the level of a logger."""
        await self._driver.perform(_NO_CONNECTOR, self._store.put_logger_level, namespace, level)

    async def claim_write_privileges(self) -> None:
        """In exactly-once mode become the one writer, and fence the writer before."""
        await self._driver.perform(_NO_CONNECTOR, self._store.claim_write_privileges)


class AsyncStatusStore(_AsyncStore[KafkaStatusBackingStore]):
    """The status store: methods as of ``KafkaStatusBackingStore``. A put waits for nothing there, and for nothing here."""

    async def put(self, status: ConnectorStatus | TaskStatus | TopicStatus) -> None:
        """Write a status whatever was written before."""
        self._store.put(status)

    async def put_safe(self, status: ConnectorStatus | TaskStatus) -> None:
        """Write a status unless another worker has written a newer generation."""
        self._store.put_safe(status)

    async def delete_topic(self, connector: str, topic: str) -> None:
        """Forget that a connector uses a topic."""
        self._store.delete_topic(connector, topic)

    @overload
    def get(self, subject: str) -> ConnectorStatus | None: ...

    @overload
    def get(self, subject: ConnectorTaskId) -> TaskStatus | None: ...

    def get(self, subject: str | ConnectorTaskId) -> ConnectorStatus | TaskStatus | None:
        """Return the status of a connector or task, as last read."""
        return self._store.get(subject)

    def get_all(self, connector: str) -> list[TaskStatus]:
        """Return the statuses of all tasks of a connector, as last read."""
        return self._store.get_all(connector)

    def get_topic(self, connector: str, topic: str) -> TopicStatus | None:
        """Return what is known of a connector's use of a topic, as last read."""
        return self._store.get_topic(connector, topic)

    def get_all_topics(self, connector: str) -> list[TopicStatus]:
        """Return all topics a connector uses, as last read."""
        return self._store.get_all_topics(connector)

    def connectors(self) -> frozenset[str]:
        """Name the connectors that have a status."""
        return self._store.connectors()

    def snapshot(self) -> StatusSnapshot:
        """Return what was read so far, immutable."""
        return self._store.snapshot()

    async def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Wait until everything put so far is acknowledged or has failed once."""
        await self._driver.read(self._store.flush, timeout_s)


class AsyncOffsetStore(_AsyncStore[KafkaOffsetBackingStore]):
    """The offset store: methods as of ``KafkaOffsetBackingStore``, reads and writes awaitable."""

    async def get(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        """Read to the end, then look up wire keys."""
        return await asyncio.wrap_future(self._store.get(keys))

    async def set(self, values: Mapping[bytes, bytes | None]) -> None:
        """Write values under wire keys, ``None`` as tombstone."""
        await asyncio.shield(asyncio.wrap_future(self._store.set(values)))

    def connector_partitions(self, connector: str) -> list[dict[str, Any]]:
        """List the source partitions for which the connector has offsets, as last read."""
        return self._store.connector_partitions(connector)

    def snapshot(self) -> OffsetSnapshot:
        """Return what was read so far, immutable."""
        return self._store.snapshot()


class AsyncOffsetReader:
    """Reads the offsets of one connector; methods as of ``OffsetStorageReader``."""

    def __init__(self, reader: OffsetStorageReader, driver: Driver) -> None:
        self._reader = reader
        self._driver = driver

    async def offset(self, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Look up one source partition."""
        return await self._driver.read(self._reader.offset, partition)

    async def offsets(
        self, partitions: Iterable[Mapping[str, Any] | None]
    ) -> list[tuple[Mapping[str, Any] | None, dict[str, Any] | None]]:
        """Look up several source partitions at once."""
        return await self._driver.read(self._reader.offsets, list(partitions))

    def close(self) -> None:
        """End reads that wait, and refuse later ones."""
        self._reader.close()


class AsyncOffsetWriter:
    """Writes the offsets of one task; methods as of ``OffsetStorageWriter``."""

    def __init__(self, writer: OffsetStorageWriter) -> None:
        self._writer = writer

    def offset(self, partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> None:
        """Set the offset of a source partition, for the next flush."""
        self._writer.offset(partition, offset)

    def will_flush(self) -> bool:
        """Return whether a flush is under way."""
        return self._writer.will_flush()

    def begin_flush(self) -> bool:
        """Take what was set so far; ``False``: there is nothing to flush."""
        return self._writer.begin_flush()

    async def do_flush(self) -> None:
        """Write what was taken, and return when it is acknowledged.

        Raises:
            ConnectShareError: it was not written; :meth:`cancel_flush` keeps the offsets for the next flush.
        """
        errors: list[BaseException] = []
        written = self._writer.do_flush(lambda error: None if error is None else errors.append(error))
        if written is None:
            raise errors[0]
        await asyncio.shield(asyncio.wrap_future(written))

    def cancel_flush(self) -> None:
        """Give up the flush under way; its offsets stay, under newer ones."""
        self._writer.cancel_flush()


class AsyncConnectStorage:
    """Config, status and offset store of one Connect worker, as an asynchronous context manager.

    The stores are those of ``ConnectStorage``, with the same errors and deadlines. Writes and flushes are awaitable, what was
    read so far is there at once (``snapshot()``, ``get()``), and changes come by ``async for``. Waiting takes no thread; what
    blocks in the client library runs on five threads at most, however many calls are made.

    Writes of one connector are carried out one after the other. A caller that is cancelled stops waiting, no more: its write
    goes on to its end.

    Args: as of ``ConnectStorage``; ``update_listener`` and ``on_failed`` are called on other threads.

    Raises (on entering): as ``ConnectStorage``.

    >>> import asyncio
    >>> async def main():
    ...     async with AsyncConnectStorage(worker_config) as storage:
    ...         await storage.config.put_connector_config("c", {"name": "c"})
    ...         return sorted(storage.config.snapshot().connectors())
    >>> asyncio.run(main())
    ['c']
    """

    def __init__(
        self,
        worker_config: WorkerConfig,
        *,
        allow_empty: bool = False,
        allow_live_members: AllowLiveMembers = False,
        update_listener: ConfigUpdateListener | None = None,
        on_failed: OnFailed | None = None,
        checkpoint: Path | str | None = None,
    ) -> None:
        self._listeners = FanOut(update_listener)
        self._on_failed = on_failed
        self._storage = ConnectStorage(
            worker_config,
            allow_empty=allow_empty,
            allow_live_members=allow_live_members,
            update_listener=self._listeners,
            on_failed=self._fail,
            checkpoint=checkpoint,
        )
        self._driver: Driver | None = None

    def _fail(self, error: ConnectShareError) -> None:
        self._listeners.end_all(error)
        if self._on_failed is not None:
            self._on_failed(error)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> Self:
        """Make sure of the topics, read them, and return this storage."""
        if self._driver is not None:
            raise NotStartedError("this AsyncConnectStorage was started before, and not stopped since")
        driver = self._driver = Driver()
        started = asyncio.ensure_future(driver.call(self._storage.start))
        try:
            await asyncio.shield(started)
        except BaseException:
            # Cancelled, or failed: nothing stays behind.
            await driver.read(self._storage.stop)
            await asyncio.wait([started])
            driver.close()
            self._driver = None
            raise
        return self

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what was put, end, and close every client; may be called twice."""
        driver, self._driver = self._driver, None
        if driver is not None:
            try:
                await asyncio.shield(driver.read(self._storage.stop, timeout_s))
                await driver.wait_for_all()
            finally:
                driver.close()
                self._listeners.end_all()

    @property
    def failed(self) -> BaseException | None:
        """What ended the log of a store; ``None`` while all is well."""
        return self._storage.failed

    @property
    def startup(self) -> StorageStartup:
        """What the start took."""
        return self._storage.startup

    @property
    def config(self) -> AsyncConfigStore:
        """Connectors, their tasks and target states."""
        return AsyncConfigStore(self._storage.config, self._running, self._listeners)

    @property
    def status(self) -> AsyncStatusStore:
        """How connectors and tasks are doing."""
        return AsyncStatusStore(self._storage.status, self._running)

    @property
    def offsets(self) -> AsyncOffsetStore:
        """Offsets of source connectors in the worker's topic."""
        return AsyncOffsetStore(self._storage.offsets, self._running)

    def events(self) -> ConfigEvents:
        """Return the changes on the config topic from now on, for ``async for``."""
        return self.config.events()

    async def offset_reader(self, connector: str) -> AsyncOffsetReader:
        """Make a reader of a connector's offsets; its own offsets topic is read first, if it has one."""
        reader = await self._running.read(self._storage.offset_reader, connector)
        return AsyncOffsetReader(reader, self._running)

    async def offset_writer(self, connector: str, *, transactional: Literal[False] | None = None) -> AsyncOffsetWriter:
        """Make a writer of a connector's offsets."""
        storage = self._storage
        return AsyncOffsetWriter(
            await self._running.read(lambda: storage.offset_writer(connector, transactional=transactional))
        )

    async def task_offset_writer(self, connector: str, task: int) -> TaskOffsetWriter:
        """Make what writes records and offsets of a source task in one transaction; as of ``ConnectStorage``.

        It blocks, as a producer does: use it on the thread on which the task runs, such as one of ``asyncio.to_thread``.
        """
        return await self._running.read(self._storage.task_offset_writer, connector, task)

    async def fence_tasks(self, connector: str, count: int) -> None:
        """End the producers of the first tasks of a connector; as of ``ConnectStorage``."""
        await self._running.call(self._storage.fence_tasks, connector, count)

    async def fence_zombie_source_tasks(self, connector: str) -> None:
        """End the producers of tasks that ran before; as of ``ConnectStorage``."""
        await self._running.call(self._storage.fence_zombie_source_tasks, connector)

    async def alter_offsets(self, connector: str, offsets: Iterable[OffsetPair], *, force: bool = False) -> int:
        """Set offsets of a connector that is stopped; return how many records were written."""
        pairs = list(offsets)
        return await self._running.call(lambda: self._storage.alter_offsets(connector, pairs, force=force))

    async def reset_offsets(self, connector: str, *, force: bool = False) -> int:
        """Forget all offsets of a connector that is stopped."""
        return await self._running.call(lambda: self._storage.reset_offsets(connector, force=force))

    @property
    def _running(self) -> Driver:
        driver = self._driver
        if driver is None:
            raise NotStartedError(
                "AsyncConnectStorage is not running; await start(), or use it in an async with statement"
            )
        return driver
