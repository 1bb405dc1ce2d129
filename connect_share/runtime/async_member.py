"""``ConnectGroupMember`` on asyncio: the listener's methods are coroutines of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, Self

from connect_share.kafka.connect_protocol import ConnectorsAndTasks
from connect_share.runtime.assignor import balanced_assignment
from connect_share.runtime.member import STOP_TIMEOUT_S, Assignor, ConnectGroupMember, Generation, OnFailed
from connect_share.storage.async_storage import AsyncConfigStore, on_own_thread, to_its_end
from connect_share.worker_config import WorkerConfig


class AsyncGroupListener(Protocol):
    """What a runtime does at a rebalance; awaited one after the other, on the loop on which the member was started.

    The membership goes on meanwhile. A call that takes longer than ``rebalance.timeout.ms`` costs it.
    """

    async def on_revoked(self, items: ConnectorsAndTasks) -> None:
        """Stop these, and return when they have stopped: another worker starts them then."""

    async def on_assigned(self, items: ConnectorsAndTasks, generation: Generation) -> None:
        """Start these, in addition to what runs; called after each rebalance, with nothing new too."""


class AsyncConnectGroupMember(ConnectGroupMember):
    """Membership in the Connect group of a worker, as an asynchronous context manager; as of ``ConnectGroupMember``.

    Args: as of ``ConnectGroupMember``; ``config`` is that of an ``AsyncConnectStorage``. ``on_failed`` is called on the
        member's thread.
    """

    def __init__(
        self,
        worker_config: WorkerConfig,
        config: AsyncConfigStore,
        listener: AsyncGroupListener,
        *,
        worker_url: str,
        assignor: Assignor = balanced_assignment,
        on_failed: OnFailed | None = None,
    ) -> None:
        self._on_loop = _OnLoop(listener)
        super().__init__(
            worker_config, config.sync, self._on_loop, worker_url=worker_url, assignor=assignor, on_failed=on_failed
        )

    async def start(self) -> None:  # type: ignore[override]  # it is awaited
        """Begin to join; the listener is called on this loop."""
        self._on_loop.loop = asyncio.get_running_loop()
        super().start()

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:  # type: ignore[override]
        """Revoke everything, leave the group and close; waits ``timeout_s`` at most for the listener."""
        await to_its_end(on_own_thread(super().stop, timeout_s))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


class _OnLoop:
    """Calls the listener on an event loop, from the member's thread, and waits for it there."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, listener: AsyncGroupListener) -> None:
        self._listener = listener

    def on_revoked(self, items: ConnectorsAndTasks) -> None:
        self._await(self._listener.on_revoked(items))

    def on_assigned(self, items: ConnectorsAndTasks, generation: Generation) -> None:
        self._await(self._listener.on_assigned(items, generation))

    def _await(self, called: Coroutine[Any, Any, None]) -> None:
        try:
            ended = asyncio.run_coroutine_threadsafe(called, self.loop)
        except RuntimeError:  # the loop was closed: nothing runs there any more
            called.close()
            raise
        ended.result()
