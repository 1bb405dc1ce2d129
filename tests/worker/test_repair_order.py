"""Tasks that compaction took from a real worker, and ``repair order`` gives back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.replay import replay_config
from tests.lab.embedded.worker import ConnectWorker, write_properties
from tests.support.console import Ran, console
from tests.support.java_groups import JAR, SharedTopics, put, write
from tests.support.kafka import TestBroker
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that

NAMES = ("paused", "runs")


@pytest.fixture
def topics(broker: TestBroker, unique: str) -> SharedTopics:
    shared = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    shared.create(COMPACT_NOW)
    return shared


@pytest.mark.slow
def test_a_worker_that_loses_its_tasks_keeps_them_after_the_repair(
    topics: SharedTopics,
    worker_factory: Callable[..., ConnectWorker],
    broker: TestBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    group, topic = topics.group("repaired"), topics.topic(TopicType.CONFIG)
    properties = topics.properties(group)
    file = write_properties(tmp_path / "worker.properties", properties)
    data = topics.create_data_topic("data")

    def run(*words: str) -> Ran:
        return console(capsys)(*words[:2], "-w", str(file), *words[2:])

    def start() -> ConnectWorker:
        return worker_factory(properties, class_path=JAR)

    worker = start()
    for name in NAMES:
        sink = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(tmp_path / name), "topics": data}
        put(worker, name, sink)
        worker.rest.await_state(name, "RUNNING", tasks=1)
    worker.rest.pause("paused")
    worker.rest.await_state("paused", "PAUSED", tasks=1)
    assert run("check", "order").code == 0
    live = run("check", "liveness", "--output", "json")
    assert (live.code, live.json["findings"]) == (0, [])
    end(worker, broker, group)
    assert "liveness-no-workers" in ids(run("check", "liveness", "--output", "json"))

    # As older workers do it: the connector is configured again, its tasks stay the same.
    keys = {f"{group}.connector-{name}".encode() for name in NAMES}
    newest = {record.key: record.value for record in topics.records(topic) if record.key in keys}
    write(topics.settings, topic, [(key, newest[key]) for key in sorted(keys)])
    assert ids(run("check", "order", "--output", "json")) == ["order-compaction"] * 2
    assert state(topics, group) == {"paused": 1, "runs": 1}
    await_that(lambda: rolled(topics, topic, keys), lambda left: left == len(keys), what="compacted", timeout_s=120)
    assert ids(run("check", "order", "--output", "json")) == ["order-tasks-dropped"] * 2
    worker = start()
    # A worker makes the tasks of a connector that runs anew when it starts; of a paused one they are lost.
    worker.rest.await_state("runs", "RUNNING", tasks=1)
    worker.rest.await_state("paused", "PAUSED")
    assert worker.rest.tasks("paused") == []
    end(worker, broker, group)

    ran = run("repair", "order", "--yes", "--output", "json")
    assert (ran.code, ran.json["connectors"]) == (0, ["paused"])
    worker = start()
    worker.rest.await_state("paused", "PAUSED", tasks=1)
    worker.rest.await_state("runs", "RUNNING", tasks=1)
    assert [each["id"]["task"] for each in worker.rest.tasks("paused")] == [0]
    worker.rest.resume("paused")
    worker.rest.await_state("paused", "RUNNING", tasks=1)


def state(topics: SharedTopics, group: str) -> dict[str, int]:
    found = replay_config(topics.records(topics.topic(TopicType.CONFIG)), ClusterGroupId(group))
    return {name: len(found.tasks(name)) for name in found.connectors()}


def rolled(topics: SharedTopics, topic: str, keys: set[bytes]) -> int:
    """Let a record of others close the segment; return how many records of these keys are left."""
    write(topics.settings, topic, [(b"other.connector-x", b'{"properties":{}}')])
    return sum(record.key in keys for record in topics.records(topic))


def end(worker: ConnectWorker, broker: TestBroker, group: str) -> None:
    worker.kill()
    with broker.admin() as admin:
        await_that(lambda: admin.connect_groups().get(group, 0), lambda members: not members, what="left")


def ids(ran: Ran) -> list[Any]:
    return [finding["id"] for finding in ran.json["findings"]]
