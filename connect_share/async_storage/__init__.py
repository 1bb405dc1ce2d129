"""The storage of one worker on asyncio: the stores are those of ``ConnectStorage``, and no call takes a thread."""

from connect_share.async_storage.config_events import (
    ConfigEvents,
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    LoggerLevelUpdated,
    RestartRequested,
    SessionKeyUpdated,
    TargetStateChanged,
    TaskConfigsUpdated,
)
from connect_share.async_storage.storage import AsyncConnectStorage

__all__ = [
    "AsyncConnectStorage",
    "ConfigEvents",
    "ConnectorConfigRemoved",
    "ConnectorConfigUpdated",
    "LoggerLevelUpdated",
    "RestartRequested",
    "SessionKeyUpdated",
    "TargetStateChanged",
    "TaskConfigsUpdated",
]
