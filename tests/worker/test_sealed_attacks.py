"""Everything that a co-tenant may try on the topics of a sealed group of Java workers, with the cleaner on.

``make test`` has one version, ``make soak`` three.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from connect_share import ConnectStorage, TopicType, WorkerConfig, replay_config
from connect_share.state import TargetState
from tests.lab.worker import LabWorker
from tests.support.java_groups import JAR, LogLines, SharedTopics, await_settled, put, write
from tests.support.kafka import TestBroker
from tests.support.sealed import KEYS, key_text, keys_by_provider
from tests.support.sealed_attacks import ATTACKS, FLOOD, Attack, Attacked, Late
from tests.support.sealed_stores import SECRET
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that

pytestmark = [pytest.mark.broker, pytest.mark.worker]

VERSIONS = ["2.8.2", "3.9.2", "4.3.1"] if "CONNECT_SHARE_SOAK_MINUTES" in os.environ else ["4.3.1"]
# One whose key is not known ends the start of a worker: test_sealed_worker.py.
ROWS = {name: attack for name, attack in ATTACKS.items() if attack.late is not Late.NO_START}
NAMES = {TopicType.CONFIG: "connector-{}", TopicType.STATUS: "status-connector-{}"}
REFUSED = "Refused the record at "
LOGGED_OF_A_TOPIC = 100


def config_of(name: str) -> dict[str, str]:
    """A connector that never runs."""
    return {
        "connector.class": "FileStreamSource",
        "name": name,
        "file": "/none",
        "topic": "none",
        "pass": SECRET.decode(),
    }


def attacked(topics: SharedTopics, group: str, topic_type: TopicType) -> dict[str, Attacked]:
    """The record of each row's connector; nothing can be read by others."""
    values = {record.key or b"": record.value or b"" for record in topics.records(topics.topic(topic_type))}
    assert not any(SECRET in value for value in values.values())

    def key(name: str) -> bytes:
        return f"{group}.{NAMES[topic_type].format(name)}".encode()

    return {row: Attacked(topic_type, key(row), key("evil"), values[key(row)], values[key("own")]) for row in ROWS}


def cleaned(topics: SharedTopics, good: dict[str, Attacked]) -> bool:
    """Give the cleaner something to do; return whether it has taken what is covered."""
    topic = topics.topic(TopicType.CONFIG)
    write(topics.settings, topic, [(b"other.group.target-state-x", b"{}")])
    left = {(record.key, record.value) for record in topics.records(topic)}
    return not any((at.key, at.good) in left for row, at in good.items() if ROWS[row].late is not Late.KEPT)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_others_write_is_never_believed(
    broker: TestBroker,
    unique: str,
    worker_factory: Callable[..., LabWorker],
    tmp_path: Path,
    version: str,
) -> None:
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    topics.create(COMPACT_NOW | {"delete.retention.ms": "86400000"})
    group = topics.group("com.acme")
    lines = topics.properties(group) | keys_by_provider(tmp_path)
    configs = {name: config_of(name) for name in (*ROWS, "own")}
    with ConnectStorage(WorkerConfig.from_properties(lines)) as storage:
        for name, config in configs.items():
            storage.config.put_connector_config(name, config, TargetState.PAUSED)
    worker = worker_factory(lines, version=version, class_path=JAR)
    for name in configs:
        worker.rest.await_state(name, "PAUSED")
    log = LogLines(worker, from_start=True)
    assert log.count(REFUSED) == 0

    # The flood comes last: the lines of the others are there before no more are written.
    expected = min(sum(attack.late is not Late.KEPT for attack in ROWS.values()) * 2 - 1 + FLOOD, LOGGED_OF_A_TOPIC)
    good = {topic_type: attacked(topics, group, topic_type) for topic_type in NAMES}
    for topic_type, rows in good.items():
        topic = topics.topic(topic_type)
        write(topics.settings, topic, [pair for row, at in rows.items() for pair in ROWS[row].records(at)])
        refused = partial(log.count, f"{REFUSED}{topic}[")
        await_that(refused, lambda found: found >= expected, what=f"refused in {topic}")
    await_that(lambda: cleaned(topics, good[TopicType.CONFIG]), what="the cleaner's work", timeout_s=120)
    assert set(worker.rest.connectors()) == configs.keys()
    assert {name: worker.rest.config(name) for name in configs} == configs
    assert {worker.rest.status(name)["connector"]["state"] for name in configs} == {"PAUSED"}
    configs["own"]["tasks.max"] = "2"
    put(worker, "own", configs["own"])
    await_that(lambda: worker.rest.config("own"), lambda found: found == configs["own"], what="changed")
    assert log.count("Topic sharing stopped") == 0
    quiet(worker)

    worker.kill()
    late = worker_factory(lines, version=version, class_path=JAR)
    old = {"connector.class": "FileStreamSource", "name": "old"}
    left = {row: old if attack.late is Late.OLD else configs[row] for row, attack in ROWS.items() if has(attack)}
    left["own"] = configs["own"]
    assert {name: late.rest.config(name) for name in late.rest.connectors()} == left
    put(late, "tombstone", configs["tombstone"])  # the owner writes it again, and that is that
    late.rest.await_state("tombstone", "PAUSED")
    left["tombstone"] = configs["tombstone"]
    # A Python store that begins now has the same, and the same position.
    _, offset = await_settled([late])
    state = replay_config(topics.records(topics.topic(TopicType.CONFIG)), group, keys=KEYS)
    assert {name: state.connector_config(name) for name in state.connectors()} == left
    assert state.offset == offset
    assert LogLines(late, from_start=True).count("Topic sharing stopped") == 0
    quiet(late)
    for topic_type in NAMES:
        assert not any(SECRET in (record.value or b"") for record in topics.records(topics.topic(topic_type)))


def has(attack: Attack) -> bool:
    """Whether somebody who begins late has anything of the attacked record."""
    return attack.late in {Late.KEPT, Late.OLD}


def quiet(worker: LabWorker) -> None:
    """What the jar has logged has no secret, and nothing in the log has a key."""
    text = worker.log()
    assert SECRET.decode() not in "".join(line for line in text.splitlines() if "connectshare" in line)
    assert key_text(7)[2:14] not in text
