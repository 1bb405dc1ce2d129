"""The backing stores of Kafka Connect, each over one log, and the offset reader and writer."""

from connect_share.stores.alter_offsets import alter_offsets, reset_offsets
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.stores.config_listener import ConfigUpdateListener
from connect_share.stores.connector_offsets import ConnectorOffsetBackingStore
from connect_share.stores.offset_backing_store import OffsetBackingStore
from connect_share.stores.offset_reader import OffsetStorageReader
from connect_share.stores.offset_writer import OffsetStorageWriter
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.status import KafkaStatusBackingStore
from connect_share.stores.transactional_writer import TransactionalWriter

__all__ = [
    "ConfigUpdateListener",
    "ConnectorOffsetBackingStore",
    "KafkaConfigBackingStore",
    "KafkaOffsetBackingStore",
    "KafkaStatusBackingStore",
    "OffsetBackingStore",
    "OffsetStorageReader",
    "OffsetStorageWriter",
    "TransactionalWriter",
    "alter_offsets",
    "reset_offsets",
]
