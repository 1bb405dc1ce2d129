"""A sealed and a plain group on the same topics, somebody who attacks the sealed one, and an operator without keys.

Each group has to be what its own operations made it. Each attack by itself: ``tests/broker/stores/test_sealed_stores.py``.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from connect_share import ConnectStorage, TopicType, WorkerConfig
from connect_share.model.keys import MARKER, SkipKind, prefix_key
from connect_share.model.status import ConnectorStatus, State
from connect_share.sealing import KEYS_PROPERTY, SEALING_PROPERTY
from connect_share.sealing.cipher import is_sealed
from tests.lab.embedded.worker import write_properties
from tests.support.java_group_model import NAMES
from tests.support.java_groups import SharedTopics, write
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.python_group_model import PythonModel
from tests.support.sealed import ATTACKS, OLD, Attacked, key_text
from tests.support.soak import Faults, Soak

_MINUTES = float(os.environ.get("CONNECT_SHARE_SOAK_MINUTES", "0"))
# Only what leaves a reader with everything: nothing is cleaned meanwhile, and after an unknown key nobody starts.
_STRANGERS = {
    TopicType.CONFIG: b"connector-evil",
    TopicType.STATUS: b"status-connector-evil",
    TopicType.OFFSET: b'["evil",{"p":1}]',
}
_BETWEEN_S = 0.2


def attack(topics: SharedTopics, group: str, choose: random.Random, soak: Soak) -> int:
    """Read the topics and write what a co-tenant can make of it, again and again; return how many records."""
    written: set[tuple[bytes, bytes | None]] = set()
    done = 0
    while not soak.over_after(done):
        soak.wait(_BETWEEN_S)
        topic_type, row = choose.choice(list(TopicType)), choose.choice(list(ATTACKS))
        topic = topics.topic(topic_type)
        own = [(record.key, record.value) for record in topics.records(topic)]
        good = {
            key: value
            for key, value in own
            if key is not None and key.startswith(prefix_key(group, b"")) and value is not None and is_sealed(value)
            if (key, value) not in written
        }
        if len(good) < 2:
            continue
        key, other = choose.sample(sorted(good), 2)
        stranger = prefix_key(group, _STRANGERS[topic_type])
        records = ATTACKS[row].records(Attacked(topic_type, key, stranger, good[key], good[other]))
        written |= set(records)
        write(topics.settings, topic, records)
        soak.faults.note(f"{topic_type.value}: {row}")
        done += len(records)
    return done


def look_without_keys(worker_file: Path, soak: Soak) -> int:
    """Read the sealed group as somebody who has no keys does: what strangers wrote, and nothing that is sealed."""
    done = 0
    while not soak.over_after(done):
        with ConnectStorage(WorkerConfig.from_file(worker_file), allow_empty=True) as storage:
            state = storage.config.snapshot()
            assert state.connectors() <= {"evil", *NAMES}
            for name in state.connectors():
                assert state.connector_config(name) == {"connector.class": "FileStreamSource", "name": "old"}
        done += 1
        soak.wait(_BETWEEN_S)
    return done


@pytest.mark.skipif(not LONG, reason="all attacks at random: make soak")
@pytest.mark.timeout(int(_MINUTES * 60) + 300)
def test_a_sealed_group_is_what_its_own_operations_made_it(broker: TestBroker, unique: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("CONNECT_SHARE_SOAK_SEED", str(random.randrange(10**6))))
    print(f"CONNECT_SHARE_SOAK_SEED={seed}", flush=True)
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    topics.create()
    sealed, plain = topics.group("com.acme"), topics.group("com")
    lines = {"none": topics.properties(sealed) | {SEALING_PROPERTY: "off"}, "plain": topics.properties(plain)}
    lines["sealed"] = topics.properties(sealed) | {KEYS_PROPERTY: key_text(7)}
    files = {name: write_properties(tmp_path / f"{name}.properties", each) for name, each in lines.items()}
    with ConnectStorage(WorkerConfig.from_file(files["sealed"]), allow_empty=True) as storage:
        for name in ("first", "second"):  # there is something to attack, however slow the models are
            storage.status.put(ConnectorStatus(name, State.RUNNING, "w:1", 1))
    soak = Soak(_MINUTES, Faults())
    models = {name: PythonModel(files[name], random.Random(f"{seed}{name}"), soak) for name in ("sealed", "plain")}
    bodies: list[Callable[[], int]] = [
        *(model.run for model in models.values()),
        partial(attack, topics, sealed, random.Random(f"{seed}attack"), soak),
        partial(look_without_keys, files["none"], soak),
    ]
    with ThreadPoolExecutor(len(bodies)) as threads:
        runs = [threads.submit(soak.run, body) for body in bodies]
    done = [run.result() for run in runs]
    operations = dict(zip((*models, "records of attacks", "looks without keys"), done, strict=True))
    print("operations:", operations)
    print("faults:", soak.faults.total, soak.faults.by_kind(), "done again:", soak.faults.repeated(), flush=True)
    assert all(done)
    refused: dict[str, int] = {}
    for name, model in models.items():
        with ConnectStorage(WorkerConfig.from_file(files[name]), allow_empty=True) as storage:
            state = storage.config.snapshot()
            assert {each: state.connector_config(each) for each in state.connectors()} == {
                each: expected["config"] for each, expected in model.connectors.items()
            }
            stores = (storage.config, storage.status, storage.offsets)
            refused[name] = sum(store.skipped().get(SkipKind.REFUSED, 0) for store in stores)
    # A store without keys marks the end behind a tombstone, as it does for any group; nobody with keys believes that.
    marker = (prefix_key(sealed, MARKER[0]), MARKER[1])
    marks = 0
    for topic_type in TopicType:
        for record in topics.records(topics.topic(topic_type)):
            marks += (record.key, record.value) == marker
            if (record.key or b"").startswith(prefix_key(sealed, b"")) and record.value not in {None, OLD[topic_type]}:
                assert is_sealed(record.value) or (record.key, record.value) == marker
    print("refused:", refused, "of these marks of stores without keys:", marks)
    assert refused == {"sealed": operations["records of attacks"] + marks, "plain": 0}
    print("differences: 0", flush=True)
