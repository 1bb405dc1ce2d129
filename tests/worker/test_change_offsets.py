"""Offsets changed by the console are what a Java worker shows and reads, and the reverse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connect_share.worker_config import Isolation
from tests.lab.embedded.rest import RestError
from tests.lab.embedded.worker import ConnectWorker, write_properties
from tests.support.console import Call
from tests.support.java_groups import EXACTLY_ONCE, JAR, SharedTopics, Start, put
from tests.support.kafka import TestBroker
from tests.support.waiting import await_that

NAME = "files.1"
LINES = [f"line-{number}" for number in range(6)]


def size(lines: int) -> int:
    return len("".join(f"{line}\n" for line in LINES[:lines]))


@pytest.mark.slow
def test_console_and_worker_change_offsets_for_each_other(
    broker: TestBroker, topics: SharedTopics, tmp_path: Path, worker_factory: Start, call: Call
) -> None:
    group = topics.group("orders")
    properties = topics.properties(group) | EXACTLY_ONCE
    worker_file = write_properties(tmp_path / "worker.properties", properties)
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{line}\n" for line in LINES))
    lines = topics.create_data_topic("lines")
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(source), "topic": lines}

    def position(lines_read: int) -> list[dict[str, Any]]:
        return [{"partition": {"filename": str(source)}, "offset": {"position": size(lines_read)}}]

    def ours(name: str = NAME) -> Any:
        ran = call("get", "offsets", "-w", worker_file, "--connector", name, "--output", "json")
        assert ran.code == 0
        return ran.json

    def offsets_of(document: Any) -> list[dict[str, Any]]:
        return [{"partition": each["partition"], "offset": each["offset"]} for each in document["offsets"]]

    def ours_with(wanted: list[dict[str, Any]]) -> Any:
        # A commit is answered before its markers are written: workers wait for them, the console shows what is committed.
        return await_that(ours, lambda found: offsets_of(found) == wanted, what=f"{wanted}")

    def change(verb: str, *words: str | Path) -> Any:
        ran = call(verb, "offsets", *words, "-w", worker_file, "--backup-dir", tmp_path, "--yes", "--output", "json")
        assert ran.code == 0, ran.err
        return ran.json

    def read(count: int) -> list[str]:
        def values() -> list[str]:
            found = topics.records(lines, isolation=Isolation.READ_COMMITTED)
            return [(record.value or b"").decode() for record in found]

        return await_that(values, lambda found: len(found) >= count, what="read", timeout_s=120)

    def stopped(worker: ConnectWorker) -> None:
        worker.rest.stop(NAME)
        worker.rest.await_state(NAME, "STOPPED", tasks=0)

    first = worker_factory(properties, class_path=JAR)
    put(first, NAME, config)
    first.rest.await_state(NAME, "RUNNING", tasks=1)
    assert read(6) == LINES
    stopped(first)
    await_that(lambda: first.rest.offsets(NAME), lambda found: found == position(6), what="committed")
    assert offsets_of(ours()) == position(6)

    # What Java's PATCH writes is what the console gives; and what it gives is what Java takes.
    first.rest.alter_offsets(NAME, position(2))
    given = ours_with(position(2))
    assert given == first.rest.call("GET", f"/connectors/{NAME}/offsets")
    first.rest.reset_offsets(NAME)
    assert ours_with([]) == {"offsets": []} == first.rest.call("GET", f"/connectors/{NAME}/offsets")
    with pytest.raises(RestError, match="Unrecognized field"):  # so there is nothing else in it
        first.rest.call("PATCH", f"/connectors/{NAME}/offsets", {**given, "_version": "1"})
    first.rest.call("PATCH", f"/connectors/{NAME}/offsets", given)
    assert first.rest.offsets(NAME) == position(2)
    refused = call("reset", "offsets", NAME, "-w", worker_file, "--yes")
    assert (refused.code, "1 live Connect worker of group" in refused.err) == (1, True)

    # Without a worker: by the answer of Java's REST, and back by the backup.
    answer = first.rest.call("GET", f"/connectors/{NAME}/offsets")
    first.stop()
    broker.await_empty(group)
    change("reset", NAME)
    ours_with([])
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    change("alter", NAME, "--file", tmp_path / "answer.json")
    ours_with(position(2))
    (tmp_path / "four.json").write_text(json.dumps({"offsets": position(4)}))
    backup = Path(change("alter", NAME, "--file", tmp_path / "four.json")["backups"][0]["file"])
    assert json.loads(backup.read_text()) == {"offsets": position(2)}
    change("copy", NAME, "--to", "files.2", "--force")

    second = worker_factory(properties, class_path=JAR)
    second.rest.await_state(NAME, "STOPPED", tasks=0)
    assert second.rest.offsets(NAME) == position(4)
    second.rest.resume(NAME)
    second.rest.await_state(NAME, "RUNNING", tasks=1)
    # It goes on behind the fourth line; so does the connector that was given the copy before there was one.
    assert read(8)[6:] == LINES[4:]
    put(second, "files.2", config)
    assert read(10)[8:] == LINES[4:]
    stopped(second)
    second.rest.call("PATCH", f"/connectors/{NAME}/offsets", json.loads(backup.read_text()))
    assert second.rest.offsets(NAME) == position(2)
