"""KIP-1173's matrix, row Old/New: an unmodified worker beside workers with the jar and a Python group, same topics."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from connect_share import TopicType, split_key
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.lab.embedded.worker import ConnectWorker, worker_properties
from tests.support.java_groups import JAR, LogLines, SharedTopics, delete, put
from tests.support.kafka import TestBroker
from tests.support.waiting import await_that

CONNECTOR = "my.conn"


@pytest.mark.slow
def test_each_sees_its_own_and_only_the_old_one_speaks_of_others(
    broker: TestBroker, unique: str, worker_factory: Callable[..., ConnectWorker], tmp_path: Path
) -> None:
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    topics.create()
    data = topics.create_data_topic("data")
    sink = {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": data}
    plain, acme, orders, library = (topics.group(name) for name in ("old", "com.acme", "com.acme.orders", "python"))
    old = worker_factory(worker_properties(broker.bootstrap_servers, plain, unique), wait=False)
    news = {
        acme: worker_factory(topics.properties(acme), version="2.8.2", class_path=JAR, wait=False),
        orders: worker_factory(topics.properties(orders), class_path=JAR, wait=False),
    }
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(ConnectWorker.await_healthy, [old, *news.values()]))
    python = WorkerConfig.from_properties(topics.properties(library))
    with ConnectStorage(python, allow_empty=True) as storage:
        storage.config.put_connector_config(CONNECTOR, {"name": CONNECTOR})
        storage.config.put_connector_config("python-only", {"name": "python-only"})
        for group, worker in {plain: old, **news}.items():
            put(worker, CONNECTOR, {**sink, "file": str(tmp_path / f"{group}.txt")})
            put(worker, f"{group}-only", {**sink, "file": str(tmp_path / f"{group}-only.txt")})
            worker.rest.await_state(CONNECTOR, "RUNNING", tasks=1)
        # The same name goes in one group, and is paused in another.
        delete(news[acme], CONNECTOR)
        news[orders].rest.pause(CONNECTOR)
        news[orders].rest.await_state(CONNECTOR, "PAUSED", tasks=1)
        old.kill()
        before = LogLines(old)
        old.start()
        old.rest.await_state(CONNECTOR, "RUNNING", tasks=1)
        await_that(old.rest.connectors, lambda names: set(names) == {CONNECTOR, f"{plain}-only"}, what="its own")
        assert news[acme].rest.connectors() == [f"{acme}-only"]
        assert set(news[orders].rest.connectors()) == {f"{orders}-only", CONNECTOR}
        storage.config.refresh(30)
        assert storage.config.snapshot().connectors() == {CONNECTOR, "python-only"}

        # What the old one says at this start: one line for each record of another group that is still in the topic.
        split = [
            split_key(TopicType.CONFIG, record.key or b"") for record in topics.records(topics.topic(TopicType.CONFIG))
        ]
        foreign = sum(each is not None and each[0] is not None for each in split)
        said = before.count("Discarding config update record with invalid key")
        assert foreign > 0
        assert 0 < said <= foreign + 20  # what others write meanwhile
        assert before.count("Discarding record with invalid key") > 0  # statuses
    assert [LogLines(worker, from_start=True).about_foreign() for worker in news.values()] == [[], []]
    groups = {each[0] for each in split if each is not None}
    assert groups == {None, acme, orders, library}
