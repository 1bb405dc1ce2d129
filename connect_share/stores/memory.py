"""The three stores in memory, for unit tests without a broker: the code of the Kafka stores over another log."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Final

from connect_share.log.memory_log import MemoryLog, MemoryTopic
from connect_share.model.keys import ClusterGroupId
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
