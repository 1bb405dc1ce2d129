"""Backing stores for Kafka Connect clusters that share their internal topics (KIP-1173).

Everything a user of the library needs is importable from here; see ``docs/embedding.md``.
"""

from typing import TYPE_CHECKING

from connect_share import _import_interruption  # noqa: F401 - first, for it acts while the others are imported
from connect_share.admin import GroupMember
from connect_share.errors import (
    AuthorizationError,
    BrokerError,
    BrokerTimeoutError,
    BrokerUnavailableError,
    ConfigError,
    ConnectShareError,
    FencedError,
    FlushInProgressError,
    GroupMembershipError,
    GroupProtocolError,
    InvalidClusterGroupIdError,
    KeyFormatError,
    LiveMembersError,
    LogFailedError,
    NotStartedError,
    OpenTransactionError,
    PartitionCountError,
    PlainTopicsError,
    PrivilegedWriteError,
    ReadToEndTimeoutError,
    RecordError,
    RecordFileError,
    ReplicationFactorError,
    StoreClosedError,
    StoreError,
    TaskCountError,
    TopicError,
    TopicMissingError,
    TopicNotCompactedError,
    TopicRecreatedError,
    UnreadableHeadersError,
    UsageError,
    ValueFormatError,
    WorkerPluginError,
    WriteError,
)
from connect_share.keys import ClusterGroupId, prefix_key, split_key
from connect_share.log.memory_log import MemoryTopic
from connect_share.murmur2 import murmur2, partition_for
from connect_share.records import ConnectorTaskId, OffsetRange, Record, TopicType
from connect_share.sealing import KeyRing, SealingMode
from connect_share.state import (
    ClusterConfigState,
    ConnectorStatus,
    OffsetSnapshot,
    RestartRequest,
    SessionKey,
    State,
    StatusSnapshot,
    TargetState,
    TaskStatus,
    TopicStatus,
    replay_config,
    replay_offsets,
    replay_status,
    task_configs_changed,
)
from connect_share.storage import ConnectStorage, SharedTopics, StorageStartup, StoreStartup
from connect_share.stores.alter_offsets import alter_offsets, reset_offsets
from connect_share.stores.backing_stores import ConfigBackingStore, StatusBackingStore
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.stores.config_listener import ConfigUpdateListener
from connect_share.stores.connector_offsets import ConnectorOffsetBackingStore
from connect_share.stores.memory import MemoryConfigBackingStore, MemoryOffsetBackingStore, MemoryStatusBackingStore
from connect_share.stores.offset_backing_store import OffsetBackingStore
from connect_share.stores.offset_reader import OffsetStorageReader
from connect_share.stores.offset_writer import OffsetStorageWriter
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.status import KafkaStatusBackingStore
from connect_share.stores.task_offset_writer import TaskOffsetWriter
from connect_share.stores.transactional_writer import TransactionalWriter
from connect_share.worker_config import (
    ClientSettings,
    ConfigData,
    ConfigProvider,
    Isolation,
    WorkerConfig,
    WorkerConfigTransformer,
)

if TYPE_CHECKING:
    from connect_share.async_storage.storage import AsyncConnectStorage

    __version__: str
else:
    _MOVED = {"EmbeddedError": "connect_share.embedded.errors", "TopicIdRepairError": "connect_share.topic_ids.errors"}

    def __getattr__(name):
        """Return the version, whose look-up is a tenth of the time of an import, or a name that has moved."""
        if name == "__version__":
            from importlib.metadata import version

            return version("connect-share")
        from importlib import import_module

        if name == "AsyncConnectStorage":  # asyncio takes a third of the time of an import, and most do without
            return import_module("connect_share.async_storage").AsyncConnectStorage
        if name not in _MOVED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from warnings import warn

        warn(f"connect_share.{name} has moved to {_MOVED[name]}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(_MOVED[name]), name)


__all__ = [
    "AsyncConnectStorage",
    "AuthorizationError",
    "BrokerError",
    "BrokerTimeoutError",
    "BrokerUnavailableError",
    "ClientSettings",
    "ClusterConfigState",
    "ClusterGroupId",
    "ConfigBackingStore",
    "ConfigData",
    "ConfigError",
    "ConfigProvider",
    "ConfigUpdateListener",
    "ConnectShareError",
    "ConnectStorage",
    "ConnectorOffsetBackingStore",
    "ConnectorStatus",
    "ConnectorTaskId",
    "FencedError",
    "FlushInProgressError",
    "GroupMember",
    "GroupMembershipError",
    "GroupProtocolError",
    "InvalidClusterGroupIdError",
    "Isolation",
    "KafkaConfigBackingStore",
    "KafkaOffsetBackingStore",
    "KafkaStatusBackingStore",
    "KeyFormatError",
    "KeyRing",
    "LiveMembersError",
    "LogFailedError",
    "MemoryConfigBackingStore",
    "MemoryOffsetBackingStore",
    "MemoryStatusBackingStore",
    "MemoryTopic",
    "NotStartedError",
    "OffsetBackingStore",
    "OffsetRange",
    "OffsetSnapshot",
    "OffsetStorageReader",
    "OffsetStorageWriter",
    "OpenTransactionError",
    "PartitionCountError",
    "PlainTopicsError",
    "PrivilegedWriteError",
    "ReadToEndTimeoutError",
    "Record",
    "RecordError",
    "RecordFileError",
    "ReplicationFactorError",
    "RestartRequest",
    "SealingMode",
    "SessionKey",
    "SharedTopics",
    "State",
    "StatusBackingStore",
    "StatusSnapshot",
    "StorageStartup",
    "StoreClosedError",
    "StoreError",
    "StoreStartup",
    "TargetState",
    "TaskCountError",
    "TaskOffsetWriter",
    "TaskStatus",
    "TopicError",
    "TopicMissingError",
    "TopicNotCompactedError",
    "TopicRecreatedError",
    "TopicStatus",
    "TopicType",
    "TransactionalWriter",
    "UnreadableHeadersError",
    "UsageError",
    "ValueFormatError",
    "WorkerConfig",
    "WorkerConfigTransformer",
    "WorkerPluginError",
    "WriteError",
    "__version__",
    "alter_offsets",
    "murmur2",
    "partition_for",
    "prefix_key",
    "replay_config",
    "replay_offsets",
    "replay_status",
    "reset_offsets",
    "split_key",
    "task_configs_changed",
]
