"""Exactly-once source connectors of Java workers on shared topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connect_share import TopicType, replay_offsets
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.kafka.admin import Admin
from connect_share.worker_config import SHARING_PROPERTY, TOPIC_PROPERTIES, Isolation
from connect_share.worker_config.override_policy import POLICY_CLASS, POLICY_PROPERTY
from tests.lab.embedded.rest import RestError, when_possible
from tests.lab.embedded.worker import ConnectWorker
from tests.support.java_groups import EXACTLY_ONCE, JAR, LogLines, SharedTopics, Start, delete, file_source, put, write
from tests.support.long_forms import LONG
from tests.support.waiting import await_that

LINE = "a line of text\n"
CLIENT_LINES = [name for name in EXACTLY_ONCE if name.endswith(".interceptor.classes")]


@pytest.fixture
def topics(topics: SharedTopics) -> SharedTopics:
    """Shared topics that hold another group's records already, offsets of connectors of the same name among them."""
    other = topics.group("com.acme")
    foreign = [(f'{other}.["my.conn",{{"filename":"/{number}"}}]'.encode(), b'{"position":7}') for number in range(200)]
    write(topics.settings, topics.topic(TopicType.OFFSET), [*foreign])
    config: list[tuple[bytes, bytes | None]] = [(f"{other}.tasks-fencing-my.conn".encode(), b'{"task-count":9}')]
    write(
        topics.settings,
        topics.topic(TopicType.CONFIG),
        [*config, (f"{other}.connector-other".encode(), b'{"properties":{}}')],
    )
    return topics


def await_committed(topics: SharedTopics, topic: str, count: int) -> None:
    """The markers of a transaction come to its topics one after another."""
    await_that(lambda: len(topics.records(topic, isolation=Isolation.READ_COMMITTED)), count.__eq__, what="committed")


def await_position(worker: ConnectWorker, name: str, file: Path) -> None:
    wanted = [{"position": file.stat().st_size}]

    def offsets() -> object:
        try:
            return [each["offset"] for each in worker.rest.offsets(name)]
        except RestError as error:  # its topic is being made
            return error

    await_that(offsets, lambda found: found == wanted, what=f"at {wanted}", timeout_s=120)


def append(file: Path, lines: int) -> None:
    with file.open("a") as text:
        text.write(LINE * lines)


def await_said_once(worker: ConnectWorker, words: str) -> None:
    await_that(lambda: LogLines(worker, from_start=True).count(words), lambda found: found == 1, what=f"said: {words}")


