"""Backing stores for Kafka Connect clusters that share their internal topics (KIP-1173).

Everything a user of the library needs is importable from here; see ``docs/embedding.md``. The module of a name is imported
when the name is first used: who needs only keys or errors waits neither for Kafka's client nor for the stores.
"""

from typing import TYPE_CHECKING

from connect_share import (
    _import_interruption,  # noqa: F401 - first, for it acts while the others are imported
    _old_modules,
)

_old_modules.install()

if TYPE_CHECKING:
    from connect_share.errors import AuthorizationError as AuthorizationError
    from connect_share.errors import BrokerError as BrokerError
    from connect_share.errors import BrokerTimeoutError as BrokerTimeoutError
    from connect_share.errors import BrokerUnavailableError as BrokerUnavailableError
    from connect_share.errors import ConfigError as ConfigError
    from connect_share.errors import ConnectShareError as ConnectShareError
    from connect_share.errors import FencedError as FencedError
    from connect_share.errors import FlushInProgressError as FlushInProgressError
    from connect_share.errors import GroupMembershipError as GroupMembershipError
    from connect_share.errors import GroupProtocolError as GroupProtocolError
    from connect_share.errors import InvalidClusterGroupIdError as InvalidClusterGroupIdError
    from connect_share.errors import KeyFormatError as KeyFormatError
    from connect_share.errors import LiveMembersError as LiveMembersError
    from connect_share.errors import LogFailedError as LogFailedError
    from connect_share.errors import NotStartedError as NotStartedError
    from connect_share.errors import OpenTransactionError as OpenTransactionError
    from connect_share.errors import PartitionCountError as PartitionCountError
    from connect_share.errors import PlainTopicsError as PlainTopicsError
    from connect_share.errors import PrivilegedWriteError as PrivilegedWriteError
    from connect_share.errors import ReadToEndTimeoutError as ReadToEndTimeoutError
    from connect_share.errors import RecordError as RecordError
    from connect_share.errors import RecordFileError as RecordFileError
    from connect_share.errors import ReplicationFactorError as ReplicationFactorError
    from connect_share.errors import StoreClosedError as StoreClosedError
    from connect_share.errors import StoreError as StoreError
    from connect_share.errors import TaskCountError as TaskCountError
    from connect_share.errors import TopicError as TopicError
    from connect_share.errors import TopicMissingError as TopicMissingError
    from connect_share.errors import TopicNotCompactedError as TopicNotCompactedError
    from connect_share.errors import TopicRecreatedError as TopicRecreatedError
    from connect_share.errors import UnreadableHeadersError as UnreadableHeadersError
    from connect_share.errors import UsageError as UsageError
    from connect_share.errors import ValueFormatError as ValueFormatError
    from connect_share.errors import WorkerPluginError as WorkerPluginError
    from connect_share.errors import WriteError as WriteError
    from connect_share.kafka.descriptions import GroupMember as GroupMember
    from connect_share.log.memory_log import MemoryTopic as MemoryTopic
    from connect_share.model.config_state import ClusterConfigState as ClusterConfigState
    from connect_share.model.config_state import RestartRequest as RestartRequest
    from connect_share.model.config_state import SessionKey as SessionKey
    from connect_share.model.config_state import TargetState as TargetState
    from connect_share.model.config_state import task_configs_changed as task_configs_changed
    from connect_share.model.keys import ClusterGroupId as ClusterGroupId
    from connect_share.model.keys import prefix_key as prefix_key
    from connect_share.model.keys import split_key as split_key
    from connect_share.model.murmur2 import murmur2 as murmur2
    from connect_share.model.murmur2 import partition_for as partition_for
    from connect_share.model.offsets import OffsetSnapshot as OffsetSnapshot
    from connect_share.model.records import ConnectorTaskId as ConnectorTaskId
    from connect_share.model.records import OffsetRange as OffsetRange
    from connect_share.model.records import Record as Record
    from connect_share.model.records import TopicType as TopicType
    from connect_share.model.status import ConnectorStatus as ConnectorStatus
    from connect_share.model.status import State as State
    from connect_share.model.status import StatusSnapshot as StatusSnapshot
    from connect_share.model.status import TaskStatus as TaskStatus
    from connect_share.model.status import TopicStatus as TopicStatus
    from connect_share.replay import replay_config as replay_config
    from connect_share.replay import replay_offsets as replay_offsets
    from connect_share.replay import replay_status as replay_status
    from connect_share.sealing import KeyRing as KeyRing
    from connect_share.sealing import SealingMode as SealingMode
    from connect_share.storage import ConnectStorage as ConnectStorage
    from connect_share.storage import SharedTopics as SharedTopics
    from connect_share.storage import StorageStartup as StorageStartup
    from connect_share.storage import StoreStartup as StoreStartup
    from connect_share.storage.async_storage import AsyncConnectStorage as AsyncConnectStorage
    from connect_share.stores.alter_offsets import alter_offsets as alter_offsets
    from connect_share.stores.alter_offsets import reset_offsets as reset_offsets
    from connect_share.stores.base import ConfigBackingStore as ConfigBackingStore
    from connect_share.stores.base import ConfigUpdateListener as ConfigUpdateListener
    from connect_share.stores.base import OffsetBackingStore as OffsetBackingStore
    from connect_share.stores.base import StatusBackingStore as StatusBackingStore
    from connect_share.stores.config import KafkaConfigBackingStore as KafkaConfigBackingStore
    from connect_share.stores.connector_offsets import ConnectorOffsetBackingStore as ConnectorOffsetBackingStore
    from connect_share.stores.memory import MemoryConfigBackingStore as MemoryConfigBackingStore
    from connect_share.stores.memory import MemoryOffsetBackingStore as MemoryOffsetBackingStore
    from connect_share.stores.memory import MemoryStatusBackingStore as MemoryStatusBackingStore
    from connect_share.stores.offsets import KafkaOffsetBackingStore as KafkaOffsetBackingStore
    from connect_share.stores.offsets import OffsetStorageReader as OffsetStorageReader
    from connect_share.stores.offsets import OffsetStorageWriter as OffsetStorageWriter
    from connect_share.stores.status import KafkaStatusBackingStore as KafkaStatusBackingStore
    from connect_share.stores.task_offset_writer import TaskOffsetWriter as TaskOffsetWriter
    from connect_share.stores.transactional_writer import TransactionalWriter as TransactionalWriter
    from connect_share.worker_config import ClientSettings as ClientSettings
    from connect_share.worker_config import ConfigData as ConfigData
    from connect_share.worker_config import ConfigProvider as ConfigProvider
    from connect_share.worker_config import Isolation as Isolation
    from connect_share.worker_config import WorkerConfig as WorkerConfig
    from connect_share.worker_config import WorkerConfigTransformer as WorkerConfigTransformer

    __version__: str
