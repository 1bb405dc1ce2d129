"""Fixtures of pytest for runtimes: storages in memory, or on a broker. See ``docs/testing-a-runtime.md``.

It is no entry point, so that it costs nothing where it is not used. Tests that have say
``pytest_plugins = ["connect_share.pytest_plugin"]``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial

import pytest

from connect_share.kafka.admin import Admin
from connect_share.log.memory import MemoryKafka
from connect_share.model.records import TopicType
from connect_share.storage import AsyncConnectStorage, ConnectStorage
from connect_share.storage.memory import AsyncMemoryConnectStorage, MemoryConnectStorage
from connect_share.worker_config import SHARING_PROPERTY, TOPIC_PROPERTIES, WorkerConfig

_OPTION = "--connect-share-bootstrap"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that says where the broker is."""
    parser.getgroup("connect-share").addoption(
        _OPTION, metavar="HOST:PORT", help="a broker for the fixtures of connect-share; without it they are in memory"
    )


@pytest.fixture
def connect_worker_properties() -> Mapping[str, str]:
    """Lines of the worker file beyond group, topics and brokers. Write a fixture of this name to have others."""
    return {}


@pytest.fixture
def connect_worker(
    connect_worker_properties: Mapping[str, str], request: pytest.FixtureRequest
) -> Iterator[WorkerConfig]:
    """The worker file of a group of this test alone, on topics of its own, which are deleted in the end."""
    servers, unique = request.config.getoption(_OPTION), f"test-{uuid.uuid4().hex[:12]}"
    topics = {name: f"{unique}-{kind.value}" for kind, name in TOPIC_PROPERTIES.items()}
    replicas = {f"{kind.value}.storage.replication.factor": "-1" for kind in TopicType}  # what the broker says
    partitions = {"offset.storage.partitions": "1", "status.storage.partitions": "1"}
    worker = WorkerConfig.from_properties(
        {"bootstrap.servers": servers or "memory:0", "group.id": unique, SHARING_PROPERTY: "enabled"}
        | {**topics, **replicas, **partitions}
        | dict(connect_worker_properties)
    )
    yield worker
    if servers is not None:
        with Admin(worker.admin_settings(), client_id=f"{unique}-admin") as admin:
            admin.delete_topics([topic for topic in topics.values() if topic in admin.topic_names()])


@pytest.fixture
def connect_kafka(request: pytest.FixtureRequest) -> MemoryKafka | None:
    """The topics in memory; ``None`` on a broker."""
    return MemoryKafka() if request.config.getoption(_OPTION) is None else None


@pytest.fixture
def make_connect_storage(
    connect_worker: WorkerConfig, connect_kafka: MemoryKafka | None
) -> Iterator[Callable[..., ConnectStorage]]:
    """What starts storages of workers of one group; they are stopped in the end. Arguments as of ``ConnectStorage``."""
    kind = ConnectStorage if connect_kafka is None else partial(MemoryConnectStorage, kafka=connect_kafka)
    with ExitStack() as stack:
        yield lambda **arguments: stack.enter_context(kind(connect_worker, **arguments))


@pytest.fixture
def connect_storage(make_connect_storage: Callable[..., ConnectStorage]) -> ConnectStorage:
    """A storage that runs."""
    return make_connect_storage()


@pytest.fixture
def make_async_connect_storage(
    connect_worker: WorkerConfig, connect_kafka: MemoryKafka | None
) -> Callable[..., AsyncConnectStorage]:
    """What makes storages for ``async with``; arguments as of ``AsyncConnectStorage``."""
    if connect_kafka is None:
        return partial(AsyncConnectStorage, connect_worker)
    return partial(AsyncMemoryConnectStorage, connect_worker, kafka=connect_kafka)
