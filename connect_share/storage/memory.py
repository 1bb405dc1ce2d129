"""Stores in memory, for unit tests without a broker: the code of the Kafka stores over another log; and whole storages."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import lru_cache, partial
from typing import Final, Unpack

from connect_share.log.memory import MemoryKafka, MemoryLog, MemoryTopic
from connect_share.log.protocol import RecordFeed
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.storage.async_storage import AsyncConnectStorage
from connect_share.storage.connect_storage import ConnectStorage, StorageArguments, spelled_out
from connect_share.storage.start import (
    PlainTopicsCheck,
    RunningStorage,
    StorageLife,
    StorageStartup,
    Stores,
    StoreStartup,
)
from connect_share.stores.config import ConfigUpdateListener, KafkaConfigBackingStore
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.status import KafkaStatusBackingStore
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig, WorkerConfigTransformer

_TOPICS: Final = {f"{kind}.storage.topic": f"memory-{kind}s" for kind in ("config", "offset", "status")}


@lru_cache
def memory_worker(cluster_group_id: str | None = None) -> WorkerConfig:
    """Return the worker file on which stores in memory stand."""
    group = {"group.id": "memory"}
    if cluster_group_id is not None:
        group = {"group.id": ClusterGroupId(cluster_group_id), SHARING_PROPERTY: "enabled"}
    return WorkerConfig.from_properties({**group, "bootstrap.servers": "localhost:0", **_TOPICS})


class MemoryConfigBackingStore(KafkaConfigBackingStore):
    """A config store that keeps everything in memory; what is put is read back at once.

    Args:
        topic: shared with other stores; by default one of its own.
        cluster_group_id: prefix of the keys, where stores of several groups share a topic; by default keys are plain.
        update_listener: called with changes after the start.
        config_transformer: as of ``KafkaConfigBackingStore``.

    Source: ``MemoryConfigBackingStore``.

    >>> store = MemoryConfigBackingStore()
    >>> store.start()
    >>> store.put_connector_config("c", {"name": "c"})
    >>> store.put_task_configs("c", [{"file": "a.txt"}, {"file": "b.txt"}])
    >>> [str(task) for task in store.snapshot().tasks("c")]
    ['c-0', 'c-1']
    """

    def __init__(
        self,
        topic: MemoryTopic | None = None,
        *,
        cluster_group_id: str | None = None,
        update_listener: ConfigUpdateListener | None = None,
        config_transformer: WorkerConfigTransformer | None = None,
    ) -> None:
        super().__init__(
            memory_worker(cluster_group_id),
            update_listener=update_listener,
            config_transformer=config_transformer,
            log=partial(MemoryLog, topic or MemoryTopic("memory-configs")),
        )


class MemoryStatusBackingStore(KafkaStatusBackingStore):
    """A status store that keeps everything in memory; arguments as of :class:`MemoryConfigBackingStore`.

    Source: ``MemoryStatusBackingStore``.

    >>> from connect_share import ConnectorStatus, State
    >>> store = MemoryStatusBackingStore()
    >>> store.start()
    >>> store.put(ConnectorStatus("c", State.RUNNING, "w:8083", 1))
    >>> store.get("c").state
    <State.RUNNING: 'RUNNING'>
    """

    def __init__(self, topic: MemoryTopic | None = None, *, cluster_group_id: str | None = None) -> None:
        log = partial(MemoryLog, topic or MemoryTopic("memory-statuses"))
        super().__init__(memory_worker(cluster_group_id), log=log)


class MemoryOffsetBackingStore(KafkaOffsetBackingStore):
    """An offset store that keeps everything in memory; arguments as of :class:`MemoryConfigBackingStore`.

    ``OffsetStorageReader`` and ``OffsetStorageWriter`` take it as they take the Kafka store.

    Source: ``MemoryOffsetBackingStore``.

    >>> store = MemoryOffsetBackingStore()
    >>> store.start()
    >>> store.set({b'["c",{"file":"in.txt"}]': b'{"position":5}'}).result()
    >>> store.get([b'["c",{"file":"in.txt"}]']).result()
    {b'["c",{"file":"in.txt"}]': b'{"position":5}'}
    """

    def __init__(self, topic: MemoryTopic | None = None, *, cluster_group_id: str | None = None) -> None:
        log = partial(MemoryLog, topic or MemoryTopic("memory-offsets"))
        super().__init__(memory_worker(cluster_group_id), log=log)


class MemoryConnectStorage(ConnectStorage):
    """A ``ConnectStorage`` without a broker, for unit tests: its stores, readers and writers over topics in memory.

    What is written is read back at once. There are no Java workers, and nothing to restart from but ``kafka``.

    Args:
        worker_config: a worker file, of which the topics and the group count; by default one without sharing.
        kafka: the topics, shared with other storages; by default its own.
        allow_empty, update_listener, config_transformer: as of ``ConnectStorage``.
        allow_live_members, on_failed: the same; no workers live in memory, and nothing fails.

    >>> from connect_share import WorkerConfig
    >>> topics = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
    >>> exactly_once = {"exactly.once.source.support": "enabled", "bootstrap.servers": "memory:0"}
    >>> worker_config = WorkerConfig.from_properties({"group.id": "g", **topics, **exactly_once})
    >>> kafka = MemoryKafka()
    >>> with MemoryConnectStorage(worker_config, kafka=kafka) as storage:
    ...     storage.config.claim_write_privileges()
    ...     storage.config.put_connector_config("c", {"name": "c"})
    ...     with storage.task_offset_writer("c", 0) as writer:
    ...         writer.send("lines", b"a")
    ...         writer.offset({"file": "in.txt"}, {"position": 1})
    ...         writer.commit()
    ...     storage.offset_reader("c").offset({"file": "in.txt"}), [record.value for record in kafka.records("lines")]
    ({'position': 1}, [b'a'])
    """

    @spelled_out(StorageArguments)
    def __init__(
        self,
        worker_config: WorkerConfig | None = None,
        *,
        kafka: MemoryKafka | None = None,
        **arguments: Unpack[StorageArguments],
    ) -> None:
        super().__init__(worker_config or memory_worker(), **arguments)
        self._kafka = kafka or MemoryKafka()

    @property
    def kafka(self) -> MemoryKafka:
        """The topics in memory."""
        return self._kafka

    def _start_parts(self, life: StorageLife, stack: ExitStack) -> RunningStorage:
        began_s, worker, plain_topics = time.monotonic(), self._worker_config, PlainTopicsCheck()
        topics = {topic_type: self.kafka.topic(worker.topic(topic_type)) for topic_type in TopicType}
        for topic_type, topic in topics.items():
            plain_topics.watch(topic_type)([record.key for record in topic.records()])
        if worker.cluster_group_id is not None and not self._options.allow_empty:
            plain_topics.refuse(worker)
        logs: dict[TopicType, MemoryLog] = {}

        def log_of(topic_type: TopicType, feed: RecordFeed) -> MemoryLog:
            log = logs[topic_type] = MemoryLog(topics[topic_type], feed)
            return log

        stores = Stores.over(log_of, self._options, admin=None, write_guard=None, kafka=self.kafka)
        found: dict[TopicType, StoreStartup] = {}
        for topic_type, store in stores.by_topic().items():
            stack.callback(store.stop)
            store.start()
            foreign = logs[topic_type].foreign_records
            own = len(topics[topic_type].records()) - foreign
            found[topic_type] = StoreStartup(store.topic, 1, time.monotonic() - began_s, own, foreign)
        config, status, offsets = (found[topic_type] for topic_type in TopicType)
        startup = StorageStartup(time.monotonic() - began_s, None, config, status, offsets)
        return RunningStorage.of(stores, startup, life, stack)


class AsyncMemoryConnectStorage(AsyncConnectStorage):
    """:class:`MemoryConnectStorage` on asyncio: the methods of ``AsyncConnectStorage`` without a broker.

    Args: as of :class:`MemoryConnectStorage`.

    >>> import asyncio
    >>> async def main():
    ...     async with AsyncMemoryConnectStorage() as storage:
    ...         await storage.config.put_connector_config("c", {"name": "c"})
    ...         return sorted(storage.config.snapshot().connectors())
    >>> asyncio.run(main())
    ['c']
    """

    @spelled_out(StorageArguments)
    def __init__(
        self,
        worker_config: WorkerConfig | None = None,
        *,
        kafka: MemoryKafka | None = None,
        **arguments: Unpack[StorageArguments],
    ) -> None:
        self._stand_on(partial(MemoryConnectStorage, worker_config, kafka=kafka), arguments)

    @property
    def kafka(self) -> MemoryKafka:
        """The topics in memory."""
        storage: MemoryConnectStorage = self._sync  # type: ignore[assignment]
        return storage.kafka