else:
    # The same names as above; tests/unit/test_public_names.py compares the two.
    _MODULES = {
        "AsyncConnectStorage": "storage.async_storage",
        "AuthorizationError": "errors",
        "BrokerError": "errors",
        "BrokerTimeoutError": "errors",
        "BrokerUnavailableError": "errors",
        "ClientSettings": "worker_config",
        "ClusterConfigState": "model.config_state",
        "ClusterGroupId": "model.keys",
        "ConfigBackingStore": "stores.base",
        "ConfigData": "worker_config",
        "ConfigError": "errors",
        "ConfigProvider": "worker_config",
        "ConfigUpdateListener": "stores.base",
        "ConnectShareError": "errors",
        "ConnectStorage": "storage",
        "ConnectorOffsetBackingStore": "stores.connector_offsets",
        "ConnectorStatus": "model.status",
        "ConnectorTaskId": "model.records",
        "FencedError": "errors",
        "FlushInProgressError": "errors",
        "GroupMember": "kafka.descriptions",
        "GroupMembershipError": "errors",
        "GroupProtocolError": "errors",
        "InvalidClusterGroupIdError": "errors",
        "Isolation": "worker_config",
        "KafkaConfigBackingStore": "stores.config",
        "KafkaOffsetBackingStore": "stores.offsets",
        "KafkaStatusBackingStore": "stores.status",
        "KeyFormatError": "errors",
        "KeyRing": "sealing",
        "LiveMembersError": "errors",
        "LogFailedError": "errors",
        "MemoryConfigBackingStore": "stores.memory",
        "MemoryOffsetBackingStore": "stores.memory",
        "MemoryStatusBackingStore": "stores.memory",
        "MemoryTopic": "log.memory_log",
        "NotStartedError": "errors",
        "OffsetBackingStore": "stores.base",
        "OffsetRange": "model.records",
        "OffsetSnapshot": "model.offsets",
        "OffsetStorageReader": "stores.offsets",
        "OffsetStorageWriter": "stores.offsets",
        "OpenTransactionError": "errors",
        "PartitionCountError": "errors",
        "PlainTopicsError": "errors",
        "PrivilegedWriteError": "errors",
        "ReadToEndTimeoutError": "errors",
        "Record": "model.records",
        "RecordError": "errors",
        "RecordFileError": "errors",
        "ReplicationFactorError": "errors",
        "RestartRequest": "model.config_state",
        "SealingMode": "sealing",
        "SessionKey": "model.config_state",
        "SharedTopics": "storage",
        "State": "model.status",
        "StatusBackingStore": "stores.base",
        "StatusSnapshot": "model.status",
        "StorageStartup": "storage",
        "StoreClosedError": "errors",
        "StoreError": "errors",
        "StoreStartup": "storage",
        "TargetState": "model.config_state",
        "TaskCountError": "errors",
        "TaskOffsetWriter": "stores.task_offset_writer",
        "TaskStatus": "model.status",
        "TopicError": "errors",
        "TopicMissingError": "errors",
        "TopicNotCompactedError": "errors",
        "TopicRecreatedError": "errors",
        "TopicStatus": "model.status",
        "TopicType": "model.records",
        "TransactionalWriter": "stores.transactional_writer",
        "UnreadableHeadersError": "errors",
        "UsageError": "errors",
        "ValueFormatError": "errors",
        "WorkerConfig": "worker_config",
        "WorkerConfigTransformer": "worker_config",
        "WorkerPluginError": "errors",
        "WriteError": "errors",
        "alter_offsets": "stores.alter_offsets",
        "murmur2": "model.murmur2",
        "partition_for": "model.murmur2",
        "prefix_key": "model.keys",
        "replay_config": "replay",
        "replay_offsets": "replay",
        "replay_status": "replay",
        "reset_offsets": "stores.alter_offsets",
        "split_key": "model.keys",
        "task_configs_changed": "model.config_state",
    }
    __all__ = sorted([*_MODULES, "__version__"])  # noqa: PLE0605 - no third list of the same names

    def __dir__():
        return sorted({*globals(), *__all__})

    def __getattr__(name):
        """Return the version, a public name, a module of such names, or a name that has moved; PEP 562."""
        from importlib import import_module

        if name == "__version__":
            from importlib.metadata import version

            return version("connect-share")
        if name in _MODULES:
            found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
            return found
        if name in {module.partition(".")[0] for module in _MODULES.values()}:
            return import_module(f"{__name__}.{name}")
        if f"{__name__}.{name}" in _old_modules.NEW_NAMES:
            return import_module(f"{__name__}.{name}")
        if name != "TopicIdRepairError":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from warnings import warn

        warn(f"connect_share.{name} has moved to connect_share.topic_ids.errors", DeprecationWarning, stacklevel=2)
        return getattr(import_module(f"{__name__}.topic_ids.errors"), name)
