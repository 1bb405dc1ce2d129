"""Who gets the changes on the config topic: iterations of an event loop, and the listener of one of many groups."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final, Self

from connect_share.errors import ConnectShareError, StoreError
from connect_share.log.threads import BackgroundThread
from connect_share.model.config import ConfigEvent
from connect_share.stores.config import ConfigUpdateListener, EventReceiver, call_method, check_listener, deliver

MOST_PENDING: Final = 10_000
_JOIN_S: Final = 10.0


class ConfigEvents:
    """The changes since it was made, in order: ``async for event in events``.

    An event that waits already is not added again: who is told that a connector has changed reads the snapshot, which has
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
        except RuntimeError:  # the loop was closed: there is nobody to wake
            self._forget(self)


class FanOut(EventReceiver):
    """The listener that hands events to all who iterate, and to the listener of the embedder, if there is one."""

    def __init__(self, inner: ConfigUpdateListener | None) -> None:
        self.inner = inner or ConfigUpdateListener()
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
        with self._lock:
            listening = list(self._listening)
        for events in listening:
            events.end(error)

    def _forget(self, events: ConfigEvents) -> None:
        with self._lock:
            if events in self._listening:
                self._listening.remove(events)

    def hand_out(self, event: ConfigEvent) -> None:
        """Add an event to all iterations."""
        with self._lock:
            listening = list(self._listening)
        for events in listening:
            events.add(event)

    def receive(self, event: ConfigEvent) -> None:
        """Add an event to all iterations, then give it to the embedder's listener."""
        self.hand_out(event)
        call_method(event, self.inner)


class ListenerThread(EventReceiver):
    """Calls the listener of one group on a thread of its own: the reader of many groups waits for none of their listeners.

    An event that waits already is not added again: who is told that a connector has changed reads the snapshot. So as few
    wait as there are connectors. ``name`` is part of the name of the thread.
    """

    def __init__(self, listener: ConfigUpdateListener, name: str) -> None:
        check_listener(listener)
        self._listener = listener
        self._changed = threading.Condition()
        self._pending: dict[tuple[ConfigEvent, int], ConfigUpdateListener] = {}  # who listened when it came
        self._stopping = False
        self._name = f"listener-{name}"
        self._thread: BackgroundThread | None = None

    def start(self, failed: Callable[[BaseException], object]) -> None:
        """Begin to call the listener; ``failed`` hears if it is called no more."""
        self._thread = BackgroundThread(self._name, self._run, failed)
        self._thread.start()

    def stop(self) -> None:
        """Call it no more, once it has returned."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def receive(self, event: ConfigEvent) -> None:
        """Add an event to those that wait, for who listens now."""
        listener = self._listener
        if isinstance(listener, FanOut):
            listener.hand_out(event)
            listener = listener.inner
        with self._changed:
            self._pending[event, id(listener)] = listener
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._stopping)
                if self._stopping:
                    return
                waiting = next(iter(self._pending))
                listener = self._pending.pop(waiting)
            deliver(waiting[0], listener)
