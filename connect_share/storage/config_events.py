"""Iterations of an event loop over the changes on the config topic."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final, Self

from connect_share.errors import ConnectShareError, StoreError
from connect_share.model.config import ConfigEvent
from connect_share.stores.config import ConfigUpdateListener, EventReceiver

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
