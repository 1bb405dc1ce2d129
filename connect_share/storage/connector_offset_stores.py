"""Where each connector's offsets are kept while a storage runs: the worker's topic, or one of its own before it."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from connect_share.errors import StoreClosedError
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.stores.connector_offsets import ConnectorOffsetBackingStore
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.own_offsets_topic import own_offsets_worker_config
from connect_share.stores.topic_based import WriteGuard
from connect_share.stores.transactional_writer import TransactionalWriter
from connect_share.worker_config import WorkerConfig


class ConnectorOffsetStores:
    """Gives the store of a connector's offsets; one of its own is started when it is asked for first. Thread-safe.

    Args:
        worker_config: the worker's.
        config: says whether a connector has a topic of its own.
        offsets: the worker's store.
        write_guard: called before anything is written.
        stack: closes what is started here.
    """

    def __init__(
        self,
        worker_config: WorkerConfig,
        *,
        config: KafkaConfigBackingStore,
        offsets: KafkaOffsetBackingStore,
        write_guard: WriteGuard,
        stack: ExitStack,
    ) -> None:
        self._worker_config = worker_config
        self._config = config
        self._offsets = offsets
        self._write_guard = write_guard
        self._stack = stack
        self._closed = threading.Event()
        stack.callback(self._closed.set)
        self._own: dict[tuple[str, str], ConnectorOffsetBackingStore] = {}
        self._lock = threading.Lock()

    def store_of(self, connector: str) -> KafkaOffsetBackingStore | ConnectorOffsetBackingStore:
        """Give the store to read and write a connector's offsets with.

        Raises:
            ConfigError: the connector's configuration contradicts itself.
            StoreClosedError: the storage was closed.
        """
        own = self._own_worker_config(connector)
        if own is None:
            return self._offsets
        key = (connector, own.offset_storage_topic)
        with self._lock:
            store = self._own.get(key)
            if store is None:
                primary = KafkaOffsetBackingStore(own, write_guard=self._write_guard)
                group = self._worker_config.cluster_group_id
                store = ConnectorOffsetBackingStore(primary, self._offsets, cluster_group_id=group)
                self._stack.callback(store.stop)
                if self._closed.is_set():  # looked at only now: either this sees it, or the stack stops the store
                    raise StoreClosedError(
                        f"the storage was closed; it has no offsets of connector {connector!r} any more"
                    )
                store.start()
                self._own[key] = store
        return store

    def first_task_writer(self, connector: str) -> TransactionalWriter | None:
        """Make what writes a connector's offsets as its first task does; ``None`` without exactly-once.

        Source: ``Worker.modifyConnectorOffsets``, ``Worker.taskTransactionalId``.
        """
        if self._worker_config.exactly_once_source_support != "enabled":
            return None
        worker = self._own_worker_config(connector) or self._worker_config
        return TransactionalWriter(
            worker.producer_settings(),
            client_id=worker.client_id("offsets-leader"),
            transactional_id=f"{worker.group_id}-{connector}-0",
            topic=worker.offset_storage_topic,
        )

    def _own_worker_config(self, connector: str) -> WorkerConfig | None:
        config = self._config.snapshot().connector_config(connector) or {}
        return own_offsets_worker_config(self._worker_config, connector, config)
