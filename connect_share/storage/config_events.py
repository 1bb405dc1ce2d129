"""Changes on the config topic as objects, for ``async for``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from connect_share.errors import ConnectShareError, StoreError
from connect_share.model.config_state import RestartRequest, SessionKey
from connect_share.model.records import ConnectorTaskId
from connect_share.stores.base import ConfigUpdateListener

MOST_PENDING: Final = 10_000


@dataclass(frozen=True, slots=True)
class ConnectorConfigUpdated:
    """A connector's configuration was written."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorConfigRemoved:
    """A connector was removed."""

    connector: str


@dataclass(frozen=True, slots=True)
class TaskConfigsUpdated:
    """Task configurations of one connector were committed; no tasks when the commit was incomplete."""

    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """A connector is to be started, paused or stopped."""

    connector: str


@dataclass(frozen=True, slots=True)
class SessionKeyUpdated:
    """The leader has written a new session key."""

    session_key: SessionKey


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """A restart was requested."""

    request: RestartRequest


@dataclass(frozen=True, slots=True)
class LoggerLevelUpdated:
    """The level of a logger changes in the whole cluster."""

    namespace: str
    level: str


Event = (
    ConnectorConfigUpdated
    | ConnectorConfigRemoved
    | TaskConfigsUpdated
    | TargetStateChanged
    | SessionKeyUpdated
    | RestartRequested
    | LoggerLevelUpdated
)


class ConfigEvents:
    """The changes since it was made, in order: ``async for event in events``.

    An event that waits already is not added again: who is told that a connector has changed looks at the snapshot, which has
    the newest. 10,000 different events wait at most; then the iteration ends with an error, and the state has to be looked at
    as a whole.

    Iterating ends when the storage stops, and raises what has failed if a log has failed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, forget: Callable[[ConfigEvents], object]) -> None:
        self._loop = loop
        self._forget = forget
        self._lock = threading.Lock()
        self._pending: dict[Event, None] = {}
        self._something = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
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

    def add(self, event: Event) -> None:
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


class FanOut(ConfigUpdateListener):
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

    def _add(self, event: Event) -> None:
        with self._lock:
            listening = list(self._listening)
        for events in listening:
            events.add(event)

    def on_connector_config_update(self, connector: str) -> None:
        """A connector's configuration was written."""
        self._add(ConnectorConfigUpdated(connector))
        self.inner.on_connector_config_update(connector)

    def on_connector_config_remove(self, connector: str) -> None:
        """A connector was removed."""
        self._add(ConnectorConfigRemoved(connector))
        self.inner.on_connector_config_remove(connector)

    def on_task_config_update(self, tasks: Sequence[ConnectorTaskId]) -> None:
        """Task configurations were committed."""
        self._add(TaskConfigsUpdated(tuple(tasks)))
        self.inner.on_task_config_update(tasks)

    def on_connector_target_state_change(self, connector: str) -> None:
        """A connector is to be started, paused or stopped."""
        self._add(TargetStateChanged(connector))
        self.inner.on_connector_target_state_change(connector)

    def on_session_key_update(self, session_key: SessionKey) -> None:
        """The leader has written a new session key."""
        self._add(SessionKeyUpdated(session_key))
        self.inner.on_session_key_update(session_key)

    def on_restart_request(self, request: RestartRequest) -> None:
        """A restart was requested."""
        self._add(RestartRequested(request))
        self.inner.on_restart_request(request)

    def on_logging_level_update(self, namespace: str, level: str) -> None:
        """The level of a logger changes."""
        self._add(LoggerLevelUpdated(namespace, level))
        self.inner.on_logging_level_update(namespace, level)
