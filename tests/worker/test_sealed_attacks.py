"""Everything that a co-tenant may try on the topics of a sealed group of Java workers, with the cleaner on.

``make test`` has the oldest version, ``make soak`` three.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from connect_share import ConnectStorage, TopicType, WorkerConfig, replay_config
from connect_share.model.config_state import TargetState
from connect_share.model.keys import prefix_key
from tests.lab.embedded.rest import when_possible
from tests.lab.embedded.worker import ConnectWorker
from tests.support.java_groups import JAR, LogLines, SharedTopics, Start, await_settled, put, write
from tests.support.java_sources import FileSources
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.sealed import ATTACKS, FLOOD, KEYS, Attacked, Late, key_text, keys_by_provider
from tests.support.sealed_stores import SECRET
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that

pytestmark = [pytest.mark.broker, pytest.mark.worker]

VERSIONS = ["2.8.2", "3.9.2", "4.3.1"] if LONG else ["2.8.2"]
NAMES = (*ATTACKS, "own")
READERS = tuple(f"read-{name}" for name in NAMES)
REFUSED = "Refused the record at "
LOGGED_OF_A_TOPIC = 100
assert FLOOD > LOGGED_OF_A_TOPIC


@dataclass(frozen=True)
class Scene:
    """For each row a paused connector, whose configuration and status are attacked, and a source, whose offset is."""

    topics: SharedTopics
    group: str
    sources: FileSources

    def configs(self) -> dict[str, dict[str, str]]:
        secret = {"pass": SECRET.decode()}
        paused = {name: {"connector.class": "FileStreamSource", "name": name, **secret} for name in NAMES}
        paused = {name: {**config, "file": "/none", "topic": "none"} for name, config in paused.items()}
        return paused | {name: self.sources.config(name, **secret) for name in READERS}

    def key(self, topic_type: TopicType, name: str) -> bytes:
        file = {"filename": str(self.sources.file(f"read-{name}"))}
        keys = {
            TopicType.CONFIG: f"connector-{name}",
            TopicType.STATUS: f"status-connector-{name}",
            TopicType.OFFSET: json.dumps([f"read-{name}", file], separators=(",", ":")),
        }
        return prefix_key(self.group, keys[topic_type].encode())

    def attack(self, topic_type: TopicType) -> dict[str, Attacked]:
        """Write all rows over the newest values; nothing on the topic can be read by others."""
        topic = self.topics.topic(topic_type)
        values = {record.key or b"": record.value or b"" for record in self.topics.records(topic)}
        assert not any(SECRET in value for value in values.values())
        key = partial(self.key, topic_type)
        good = {
            row: Attacked(topic_type, key(row), key("evil"), values[key(row)], values[key("own")]) for row in ATTACKS
        }
        write(self.topics.settings, topic, [pair for row, at in good.items() for pair in ATTACKS[row].records(at)])
        return good

    def written(self, known: dict[tuple[TopicType, bytes, bytes | None], None]) -> None:
        """Note what the group has written: the cleaner takes the older values."""
        for topic_type in TopicType:
            for record in self.topics.records(self.topics.topic(topic_type)):
                if (record.key or b"").startswith(prefix_key(self.group, b"")):
                    known[topic_type, record.key or b"", record.value] = None

    def await_cleaned(self, good: dict[str, Attacked]) -> None:
        """Wait until the cleaner has taken what is covered."""
        lost = {(at.key, at.good) for row, at in good.items() if ATTACKS[row].late is not Late.KEPT}
        topic_type = good["plain"].topic_type

        def left() -> int:
            self.topics.roll(topic_type)
            return sum(
                (record.key, record.value) in lost for record in self.topics.records(self.topics.topic(topic_type))
            )

        await_that(left, lambda found: found == 0, what=f"cleaned: {topic_type.value}", timeout_s=120)

    def append(self, line: str) -> None:
        """A line for each source, which all of them have read when this returns."""
        for name in READERS:
            self.sources.append(name, f"{name} {line}")
        self.sources.await_read(READERS, KEYS)


@pytest.fixture
def scene(broker: TestBroker, unique: str, tmp_path: Path) -> Scene:
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    kept = COMPACT_NOW | {"delete.retention.ms": "86400000"}
    topics.create(kept, others=kept)
    group = topics.group("com.acme")
    sources = FileSources(topics, group, tmp_path)
    sources.create_topic()
    return Scene(topics, group, sources)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_what_others_write_is_never_believed(scene: Scene, worker_factory: Start, tmp_path: Path, version: str) -> None:
    lines = scene.topics.properties(scene.group) | keys_by_provider(tmp_path)
    configs = scene.configs()
    with ConnectStorage(WorkerConfig.from_properties(lines)) as storage:
        for name, config in configs.items():
            state = TargetState.STARTED if name in READERS else TargetState.PAUSED
            storage.config.put_connector_config(name, config, state)
    worker = worker_factory(lines, version=version, class_path=JAR)
    for name in configs:
        worker.rest.await_state(name, "RUNNING" if name in READERS else "PAUSED")
    scene.append("first")
    log = LogLines(worker, from_start=True)
    assert log.count(REFUSED) == 0

    own, known = "read-own", dict[tuple[TopicType, bytes, bytes | None], None]()
    for verb, path in (("PUT", "pause"), ("PUT", "resume"), ("POST", "restart")):
        when_possible(partial(worker.rest.call, verb, f"/connectors/{own}/{path}"))
        worker.rest.await_state(own, "PAUSED" if path == "pause" else "RUNNING")
        scene.written(known)
    when_possible(partial(worker.rest.call, "DELETE", "/connectors/plain"))
    put(worker, "plain", configs["plain"])
    when_possible(partial(worker.rest.call, "PUT", "/connectors/plain/pause"))
    worker.rest.await_state("plain", "PAUSED")
    scene.written(known)
    log, starts = LogLines(worker, from_start=True), f"Creating connector {own} of type"
    before = log.count(starts)
    for topic_type in TopicType:  # all of it again, in the same order and within the same minute
        pairs = [(key, value) for kind, key, value in known if kind is topic_type]
        write(scene.topics.settings, scene.topics.topic(topic_type), pairs)
    refused = partial(log.count, f"{REFUSED}{scene.topics.topic(TopicType.CONFIG)}[")
    await_that(refused, what="written again")
    scene.append("again")
    assert {name: worker.rest.config(name) for name in worker.rest.connectors()} == configs
    assert worker.rest.status(own)["connector"]["state"] == "RUNNING"
    assert log.count(starts) == before

    good = {topic_type: scene.attack(topic_type) for topic_type in TopicType}
    for topic_type in TopicType:
        refused = partial(log.count, f"{REFUSED}{scene.topics.topic(topic_type)}[")
        await_that(refused, lambda found: found >= LOGGED_OF_A_TOPIC, what=f"refused: {topic_type.value}")
    # Tasks that begin anew ask for their offsets; what they write then is attacked once more.
    for name in READERS:
        when_possible(partial(worker.rest.call, "POST", f"/connectors/{name}/tasks/0/restart"))
    scene.append("second")
    assert Counter(scene.sources.lines()) == Counter(
        f"{name} {line}" for name in READERS for line in ("first", "again", "second")
    )
    good[TopicType.OFFSET] = scene.attack(TopicType.OFFSET)
    for rows in good.values():
        scene.await_cleaned(rows)
    assert {name: worker.rest.config(name) for name in worker.rest.connectors()} == configs
    states = {name: worker.rest.status(name)["connector"]["state"] for name in configs}
    assert states == {name: "RUNNING" if name in READERS else "PAUSED" for name in configs}
    configs["own"]["tasks.max"] = "2"
    put(worker, "own", configs["own"])
    await_that(lambda: worker.rest.config("own"), lambda found: found == configs["own"], what="changed")
    quiet(worker)

    worker.kill()
    begins_late(scene, worker_factory(lines, version=version, class_path=JAR), configs)


def begins_late(scene: Scene, late: ConnectWorker, configs: dict[str, dict[str, str]]) -> None:
    """A worker without memory has all that the cleaner has left, which the group has written, and nothing else."""
    old = {"connector.class": "FileStreamSource", "name": "old"}
    outcome = {row: attack.late for row, attack in ATTACKS.items()} | {"own": Late.KEPT}
    left = {name: configs[name] for name in READERS}
    left |= {
        row: old if outcome[row] is Late.OLD else configs[row] for row in NAMES if outcome[row] is not Late.MISSING
    }
    assert {name: late.rest.config(name) for name in late.rest.connectors()} == left
    scene.append("third")
    read = Counter(scene.sources.lines())
    for row in NAMES:
        # An offset that is gone, and one of position 0: the source reads its file once more.
        times = 1 if outcome[row] is Late.KEPT else 2
        assert [read.pop(f"read-{row} {line}") for line in ("first", "again", "second", "third")] == [
            times,
            times,
            times,
            1,
        ], row
    assert not read
    put(late, "tombstone", configs["tombstone"])  # the owner writes it again, and that is that
    late.rest.await_state("tombstone", "PAUSED")
    left["tombstone"] = configs["tombstone"]
    # A Python store that begins now has the same, and the same position.
    _, offset = await_settled([late])
    state = replay_config(scene.topics.records(scene.topics.topic(TopicType.CONFIG)), scene.group, keys=KEYS)
    assert {name: state.connector_config(name) for name in state.connectors()} == left
    assert state.offset == offset
    quiet(late)
    for topic_type in TopicType:
        assert not any(
            SECRET in (record.value or b"") for record in scene.topics.records(scene.topics.topic(topic_type))
        )


def quiet(worker: ConnectWorker) -> None:
    """It shares as ever, and its log has no secret and no key."""
    text = worker.log()
    assert "Topic sharing stopped" not in text
    assert SECRET.decode() not in text
    assert key_text(7)[2:14] not in text
