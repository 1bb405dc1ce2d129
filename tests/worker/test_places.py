"""Java workers and keys in several partitions: with the jar they follow the rule, without it a move leaves one record."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from connect_share.model.keys import ClusterGroupId
from connect_share.model.murmur2 import partition_for
from connect_share.model.offsets import offset_key
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY
from tests.lab.embedded.worker import QUICK_MEMBERS, ConnectWorker, worker_properties, write_properties
from tests.support.java_groups import EXACTLY_ONCE, JAR, SharedTopics
from tests.support.kafka import TestBroker
from tests.support.migration_site import run
from tests.support.sealed import key_text, sealed
from tests.support.topics import create_topic, ordered_producer, send
from tests.support.waiting import await_that

NAME = "files"
LINES = [f"line-{number}\n" for number in range(6)]


@pytest.mark.parametrize("sharing", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_worker_goes_on_at_the_newest_offset_after_a_move_a_flush_and_a_restart(
    broker: TestBroker, unique: str, tmp_path: Path, worker_factory: Callable[..., ConnectWorker], *, sharing: bool
) -> None:
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    group, data = topics.group("moved"), topics.create_data_topic("data")
    file = tmp_path / "in.txt"
    file.write_text("".join(LINES))
    old = worker_properties(broker.bootstrap_servers, group, f"{unique}-old")
    for kind, partitions in (("configs", 1), ("offsets", 5), ("status", 5)):
        create_topic(broker.client_settings, f"{unique}-old-{kind}", partitions)
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": data, "name": NAME}
    configs = [(b"connector-files", json.dumps({"properties": config}).encode())]
    key = offset_key(NAME, {"filename": str(file)})
    placed = partition_for(key, 5)
    offsets = [  # the stray record is the newer one
        (placed, 1_000, len("".join(LINES[:1]))),
        ((placed + 1) % 5, 2_000, len("".join(LINES[:4]))),
    ]
    send(
        ordered_producer(broker.client_settings),
        [
            *(Record(f"{unique}-old-configs", 0, 0, 0, *each) for each in configs),
            *(Record(f"{unique}-old-offsets", at, 0, ms, key, b'{"position":%d}' % size) for at, ms, size in offsets),
        ],
    )
    new = (
        topics.properties(group)
        if sharing
        else {**worker_properties(broker.bootstrap_servers, group, unique), **QUICK_MEMBERS}
    )
    sources, plan = write_properties(tmp_path / "old.properties", old), tmp_path / "plan.json"
    target = write_properties(tmp_path / "new.properties", new)
    files = ("--source-worker-config", sources, "--destination-worker-config", target)
    for command in (("plan", *files, "-o", plan), ("apply", plan, "--yes"), ("verify", plan)):
        code, _, errors = run(*command)
        assert code == 0, (command[0], errors)

    def read(count: int) -> list[bytes | None]:
        def values() -> list[bytes | None]:
            return [record.value for record in topics.records(data)]

        return await_that(values, lambda found: len(found) >= count, what=f"{count} lines", timeout_s=120)

    class_path = JAR if sharing else ()
    expected = [line.strip().encode() for line in LINES[4:]]
    with worker_factory(new, class_path=class_path) as first:
        assert read(2) == expected
        size = [{"partition": {"filename": str(file)}, "offset": {"position": len("".join(LINES))}}]
        await_that(lambda: first.rest.offsets(NAME), size.__eq__, what="flushed", timeout_s=120)
    with file.open("a") as more:
        more.write("line-6\n")
    worker_factory(new, class_path=class_path)
    assert read(3) == [*expected, b"line-6"]


FORMS: dict[str, dict[str, str]] = {"plain": {}, "sealed": {KEYS_PROPERTY: key_text(7)}, "exactly once": EXACTLY_ONCE}
PLACES = {
    # Partition, time and lines that are read; whichever partition a worker without the rule reads last, one of two is wrong.
    "first": [(0, 3_000, 4), (1, 2_000, 1)],
    "second": [(0, 2_000, 1), (1, 3_000, 4)],
    "again": [(0, 2_000, 4), (1, 3_000, 1), (1, 1_000, 2)],
    "equal": [(0, 2_000, 4), (1, 2_000, 4)],
}


@pytest.mark.parametrize("form", ["plain", *(pytest.param(form, marks=pytest.mark.slow) for form in list(FORMS)[1:])])
def test_a_worker_with_the_jar_starts_at_the_newest_offset(
    broker: TestBroker, unique: str, tmp_path: Path, worker_factory: Callable[..., ConnectWorker], form: str
) -> None:
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    group, data, names = topics.group("places"), topics.create_data_topic("data"), TopicType.OFFSET
    prefix = ClusterGroupId(group).prefix
    for topic_type in TopicType:
        create_topic(broker.client_settings, topics.topic(topic_type), 1)
    offsets, records = topics.topic(names), []
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_partitions([NewPartitions(offsets, 2)])[offsets].result()
    files = {name: tmp_path / f"{name}.txt" for name in PLACES}
    for name, file in files.items():
        lines = [f"{name} {number}\n" for number in range(6)]
        file.write_text("".join(lines))
        config = {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(file),
            "topic": data,
            "name": name,
        }
        config_key = f"connector-{name}".encode()
        value = json.dumps({"properties": config}).encode()
        records.append(
            (TopicType.CONFIG, 3_000, Record(topics.topic(TopicType.CONFIG), 0, 0, 0, prefix + config_key, value))
        )
        key = prefix + offset_key(name, {"filename": str(file)})
        for partition, time_ms, count in PLACES[name]:
            away = name == "equal" and partition != partition_for(key, 2)
            position = len("".join(lines[: 1 if away else count]))
            # On sealed topics the record's own time is a stranger's.
            own_ms = 9_000 - time_ms if form == "sealed" else time_ms
            records.append((names, time_ms, Record(offsets, partition, 0, own_ms, key, b'{"position":%d}' % position)))
    written = [
        sealed(record, topic_type, written_ms=time_ms) if form == "sealed" else record
        for topic_type, time_ms, record in records
    ]
    await_that(lambda: len(admin.list_topics(offsets).topics[offsets].partitions), (2).__eq__, what="2 partitions")
    send(ordered_producer(broker.client_settings), written)

    def read(count: int) -> dict[str, list[str]]:
        def values() -> list[str]:
            return [(record.value or b"").decode() for record in topics.records(data)]

        found = await_that(values, lambda lines: len(lines) >= count, what=f"{count} lines", timeout_s=120)
        return {name: [line.split()[1] for line in found if line.startswith(name)] for name in PLACES}

    properties = {**topics.properties(group), **FORMS[form]}
    expected = ["4", "5"]
    for appended in ("6", "7"):
        with worker_factory(properties, class_path=JAR) as worker:
            assert read(len(expected) * len(PLACES)) == dict.fromkeys(PLACES, expected)
            for name, file in files.items():
                size = [{"partition": {"filename": str(file)}, "offset": {"position": file.stat().st_size}}]
                await_that(partial(worker.rest.offsets, name), size.__eq__, what="flushed", timeout_s=120)
        for name, file in files.items():
            with file.open("a") as more:
                more.write(f"{name} {appended}\n")
        expected.append(appended)
    worker_factory(properties, class_path=JAR)
    assert read(len(expected) * len(PLACES)) == dict.fromkeys(PLACES, expected)
