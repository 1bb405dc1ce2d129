"""A lost config topic without a backup: what a Java worker that still runs has in memory brings it back (docs/topics.md)."""

from __future__ import annotations

from pathlib import Path

from connect_share.kafka.descriptions import NewTopicRequest
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.console import Call
from tests.support.java_groups import Start
from tests.support.kafka import TestBroker
from tests.support.topics import create_known, delete_known, read_topic
from tests.support.waiting import await_that

LINES = [f"line {number}\n" for number in range(6)]


def test_a_worker_that_still_runs_has_what_is_needed(
    broker: TestBroker, unique: str, tmp_path: Path, worker_factory: Start, call: Call
) -> None:
    properties = worker_properties(broker.bootstrap_servers, unique)
    path, data, topic = (
        write_properties(tmp_path / "w.properties", properties),
        tmp_path / "lines.txt",
        f"{unique}-lines",
    )
    data.write_text("".join(LINES[:3]))
    config_topic = properties["config.storage.topic"]
    source = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(data), "topic": topic, "name": "c"}
    worker = worker_factory(properties)
    with broker.admin() as admin:
        create_known(admin, NewTopicRequest(topic, 1, 1))

        def lines() -> list[str]:
            return [
                f"{(record.value or b'').decode()}\n" for record in read_topic(admin, broker.client_settings, topic)
            ]

        worker.rest.put_config("c", source)
        offset = [{"partition": {"filename": str(data)}, "offset": {"position": len("".join(LINES[:3]))}}]
        await_that(lambda: worker.rest.offsets("c"), lambda found: found == offset, what="committed", timeout_s=120)
        delete_known(admin, config_topic)
        saved = worker.rest.call("GET", "/connectors?expand=info")
        worker.stop()
        broker.await_empty(unique)
        found = call("check", "all", "-w", path, "--output", "json").json["findings"]
        assert [each["id"] for each in found] == ["lost-topic"]
        assert call("create", "topics", "-w", path, "--although-lost", "--yes").code == 0
        data.write_text("".join(LINES))
        worker = worker_factory(properties)
        for name, each in saved.items():
            worker.rest.put_config(name, each["info"]["config"])
        worker.rest.await_state("c", "RUNNING", tasks=1)
        await_that(lines, lambda read: len(read) >= len(LINES), what="read on", timeout_s=120)
        assert lines() == LINES  # nothing lost, and nothing twice
    assert "lost-topic" not in call("check", "all", "-w", path, "--output", "json").out
