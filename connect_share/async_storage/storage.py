"""``ConnectStorage`` on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Self

from connect_share.async_storage.config_events import ConfigEvents, FanOut
from connect_share.async_storage.driver import Driver
from connect_share.async_storage.stores import (
    AsyncConfigStore,
    AsyncOffsetReader,
    AsyncOffsetStore,
    AsyncOffsetWriter,
    AsyncStatusStore,
)
from connect_share.errors import ConnectShareError, NotStartedError
from connect_share.log import OnFailed
from connect_share.log.protocol import STOP_TIMEOUT_S
from connect_share.storage import ConnectStorage, StorageStartup
from connect_share.storage.live_members import AllowLiveMembers
from connect_share.stores.config_listener import ConfigUpdateListener
from connect_share.stores.offset_changes import OffsetPair
from connect_share.stores.task_offset_writer import TaskOffsetWriter
from connect_share.worker_config import WorkerConfig


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
