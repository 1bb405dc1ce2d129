"""The one-line way in: the three stores of one worker, started side by side, for threads and for asyncio."""

from connect_share.model.config import (
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    LoggerLevelUpdated,
    RestartRequested,
    SessionKeyUpdated,
    TargetStateChanged,
    TaskConfigsUpdated,
)
from connect_share.storage.async_storage import AsyncConnectStorage, ConfigEvents
from connect_share.storage.connect_storage import ConnectStorage
from connect_share.storage.shared import SharedTopics
from connect_share.storage.start import StorageStartup, StoreStartup
