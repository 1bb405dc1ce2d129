"""Exactly-once source connectors of Java workers on shared topics, with three lines in the worker file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connect_share import TopicType, replay_offsets
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.kafka.admin import Admin
from connect_share.worker_config import SHARING_PROPERTY, TOPIC_PROPERTIES, Isolation
from connect_share.worker_config.override_policy import POLICY_CLASS, POLICY_PROPERTY
from tests.lab.embedded.rest import RestError
from tests.lab.embedded.worker import ConnectWorker
from tests.lab.waiting import when_possible
from tests.support.java_groups import EXACTLY_ONCE, JAR, LogLines, SharedTopics, delete, put, write
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.waiting import await_that

LINE = "a line of text\n"


@pytest.fixture
def topics(broker: TestBroker, unique: str) -> SharedTopics:
    """Shared topics that hold another group's records already, offsets of connectors of the same name among them."""
    shared = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    shared.create()
    other = shared.group("com.acme")
    foreign = [(f'{other}.["my.conn",{{"filename":"/{number}"}}]'.encode(), b'{"position":7}') for number in range(200)]
    write(shared.settings, shared.topic(TopicType.OFFSET), [*foreign])
    config: list[tuple[bytes, bytes | None]] = [(f"{other}.tasks-fencing-my.conn".encode(), b'{"task-count":9}')]
    write(
        shared.settings,
        shared.topic(TopicType.CONFIG),
        [*config, (f"{other}.connector-other".encode(), b'{"properties":{}}')],
    )
    return shared


def source(file: Path, topic: str, **more: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic, **more}


def committed(topics: SharedTopics, topic: str) -> int:
    return len(topics.records(topic, isolation=Isolation.READ_COMMITTED))


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


def test_offsets_are_prefixed_and_nothing_is_read_twice(
    topics: SharedTopics, worker_factory: Callable[..., ConnectWorker], tmp_path: Path
) -> None:
    group = topics.group("com.acme.exact")
    worker = worker_factory({**topics.properties(group), **EXACTLY_ONCE}, class_path=JAR)
    log = LogLines(worker, from_start=True)
    data, own_data = topics.create_data_topic("data"), topics.create_data_topic("own-data")
    file, own_file, out = tmp_path / "in.txt", tmp_path / "own.txt", tmp_path / "out.txt"
    own_topic = f"{topics.prefix}-own-offsets"  # made by Connect
    for each in (file, own_file):
        append(each, 50)
    put(worker, "my.conn", source(file, data))
    put(worker, "own.offsets", source(own_file, own_data, **{"offsets.storage.topic": own_topic}))
    sink = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(out), "topics": data}
    put(worker, "archive", sink)
    await_position(worker, "my.conn", file)
    await_position(worker, "own.offsets", own_file)
    await_that(lambda: out.exists() and out.read_text() == LINE * 50, what="archived", timeout_s=120)

    # Killed between two appends: it goes on where its transaction ended.
    worker.kill()
    append(file, 10)
    append(own_file, 10)
    worker.start()
    await_position(worker, "my.conn", file)
    await_position(worker, "own.offsets", own_file)
    assert (committed(topics, data), committed(topics, own_data)) == (60, 60)

    # Altered by REST: exactly the lines from there on come again.
    when_possible(lambda: worker.rest.stop("my.conn"))
    worker.rest.await_state("my.conn", "STOPPED", tasks=0)
    position = 45 * len(LINE)
    altered: list[dict[str, Any]] = [{"partition": {"filename": str(file)}, "offset": {"position": position}}]
    when_possible(lambda: worker.rest.alter_offsets("my.conn", altered))
    await_that(lambda: worker.rest.offsets("my.conn"), lambda found: found == altered, what="altered")
    when_possible(lambda: worker.rest.resume("my.conn"))
    await_position(worker, "my.conn", file)
    assert committed(topics, data) == 60 + 15
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
    assert replay_offsets(records, group).raw.keys() == {key}
    assert log.about_foreign() == []
    assert log.count("Topic sharing stopped") == 0


