"""Backing stores for Kafka Connect clusters that share their internal topics (KIP-1173).

Everything a user of the library needs is importable from here; see ``docs/embedding.md``. The module of a name is imported
when the name is first used: who needs only keys or errors waits neither for Kafka's client nor for the stores.
"""

from importlib import import_module

from connect_share import _old_modules

_old_modules.install()

# By module; type checkers read __init__.pyi, which ``python -m tests.lab.stub`` makes of them.
_NAMES = {
    "errors": """
        AuthorizationError BrokerError BrokerTimeoutError BrokerUnavailableError ConfigError ConnectShareError
        FencedError FlushInProgressError GroupMembershipError GroupMovedError GroupProtocolError
        InvalidClusterGroupIdError KeyFormatError LiveMembersError LogFailedError NotStartedError OpenTransactionError
        PartitionCountError PlainTopicsError PrivilegedWriteError ReadToEndTimeoutError RecordError
        RecordFileError ReplicationFactorError SealedGroupError StoreClosedError StoreError TaskCountError TopicError
        TopicMissingError TopicNotCompactedError TopicRecreatedError UnreadableHeadersError UsageError
        ValueFormatError WorkerPluginError WriteError
    """,
    "kafka.descriptions": "GroupMember",
    "log.memory_log": "MemoryTopic",
    "model.config_state": "ClusterConfigState RestartRequest SessionKey TargetState task_configs_changed",
    "model.keys": "ClusterGroupId prefix_key split_key",
    "model.murmur2": "murmur2 partition_for",
    "model.offsets": "OffsetSnapshot",
    "model.records": "ConnectorTaskId OffsetRange Record TopicType",
    "model.status": "ConnectorStatus State StatusSnapshot TaskStatus TopicStatus",
    "replay": "replay_config replay_offsets replay_status",
    "sealing": "KeyRing SealingMode",
    "storage": "ConnectStorage SharedTopics StorageStartup StoreStartup",
    "storage.async_storage": "AsyncConnectStorage",
    "stores.alter_offsets": "alter_offsets reset_offsets",
    "stores.config": "ConfigBackingStore ConfigUpdateListener KafkaConfigBackingStore",
    "stores.connector_offsets": "ConnectorOffsetBackingStore",
    "stores.memory": "MemoryConfigBackingStore MemoryOffsetBackingStore MemoryStatusBackingStore",
    "stores.offsets": "KafkaOffsetBackingStore OffsetBackingStore OffsetStorageReader OffsetStorageWriter",
    "stores.status": "KafkaStatusBackingStore StatusBackingStore",
    "stores.task_offset_writer": "TaskOffsetWriter",
    "stores.transactional_writer": "TransactionalWriter",
    "worker_config": "ClientSettings ConfigData ConfigProvider Isolation WorkerConfig WorkerConfigTransformer",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
_PACKAGES = {module.partition(".")[0] for module in _NAMES}
__all__ = sorted([*_MODULES, "__version__"])  # noqa: PLE0605 - no second list of the same names


def __dir__():
    return sorted({*globals(), *__all__})


def __getattr__(name):
    """Return the version, a public name, a module of such names, or a name that has moved; PEP 562."""
    if name == "__version__":
        from importlib.metadata import version

        return version("connect-share")
    if name in _MODULES:
        found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return found
    if name in _PACKAGES or f"{__name__}.{name}" in _old_modules.NEW_NAMES:
        return import_module(f"{__name__}.{name}")
    if name != "TopicIdRepairError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from warnings import warn

    warn(f"connect_share.{name} has moved to connect_share.topic_ids.errors", DeprecationWarning, stacklevel=2)
    return getattr(import_module(f"{__name__}.topic_ids.errors"), name)
