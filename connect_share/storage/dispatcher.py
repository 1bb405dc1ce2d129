"""Calls a listener on a thread of its own, in order: the reader of many groups waits for none of their listeners."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

from connect_share.records import ConnectorTaskId
from connect_share.state import ConfigEvent, RestartRequest, SessionKey
from connect_share.stores.config_listener import ConfigUpdateListener, check_listener, notify

_JOIN_S: Final = 10.0


class Dispatcher(ConfigUpdateListener):
    """Hands events to the listener of a group.

    An event that waits already is not added again: who is told that a connector has changed looks at the snapshot. So as few
    wait as there are connectors. ``name`` is part of the name of the thread.
    """

    def __init__(self, listener: ConfigUpdateListener, name: str) -> None:
        check_listener(listener)
        self._listener = listener
        self._changed = threading.Condition()
        self._pending: dict[tuple[Any, ...], ConfigEvent] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"listener-{name}", daemon=True)

    def start(self) -> None:
        """Begin to call the listener."""
        self._thread.start()

    def stop(self) -> None:
        """Call it no more, once it has returned."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._stopping)
                if self._stopping:
                    return
                event = self._pending.pop(next(iter(self._pending)))
            notify(self._listener, event)

    def _add(self, event: ConfigEvent, *what: object) -> None:
        with self._changed:
            self._pending.setdefault((event.method, *what), event)
            self._changed.notify_all()

    def on_connector_config_update(self, connector: str) -> None:
        """A connector's configuration was written."""
        self._add(ConfigEvent("on_connector_config_update", (connector,)), connector)

    def on_connector_config_remove(self, connector: str) -> None:
        """A connector was removed."""
        self._add(ConfigEvent("on_connector_config_remove", (connector,)), connector)

    def on_task_config_update(self, tasks: Sequence[ConnectorTaskId]) -> None:
        """Task configurations were committed."""
        self._add(ConfigEvent("on_task_config_update", (tasks,)), *tasks)

    def on_connector_target_state_change(self, connector: str) -> None:
        """A connector is to be started, paused or stopped."""
        self._add(ConfigEvent("on_connector_target_state_change", (connector,)), connector)

    def on_session_key_update(self, session_key: SessionKey) -> None:
        """The leader has written a new session key."""
        self._add(ConfigEvent("on_session_key_update", (session_key,)), session_key)

    def on_restart_request(self, request: RestartRequest) -> None:
        """A restart was requested."""
        self._add(ConfigEvent("on_restart_request", (request,)), request)

    def on_logging_level_update(self, namespace: str, level: str) -> None:
        """The level of a logger changes in the whole cluster."""
        self._add(ConfigEvent("on_logging_level_update", (namespace, level)), namespace, level)
