"""Who gets the changes on the config topic: iterations of an event loop, and the listener of one of many groups."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final, Self

from connect_share.errors import ConnectShareError, StoreError
from connect_share.log.threads import BackgroundThread
from connect_share.model.config import ConfigEvent
from connect_share.stores.config import ConfigUpdateListener, EventReceiver

MOST_PENDING: Final = 10_000
_JOIN_S: Final = 10.0


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


class ListenerThread:
    """Calls the listener of one group on a thread of its own: the reader of many groups waits for none of their listeners.

    An event that waits already is not added again: who hears that a connector has changed reads the snapshot. So as few
    wait as there are connectors. The thread is made for the first event; ``name`` is part of its name, ``tell`` calls a
    listener, and ``failed`` hears if the thread ends.
    """

    def __init__(
        self,
        tell: Callable[[ConfigEvent, ConfigUpdateListener], object],
        failed: Callable[[BaseException], object],
        name: str,
    ) -> None:
        self._tell = tell
        self._changed = threading.Condition()
        self._pending: dict[tuple[ConfigEvent, int], ConfigUpdateListener] = {}
        self._stopping = False
        self._thread = BackgroundThread(f"listener-{name}", self._run, failed)

    def add(self, event: ConfigEvent, listener: ConfigUpdateListener) -> None:
        """Add an event to those that wait, for who listened when it came."""
        with self._changed:
            if self._stopping:
                return
            self._pending[event, id(listener)] = listener
            if self._thread.ident is None:
                self._thread.start()
            self._changed.notify_all()

    def stop(self) -> None:
        """Call it no more, once it has returned."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._stopping)
                if self._stopping:
                    return
                waiting = next(iter(self._pending))
                listener = self._pending.pop(waiting)
            self._tell(waiting[0], listener)
