"""Committed offsets of sinks: the console and a worker's REST agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.records import Record
from tests.lab.embedded.worker import ConnectWorker, worker_properties, write_properties
from tests.support.console import Call
from tests.support.java_groups import Start, put
from tests.support.kafka import TestBroker
from tests.support.topics import ANYWHERE, create_known, write_records
from tests.support.waiting import await_that

Offsets = dict[tuple[str, int], int]


def offsets_of(document: Any) -> Offsets:
    return {
        (each["partition"]["kafka_topic"], int(each["partition"]["kafka_partition"])): each["offset"]["kafka_offset"]
        for each in document["offsets"]
    }


@pytest.mark.slow
def test_all_agree_on_the_offsets_of_a_sink(
    broker: TestBroker, unique: str, tmp_path: Path, worker_factory: Start, call: Call
) -> None:
    name, properties = f"{unique}-sink", worker_properties(broker.bootstrap_servers, unique)
    file = write_properties(tmp_path / "w.properties", properties)
    with broker.admin() as admin:
        create_known(admin, NewTopicRequest(unique, 2, 1))
    lines = [Record(unique, ANYWHERE, 0, 0, b"%d" % number, b"line %d" % number) for number in range(20)]
    write_records(broker.client_settings, unique, lines)
    sink = {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": unique, "file": str(tmp_path / "out")}

    def ours() -> Any:
        ran = call("get", "offsets", "-w", file, "--connector", name, "--output", "json")
        assert ran.code == 0
        return ran.json

    def agree(worker: ConnectWorker, expected: Offsets) -> None:
        assert offsets_of(ours()) == offsets_of(worker.rest.call("GET", f"/connectors/{name}/offsets")) == expected

    def change(verb: str, *words: str | Path) -> None:
        ran = call(verb, "offsets", name, "-w", file, "--backup-dir", tmp_path, "--yes", *words)
        assert ran.code == 0, ran.err

    worker = worker_factory(properties)
    put(worker, name, sink)
    whole = await_that(
        lambda: offsets_of(ours()), lambda found: sum(found.values()) == len(lines), what="committed", timeout_s=120
    )
    agree(worker, whole)
    worker.rest.stop(name)
    worker.rest.await_state(name, "STOPPED", tasks=0)
    refused = call("reset", "offsets", name, "-w", file, "--yes")
    assert (refused.code, "live Connect worker" in refused.err) == (1, True)
    given = ours()
    worker.stop()
    broker.await_empty(unique)

    wanted = {(unique, 0): 3, (unique, 1): 1}
    pairs = [
        {"partition": {"kafka_topic": topic, "kafka_partition": number}, "offset": {"kafka_offset": offset}}
        for (topic, number), offset in wanted.items()
    ]
    (tmp_path / "wanted.json").write_text(json.dumps({"offsets": pairs}))
    change("alter", "--file", tmp_path / "wanted.json")
    assert offsets_of(ours()) == wanted
    change("reset")
    assert offsets_of(ours()) == {}
    (tmp_path / "given.json").write_text(json.dumps(given))
    change("alter", "--file", tmp_path / "given.json")
    assert offsets_of(ours()) == whole
    change("alter", "--file", tmp_path / "wanted.json")
    # A worker reads on from there, and takes what the console shows.
    worker = worker_factory(properties)
    worker.rest.await_state(name, "STOPPED", tasks=0)
    agree(worker, wanted)
    worker.rest.call("PATCH", f"/connectors/{name}/offsets", given)
    agree(worker, whole)
    worker.rest.call("PATCH", f"/connectors/{name}/offsets", {"offsets": pairs})
    worker.rest.resume(name)
    again = sum(whole.values()) - sum(wanted.values())
    read = lambda: len((tmp_path / "out").read_text().splitlines())  # noqa: E731
    await_that(read, lambda count: count == len(lines) + again, what="read again", timeout_s=120)
