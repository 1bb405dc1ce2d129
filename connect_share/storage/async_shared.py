"""``SharedTopics`` on asyncio: the storages of many groups over one reader, and a few threads for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Self, Unpack

from connect_share.log.protocol import STOP_TIMEOUT_S
from connect_share.log.tail import OnFailed
from connect_share.storage.async_storage import AsyncConnectStorage, Pools, new_pools, to_its_end
from connect_share.storage.connect_storage import ConnectStorage, StorageArguments, spelled_out
from connect_share.storage.shared import SharedTopics
from connect_share.worker_config import WorkerConfig

# Of all groups together: calls of one group follow each other.
_CALLS: Final = 8
_READS: Final = 8


class AsyncSharedTopics:
    """One reader for the stores of many groups, as an asynchronous context manager; as of ``SharedTopics``.

    A storage starts by ``await storage.start()``, or ``async with``. The first that starts makes the read begin, for all
    groups that were asked for by then. What blocks runs on sixteen threads at most, of all groups.

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
        await asyncio.gather(*(storage.stop(timeout_s) for storage in storages))
        await to_its_end(asyncio.ensure_future(asyncio.to_thread(self._topics.stop, timeout_s)))
        for pool in self._pools:
            pool.shutdown(wait=False)

    close = stop


class _GroupStorage(AsyncConnectStorage):
    """The storage of one of many groups."""

    def __init__(self, make: Callable[..., ConnectStorage], arguments: StorageArguments, pools: Pools) -> None:
        self._stand_on(make, arguments, pools)
