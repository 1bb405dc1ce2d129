"""``ConnectStorage`` and ``SharedTopics`` on asyncio: operations on an event loop, with a few threads for what blocks.

Changes on the config topic are iterated over.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial, wraps
from inspect import signature
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from connect_share.errors import ConnectShareError, NotStartedError, StoreError
from connect_share.log.protocol import STOP_TIMEOUT_S, Steps, Wait, steps_of
from connect_share.log.tail import OnFailed
from connect_share.model.config import ConfigEvent
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import ConnectorTaskId
from connect_share.model.status import ConnectorStatus, TaskStatus
from connect_share.storage.connect_storage import CheckpointArguments, ConnectStorage, StorageArguments, spelled_out
from connect_share.storage.shared import SharedTopics
from connect_share.storage.start import StorageStartup, closed_meanwhile
from connect_share.stores.base import KafkaTopicBasedBackingStore
from connect_share.stores.config import ConfigUpdateListener, EventReceiver, KafkaConfigBackingStore, check_listener
from connect_share.stores.offsets import (
    FLUSH_TIMEOUT_S,
    KafkaOffsetBackingStore,
    OffsetStorageReader,
    OffsetStorageWriter,
)
from connect_share.stores.status import KafkaStatusBackingStore
from connect_share.worker_config import WorkerConfig

MOST_PENDING: Final = 10_000


class ConfigEvents:
    """The changes since it was made, in order: ``async for event in events``.

    An event that waits already is not added again: who hears that a connector has changed reads the snapshot, which has
    the newest. 10,000 different events wait at most; then the iteration ends with an error, and the whole snapshot has to be
    read.

    Iterating ends when the storage stops, and raises what has failed if a log has failed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, forget: Callable[[ConfigEvents], object]) -> None:
        self._loop = loop
        self._forget = forget
        self._lock = threading.Lock()
        self._pending: dict[ConfigEvent, None] = {}
        self._something = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConfigEvent:
        while True:
            with self._lock:
                if self._pending:
                    event = next(iter(self._pending))
                    del self._pending[event]
                    return event
                if self._ended:
                    break
                self._something.clear()
            await self._something.wait()
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    def add(self, event: ConfigEvent) -> None:
        """Hand over an event; called by the thread that follows the topic, which is not kept waiting."""
        with self._lock:
            full = len(self._pending) >= MOST_PENDING and event not in self._pending
            if not full and not self._ended:
                self._pending[event] = None
        if full:
            self.end(
                StoreError(f"{MOST_PENDING:,} changes waited and were not taken: look at the snapshot, listen again")
            )
        else:
            self._wake()

    def end(self, error: ConnectShareError | None = None) -> None:
        """Let the iteration end behind what waits; with an error, at once."""
        self._forget(self)
        with self._lock:
            if self._ended:
                return
            self._ended, self._error = True, error
            if error is not None:
                self._pending.clear()
        self._wake()

    async def aclose(self) -> None:
        """Listen no more."""
        self.end()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._something.set)
        except RuntimeError:  # the loop was closed: nothing waits there
            self._forget(self)


class FanOut(EventReceiver):
    """The listener that hands events to all who iterate; ``inner`` is that of the embedder, if there is one."""

    def __init__(self, inner: ConfigUpdateListener | None) -> None:
        self.inner = inner
        self._lock = threading.Lock()
        self._listening: list[ConfigEvents] = []

    def listen(self) -> ConfigEvents:
        """Return the events from now on, for the running loop."""
        events = ConfigEvents(asyncio.get_running_loop(), self._forget)
        with self._lock:
            self._listening.append(events)
        return events

    def end_all(self, error: ConnectShareError | None = None) -> None:
        """End every iteration."""
        for events in self._all():
            events.end(error)

    def receive(self, event: ConfigEvent) -> ConfigUpdateListener | None:
        """Add an event to all iterations, and return the embedder's listener."""
        for events in self._all():
            events.add(event)
        return self.inner

    def _all(self) -> list[ConfigEvents]:
        with self._lock:
            return list(self._listening)

    def _forget(self, events: ConfigEvents) -> None:
        with self._lock:
            if events in self._listening:
                self._listening.remove(events)


P = ParamSpec("P")
T = TypeVar("T")

_READERS: Final = 4
_STOP_AGAIN_S: Final = 0.1


async def to_its_end(awaited: Awaitable[T]) -> T:
    """Wait for what goes on if the caller is cancelled; no caller reads its result then; asyncio must not complain."""
    changing = asyncio.ensure_future(awaited)
    changing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return await asyncio.shield(changing)


