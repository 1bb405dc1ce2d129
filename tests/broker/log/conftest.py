"""Topics of a test's own, written and compacted on a real broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from connect_share.kafka.admin import Admin
from connect_share.kafka.create import TopicSpec
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.kafka.read import Reader
from connect_share.log.kafka_based_log import KafkaBasedLog
from connect_share.log.protocol import RecordFeed
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import ClientSettings, Isolation
from tests.support.topics import ANYWHERE, create_known, in_transaction, ordered_producer, pairs_of, read_topic, send
from tests.support.waiting import await_that

Pair = tuple[bytes | None, bytes | None]


class Collected:
    """A sink that keeps what it is given."""

    def __init__(self, key_prefix: bytes = b"") -> None:
        self._prefix = key_prefix
        self._lock = threading.Lock()
        self._records: list[Record] = []

    @property
    def key_prefix(self) -> bytes:
        return self._prefix

    def apply(self, records: Sequence[Record]) -> None:
        with self._lock:
            self._records.extend(records)

    @property
    def records(self) -> list[Record]:
        with self._lock:
            return list(self._records)

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]

    def latest(self) -> dict[bytes | None, bytes | None]:
        """Last value of each key, tombstones left out."""
        state = {record.key: record.value for record in self.records}
        return {key: value for key, value in state.items() if value is not None}


class Bench:
    """One topic name, an admin, and what a test does with them."""

    def __init__(self, bootstrap_servers: str, unique: str, stack: ExitStack) -> None:
        self.unique = unique
        self.topic = f"{unique}-log"
        self.settings = ClientSettings({"bootstrap.servers": bootstrap_servers})
        self.admin = stack.enter_context(Admin(self.settings, client_id=f"{unique}-admin"))
        self._stack = stack

    def spec(
        self, *, topic: str | None = None, kind: TopicType = TopicType.STATUS, partitions: int = 1, replicas: int = 1
    ) -> TopicSpec:
        return TopicSpec(topic or self.topic, kind, partitions, replicas)

    def create(
        self, partitions: int = 1, *, topic: str | None = None, configs: Mapping[str, str] | None = None
    ) -> None:
        request = NewTopicRequest(topic or self.topic, partitions, 1, {"cleanup.policy": "compact", **(configs or {})})
        create_known(self.admin, request)

    def log(self, sink: Any, *, isolation: Isolation = Isolation.READ_UNCOMMITTED, **options: Any) -> KafkaBasedLog:
        """Make a log that is stopped when the test ends."""
        defaults: dict[str, Any] = {
            "feed": RecordFeed(sink.key_prefix, sink.apply),
            "admin": self.admin,
            "reader": Reader(self.settings, self.unique, isolation),
            "producer_settings": self.settings,
            "start_timeout_s": 60.0,
        }
        spec = options.pop("spec", None) or self.spec()
        made = KafkaBasedLog(spec, **(defaults | options))
        self._stack.callback(made.stop)
        return made

    def started(self, sink: Any, **options: Any) -> KafkaBasedLog:
        made = self.log(sink, **options)
        made.start()
        return made

    def write(self, pairs: Iterable[Pair], *, partition: int = ANYWHERE, topic: str | None = None) -> None:
        """Write past the log; null keys too where the topic allows them."""
        send(ordered_producer(self.settings), pairs_of(topic or self.topic, pairs, partition))

    @contextmanager
    def transaction(self, pairs: Iterable[Pair], *, commit: bool = True, partition: int = 0) -> Iterator[None]:
        """Write records in a transaction that is open meanwhile, and committed or aborted at the end."""
        producer = in_transaction(self.settings, f"{self.unique}-tx", pairs_of(self.topic, pairs, partition))
        try:
            yield
        finally:
            end = self.end(partition)
            if commit:
                producer.commit_transaction(120)
            else:
                producer.abort_transaction(120)
            await_that(lambda: self.end(partition), lambda now: now > end, what="marked")

    def transact(self, pairs: Iterable[Pair], *, commit: bool = True) -> None:
        """Write records in a transaction, and commit or abort it."""
        with self.transaction(pairs, commit=commit):
            pass

    def end(self, partition: int = 0) -> int:
        return self.admin.end_offsets([(self.topic, partition)])[self.topic, partition]

    def read(self, isolation: Isolation = Isolation.READ_UNCOMMITTED, topic: str | None = None) -> list[Record]:
        """Read the whole topic once."""
        return read_topic(self.admin, self.settings, topic or self.topic, isolation)


@pytest.fixture
def bench(broker: Any, unique: str) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(broker.bootstrap_servers, unique, stack)


@pytest.fixture
def collected() -> Callable[..., Collected]:
    return Collected
