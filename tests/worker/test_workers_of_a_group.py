"""What is said of the workers of a group: healthy ones, one ``group.id`` on two sets of topics or of a sink's consumers."""

from __future__ import annotations

import json
import os
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from connect_share.kafka.descriptions import GroupMember, NewTopicRequest
from connect_share.model.records import Record
from tests.lab.embedded.worker import QUICK_MEMBERS, ConnectWorker, worker_properties, write_properties
from tests.support.console import Call, Ran
from tests.support.java_groups import JAR, SharedTopics, Start, put
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.topics import create_known, write_records
from tests.support.waiting import await_that

SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1"}
HOUR_MS = 3_600_000


class Captures:
    """What brokers told, for tests without workers: ``CONNECT_SHARE_CAPTURE`` names the folder to write to."""

    def __init__(self) -> None:
        self.seen: dict[str, list[dict[str, Any]]] = {}

    def add(self, name: str, members: tuple[GroupMember, ...]) -> None:
        self.seen[name] = [
            {
                "member_id": each.member_id,
                "client_id": each.client_id,
                "protocol": each.protocol,
                "group_state": each.group_state,
                "metadata": each.metadata.hex(),
                "assigned": each.assigned.hex(),
            }
            for each in members
        ]
        if folder := os.environ.get("CONNECT_SHARE_CAPTURE"):
            (Path(folder) / "workers-of-a-group.json").write_text(json.dumps(self.seen, indent=1) + "\n")


@pytest.mark.skipif(
    not LONG, reason="three starts beside each other; captures of it are judged in every run: make soak"
)
def test_one_group_on_two_sets_of_topics(
    broker: TestBroker, unique: str, tmp_path: Path, worker_factory: Start, call: Call
) -> None:
    captures = Captures()
    sets = {
        name: {**worker_properties(broker.bootstrap_servers, unique, f"{unique}-{name}"), **QUICK_MEMBERS}
        for name in "ab"
    }
    files = {name: write_properties(tmp_path / f"{name}.properties", sets[name]) for name in "ab"}
    config = {**SOURCE, "name": "c", "file": str(tmp_path / "in.txt"), "topic": f"{unique}-lines"}
    (tmp_path / "in.txt").write_text("line\n")

    def found(name: str) -> Any:
        ran = call("check", "workers", "-w", files[name], "--output", "json")
        findings = ran.json["findings"]
        assert ran.code == (1 if any(each["severity"] == "error" for each in findings) else 0)
        for each in findings:
            assert call(*shlex.split(each["command"])[1:]).code == 0
        return {each["id"]: each["what"] for each in findings}

    def workers() -> Any:
        ran: Ran = call("get", "workers", "-w", files["a"], "--output", "json")
        assert ran.code == 0
        return ran.json["workers"]

    with broker.admin() as admin:

        def members() -> tuple[GroupMember, ...]:
            return admin.connect_members(unique).get(unique, ())

        def told_of_two(seen: tuple[GroupMember, ...]) -> bool:
            return len(seen) == 2 and all(each.state is not None for each in seen)

        def is_leader(member: GroupMember) -> bool:
            return member.assignment is not None and member.assignment.leader == member.member_id

        def address(worker: ConnectWorker) -> str:
            return worker.rest.url.partition("://")[2]

        # A cluster that is not from today.
        topic = sets["a"]["config.storage.topic"]
        create_known(admin, NewTopicRequest(topic, 1, 1, {"cleanup.policy": "compact"}))
        hour_ago_ms = time.time_ns() // 1_000_000 - HOUR_MS
        value = json.dumps({"properties": config}).encode()
        write_records(broker.client_settings, topic, [Record(topic, 0, 0, hour_ago_ms, b"connector-c", value)])
        first = worker_factory(sets["a"])
        first.rest.await_state("c", "RUNNING", tasks=1)
        assert found("a") == {}
        (row,) = workers()
        status = first.rest.call("GET", "/connectors/c/status")
        assert row["worker_id"] == status["connector"]["worker_id"] == address(first)
        assert (row["url"], row["leader"], row["protocol"]) == (f"{first.rest.url}/", True, "sessioned")
        assert (row["connectors"], row["tasks"], row["settled"]) == (["c"], ["c-0"], True)
        assert row["config_position"] == row["assignment_position"] > 0
        assert row["generation"] > 0
        captures.add("one worker", members())

        # A worker more: no finding at any moment of its rebalance.
        second = worker_factory(sets["a"], wait=False)
        deadline_s, looks = time.monotonic() + 120, 0
        while len(members()) < 2 or looks < 3:
            assert time.monotonic() < deadline_s
            assert found("a") == {}
            looks += len(members()) == 2
        second.await_healthy()
        assert found("a") == {}
        captures.add("two workers", members())
        second.stop()
        await_that(members, lambda seen: len(seen) == 1, what="left", timeout_s=60)

        # The same id with other topics.
        other = worker_factory(sets["b"], wait=False)
        await_that(members, lambda seen: len(seen) == 2, what="joined", timeout_s=120)
        # Such a worker leaves now and then, and comes back.
        captures.add("other topics", await_that(members, told_of_two, what="told", timeout_s=60))
        seen = await_that(lambda: found("a"), bool, what="found", timeout_s=60)
        assert set(seen) == {"workers-other-topic"}
        assert f"worker {address(other)} (127.0.0.1) is at position -1" in seen["workers-other-topic"]
        seen = await_that(lambda: found("b"), bool, what="found", timeout_s=60)
        assert f"worker {address(first)} (127.0.0.1) is at position" in seen["workers-other-topic"]
        # Its leader goes: the other worker leads, and nothing settles when a worker comes back.
        first.kill()
        await_that(members, lambda seen: len(seen) == 1 and is_leader(seen[0]), what="alone", timeout_s=60)
        first = worker_factory(sets["a"], wait=False)
        captures.add("storm", await_that(members, told_of_two, what="told", timeout_s=120))
        seen = await_that(lambda: found("a"), lambda seen: "workers-not-settled" in seen, what="storm", timeout_s=60)
        assert set(seen) == {"workers-other-topic", "workers-not-settled"}
        assert f"worker {address(other)} (127.0.0.1) is at position" in seen["workers-other-topic"]
        text = call("get", "workers", "-w", files["a"])
        assert "did not settle" in text.err
        # What the finding says.
        other.stop()
        await_that(lambda: found("a"), lambda seen: seen == {}, what="healthy", timeout_s=120)
        put(first, "d", {**config, "name": "d"})


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
