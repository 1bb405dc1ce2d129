"""An unmodified Java worker and Python groups whose ids look alike, on the same topics, all writing at once.

Everybody does a number of operations in each round, and somebody is restarted in it; nobody waits for the others but at
the end of a round. In ``make soak`` also an older worker, and all with exactly-once.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from connect_share import TopicType, replay_config, split_key
from connect_share.errors import InvalidClusterGroupIdError, LiveMembersError
from connect_share.model.config_state import TargetState
from connect_share.model.keys import SkipKind
from connect_share.model.records import Record
from connect_share.storage import ConnectStorage
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from tests.lab.embedded.worker import worker_properties
from tests.support.java_group_model import JavaGroup
from tests.support.java_groups import LogLines, SharedTopics
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.python_runtime import PythonRuntime

LOOK_ALIKES = ("a", "a.b", "a-b", "A", "a.b.my.conn")
OPERATIONS_A_ROUND = 4
_LONG = [("4.3.1", "enabled"), ("3.9.2", "disabled")]
FORMS = [("4.3.1", "disabled"), *(_LONG if LONG else [])]
# The jar is not loaded: to the worker these are what they are to one that was never told of sharing.
UNMODIFIED = {SHARING_PROPERTY: "disabled", "interceptor.classes": ""}
# What a plain worker says of records of others, and of one that it takes for its own and cannot use.
SAID_OF_OTHERS = ("Discarding config update record with invalid key", "Discarding record with invalid key")
TAKEN_FOR_ITS_OWN = ("Invalid data for", "Ignoring task configuration", "Error polling", "Failed to deserialize")


def java_steps(java: JavaGroup) -> list[Callable[[], None]]:
    steps = [java.create, java.create, java.append, java.pause, java.kill_worker, java.create, java.alter_offsets]
    return [*steps, java.remove, java.restart_worker, java.append, java.resume]


def in_rounds(bodies: Sequence[Sequence[Callable[[], None]]]) -> None:
    """Run the bodies side by side, the n-th step of each at the same time; the first failure ends all."""
    barrier = threading.Barrier(len(bodies))

    def run(steps: Sequence[Callable[[], None]]) -> None:
        try:
            for step in steps:
                barrier.wait()
                step()
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(len(bodies)) as threads:
        running = [threads.submit(run, steps) for steps in bodies]
    errors = [error for error in (each.exception() for each in running) if error is not None]
    own = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
    if errors:
        raise (own or errors)[0]


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
    tag = topics.group("")[:-1]
    mode = {"exactly.once.source.support": exactly_once}
    # To a plain worker any id is legal, and its own is in no key; nobody may have this one as a prefix.
    java = JavaGroup(
        topics, f"connector-{tag}", version, tmp_path / "java", random.Random(f"{seed}java"), UNMODIFIED | mode
    )
    for illegal in (java.group, f"{tag}.connector-a", f"{tag}.a.task-b"):
        with pytest.raises(InvalidClusterGroupIdError, match="which is how keys of Connect begin"):
            WorkerConfig.from_properties(topics.properties(illegal))
    runtimes = [
        PythonRuntime(topics.properties(group) | mode, random.Random(f"{seed}{group}"))
        for group in (tag, *map(topics.group, LOOK_ALIKES))
    ]
    with ExitStack() as stack:
        stack.callback(java.close)
        java.start()
        for runtime in runtimes:
            stack.callback(runtime.close)
            runtime.start()
        steps = java_steps(java)
        rounds = [[partial(each.work, OPERATIONS_A_ROUND)] * len(steps) for each in runtimes]
        in_rounds([steps, *rounds])

        java.await_model()
        log = LogLines(java.worker, from_start=True)
        assert [words for words in TAKEN_FOR_ITS_OWN if log.count(words)] == []
        assert all(log.count(words) for words in SAID_OF_OTHERS)
        updated = {each.config.group_id: each.listener.connectors for each in runtimes}
        assert all(names <= set(each.names) for each, names in zip(runtimes, updated.values(), strict=True)), updated
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
        live_positions = []
        for runtime in runtimes:
            stores = (runtime.storage.config, runtime.storage.status, runtime.storage.offsets)
            misread = {SkipKind.NULL_KEY, SkipKind.BAD_KEY, SkipKind.BAD_VALUE}
            assert [misread & store.skipped().keys() for store in stores] == [set()] * 3
            live_positions.append(runtime.storage.config.snapshot().offset)
            runtime.close()
            runtime.start()
            runtime.work(0)

    records = topics.records(topics.topic(TopicType.CONFIG))
    for runtime, live_position in zip(runtimes, live_positions, strict=True):
        own = [record for record in records if group_of(TopicType.CONFIG, record) == runtime.config.group_id]
        state = replay_config(records, runtime.config.group_id)
        assert state.offset == live_position == own[-1].offset + 1
        assert state.connectors() == runtime.model["connectors"].keys()
        assert all(record.value is not None for record in own)  # a removal is JSON null
    for topic_type in TopicType:
        groups = {group_of(topic_type, record) for record in topics.records(topics.topic(topic_type))}
        assert groups == {None, *updated}
