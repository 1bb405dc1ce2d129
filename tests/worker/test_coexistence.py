"""An unmodified Java worker and Python groups whose ids look alike, on the same topics, all writing at once.

In ``make soak`` also an older worker, and one with exactly-once.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from connect_share import TopicType, split_key
from connect_share.errors import InvalidClusterGroupIdError, LiveMembersError
from connect_share.model.config_state import TargetState
from connect_share.model.records import Record
from connect_share.storage import ConnectStorage
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.java_group_model import JavaGroup
from tests.support.java_groups import LogLines, SharedTopics
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.python_group_model import PythonModel
from tests.support.soak import Faults, Soak

# A connector of all groups is called my.conn.
LOOK_ALIKES = ("a", "a.my.conn")
_LONG = [("4.3.1", "enabled"), ("3.9.2", "disabled")]
FORMS = [("4.3.1", "disabled"), *(_LONG if LONG else [])]
# The jar is not loaded: to the worker these are what they are to one that does not know sharing.
UNMODIFIED = {SHARING_PROPERTY: "disabled", "interceptor.classes": ""}
# What a plain worker says of records of others, and of one that it takes for its own and cannot use.
SAID_OF_OTHERS = ("Discarding config update record with invalid key", "Discarding record with invalid key")
TAKEN_FOR_ITS_OWN = ("Invalid data for", "Ignoring task configuration", "Error polling", "Failed to deserialize")
_MINUTES = 0.1


def java_steps(java: JavaGroup) -> list[Callable[[], None]]:
    steps = [java.start, java.create, java.create, java.append, java.pause, java.kill_worker, java.create]
    return [*steps, java.alter_offsets, java.remove, java.restart_worker, java.append, java.resume]


def group_of(topic_type: TopicType, record: Record) -> str | None:
    split = split_key(topic_type, record.key or b"")
    assert split is not None, record
    return split[0]


@pytest.mark.slow
@pytest.mark.parametrize(("version", "exactly_once"), FORMS)
def test_a_java_worker_and_groups_that_look_alike_write_at_once(
    broker: TestBroker, topics: SharedTopics, unique: str, tmp_path: Path, version: str, exactly_once: str
) -> None:
    # The same operations each time; the long form has others.
    chosen = random.randrange(10**6) if LONG else 1
    seed = int(os.environ.get("CONNECT_SHARE_SOAK_SEED", str(chosen)))
    print(f"CONNECT_SHARE_SOAK_SEED={seed}")
    tag, soak = topics.group("")[:-1], Soak(_MINUTES, Faults())
    mode = {"exactly.once.source.support": exactly_once}
    # To a plain worker any id is legal, and its own is in no key; nobody may have this one as a prefix.
    java = JavaGroup(
        topics, f"connector-{tag}", version, tmp_path / "java", random.Random(f"{seed}java"), UNMODIFIED | mode
    )
    for illegal in (java.group, f"{tag}.connector-a", f"{tag}.a.task-b"):
        with pytest.raises(InvalidClusterGroupIdError, match="which is how keys of Connect begin"):
            WorkerConfig.from_properties(topics.properties(illegal))
    groups = [tag, *map(topics.group, LOOK_ALIKES)]
    files = [write_properties(tmp_path / f"{group}.properties", topics.properties(group)) for group in groups]
    models = [PythonModel(file, random.Random(f"{seed}{file.stem}"), soak) for file in files]

    def run_java() -> int:
        for step in (steps := java_steps(java)):
            step()
        return len(steps)

    with closing(java), ThreadPoolExecutor(1 + len(models)) as threads:
        running = [threads.submit(soak.run, body) for body in (run_java, *(model.run for model in models))]
        print("operations:", [each.result() for each in running])
        java.await_model()
        log = LogLines(java.worker, from_start=True)
        assert [line for line in log.text().splitlines() if any(map(line.__contains__, TAKEN_FOR_ITS_OWN))] == []
        assert all(log.count(words) for words in SAID_OF_OTHERS)
        plain = WorkerConfig.from_properties(worker_properties(broker.bootstrap_servers, java.group, unique) | mode)
        with ConnectStorage(plain) as storage:
            config = storage.config.snapshot()
            assert {name: config.connector_config(name) for name in config.connectors()} == {
                name: connector.config for name, connector in java.model.items()
            }
            assert {
                name: (config.target_state(name) or TargetState.STARTED).name for name in java.model
            } == java.target_states()
            with pytest.raises(LiveMembersError, match=java.group):
                storage.config.put_target_state("my.conn", TargetState.STARTED)
    for model, file in zip(models, files, strict=True):
        with ConnectStorage(WorkerConfig.from_file(file), allow_empty=True) as storage:
            assert storage.config.snapshot().connectors() == model.connectors.keys()
    for topic_type in TopicType:
        records = [(group_of(topic_type, each), each) for each in topics.records(topics.topic(topic_type))]
        assert {group for group, _ in records} <= {None, *groups}
        # A removal on the config topic is JSON null.
        assert topic_type is not TopicType.CONFIG or all(each.value is not None for group, each in records if group)
