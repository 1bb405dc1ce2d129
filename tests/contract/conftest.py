"""The kinds of stores that the contract is asked of: one fixture for each store, one parameter for each kind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import pytest

from connect_share import (
    AsyncConnectStorage,
    AsyncMemoryConnectStorage,
    AsyncSharedTopics,
    ConfigBackingStore,
    ConfigUpdateListener,
    KafkaConfigBackingStore,
    KafkaOffsetBackingStore,
    KafkaStatusBackingStore,
    MemoryConfigBackingStore,
    MemoryKafka,
    MemoryOffsetBackingStore,
    MemoryStatusBackingStore,
    MemoryTopic,
    OffsetBackingStore,
    SharedTopics,
    StatusBackingStore,
    WorkerConfig,
)
from connect_share.storage.shared import GroupStorage
from connect_share.storage.start import Stores as StoresOfGroup
from tests.broker.stores.conftest import shared  # noqa: F401
from tests.support.kafka import TestBroker
from tests.support.sealed import key_text
from tests.support.worker_files import properties_of

T = TypeVar("T")

KINDS: Final = ("memory", "memory shared", "kafka", "kafka shared", "kafka sealed", "many groups")
"""The kinds that have an offset store of their own."""


@dataclass
class Stores:
    """Makes stores of one group over the same topics; several of one kind see each other, as workers of a cluster do."""

    config: Callable[..., ConfigBackingStore]
    status: Callable[[], StatusBackingStore]
    offsets: Callable[[], OffsetBackingStore]


def kept(stack: ExitStack, store: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes such stores, which are stopped in the end."""

    def made(*arguments: Any) -> Any:
        found = store(*arguments)
        stack.callback(found.stop)
        return found

    return made


def in_memory(group: str | None, stack: ExitStack) -> Stores:
    topics = [MemoryTopic() for _ in range(3)]

    def config(listener: ConfigUpdateListener | None = None) -> ConfigBackingStore:
        return MemoryConfigBackingStore(topics[0], cluster_group_id=group, update_listener=listener)

    status = partial(MemoryStatusBackingStore, topics[1], cluster_group_id=group)
    offsets = partial(MemoryOffsetBackingStore, topics[2], cluster_group_id=group)
    return Stores(*(kept(stack, store) for store in (config, status, offsets)))


def shared_worker(servers: str, name: str, kind: str) -> WorkerConfig:
    more = {"offset_storage_partitions": "3", "status_storage_partitions": "2"}
    properties = properties_of(servers, f"{name}-group", f"{name}-", **more)
    if kind != "kafka":
        properties["connect.management.topic.sharing.support"] = "enabled"
    if kind.endswith("sealed"):
        properties["connect.management.topic.sharing.encryption.keys"] = key_text(1)
    return WorkerConfig.from_properties(properties)


def on_kafka(servers: str, name: str, kind: str, stack: ExitStack) -> Stores:
    worker = shared_worker(servers, name, kind)

    def config(listener: ConfigUpdateListener | None = None) -> ConfigBackingStore:
        return KafkaConfigBackingStore(worker, update_listener=listener)

    status, offsets = partial(KafkaStatusBackingStore, worker), partial(KafkaOffsetBackingStore, worker)
    return Stores(*(kept(stack, store) for store in (config, status, offsets)))


def of_many_groups(servers: str, name: str, stack: ExitStack) -> Stores:
    """Stores of one of several groups, each over a reader that all groups share."""
    worker = shared_worker(servers, name, "many groups")
    group = str(worker.cluster_group_id)

    def prepared() -> StoresOfGroup:
        topics = stack.enter_context(SharedTopics(worker))
        storages = [topics.storage(each) for each in (f"{group}.more", group, f"{group}-2")]
        storage = storages[1]
        assert isinstance(storage, GroupStorage)
        return storage.prepare(topics.read(storage))

    def config(listener: ConfigUpdateListener | None = None) -> ConfigBackingStore:
        store = prepared().config
        store.set_update_listener(listener)
        return store

    return Stores(config, lambda: prepared().status, lambda: prepared().offsets)


class Blocking:
    """One of the stores of an asynchronous storage, whose coroutines are run to their ends: its methods block."""

    def __init__(self, storage: AsyncConnectStorage, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._storage = storage
        self._name = name
        self._loop = loop

    def start(self) -> None:
        self._run(self._storage.start())

    def stop(self) -> None:
        self._run(self._storage.stop())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(300)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            found = getattr(getattr(self._storage, self._name), method)(*arguments, **named)
            return self._run(found) if asyncio.iscoroutine(found) else found

        return call


def on_asyncio(made: Callable[..., AsyncConnectStorage], worker: WorkerConfig, stack: ExitStack) -> Stores:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    stack.callback(loop.close)
    stack.callback(thread.join)
    stack.callback(loop.call_soon_threadsafe, loop.stop)

    def store(name: str, listener: ConfigUpdateListener | None = None) -> Any:
        storage = made(worker, update_listener=listener)
        blocking = Blocking(storage, name, loop)
        stack.callback(blocking.stop)
        return blocking

    return Stores(partial(store, "config"), partial(store, "status"), partial(store, "offsets"))


def one_of_many(worker: WorkerConfig, **arguments: Any) -> AsyncConnectStorage:
    """Make a storage over a reader of its own, which another group has asked for, too, and which stops with it."""
    topics = AsyncSharedTopics(worker)
    _, storage = [topics.storage(f"{worker.group_id}{more}", **arguments) for more in (".more", "")]
    alone = storage.stop

    async def stop(*timeout_s: float) -> None:
        await alone(*timeout_s)
        await topics.stop(*timeout_s)

    setattr(storage, "stop", stop)  # noqa: B010 - a method
    return storage


@pytest.fixture(params=[*KINDS, "async memory sealed", "async", "async many groups"])
def stores(request: pytest.FixtureRequest, unique: str) -> Iterator[Stores]:
    """Stores of one kind over topics of this test alone."""
    kind: str = request.param
    with ExitStack() as stack:
        if kind.startswith("async memory"):
            made: Callable[..., AsyncConnectStorage] = partial(AsyncMemoryConnectStorage, kafka=MemoryKafka())
            yield on_asyncio(made, shared_worker("memory:0", unique, kind), stack)
        elif kind.startswith("memory"):
            yield in_memory("group.a" if kind == "memory shared" else None, stack)
        elif kind == "many groups":
            yield of_many_groups(request.getfixturevalue("broker").bootstrap_servers, unique, stack)
        elif kind.startswith("async"):
            made = one_of_many if kind == "async many groups" else AsyncConnectStorage
            servers = request.getfixturevalue("broker").bootstrap_servers
            yield on_asyncio(made, shared_worker(servers, unique, kind), stack)
        else:
            broker: TestBroker = request.getfixturevalue("broker")
            yield on_kafka(broker.bootstrap_servers, unique, kind, stack)
