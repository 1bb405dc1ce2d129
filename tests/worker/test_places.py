"""Java workers, which know no rule for keys in several partitions, after a move that left one record of each key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from connect_share.model.murmur2 import partition_for
from connect_share.model.offsets import offset_key
from connect_share.model.records import Record
from tests.lab.embedded.worker import QUICK_MEMBERS, ConnectWorker, worker_properties, write_properties
from tests.support.java_groups import JAR, SharedTopics
from tests.support.kafka import TestBroker
from tests.support.migration_site import run
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
