"""Java workers of a group whose values are sealed, and Python stores beside them, while somebody else writes their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from connect_share import ConnectStorage, KeyRing, Record, TopicType, WorkerConfig, replay_config, replay_offsets
from connect_share.sealing import KEYS_PROPERTY
from connect_share.sealing.cipher import Cipher, Opened
from tests.lab.waiting import when_possible
from tests.lab.worker import LabWorker
from tests.support.java_groups import EXACTLY_ONCE, JAR, LogLines, SharedTopics, await_settled, delete, put, write
from tests.support.kafka import TestBroker
from tests.support.sealed import key_text, keys_by_provider, sealed
from tests.support.waiting import await_that

pytestmark = [pytest.mark.broker, pytest.mark.worker]

SECRET = "hunter2-zebra"
RING = KeyRing.parse(key_text(7))
LINE = "a line of text\n"
REFUSED = "Refused the record at "
FORMS: dict[str, tuple[str, Mapping[str, str]]] = {
    "2.8.2": ("2.8.2", {}),
    "4.3.1": ("4.3.1", {}),
    "4.3.1 exactly once": ("4.3.1", EXACTLY_ONCE),
}


@pytest.fixture
def topics(broker: TestBroker, unique: str) -> SharedTopics:
    made = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    made.create()
    return made


def properties(topics: SharedTopics, folder: Path, group: str, keys: str = key_text(7)) -> dict[str, str]:
    return topics.properties(group) | keys_by_provider(folder, keys)


def opened(topics: SharedTopics) -> dict[tuple[TopicType, bytes], bytes | None]:
    """The newest value of each key; every value there has to be sealed."""
    found: dict[tuple[TopicType, bytes], bytes | None] = {}
    for topic_type in TopicType:
        cipher = Cipher(RING, topic_type)
        for record in topics.records(topics.topic(topic_type)):
            assert record.key is not None
            assert record.value is not None
            assert b'"' not in record.value[:1]
            assert SECRET.encode() not in record.value
            one = cipher.open(record.key, record.value)
            assert isinstance(one, Opened), (topic_type, record, one)
            found[topic_type, record.key] = one.value
    return found


def replay(topic: str, group: str) -> tuple[bytes, bytes | None]:
    """What the group may have sealed years ago."""
    old = Record(topic, 0, 0, 0, f"{group}.connector-my.conn".encode(), b'{"properties":{"name":"my.conn"}}')
    return old.key or b"", sealed(old, keys=RING).value


def position(topics: SharedTopics, config: WorkerConfig, file: Path) -> None:
    """Wait until the source has read its file, by what is on the topic: REST tells offsets from 3.5 on only."""

    def read() -> object:
        records = topics.records(topics.topic(TopicType.OFFSET))
        return replay_offsets(records, config.group_id, keys=RING).offset("my.conn", {"filename": str(file)})

    await_that(read, lambda found: found == {"position": file.stat().st_size}, what="read", timeout_s=120)


@pytest.mark.parametrize("form", FORMS)
def test_a_sealed_group(
    topics: SharedTopics, worker_factory: Callable[..., LabWorker], tmp_path: Path, form: str
) -> None:
    version, more = FORMS[form]
    group = topics.group("com.acme")
    lines = {**properties(topics, tmp_path, group), **more}
    config = WorkerConfig.from_properties(lines)
    worker = worker_factory(lines, version=version, class_path=JAR)
    log = LogLines(worker, from_start=True)
    data, file = topics.create_data_topic("data"), tmp_path / "in.txt"
    file.write_text(LINE * 3)
    source = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": data}
    secret = {**source, "some.password": SECRET}
    put(worker, "my.conn", secret)
    put(worker, "gone", {**source, "file": str(tmp_path / "other.txt")})
    worker.rest.await_state("my.conn", "RUNNING", tasks=1)
    position(topics, config, file)
    delete(worker, "gone")
    gone = f"{group}.status-connector-gone".encode()
    await_that(lambda: opened(topics).get((TopicType.STATUS, gone), b""), lambda value: value is None, what="removed")
    assert opened(topics)[TopicType.CONFIG, f"{group}.connector-gone".encode()] == b"null"
    assert log.count(REFUSED) == 0

    with ConnectStorage(config) as storage:
        state = storage.config.snapshot()
        assert state.connectors() == {"my.conn"}
        found = state.connector_config("my.conn")
        assert found is not None
        assert found["some.password"] == SECRET
        assert storage.offset_reader("my.conn").offset({"filename": str(file)}) == {"position": len(LINE) * 3}
        assert [status.state.name for status in storage.status.get_all("my.conn")] == ["RUNNING"]

    topic = topics.topic(TopicType.CONFIG)
    when_possible(lambda: worker.rest.pause("my.conn"))
    worker.rest.await_state("my.conn", "PAUSED")
    before = replay_config(topics.records(topic), group, keys=RING)

    worker.kill()
    with file.open("a") as text:
        text.write(LINE * 2)
    worker.start()
    assert worker.rest.connectors() == ["my.conn"]
    assert worker.rest.config("my.conn")["some.password"] == SECRET
    when_possible(lambda: worker.rest.resume("my.conn"))
    position(topics, config, file)
    worker.rest.await_state("my.conn", "RUNNING", tasks=1)
    assert len(topics.records(data)) == 5  # nothing is read twice
    assert replay_config(topics.records(topic), group, keys=RING).offset >= before.offset
    assert log.count("Topic sharing stopped") == 0
    assert SECRET not in "".join(line for line in log.text().splitlines() if "connectshare" in line)
    assert key_text(7)[2:14] not in log.text()


@pytest.mark.parametrize("version", ["2.8.2", "3.9.2", "4.3.1"])
def test_a_worker_whose_key_is_missing_stops_at_its_start_and_never_later(
    topics: SharedTopics, worker_factory: Callable[..., LabWorker], tmp_path: Path, version: str
) -> None:
    """Each version reads its topics to the end in the thread in which it makes the clients, which the jar relies on."""
    group = topics.group("com.acme")
    worker = worker_factory(properties(topics, tmp_path, group), version=version, class_path=JAR)
    log = LogLines(worker, from_start=True)
    topic, file = topics.topic(TopicType.CONFIG), tmp_path / "in.txt"
    file.touch()
    data = topics.create_data_topic("data")
    put(worker, "my.conn", {"connector.class": "FileStreamSource", "file": str(file), "topic": data})
    record = Record(topic, 0, 0, 0, f"{group}.connector-x".encode(), b'{"properties":{}}')
    unknown = sealed(record, keys=KeyRing.parse(key_text(9)))
    assert unknown.key is not None
    write(topics.settings, topic, [(unknown.key, unknown.value)])
    await_that(lambda: log.count(REFUSED), lambda found: found == 1, what="refused")
    assert worker.rest.connectors() == ["my.conn"]
    when_possible(lambda: worker.rest.pause("my.conn"))
    worker.rest.await_state("my.conn", "PAUSED")
    assert log.count("Topic sharing stopped") == 0
    worker.kill()

    late = worker_factory(properties(topics, tmp_path, group), version=version, class_path=JAR, wait=False)
    words = f"is sealed with key 9, but {KEYS_PROPERTY} has only 7"
    await_that(late.log, lambda text: words in text, what=f"logged: {words}", timeout_s=120)
    await_that(late.log, lambda text: "Uncaught exception in herder work thread, exiting" in text, what="given up")
    assert "Herder started" not in late.log()
    late.kill()

    # With the key it starts.
    rotated = worker_factory(properties(topics, tmp_path, group, key_text(9, 7)), version=version, class_path=JAR)
    assert "my.conn" in rotated.rest.connectors()


def test_workers_of_a_sealed_group_agree_whatever_is_written(
    topics: SharedTopics, worker_factory: Callable[..., LabWorker], tmp_path: Path
) -> None:
    """One that begins after the attack has the same position, so nobody joins the group again and again."""
    group, topic = topics.group("com.acme"), topics.topic(TopicType.CONFIG)
    lines = properties(topics, tmp_path, group)
    first, second = (worker_factory(lines, class_path=JAR) for _ in range(2))
    data, file = topics.create_data_topic("data"), tmp_path / "in.txt"
    file.touch()
    put(first, "my.conn", {"connector.class": "FileStreamSource", "file": str(file), "topic": data})
    first.rest.await_state("my.conn", "RUNNING", tasks=1)
    evil = b'{"properties":{"connector.class":"FileStreamSource","name":"evil","topic":"none","file":"/none"}}'
    write(topics.settings, topic, [replay(topic, group), (f"{group}.connector-evil".encode(), evil)])
    for worker in (first, second):
        log = LogLines(worker, from_start=True)
        await_that(partial(log.count, REFUSED), lambda found: found == 2, what="refused, both")
    when_possible(lambda: second.rest.pause("my.conn"))
    first.rest.await_state("my.conn", "PAUSED")
    late = worker_factory(lines, class_path=JAR)
    _, offset = await_settled([first, second, late])
    assert offset == replay_config(topics.records(topic), group, keys=RING).offset
    assert {tuple(each.rest.connectors()) for each in (first, second, late)} == {("my.conn",)}
    put(late, "other.conn", {"connector.class": "FileStreamSource", "file": str(file), "topic": data})
    first.rest.await_state("other.conn", "RUNNING", tasks=1)
