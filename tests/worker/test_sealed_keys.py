"""Java workers of a sealed group whose keys change: plain, sealed, with another key, plain again; and with a wrong key."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from connect_share import ConnectStorage, TopicType, WorkerConfig, replay_config
from connect_share.admin import Admin
from connect_share.embedded.worker import write_properties
from connect_share.sealing import KEYS_PROPERTY, KeyRing
from connect_share.sealing.cipher import is_sealed, key_id
from connect_share.state import TargetState
from tests.lab.worker import LabWorker
from tests.support.flushes import flush_offsets
from tests.support.java_groups import JAR, LogLines, SharedTopics
from tests.support.java_sources import FileSources
from tests.support.kafka import TestBroker
from tests.support.migration_site import run
from tests.support.sealed import KEYS, key_text, keys_by_provider
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that

pytestmark = [pytest.mark.broker, pytest.mark.worker]

LONG = "CONNECT_SHARE_SOAK_MINUTES" in os.environ
MODE = KEYS_PROPERTY.removesuffix(".keys")
REFUSED = "Refused the record at "
# What reseal has, and what the worker has that starts afterwards.
STEPS: list[tuple[str, str, tuple[str, ...], str | None]] = [(key_text(7), "accept", (), key_text(7))]
if LONG:
    STEPS += [(key_text(8, 7), "required", (), key_text(8)), (key_text(8), "accept", ("--plain",), None)]


@pytest.fixture
def sources(broker: TestBroker, unique: str, tmp_path: Path) -> FileSources:
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    topics.create(COMPACT_NOW, others=COMPACT_NOW)
    made = FileSources(topics, topics.group("com.acme"), tmp_path)
    made.create_topic()
    return made


def lines_of(sources: FileSources, keys: str | None, mode: str = "required") -> dict[str, str]:
    plain = sources.topics.properties(sources.group)
    return plain if keys is None else plain | keys_by_provider(sources.folder, keys) | {MODE: mode}


def forms(sources: FileSources) -> set[int | None]:
    """What the values of the group are sealed with, also those that the cleaner has not taken; ``None`` is plain."""
    found = set[int | None]()
    for topic_type in TopicType:
        for record in sources.topics.records(sources.topics.topic(topic_type)):
            if (record.key or b"").startswith(f"{sources.group}.".encode()):
                found.add(key_id(record.value) if is_sealed(record.value) else None)
    return found


def await_cleaned(sources: FileSources, form: int | None) -> None:
    """Wait until nothing of the group is on the topics in another form."""

    def left() -> set[int | None]:
        for topic_type in TopicType:
            sources.topics.roll(topic_type)
        return forms(sources)

    await_that(left, lambda found: found == {form}, what=f"nothing but {form}", timeout_s=120)


def alive(admin: Admin, group: str) -> int:
    """How many members a killed worker's group still has."""
    return admin.connect_groups(group).get(group, 0)


@pytest.mark.parametrize("version", ["2.8.2", "3.9.2", "4.3.1"] if LONG else ["4.3.1"])
def test_workers_start_with_what_reseal_has_written(
    broker: TestBroker, sources: FileSources, worker_factory: Callable[..., LabWorker], version: str
) -> None:
    """A Java worker needs every key that is on its topics: only when the cleaner was there can the old one go."""
    config = sources.config("my.conn")
    sources.append("my.conn", "0", "1")
    with ConnectStorage(WorkerConfig.from_properties(lines_of(sources, None))) as storage:
        storage.config.put_connector_config("my.conn", config)
        file = {"filename": str(sources.file("my.conn"))}
        flush_offsets(storage.offset_writer("my.conn"), (file, {"position": 2}))
    assert forms(sources) == {None}
    read = ["1"]
    for number, (keys, mode, more, afterwards) in enumerate(STEPS):
        with broker.admin() as admin:
            await_that(partial(alive, admin, sources.group), lambda members: not members, what="empty")
        path = write_properties(sources.folder / "worker.properties", lines_of(sources, keys, mode))
        code, _, errors = run("reseal", "--worker-config", path, "--yes", *more)
        assert code == 0, errors
        ring = None if afterwards is None else KeyRing.parse(afterwards)
        await_cleaned(sources, None if ring is None else ring.sealing_id)
        worker = worker_factory(lines_of(sources, afterwards), version=version, class_path=JAR)
        assert {name: worker.rest.config(name) for name in worker.rest.connectors()} == {"my.conn": config}
        read.append(f"line {number}")
        sources.append("my.conn", read[-1])
        sources.await_read(["my.conn"], ring)
        assert sources.lines() == read
        assert LogLines(worker, from_start=True).count(REFUSED) == 0
        worker.kill()


def test_a_wrong_key_under_the_right_id_opens_nothing(
    sources: FileSources, worker_factory: Callable[..., LabWorker]
) -> None:
    """Nothing tells it from forged records: the worker starts, and has nothing. The group's own workers do not mind."""
    right = WorkerConfig.from_properties(lines_of(sources, key_text(7)))
    with ConnectStorage(right) as storage:
        storage.config.put_connector_config("my.conn", sources.config("my.conn"), TargetState.PAUSED)
    wrong = f"7:{b64encode(bytes(32)).decode()}"
    worker = worker_factory(lines_of(sources, wrong), class_path=JAR)
    assert worker.rest.connectors() == []
    log = LogLines(worker, from_start=True)
    assert log.count("its value was not sealed for this place with a key of the group, or was changed") >= 2
    assert wrong[2:14] not in log.text()
    records = sources.topics.records(sources.topics.topic(TopicType.CONFIG))
    assert replay_config(records, sources.group, keys=KEYS).connectors() == {"my.conn"}
