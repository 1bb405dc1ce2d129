"""A real Java worker on topics that were wiped and restored to a moment: it runs what it ran then, from where it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from connect_share.backup.backup_file import shown_time
from connect_share.cli.__main__ import main
from connect_share.kafka.admin import Admin
from connect_share.model.records import TopicType
from tests.lab.embedded.worker import ConnectWorker, write_properties
from tests.support.java_groups import JAR, SharedTopics, delete
from tests.support.kafka import TestBroker
from tests.support.waiting import await_that
from tests.worker.test_migration_round_trip import Files, await_view, view


@pytest.mark.slow
def test_a_worker_goes_on_from_the_moment_that_was_restored(
    broker: TestBroker, unique: str, worker_factory: Callable[..., ConnectWorker], tmp_path: Path
) -> None:
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    topics.create()
    group, files = topics.group("orders.eu"), Files(topics, tmp_path)
    properties = topics.properties(group)
    path, folder = write_properties(tmp_path / "worker.properties", properties), tmp_path / "backup"
    follow = ["export", "-w", str(path), "--follow", str(folder), "--once"]

    worker = worker_factory(properties, class_path=JAR)
    for name in ("my.source", "paused-1"):
        files.add(worker, name, 3)
    assert main(follow) == 0
    worker.rest.pause("paused-1")
    worker.rest.await_state("paused-1", "PAUSED", tasks=1)
    said = view(worker)
    assert main(follow) == 0
    moment = shown_time(int(time.time() * 1000))
    delete(worker, "paused-1")
    files.append(worker, "my.source")
    assert main(follow) == 0
    worker.stop()

    names = [topics.topic(topic_type) for topic_type in TopicType]
    with Admin(broker.client_settings, client_id="tests") as admin:
        await_that(admin.connect_groups, lambda alive: not alive.get(group), what="no worker")
        admin.delete_topics(names)
        await_that(lambda: admin.describe_topics(names), lambda found: not found, what="topics gone")
    assert main(["restore", str(folder), "-w", str(path), "--at", moment, "--yes"]) == 0

    worker = worker_factory(properties, class_path=JAR)
    worker.rest.await_state("paused-1", "PAUSED", tasks=1)
    files.await_read(worker, "my.source")
    lines = files.values("my.source")
    assert lines == [b"my.source first"] * 3 + [b"my.source appended"] * 2  # read again from the offset of that moment
    then = {name: each for name, each in said.items() if name == "paused-1"}
    await_view(worker, {**view(worker), **then})
