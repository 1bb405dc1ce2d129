"""The listener of changes on the config topic."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from connect_share.errors import UsageError
from connect_share.records import ConnectorTaskId
from connect_share.state import ConfigEvent, RestartRequest, SessionKey

_logger = logging.getLogger(__name__)


class ConfigUpdateListener:
    """The receiver of changes: derive from it, and write the methods that are of interest; the others do nothing.

    Called on the thread that follows the topic, never before the store has started. A refresh of the store from here, or
    a write that is read back, raises at once: it would wait for the thread it blocks.

    Source: ``ConfigBackingStore.UpdateListener``.

    >>> from connect_share import MemoryConfigBackingStore
    >>> class Herder(ConfigUpdateListener):
    ...     def on_connector_config_update(self, connector):
    ...         print("changed:", connector)
    >>> store = MemoryConfigBackingStore(update_listener=Herder())
    >>> store.start()
    >>> store.put_connector_config("c", {"name": "c"})
    changed: c
    """

    def on_connector_config_update(self, connector: str) -> None:
        """A connector's configuration was written."""

    def on_connector_config_remove(self, connector: str) -> None:
        """A connector was removed."""

    def on_task_config_update(self, tasks: Sequence[ConnectorTaskId]) -> None:
        """Task configurations of one connector were committed; empty when the commit was incomplete."""

    def on_connector_target_state_change(self, connector: str) -> None:
        """A connector is to be started, paused or stopped."""

    def on_session_key_update(self, session_key: SessionKey) -> None:
        """The leader has written a new session key."""

    def on_restart_request(self, request: RestartRequest) -> None:
        """A restart was requested."""

    def on_logging_level_update(self, namespace: str, level: str) -> None:
        """The level of a logger changes in the whole cluster."""


_METHODS: Final = tuple(name for name in vars(ConfigUpdateListener) if name.startswith("on_"))


def check_listener(listener: object) -> None:
    """Refuse a listener of which an event could not be given to.

    Raises:
        UsageError: names the method that it does not have.
    """
    for name in _METHODS:
        if not callable(getattr(listener, name, None)):
            raise UsageError(
                f"the update listener {type(listener).__name__} has no method {name}; derive it from "
                "ConfigUpdateListener, whose methods do nothing"
            )


def notify(listener: ConfigUpdateListener, event: ConfigEvent) -> bool:
    """Call the method of an event; return whether it succeeded: what the listener raises is logged, no more."""
    try:
        getattr(listener, event.method)(*event.arguments)
    except BaseException:  # also sys.exit(): one mistake in a listener must not stop the log
        _logger.exception("The update listener failed in %s", event.method)
        return False
    return True
