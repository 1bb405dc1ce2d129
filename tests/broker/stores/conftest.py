"""Stores on a real broker, each test with topics of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.keys import prefix_key
from connect_share.model.records import ConnectorTaskId
from connect_share.stores.config import ConfigUpdateListener, KafkaConfigBackingStore
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.status import KafkaStatusBackingStore
from connect_share.worker_config import Isolation, WorkerConfig
from tests.support.topics import ANYWHERE, create_known, in_transaction, ordered_producer, pairs_of, read_topic, send
from tests.support.worker_files import SHARING, properties_of

Pair = tuple[bytes, bytes | None]
AnyStore = TypeVar("AnyStore", KafkaConfigBackingStore, KafkaOffsetBackingStore, KafkaStatusBackingStore)


@dataclass
class Listener(ConfigUpdateListener):
    """Keeps the events of a config store."""

    events: list[tuple[Any, ...]] = field(default_factory=list)

    def on_connector_config_update(self, connector: str) -> None:
        self.events.append(("updated", connector))

    def on_connector_config_remove(self, connector: str) -> None:
        self.events.append(("removed", connector))

    def on_task_config_update(self, tasks: Sequence[ConnectorTaskId]) -> None:
        self.events.append(("tasks", [str(task) for task in tasks]))

    def on_connector_target_state_change(self, connector: str) -> None:
        self.events.append(("target", connector))

    def on_session_key_update(self, session_key: Any) -> None:
        self.events.append(("session-key", session_key))

    def on_restart_request(self, request: Any) -> None:
        self.events.append(("restart", request))

    def on_logging_level_update(self, namespace: str, level: str) -> None:
        self.events.append(("level", namespace, level))


class Shared:
    """One set of topics, and whatever a test puts on it."""

    def __init__(self, bootstrap_servers: str, unique: str, stack: ExitStack) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.unique = unique
        self.group = f"{unique}-g"
        """A cluster group id that no other test has: members and transactional ids are known on the whole broker."""
        self._stack = stack
        self.admin = stack.enter_context(Admin(self.worker().admin_settings(), client_id=f"{unique}-test"))
        self.topics = {kind: f"{unique}-{kind}s" for kind in ("config", "offset", "status")}

    def properties(self, group: str = "group-a", **overrides: str) -> dict[str, str]:
        own = {"offset_storage_partitions": "3", "status_storage_partitions": "2"} | overrides
        return properties_of(self.bootstrap_servers, group, f"{self.unique}-", **own)

    def worker(self, group: str = "group-a", **overrides: str) -> WorkerConfig:
        return WorkerConfig.from_properties(self.properties(group, **overrides))

    def sharing(self, group: str = "group-a", **overrides: str) -> WorkerConfig:
        """Return the worker file of a group that shares the topics; :attr:`group` for one with members or transactions."""
        return WorkerConfig.from_properties(self.properties(group, **overrides) | SHARING)

    def of_group(self, group: str | None, **overrides: str) -> WorkerConfig:
        """Return the worker file of a group that shares the topics, ``None``: of a cluster with plain keys."""
        return self.worker("plain", **overrides) if group is None else self.sharing(group, **overrides)

    def config_store(self, *group: str | None, **options: Any) -> KafkaConfigBackingStore:
        return self._opened(KafkaConfigBackingStore, *group, **options)

    def offset_store(self, *group: str | None, **options: Any) -> KafkaOffsetBackingStore:
        return self._opened(KafkaOffsetBackingStore, *group, **options)

    def status_store(self, *group: str | None, **options: Any) -> KafkaStatusBackingStore:
        return self._opened(KafkaStatusBackingStore, *group, **options)

    def _opened(
        self,
        kind: Callable[..., AnyStore],
        group: str | None = "group-a",
        *,
        worker: WorkerConfig | None = None,
        start: bool = True,
        **options: Any,
    ) -> AnyStore:
        store = kind(worker or self.of_group(group), **options)
        self._stack.callback(store.stop)
        if start:
            store.start()
        return store

    def write(
        self,
        kind: str,
        pairs: Sequence[Pair],
        *,
        group: str | None = None,
        transactional_id: str | None = None,
        commit: bool = True,
        topic: str | None = None,
        partition: int = ANYWHERE,
    ) -> None:
        """Write records past the stores; in one transaction where an id is given."""
        keyed = ((key if group is None else prefix_key(group, key), value) for key, value in pairs)
        records = pairs_of(topic or self.topics[kind], keyed, partition)
        if transactional_id is None:
            send(ordered_producer(self.worker().client_settings()), records)
        else:
            producer = in_transaction(self.worker().producer_settings(), transactional_id, records)
            (producer.commit_transaction if commit else producer.abort_transaction)(120)
            producer.close()

    @contextmanager
    def open_transaction(self, kind: str, pairs: Sequence[Pair]) -> Iterator[None]:
        """Write records in a transaction that stays open meanwhile."""
        records = pairs_of(self.topics[kind], pairs)
        producer = in_transaction(self.worker().producer_settings(), f"{self.unique}-open", records)
        try:
            yield
        finally:
            producer.abort_transaction(120)

    def create(self, topic: str, *, partitions: int = 1, **configs: str) -> None:
        """Make a topic past the stores."""
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        create_known(self.admin, NewTopicRequest(topic, partitions, 1, settings))

    def read(self, kind: str, *, topic: str | None = None, isolation: str = "read_uncommitted") -> list[Pair]:
        """Read a whole topic, partition after partition."""
        settings = self.worker().consumer_settings()
        records = read_topic(self.admin, settings, topic or self.topics[kind], Isolation(isolation))
        return [(record.key or b"", record.value) for record in records]

    def partitions(self, kind: str) -> int:
        return len(self.admin.describe_topics([self.topics[kind]])[self.topics[kind]].partitions)

    def end_offset(self, kind: str, partition: int = 0) -> int:
        return self.admin.end_offsets([(self.topics[kind], partition)])[self.topics[kind], partition]


@pytest.fixture
def shared(broker: Any, unique: str) -> Iterator[Shared]:
    with ExitStack() as stack:
        yield Shared(broker.bootstrap_servers, unique, stack)


@pytest.fixture
def listener() -> Listener:
    return Listener()
