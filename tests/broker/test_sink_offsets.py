"""Offsets of a sink connector's consumer group, as Connect's REST gives and takes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from connect_share import ConnectStorage, TargetState, WorkerConfig
from connect_share.errors import UsageError, ValueFormatError
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.runtime import alter_sink_offsets, reset_sink_offsets, sink_group_id, sink_offsets
from connect_share.stores.alter_offsets import ConsumerGroupsAdmin
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.console import Call
from tests.support.kafka import TestBroker
from tests.support.printed import Printed
from tests.support.topics import create_known
from tests.support.waiting import await_that


@pytest.fixture
def admin(broker: TestBroker) -> Iterator[ConsumerGroupsAdmin]:
    with ConsumerGroupsAdmin(broker.client_settings, client_id="tests") as admin:
        yield admin


def pair(topic: str, partition: object, offset: object) -> tuple[dict[str, object], dict[str, object]]:
    return {"kafka_topic": topic, "kafka_partition": partition}, {"kafka_offset": offset}


def test_offsets_are_read_changed_and_removed_unless_the_sink_runs(
    broker: TestBroker, admin: ConsumerGroupsAdmin, unique: str
) -> None:
    group = sink_group_id("sink", {"consumer.override.group.id": unique})
    assert group == unique
    assert sink_offsets(admin, group) == []
    reset_sink_offsets(admin, group)  # there is none
    with broker.admin() as topics:
        create_known(topics, NewTopicRequest(unique, 3, 1))
    alter_sink_offsets(admin, group, [pair(unique, "0" * 11 + "2", 7), pair(unique, "0", "5")])
    found = sink_offsets(admin, group)
    assert found == [
        {"partition": {"kafka_topic": unique, "kafka_partition": number}, "offset": {"kafka_offset": offset}}
        for number, offset in ((0, 5), (2, 7))
    ]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        consumer.subscribe([unique])
        await_that(lambda: consumer.poll(0.1) or consumer.assignment(), what="assigned")
        with pytest.raises(UsageError, match="has members"):
            alter_sink_offsets(admin, group, [pair(unique, 0, 1)])
        with pytest.raises(UsageError, match="has members"):
            reset_sink_offsets(admin, group)
        assert {each.offset for each in consumer.committed([TopicPartition(unique, 0)])} == {5}
    finally:
        consumer.close()
    assert sink_offsets(admin, group) == found
    reset_sink_offsets(admin, group)
    assert sink_offsets(admin, group) == []


WRONG: list[object] = [
    ({"kafka_topic": "t"}, {"kafka_offset": 1}),
    ({"kafka_topic": "", "kafka_partition": 0}, {"kafka_offset": 1}),
    ({"kafka_topic": "t", "kafka_partition": 0, "more": 1}, {"kafka_offset": 1}),
    (None, {"kafka_offset": 1}),
    pair("t", -1, 1),
    pair("t", 2**31, 1),
    pair("t", True, 1),
    pair("t", 0, -1),
    pair("t", 0, 2**63),
    pair("t", 0, "1" * 5_000),
    pair("t", 0, "0" * 20 + "7"),  # not the number of its first digits
    pair("t", 0, None),
    ({"kafka_topic": "t", "kafka_partition": 0}, None),
    ({"kafka_topic": "t", "kafka_partition": 0}, [1]),
]


def test_what_is_no_offset_of_a_sink_changes_nothing(admin: ConsumerGroupsAdmin, unique: str) -> None:
    for wrong in WRONG:
        with pytest.raises(ValueFormatError):
            alter_sink_offsets(admin, unique, [pair(unique, 0, 1), wrong])  # type: ignore[list-item]
    assert sink_offsets(admin, unique) == []


SINK = {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": "t"}


@pytest.fixture
def worker_file(broker: TestBroker, unique: str, tmp_path: Path) -> Path:
    """The worker file of a group with three stopped sinks and a source, and the topic ``unique`` with data to read."""
    properties = worker_properties(broker.bootstrap_servers, unique)
    worker = WorkerConfig.from_properties(properties)
    with broker.admin() as topics:
        create_known(topics, NewTopicRequest(unique, 3, 1))
    elsewhere = {"consumer.override.bootstrap.servers": "127.0.0.1:1"}
    configs = {
        f"{unique}-sink": SINK,
        f"{unique}-named": SINK | {"consumer.override.group.id": f"{unique}-own"},
        f"{unique}-far": SINK | elsewhere,
        f"{unique}-source": {"connector.class": "FileStreamSource", "topic": "t", "file": "f"},
    }
    with ConnectStorage(worker) as storage:
        for name, config in configs.items():
            storage.config.put_connector_config(name, {"name": name, **config})
            storage.config.put_target_state(name, TargetState.STOPPED)
        storage.alter_offsets(f"{unique}-source", [({"filename": "f"}, {"position": 1})])
    return write_properties(tmp_path / "w.properties", properties)


def document(*pairs: tuple[dict[str, object], object]) -> str:
    return json.dumps({"offsets": [{"partition": at, "offset": offset} for at, offset in pairs]})


def test_the_commands_show_and_change_offsets_of_sinks(
    broker: TestBroker, unique: str, worker_file: Path, tmp_path: Path, call: Call, printed: Printed
) -> None:
    where, file, name = ("-w", worker_file), tmp_path / "offsets.json", f"{unique}-sink"
    changing = (*where, "--backup-dir", tmp_path, "--yes")

    def shown(connector: str = name) -> Any:
        ran = call("get", "offsets", *where, "--connector", connector, "--output", "json")
        assert ran.code == 0
        return ran.json["offsets"]

    assert shown() == []
    file.write_text(document(pair(unique, 0, 5), pair(unique, "2", "7")))
    ran = call("alter", "offsets", name, *where, "--file", file, "--dry-run", "--output", "json")
    assert (ran.code, len(ran.json["changes"]), shown()) == (0, 2, [])
    ran = call("alter", "offsets", name, *changing, "--file", file)
    assert (ran.code, "2 offsets of 1 connector changed and read back" in ran.out) == (0, True)
    five, seven = ({"partition": at, "offset": to} for at, to in (pair(unique, 0, 5), pair(unique, 2, 7)))
    assert shown() == [five, seven]
    with ConsumerGroupsAdmin(broker.client_settings, client_id="tests") as admin:
        assert sink_offsets(admin, f"connect-{name}") == [five, seven]
    # One that is there and one that is not: the file with the old offsets puts back the first.
    file.write_text(document(pair(unique, 0, 1), pair(unique, 1, 2)))
    ran = call("alter", "offsets", name, *changing, "--file", file, "--output", "json")
    assert len(shown()) == 3
    (backup,) = ran.json["backups"]
    assert json.loads(Path(backup["file"]).read_text()) == {"offsets": [five]}
    assert "1 old value" in ran.err
    assert call("alter", "offsets", name, *changing, "--file", backup["file"]).code == 0
    assert five in shown()
    # To another sink of the cluster, and no further.
    assert call("copy", "offsets", name, *changing, "--to", f"{unique}-named").code == 0
    assert shown(f"{unique}-named") == shown()
    with ConsumerGroupsAdmin(broker.client_settings, client_id="tests") as admin:
        assert len(sink_offsets(admin, f"{unique}-own")) == 3
    assert call("reset", "offsets", name, *changing).code == 0
    assert shown() == []
    text = broker.client_settings.setting_by_time()  # what a move to another cluster names
    assert printed(text, GROUP=f"connect-{name}", TOPIC=unique, TIME="2020-01-01T00:00:00.000").code == 0
    assert {row["partition"]["kafka_topic"] for row in shown()} == {unique}
    assert call("reset", "offsets", name, *changing).code == 0
    # What the console shows of all, and of a cluster that does not answer.
    ran = call("get", "offsets", *where, "--output", "json", "--timeout", "8")
    assert {row["connector"] for row in ran.json["offsets"]} == {f"{unique}-named", f"{unique}-source"}
    assert f"the offsets of sink '{unique}-far' are not shown" in ran.err
    (described,) = call("describe", "connector", f"{unique}-named", *where, "--output", "json").json["connectors"]
    assert [row["offset"] for row in described["offsets"]] == ["[hidden]"] * 3


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([({"kafka_topic": "T", "kafka_partition": 0}, None)], "cannot be removed alone: reset the offsets"),
        ([pair("T", 0, 1), pair("T", 3, 1)], "[3]"),
        ([pair("T-none", 0, 1)], "reads has no partition"),
        ([({"filename": "f"}, {"position": 1}), pair("T", 0, 1)], "has to be an object with kafka_topic"),
    ],
)
def test_what_cannot_be_committed_is_refused(
    unique: str,
    worker_file: Path,
    tmp_path: Path,
    call: Call,
    pairs: list[tuple[dict[str, object], object]],
    words: str,
) -> None:
    file, changing = tmp_path / "o.json", ("-w", worker_file, "--backup-dir", tmp_path, "--yes")
    file.write_text(document(*pairs).replace('"T', f'"{unique}'))
    ran = call("alter", "offsets", f"{unique}-sink", *changing, "--file", file)
    assert (ran.code in (1, 2), words in ran.err) == (True, True), ran.err
    assert call("get", "offsets", "-w", worker_file, "--connector", f"{unique}-sink").out.count("kafka_offset") == 0
    # A source has no such offsets.
    ran = call("alter", "offsets", f"{unique}-source", *changing, "--file", file)
    assert (ran.code, "offsets[" in ran.err) == (2, True), ran.err