@pytest.mark.parametrize("version", ["4.3.1", *(["3.9.2"] if LONG else [])])
def test_a_policy_gives_the_interceptor_where_the_file_cannot_have_the_lines(
    topics: SharedTopics, worker_factory: Callable[..., ConnectWorker], tmp_path: Path, version: str
) -> None:
    group = topics.group("com.acme.exact")
    without_lines = {name: value for name, value in EXACTLY_ONCE.items() if not name.endswith(".interceptor.classes")}
    worker = worker_factory(
        {**topics.properties(group), **without_lines, POLICY_PROPERTY: POLICY_CLASS},
        version=version,
        class_path=JAR,
    )
    log = LogLines(worker, from_start=True)
    data, file, other = topics.create_data_topic("data"), tmp_path / "in.txt", tmp_path / "other.txt"
    for each in (file, other):
        append(each, 20)
    put(worker, "my.conn", source(file, data))
    put(worker, "bypasses", source(other, data, **{"producer.override.interceptor.classes": ""}))
    for name in (TOPIC_PROPERTIES[TopicType.CONFIG], SHARING_PROPERTY):
        with pytest.raises(RestError, match="is the worker's own with topic sharing"):
            worker.rest.put_config("hostile", source(file, data, **{f"producer.override.{name}": "x"}))
    await_position(worker, "my.conn", file)
    await_position(worker, "bypasses", other)

    # What has been committed is found again, and altered, by clients of the same kind.
    worker.kill()
    append(file, 10)
    worker.start()
    await_position(worker, "my.conn", file)
    assert committed(topics, data) == 50
    when_possible(lambda: worker.rest.stop("my.conn"))
    worker.rest.await_state("my.conn", "STOPPED", tasks=0)
    when_possible(lambda: worker.rest.reset_offsets("my.conn"))
    await_that(lambda: worker.rest.offsets("my.conn"), lambda found: found == [], what="reset")

    assert topics.plain_keys() == []
    records = topics.records(topics.topic(TopicType.OFFSET), isolation=Isolation.READ_COMMITTED)
    assert replay_offsets(records, group).connectors() == {"bypasses"}
    assert log.about_foreign() == []
    assert "Connector 'bypasses'" not in log.text()


def test_connectors_that_bypass_the_interceptor_are_named_in_the_log(
    topics: SharedTopics, worker_factory: Callable[..., ConnectWorker], tmp_path: Path
) -> None:
    exact = worker_factory({**topics.properties(topics.group("com.acme.exact")), **EXACTLY_ONCE}, class_path=JAR)
    plain = worker_factory(topics.properties(topics.group("com.acme.plain")), class_path=JAR)
    data, file = topics.create_data_topic("data"), tmp_path / "in.txt"
    file.touch()
    override = {"producer.override.interceptor.classes": "org.example.Nothing"}
    put(exact, "bypasses", source(file, data, **override))
    put(exact, "keeps", source(file, data, **{"producer.override.interceptor.classes": INTERCEPTOR_CLASS}))
    worker_topic = {"offsets.storage.topic": topics.topic(TopicType.OFFSET)}
    # With the lines for connectors' clients the keys are prefixed there, without them they would be plain.
    put(exact, "same-topic", source(file, data, **worker_topic))
    put(plain, "plain-keys", source(file, data, **worker_topic))
    words = "Connector 'bypasses': producer.override.interceptor.classes replaces the worker's interceptor"
    await_that(lambda: LogLines(exact, from_start=True).count(words), lambda found: found == 1, what="said once")
    words = "Connector 'plain-keys': offsets.storage.topic names an internal topic of the worker"
    await_that(lambda: LogLines(plain, from_start=True).count(words), lambda found: found == 1, what="said once")
    text = LogLines(exact, from_start=True).text()
    assert "Connector 'keeps':" not in text
    assert "Connector 'same-topic':" not in text
    assert "org.example.Nothing" not in "".join(
        line for line in text.splitlines() if "connectshare." in line and "Connector '" in line
    )
