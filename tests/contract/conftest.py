"""The kinds of stores that the contract is asked of: one fixture for each store, one parameter for each kind."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import pytest

from connect_share import (
    ConfigBackingStore,
    ConfigUpdateListener,
    KafkaConfigBackingStore,
    KafkaOffsetBackingStore,
    KafkaStatusBackingStore,
    MemoryConfigBackingStore,
    MemoryOffsetBackingStore,
    MemoryStatusBackingStore,
    MemoryTopic,
    OffsetBackingStore,
    StatusBackingStore,
    WorkerConfig,
)
from tests.support.kafka import TOPIC_PREFIX, TestBroker
from tests.support.sealed import key_text

KINDS: Final = ("memory", "memory shared", "kafka", "kafka shared", "kafka sealed")


@dataclass
class Stores:
    """Makes stores of one group over the same topics; several of one kind see each other, as workers of a cluster do."""

    config: Callable[..., ConfigBackingStore]
    status: Callable[[], StatusBackingStore]
    offsets: Callable[[], OffsetBackingStore]


def in_memory(group: str | None, stack: ExitStack) -> Stores:
    topics = [MemoryTopic() for _ in range(3)]

    def config(listener: ConfigUpdateListener | None = None) -> ConfigBackingStore:
        store = MemoryConfigBackingStore(topics[0], cluster_group_id=group, update_listener=listener)
        stack.callback(store.stop)
        return store

    def status() -> StatusBackingStore:
        store = MemoryStatusBackingStore(topics[1], cluster_group_id=group)
        stack.callback(store.stop)
        return store

    def offsets() -> OffsetBackingStore:
        store = MemoryOffsetBackingStore(topics[2], cluster_group_id=group)
        stack.callback(store.stop)
        return store

    return Stores(config, status, offsets)


def on_kafka(servers: str, kind: str, stack: ExitStack) -> Stores:
    name = f"{TOPIC_PREFIX}-contract-{kind.replace(' ', '-')}-{uuid.uuid4().hex[:6]}"
    properties = {"bootstrap.servers": servers, "group.id": f"{name}-group"}
    for each in ("config", "offset", "status"):
        properties |= {f"{each}.storage.topic": f"{name}-{each}s", f"{each}.storage.replication.factor": "1"}
    properties |= {"offset.storage.partitions": "3", "status.storage.partitions": "2"}
    if kind != "kafka":
        properties["connect.management.topic.sharing.support"] = "enabled"
    if kind == "kafka sealed":
        properties["connect.management.topic.sharing.encryption.keys"] = key_text(1)
    worker = WorkerConfig.from_properties(properties)
    group = worker.cluster_group_id

    def config(listener: ConfigUpdateListener | None = None) -> ConfigBackingStore:
        store = KafkaConfigBackingStore(worker, cluster_group_id=group, update_listener=listener)
        stack.callback(store.stop)
        return store

    def status() -> StatusBackingStore:
        store = KafkaStatusBackingStore(worker, cluster_group_id=group)
        stack.callback(store.stop)
        return store

    def offsets() -> OffsetBackingStore:
        store = KafkaOffsetBackingStore(worker, cluster_group_id=group)
        stack.callback(store.stop)
        return store

    return Stores(config, status, offsets)


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest) -> Iterator[Stores]:
    """Stores of one kind over topics of this test alone."""
    kind: str = request.param
    with ExitStack() as stack:
        if kind.startswith("memory"):
            yield in_memory("group.a" if kind == "memory shared" else None, stack)
        else:
            broker: TestBroker = request.getfixturevalue("broker")
            yield on_kafka(broker.bootstrap_servers, kind, stack)