@pytest.mark.parametrize("version", ["4.3.1", *(["3.9.2"] if LONG else [])])
def test_offsets_are_prefixed_and_nothing_is_read_twice(
    topics: SharedTopics, worker_factory: Start, tmp_path: Path, version: str
) -> None:
    """First with the lines in the worker file, then with the policy, which is for files that cannot have them."""
    group = topics.group("com.acme.exact")
    properties = {**topics.properties(group), **EXACTLY_ONCE}
    first = worker_factory(properties, version=version, class_path=JAR)
    data, own_data = topics.create_data_topic("data"), topics.create_data_topic("own-data")
    file, own_file, other, out = (tmp_path / f"{name}.txt" for name in ("in", "own", "other", "out"))
    own_topic = f"{topics.prefix}-own-offsets"  # made by Connect
    other.touch()
    for each in (file, own_file):
        append(each, 50)
    put(first, "my.conn", file_source(file, data))
    put(first, "own.offsets", file_source(own_file, own_data, **{"offsets.storage.topic": own_topic}))
    sink = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(out), "topics": data}
    put(first, "archive", sink)
    override = "producer.override.interceptor.classes"
    put(first, "bypasses", file_source(other, own_data, **{override: "org.example.Nothing"}))
    put(first, "keeps", file_source(other, own_data, **{override: INTERCEPTOR_CLASS}))
    # With the lines for connectors' clients the keys are prefixed there, without them they would be plain.
    put(first, "same-topic", file_source(other, own_data, **{"offsets.storage.topic": topics.topic(TopicType.OFFSET)}))
    await_position(first, "my.conn", file)
    await_position(first, "own.offsets", own_file)
    await_that(lambda: out.exists() and out.read_text() == LINE * 50, what="archived", timeout_s=120)
    await_said_once(first, f"Connector 'bypasses': {override} replaces the worker's interceptor")
    said = [line for line in first.log().splitlines() if "connectshare." in line and "Connector '" in line]
    assert not [words for words in ("'keeps'", "'same-topic'", "org.example.Nothing") if words in "".join(said)]
    for name in ("keeps", "same-topic"):
        delete(first, name)

    # Killed between two appends: the next goes on where its transaction ended.
    first.kill()
    append(file, 10)
    append(own_file, 10)
    append(other, 20)
    without_lines = {name: value for name, value in properties.items() if name not in CLIENT_LINES}
    worker = worker_factory({**without_lines, POLICY_PROPERTY: POLICY_CLASS}, version=version, class_path=JAR)
    await_position(worker, "my.conn", file)
    await_position(worker, "own.offsets", own_file)
    await_committed(topics, data, 60)
    await_committed(topics, own_data, 60)
    put(worker, "bypasses", file_source(other, own_data, **{override: ""}))
    await_position(worker, "bypasses", other)
    for name in (TOPIC_PROPERTIES[TopicType.CONFIG], SHARING_PROPERTY):
        with pytest.raises(RestError, match="is the worker's own with topic sharing"):
            worker.rest.put_config("hostile", file_source(file, data, **{f"producer.override.{name}": "x"}))

    # Altered by REST: exactly the lines from there on come again.
    when_possible(lambda: worker.rest.stop("my.conn"))
    worker.rest.await_state("my.conn", "STOPPED", tasks=0)
    position = 45 * len(LINE)
    altered: list[dict[str, Any]] = [{"partition": {"filename": str(file)}, "offset": {"position": position}}]
    when_possible(lambda: worker.rest.alter_offsets("my.conn", altered))
    await_that(lambda: worker.rest.offsets("my.conn"), lambda found: found == altered, what="altered")
    when_possible(lambda: worker.rest.resume("my.conn"))
    await_position(worker, "my.conn", file)
    await_committed(topics, data, 60 + 15)
    when_possible(lambda: worker.rest.stop("my.conn"))
    worker.rest.await_state("my.conn", "STOPPED", tasks=0)
    when_possible(lambda: worker.rest.reset_offsets("my.conn"))
    await_that(lambda: worker.rest.offsets("my.conn"), lambda found: found == [], what="reset")
    delete(worker, "archive")

    assert topics.plain_keys() == []
    config_keys = {record.key for record in topics.records(topics.topic(TopicType.CONFIG))}
    assert {f"{group}.tasks-fencing-my.conn".encode(), f"{group}.session-key".encode()} <= config_keys
    offset_topic = topics.topic(TopicType.OFFSET)
    records = topics.records(offset_topic, isolation=Isolation.READ_COMMITTED)
    own = [record for record in records if (record.key or b"").startswith(f'{group}.["my.conn"'.encode())]
    assert own[-1].value is None
    # The last thing in the partition is the marker of the transaction that wrote it.
    with Admin(topics.settings, client_id="tests") as admin:
        end = admin.end_offsets([(offset_topic, own[-1].partition)])[offset_topic, own[-1].partition]
    assert end == own[-1].offset + 2
    # A connector's own topic keeps plain keys; the copy in the worker's topic is prefixed.
    key = json.dumps(["own.offsets", {"filename": str(own_file)}], separators=(",", ":")).encode()
    own_offsets = replay_offsets(topics.records(own_topic, isolation=Isolation.READ_COMMITTED))
    assert own_offsets.raw.keys() == {key}
    offsets = replay_offsets(records, group)
    assert offsets.connectors() == {"own.offsets", "bypasses"}
    assert key in offsets.raw
    for log in (LogLines(first, from_start=True), LogLines(worker, from_start=True)):
        assert log.about_foreign() == []
        assert log.count("Topic sharing stopped") == 0
    assert "Connector 'bypasses'" not in worker.log()
