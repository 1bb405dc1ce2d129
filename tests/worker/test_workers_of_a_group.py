"""Workers whose ``group.id`` is the consumer group of another cluster's sink: what is said of them, and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.embedded.worker import write_properties
from tests.support.console import Call
from tests.support.java_groups import JAR, SharedTopics, Start, put
from tests.support.kafka import TestBroker


@pytest.mark.slow
def test_workers_whose_group_is_that_of_a_sink(
    broker: TestBroker, unique: str, tmp_path: Path, worker_factory: Start, call: Call
) -> None:
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    topics.create()
    name = topics.group("orders")
    data = topics.create_data_topic("lines")
    files = {
        group: write_properties(tmp_path / group, topics.properties(group))
        for group in (topics.group("there"), f"connect-{name}")
    }
    there, colliding = files
    sink = {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": data, "file": str(tmp_path / "out")}
    with_workers = worker_factory(topics.properties(colliding), class_path=JAR)
    worker = worker_factory(topics.properties(there), class_path=JAR)
    put(worker, name, sink)

    worker.rest.await_status(
        name, lambda found: [each["state"] for each in found["tasks"]] == ["FAILED"], what="failed"
    )
    status = worker.rest.call("GET", f"/connectors/{name}/status")
    assert "InconsistentGroupProtocolException" in status["tasks"][0]["trace"]
    put(with_workers, "any", {**sink, "name": "any", "file": str(tmp_path / "other")})  # it has records by now
    ran = call("check", "all", "-w", files[there], "--output", "json")
    (found,) = [each for each in ran.json["findings"] if each["id"] == "collision-group-of-sink"]
    assert found["what"] == f"group.id {colliding} is the consumer group of {name} of {there}"
    ran = call("admit", "-w", files[colliding], "--output", "json")
    assert "collision-group-of-sink" in {each["id"] for each in ran.json["findings"]}
    # What the finding says.
    put(worker, name, {**sink, "consumer.override.group.id": f"{name}-sink"})
    worker.rest.await_state(name, "RUNNING", tasks=1)
    ran = call("check", "collisions", "-w", files[there], "--output", "json")
    assert ran.json["findings"] == []
