"""Java workers of a group whose values are sealed, and Python stores beside them, while somebody else writes their keys."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connect_share import ConnectStorage, Record, TopicType, WorkerConfig, replay_config
from connect_share.model.config_state import TargetState
from connect_share.sealing import KEYS_PROPERTY, KeyRing
from connect_share.sealing.cipher import Cipher, Opened
from connect_share.worker_config import Isolation
from tests.lab.embedded.rest import when_possible
from tests.lab.embedded.worker import ConnectWorker
from tests.support.java_groups import EXACTLY_ONCE, JAR, LogLines, SharedTopics, Start, delete, put, write
from tests.support.java_sources import FileSources
from tests.support.long_forms import LONG
from tests.support.sealed import KEYS, key_text, keys_by_provider, sealed
from tests.support.waiting import await_that

pytestmark = [pytest.mark.broker, pytest.mark.worker]

SECRET = "hunter2-zebra"
KEY = key_text(7).removeprefix("7:")
NOWHERE = [
    form for secret in (SECRET.encode(), b64decode(KEY)) for form in (secret, b64encode(secret), secret.hex().encode())
]
LOAD = 1_000
NEVER = {"transaction_boundary_interval_ms": "3600000"}
REFUSED = "Refused the record at "
FORMS: dict[str, tuple[str, Mapping[str, str]]] = {"4.3.1 exactly once": ("4.3.1", EXACTLY_ONCE)}
# The topic with a record whose key is missing.
MISSING = [("4.3.1", TopicType.CONFIG)]
if LONG:
    FORMS |= {version: (version, {}) for version in ("2.8.2", "3.9.2", "4.3.1")}
    FORMS |= {"3.9.2 exactly once": ("3.9.2", EXACTLY_ONCE)}
    MISSING = [(version, topic_type) for version in ("2.8.2", "3.9.2", "4.3.1") for topic_type in TopicType]


@pytest.fixture
def sources(topics: SharedTopics, tmp_path: Path) -> FileSources:
    made = FileSources(topics, topics.group("com.acme"), tmp_path)
    made.create_topic()
    return made


def properties(sources: FileSources, keys: str = key_text(7)) -> dict[str, str]:
    return sources.topics.properties(sources.group) | keys_by_provider(sources.folder, keys)


def opened(topics: SharedTopics) -> dict[tuple[TopicType, bytes], bytes | None]:
    """The newest value of each key; every value there has to be sealed."""
    found: dict[tuple[TopicType, bytes], bytes | None] = {}
    for topic_type in TopicType:
        cipher = Cipher(KEYS, topic_type)
        for record in topics.records(topics.topic(topic_type)):
            assert record.key is not None
            assert record.value is not None
            assert b'"' not in record.value[:1]
            assert not any(secret in record.value for secret in NOWHERE)
            one = cipher.open(record.key, record.value)
            assert isinstance(one, Opened), (topic_type, record, one)
            found[topic_type, record.key] = one.value
    return found


@pytest.mark.parametrize("form", FORMS)
def test_a_sealed_group(sources: FileSources, worker_factory: Start, form: str) -> None:
    version, more = FORMS[form]
    topics, group = sources.topics, sources.group
    lines = {**properties(sources), **more}
    worker = worker_factory(lines, version=version, class_path=JAR)
    log = LogLines(worker, from_start=True)
    for name in ("my.conn", "gone"):
        sources.append(name, "1", "2", "3")
        put(worker, name, sources.config(name, some_password=SECRET))
    worker.rest.await_state("my.conn", "RUNNING", tasks=1)
    sources.await_read(["my.conn", "gone"], KEYS)
    delete(worker, "gone")
    gone = f"{group}.status-connector-gone".encode()
    await_that(lambda: opened(topics).get((TopicType.STATUS, gone), b""), lambda value: value is None, what="removed")
    assert opened(topics)[TopicType.CONFIG, f"{group}.connector-gone".encode()] == b"null"
    assert log.count(REFUSED) == 0

    with ConnectStorage(WorkerConfig.from_properties(lines)) as storage:
        assert storage.config.snapshot().connectors() == {"my.conn"}
        found = storage.config.snapshot().connector_config("my.conn")
        assert found == sources.config("my.conn", some_password=SECRET)
        file = {"filename": str(sources.file("my.conn"))}
        assert storage.offset_reader("my.conn").offset(file) == {"position": 6}
        assert [status.state.name for status in storage.status.get_all("my.conn")] == ["RUNNING"]

    when_possible(lambda: worker.rest.pause("my.conn"))
    worker.rest.await_state("my.conn", "PAUSED")
    before = replay_config(topics.records(topics.topic(TopicType.CONFIG)), group, keys=KEYS)
    worker.kill()
    sources.append("my.conn", "4", "5")
    worker.start()
    assert worker.rest.connectors() == ["my.conn"]
    assert worker.rest.config("my.conn")["some.password"] == SECRET
    when_possible(lambda: worker.rest.resume("my.conn"))
    sources.await_read(["my.conn"], KEYS)
    worker.rest.await_state("my.conn", "RUNNING", tasks=1)
    read = ["1", "2", "3", "1", "2", "3", "4", "5"]  # nothing is read twice
    assert sorted(sources.lines()) == sorted(read)
    assert replay_config(topics.records(topics.topic(TopicType.CONFIG)), group, keys=KEYS).offset >= before.offset
    if more and LONG:
        read += killed_half_way(worker, sources)
    if version != "2.8.2":
        read += altered_and_reset(worker, sources)
    assert sorted(sources.lines()) == sorted(read)
    opened(topics)
    assert log.count(REFUSED) + log.count("Topic sharing stopped") == 0
    assert [number for number, secret in enumerate(NOWHERE) if secret in log.text().encode()] == []


def killed_half_way(worker: ConnectWorker, sources: FileSources) -> list[str]:
    """Kill an exactly-once worker that has written lines and not committed them; return the lines."""
    before = sources.lines()
    lines = [f"line {number}" for number in range(LOAD)]
    stop(worker)
    put(worker, "my.conn", sources.config("my.conn", transaction_boundary="interval", **NEVER))
    sources.append("my.conn", *lines)
    when_possible(lambda: worker.rest.resume("my.conn"))
    await_that(
        lambda: len(sources.lines(Isolation.READ_UNCOMMITTED)), lambda found: found >= len(before) + LOAD, what="read"
    )
    worker.kill()
    assert sources.lines() == before
    worker.start()
    put(worker, "my.conn", sources.config("my.conn"))
    sources.await_read(["my.conn"], KEYS)
    assert sources.lines() == before + lines
    return lines


def altered_and_reset(worker: ConnectWorker, sources: FileSources) -> list[str]:
    """Offsets by REST, which has them from 3.6 on: exactly the lines from there on come again; return them."""
    size = sources.file("my.conn").stat().st_size
    again = sources.file("my.conn").read_text().splitlines()
    partition = {"filename": str(sources.file("my.conn"))}
    altered: list[dict[str, Any]] = [
        {"partition": partition, "offset": {"position": size - len(again[-1]) - 1, "note": SECRET}}
    ]
    stop(worker)
    when_possible(lambda: worker.rest.alter_offsets("my.conn", altered))
    await_that(lambda: worker.rest.offsets("my.conn"), lambda found: found == altered, what="altered")
    when_possible(lambda: worker.rest.resume("my.conn"))
    sources.await_read(["my.conn"], KEYS)
    stop(worker)
    when_possible(lambda: worker.rest.reset_offsets("my.conn"))
    await_that(lambda: worker.rest.offsets("my.conn"), lambda found: found == [], what="reset")
    when_possible(lambda: worker.rest.resume("my.conn"))
    sources.await_read(["my.conn"], KEYS)
    return again[-1:] + again


def stop(worker: ConnectWorker) -> None:
    when_possible(lambda: worker.rest.stop("my.conn"))
    worker.rest.await_state("my.conn", "STOPPED", tasks=0)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "topic_type"), MISSING)
def test_a_strangers_key_stops_nobody_and_one_of_the_group_who_lacks_it(
    sources: FileSources, worker_factory: Start, version: str, topic_type: TopicType
) -> None:
    """Each version reads its topics to the end in the thread in which it makes the clients, which the jar relies on."""
    more = EXACTLY_ONCE if version == "4.3.1" else {}
    worker = worker_factory({**properties(sources), **more}, version=version, class_path=JAR)
    log = LogLines(worker, from_start=True)
    sources.append("my.conn", "1")
    put(worker, "my.conn", sources.config("my.conn"))
    sources.await_read(["my.conn"], KEYS)
    topic = sources.topics.topic(topic_type)
    names = {
        TopicType.CONFIG: "connector-x",
        TopicType.STATUS: "status-connector-x",
        TopicType.OFFSET: f'["my.conn",{{"filename":"{sources.file("my.conn")}"}}]',
    }
    record = Record(topic, 0, 0, 0, f"{sources.group}.{names[topic_type]}".encode(), b'{"position":0}')
    unknown = sealed(record, topic_type, keys=KeyRing.parse(key_text(9)))
    assert unknown.key is not None
    write(sources.topics.settings, topic, [(unknown.key, unknown.value)])
    await_that(lambda: log.count(REFUSED), what="refused")
    # A task that begins anew reads what it has to in clients of its own where it is exactly once.
    when_possible(partial(worker.rest.call, "POST", "/connectors/my.conn/tasks/0/restart"))
    sources.append("my.conn", "2")
    sources.await_read(["my.conn"], KEYS)
    assert sources.lines() == ["1", "2"]
    if version != "2.8.2":
        assert [each["offset"] for each in worker.rest.offsets("my.conn")] == [{"position": 4}]
    when_possible(lambda: worker.rest.pause("my.conn"))
    worker.rest.await_state("my.conn", "PAUSED")
    joined = log.joins
    for keys, words in ((key_text(8), "no value of the group opens"), ("", "the worker file has no line")):
        lines = properties(sources, keys) if keys else sources.topics.properties(sources.group)
        lacking = worker_factory({**lines, **more}, version=version, class_path=JAR, wait=False)
        await_that(lacking.log, lambda text: "in herder work thread, exiting" in text, what="given up", timeout_s=120)
        assert words in lacking.log()
        lacking.kill()
    assert (log.joins, log.count("Topic sharing stopped")) == (joined, 0)
    worker.kill()

    late = worker_factory({**properties(sources), **more}, version=version, class_path=JAR)
    assert "my.conn" in late.rest.connectors()
    # With exactly-once the task reads it, too, with clients of its own, as soon as it is assigned.
    assert LogLines(late, from_start=True).count(REFUSED) in ((1, 2) if more else (1,))
    late.kill()

    # The group begins to use a new key.
    with ConnectStorage(
        WorkerConfig.from_properties({**properties(sources, key_text(9, 7)), **more}), allow_live_members=True
    ) as storage:
        storage.config.put_target_state("my.conn", TargetState.STARTED)
    late = worker_factory({**properties(sources), **more}, version=version, class_path=JAR, wait=False)
    words = f"says that the group uses key 9, but {KEYS_PROPERTY} has only 7"
    await_that(late.log, lambda text: words in text, what=f"logged: {words}", timeout_s=120)
    await_that(late.log, lambda text: "Uncaught exception in herder work thread, exiting" in text, what="given up")
    assert "Herder started" not in late.log()
    late.kill()
    lines = {**properties(sources, key_text(9, 7)), **more}  # writes the file of the keys, too
    rotated = worker_factory(lines, version=version, class_path=JAR)
    assert "my.conn" in rotated.rest.connectors()