async def on_own_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call what ends something on a new thread: those that the loop has may all wait for just that end."""
    return await asyncio.get_running_loop().run_in_executor(ThreadPoolExecutor(1, "async-stop"), function, *arguments)


async def stopped_until_its_end(starting: asyncio.Future[Any], stop: Callable[[], Awaitable[object]]) -> None:
    """Stop until a start has ended, and then what it has started: one whose thread has not begun notices no stop."""
    while not starting.done():
        await stop()
        await asyncio.wait([starting], timeout=_STOP_AGAIN_S)
    await stop()


Pools = tuple[Executor, Executor, Executor]
"""Threads for calls that change something, for reads, and for reads of offsets topics; they are made when they are needed."""


def new_pools(calls: int, reads: int) -> Pools:
    """Return pools of so many threads."""
    made = partial(ThreadPoolExecutor, thread_name_prefix="async-storage")
    return made(calls), made(reads), made(reads)


class Driver:
    """One thread for calls that change something, in their order, four for reads, and four for those of offsets topics.

    The last may wait a quarter of an hour for transactions of others. Of many groups: pools for all.

    Operations under one key, such as the name of a connector, are carried out one after the other. An operation whose caller
    was cancelled goes on to its end: what was sent cannot be called back, and what follows belongs to it.
    """

    def __init__(self, pools: Pools | None = None) -> None:
        self._calls, self._reads, self._offset_reads = in_use = pools or new_pools(1, _READERS)
        self._own = in_use if pools is None else ()
        self._one_call = asyncio.Lock()
        self._last: dict[object, asyncio.Task[Any]] = {}

    async def perform(self, key: object, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Carry out an operation behind those of the same key, and return its result."""
        before = self._last.get(key)
        task = asyncio.ensure_future(self._carry_out(before, steps_of(method)(*args, **kwargs)))
        self._last[key] = task
        task.add_done_callback(lambda ended: self._forget(key, ended))
        return await to_its_end(task)

    async def _carry_out(self, before: asyncio.Task[Any] | None, steps: Steps[T]) -> T:
        if before is not None:
            await asyncio.wait([before])
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

    def _forget(self, key: object, ended: asyncio.Task[Any]) -> None:
        if self._last.get(key) is ended:
            del self._last[key]

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call what blocks and changes something; calls follow each other. It is called also if the caller is cancelled."""
        return await to_its_end(self._called(function, *arguments))

    async def _called(self, function: Callable[..., T], *arguments: Any) -> T:
        async with self._one_call:
            return await asyncio.get_running_loop().run_in_executor(self._calls, function, *arguments)

    async def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call what blocks and only reads."""
        return await asyncio.get_running_loop().run_in_executor(self._reads, function, *arguments)

    async def read_offsets(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call what reads an offsets topic."""
        return await asyncio.get_running_loop().run_in_executor(self._offset_reads, function, *arguments)

    async def wait_for_all(self) -> None:
        """Wait until the operations that have begun are through."""
        while self._last:
            await asyncio.wait(list(self._last.values()))

    def close(self) -> None:
        """Let the threads end when they are through."""
        for pool in self._own:
            pool.shutdown(wait=False)


S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class _Asynchronous(Generic[S_co]):
    """What stands before an object of the storage, called ``sync``, on an event loop."""

    def __init__(self, driver: Driver | None, sync: S_co) -> None:
        self._running = driver
        self._sync = sync

    @property
    def _driver(self) -> Driver:
        if self._running is None:
            raise NotStartedError(
                "AsyncConnectStorage is not running; await start(), or use it in an async with statement"
            )
        return self._running

    @property
    def sync(self) -> S_co:
        """The object that blocks, for what needs one; call its methods that wait on a thread."""
        return self._sync


def _same(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[_Asynchronous[S], P], T]:
    """Return the method as it is: it does not wait."""

    @wraps(method)
    def same(self: _Asynchronous[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self._sync, *args, **kwargs)

    return same


def _awaitable(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[_Asynchronous[S], P], Coroutine[Any, Any, T]]:
    """Return the method, awaitable although it does not wait."""

    @wraps(method)
    async def awaitable(self: _Asynchronous[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self._sync, *args, **kwargs)

    return awaitable


def _blocking(
    method: Callable[Concatenate[S, P], T], run: Callable[[Driver, Callable[[], T]], Coroutine[Any, Any, T]]
) -> Callable[Concatenate[_Asynchronous[S], P], Coroutine[Any, Any, T]]:
    """Return the awaitable form of a method that blocks, which a method of the driver runs."""

    @wraps(method)
    async def blocking(self: _Asynchronous[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run(self._driver, partial(method, self._sync, *args, **kwargs))

    return blocking


def _performed(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[_Asynchronous[S], P], Coroutine[Any, Any, T]]:
    """Return the awaitable form of an operation; those of one connector, and those of none, are carried out in order."""
    parameters = signature(method)

    @wraps(method)
    async def performed(self: _Asynchronous[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        connector = parameters.bind(self._sync, *args, **kwargs).arguments.get("connector", "")
        operation: Callable[P, T] = getattr(self._sync, method.__name__)
        return await self._driver.perform(connector, operation, *args, **kwargs)

    return performed


B_co = TypeVar("B_co", bound=KafkaTopicBasedBackingStore, covariant=True)


class _AsyncStore(_Asynchronous[B_co]):
    """What the three stores have in common."""

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self._sync.topic

    @property
    def cluster_group_id(self) -> ClusterGroupId | None:
        """Group whose keys are read and written, ``None`` for plain keys."""
        return self._sync.cluster_group_id

    positions = _same(KafkaTopicBasedBackingStore.positions)
    skipped = _same(KafkaTopicBasedBackingStore.skipped)
    refresh = _blocking(KafkaTopicBasedBackingStore.refresh, Driver.read)


class AsyncConfigStore(_AsyncStore[KafkaConfigBackingStore]):
    """The config store: methods as of ``KafkaConfigBackingStore``, writes awaitable."""

    def __init__(self, driver: Driver, store: KafkaConfigBackingStore, listeners: FanOut) -> None:
        super().__init__(driver, store)
        self._listeners = listeners

    def set_update_listener(self, listener: ConfigUpdateListener | None) -> None:
        """Call a listener with changes from now on, on the thread that follows the topic; beside :meth:`events`."""
        if listener is not None:
            check_listener(listener)
        self._listeners.inner = listener

    def events(self) -> ConfigEvents:
        """Return the changes from now on, for ``async for``; several may listen."""
        return self._listeners.listen()

    @property
    def listener_failures(self) -> int:
        """How often a listener raised."""
        return self._sync.listener_failures

    snapshot = _same(KafkaConfigBackingStore.snapshot)
    contains = _same(KafkaConfigBackingStore.contains)
    put_connector_config = _performed(KafkaConfigBackingStore.put_connector_config)
    remove_connector_config = _performed(KafkaConfigBackingStore.remove_connector_config)
    put_task_configs = _performed(KafkaConfigBackingStore.put_task_configs)
    remove_task_configs = _awaitable(KafkaConfigBackingStore.remove_task_configs)
    put_target_state = _performed(KafkaConfigBackingStore.put_target_state)
    put_task_count_record = _performed(KafkaConfigBackingStore.put_task_count_record)
    put_session_key = _performed(KafkaConfigBackingStore.put_session_key)
    put_restart_request = _performed(KafkaConfigBackingStore.put_restart_request)
    put_logger_level = _performed(KafkaConfigBackingStore.put_logger_level)
    claim_write_privileges = _performed(KafkaConfigBackingStore.claim_write_privileges)


class AsyncStatusStore(_AsyncStore[KafkaStatusBackingStore]):
    """The status store: methods as of ``KafkaStatusBackingStore``. A put waits for nothing there, and for nothing here."""

    @overload
    def get(self, subject: str) -> ConnectorStatus | None: ...

    @overload
    def get(self, subject: ConnectorTaskId) -> TaskStatus | None: ...

    def get(self, subject: str | ConnectorTaskId) -> ConnectorStatus | TaskStatus | None:
        """Return the status of a connector or task, as last read."""
        return self._sync.get(subject)

    put = _awaitable(KafkaStatusBackingStore.put)
    put_safe = _awaitable(KafkaStatusBackingStore.put_safe)
    delete_topic = _awaitable(KafkaStatusBackingStore.delete_topic)
    get_all = _same(KafkaStatusBackingStore.get_all)
    get_topic = _same(KafkaStatusBackingStore.get_topic)
    get_all_topics = _same(KafkaStatusBackingStore.get_all_topics)
    connectors = _same(KafkaStatusBackingStore.connectors)
    snapshot = _same(KafkaStatusBackingStore.snapshot)
    flush = _blocking(KafkaStatusBackingStore.flush, Driver.read)


class AsyncOffsetStore(_AsyncStore[KafkaOffsetBackingStore]):
    """The offset store: methods as of ``KafkaOffsetBackingStore``, reads and writes awaitable."""

    async def get(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        """Read to the end, then look up wire keys."""
        return await asyncio.wrap_future(self._sync.get(keys))

    async def set(self, values: Mapping[bytes, bytes | None]) -> None:
        """Write values under wire keys, ``None`` as tombstone."""
        await to_its_end(asyncio.wrap_future(self._sync.set(values)))

    connector_partitions = _same(KafkaOffsetBackingStore.connector_partitions)
    snapshot = _same(KafkaOffsetBackingStore.snapshot)


class AsyncOffsetReader(_Asynchronous[OffsetStorageReader]):
    """Reads the offsets of one connector; methods as of ``OffsetStorageReader``."""

    offsets = _blocking(OffsetStorageReader.offsets, Driver.read_offsets)
    offset = _blocking(OffsetStorageReader.offset, Driver.read_offsets)
    close = _same(OffsetStorageReader.close)


class AsyncOffsetWriter(_Asynchronous[OffsetStorageWriter]):
    """Writes the offsets of one task; methods as of ``OffsetStorageWriter``."""

    def begin_flush(self) -> bool:
        """Take what was set so far; ``False``: there is nothing to flush."""
        return self._sync.begin_flush()

    async def do_flush(self) -> None:
        """Write what was taken, and return when it is acknowledged.

        Raises:
            ConnectShareError: it was not written; :meth:`cancel_flush` keeps the offsets for the next flush.
        """
        await to_its_end(asyncio.wrap_future(self._sync.do_flush()))

    async def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> bool:
        """Write what was set so far, and return when it is acknowledged; as of ``OffsetStorageWriter``."""
        return await self._driver.perform(object(), self._sync.flush, timeout_s)

    offset = _same(OffsetStorageWriter.offset)
    will_flush = _same(OffsetStorageWriter.will_flush)
    cancel_flush = _same(OffsetStorageWriter.cancel_flush)


class AsyncConnectStorage(_Asynchronous[ConnectStorage]):
    """Config, status and offset store of one Connect worker, as an asynchronous context manager.

    The stores are those of ``ConnectStorage``, with the same errors and deadlines. Writes and flushes are awaitable, what was
    read so far is there at once (``snapshot()``, ``get()``), and changes come by ``async for``. Waiting takes no thread; what
    blocks in the client library runs on nine threads at most, however many calls are made.

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

    @spelled_out(CheckpointArguments)
    def __init__(self, worker_config: WorkerConfig, **arguments: Unpack[CheckpointArguments]) -> None:
        self._stand_on(partial(ConnectStorage, worker_config), arguments)

    def _stand_on(
        self, make: Callable[..., ConnectStorage], arguments: StorageArguments, pools: Pools | None = None
    ) -> None:
        """Stand before a storage, which is made here so that it tells this one of changes and failures."""
        self._listeners = FanOut(arguments.get("update_listener"))
        self._on_failed = arguments.get("on_failed")
        super().__init__(None, make(**{**arguments, "update_listener": self._listeners, "on_failed": self._fail}))
        self._pools = pools

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
        if self._running is not None:
            raise NotStartedError("this AsyncConnectStorage was started before, and not stopped since")
        driver = self._running = Driver(self._pools)
        self._starting = starting = asyncio.ensure_future(driver.call(self._sync.start))
        try:
            await to_its_end(starting)
        except BaseException:
            if self._running is driver:  # cancelled, or failed: nothing stays behind
                await self.stop()
            raise
        if self._running is not driver:
            raise closed_meanwhile()
        return self

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what was put, end, and close every client; may be called twice. A start ends as of ``ConnectStorage``."""
        driver, self._running = self._running, None
        if driver is not None:
            stop = partial(on_own_thread, self._sync.stop, timeout_s)  # reads that wait, it ends itself
            try:
                await to_its_end(stopped_until_its_end(self._starting, stop))
                await driver.wait_for_all()
            finally:
                driver.close()
                self._listeners.end_all()

    close = stop

    @property
    def failed(self) -> BaseException | None:
        """What ended the log of a store; ``None`` while all is well."""
        return self._sync.failed

    @property
    def startup(self) -> StorageStartup:
        """What the start took."""
        _ = self._driver
        return self._sync.startup

    @property
    def cluster_group_id(self) -> ClusterGroupId | None:
        """The group whose records are read and written; ``None`` without sharing."""
        return self._sync.cluster_group_id

    @property
    def config(self) -> AsyncConfigStore:
        """Connectors, their tasks and target states."""
        # The driver first, here and below: one of many groups would begin to start here, and block the loop.
        return AsyncConfigStore(self._driver, self._sync.config, self._listeners)

    @property
    def status(self) -> AsyncStatusStore:
        """How connectors and tasks are doing."""
        return AsyncStatusStore(self._driver, self._sync.status)

    @property
    def offsets(self) -> AsyncOffsetStore:
        """Offsets of source connectors in the worker's topic."""
        return AsyncOffsetStore(self._driver, self._sync.offsets)

    def events(self) -> ConfigEvents:
        """Return the changes on the config topic from now on, for ``async for``."""
        return self.config.events()

    async def offset_reader(self, connector: str) -> AsyncOffsetReader:
        """Make a reader of a connector's offsets; its own offsets topic is read first, if it has one."""
        reader = await self._driver.read_offsets(self._sync.offset_reader, connector)
        return AsyncOffsetReader(self._driver, reader)

    async def offset_writer(self, connector: str, *, transactional: Literal[False] | None = None) -> AsyncOffsetWriter:
        """Make a writer of a connector's offsets."""
        make = partial(self._sync.offset_writer, connector, transactional=transactional)
        writer = await self._driver.read_offsets(make)
        return AsyncOffsetWriter(self._driver, writer)

    save_checkpoint = _blocking(ConnectStorage.save_checkpoint, Driver.read)
    task_offset_writer = _blocking(ConnectStorage.task_offset_writer, Driver.read_offsets)
    stored_offsets = _blocking(ConnectStorage.stored_offsets, Driver.read_offsets)
    fence_tasks = _blocking(ConnectStorage.fence_tasks, Driver.call)
    fence_zombie_source_tasks = _blocking(ConnectStorage.fence_zombie_source_tasks, Driver.call)
    alter_offsets = _blocking(ConnectStorage.alter_offsets, Driver.call)
    reset_offsets = _blocking(ConnectStorage.reset_offsets, Driver.call)


# Of all groups together: calls of one group follow each other.
_CALLS: Final = 8
_READS: Final = 8


class AsyncSharedTopics:
    """One reader for the stores of many groups, as an asynchronous context manager; as of ``SharedTopics``.

    A storage starts by ``await storage.start()``, or ``async with``. The first that starts makes the read begin, for all
    groups that were asked for by then. What blocks runs on 24 threads at most, of all groups.

    Args: as of ``SharedTopics``.

    >>> import asyncio
    >>> async def main():
    ...     async with AsyncSharedTopics(worker_config) as topics:
    ...         orders, billing = topics.storage("orders"), topics.storage("billing")
    ...         async with orders, billing:
    ...             await orders.config.put_connector_config("c", {"name": "c"})
    ...             return orders.config.contains("c"), billing.config.contains("c")
    >>> asyncio.run(main())
    (True, False)
    """

    def __init__(self, worker_config: WorkerConfig, *, on_failed: OnFailed | None = None) -> None:
        self._topics = SharedTopics(worker_config, on_failed=on_failed)
        self._pools = new_pools(_CALLS, _READS)
        self._storages: list[_GroupStorage] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @spelled_out(StorageArguments)
    def storage(
        self, group_id: str, *, worker_config: WorkerConfig | None = None, **arguments: Unpack[StorageArguments]
    ) -> AsyncConnectStorage:
        """Return the storage of a group, to be started; it ends with these topics. As of ``SharedTopics.storage``."""
        make = partial(self._topics.storage, group_id, worker_config=worker_config)
        storage = _GroupStorage(make, arguments, self._pools)
        self._storages.append(storage)
        return storage

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop every storage, then the reader; may be called twice."""
        storages, self._storages = self._storages, []
        async with AsyncExitStack() as ending:  # all of it ends, also if a storage cannot
            for pool in self._pools:
                ending.callback(pool.shutdown, wait=False)
            ending.push_async_callback(to_its_end, on_own_thread(self._topics.stop, timeout_s))
            failed = await asyncio.gather(*(storage.stop(timeout_s) for storage in storages), return_exceptions=True)
            for error in filter(None, failed):
                raise error

    close = stop


class _GroupStorage(AsyncConnectStorage):
    """The storage of one of many groups."""

    def __init__(self, make: Callable[..., ConnectStorage], arguments: StorageArguments, pools: Pools) -> None:
        self._stand_on(make, arguments, pools)
