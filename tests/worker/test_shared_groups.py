"""Java groups of three versions and Python groups on one set of topics; each is what its own operations made it.

``make soak MINUTES=n`` runs the same for longer.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from connect_share.embedded.worker import write_properties
from connect_share.keys import split_key
from connect_share.records import TopicType
from connect_share.state import TargetState
from connect_share.storage import ConnectStorage
from connect_share.worker_config import Isolation, WorkerConfig
from tests.support.java_group_model import NAMES, JavaGroup
from tests.support.java_groups import EXACTLY_ONCE, LogLines, SharedTopics
from tests.support.kafka import TestBroker
from tests.support.python_group import PythonGroup

pytestmark = [pytest.mark.broker, pytest.mark.worker]

_MINUTES = float(os.environ.get("CONNECT_SHARE_SOAK_MINUTES", "0.4"))
_VERSIONS = {"com.acme": "2.8.2", "com.acme.orders": "3.9.2", "team-7": "4.3.1"}
_EXACTLY_ONCE_GROUPS = {"com.acme.orders": "4.3.1", "team-7": "4.3.1"}
_PYTHON_GROUPS = ("com", "com.acme.orders.my.conn")


def run_java(group: JavaGroup, deadline_s: float) -> int:
    done = 0
    group.start()
    while True:
        for step in group.steps():
            group.done.append(step.__name__)
            step()
            done += 1
            if time.monotonic() > deadline_s:
                return done


def run_python(worker_file: Path, choose: random.Random, deadline_s: float) -> tuple[int, dict[str, Any]]:
    """Give how many steps were done, and the model."""
    group, done = PythonGroup(worker_file), 0
    connectors: dict[str, Any] = {}
    offsets: dict[str, list[list[dict[str, Any]]]] = {}
    group.start()
    try:
        while time.monotonic() < deadline_s:
            name = choose.choice(NAMES)
            kinds = ["put", "offset", "reset", "kill", "restart"] + (["target", "delete"] if name in connectors else [])
            kind = choose.choice(kinds)
            if kind == "put":
                config, tasks = {"name": name, "x": str(choose.random())}, choose.randrange(1, 4)
                group.order(do="put", connector=name, config=config, tasks=tasks)
                target = connectors[name]["target"] if name in connectors else "STARTED"
                connectors[name] = {"config": config, "target": target, "tasks": tasks}
            elif kind == "target":
                state = choose.choice(["STARTED", "PAUSED", "STOPPED"])
                group.order(do="target", connector=name, state=state)
                connectors[name]["target"] = state
            elif kind == "delete":
                group.order(do="delete", connector=name)
                del connectors[name]
            elif kind == "offset":
                pair: list[dict[str, Any]] = [{"p": choose.randrange(3)}, {"position": choose.randrange(10**9)}]
                group.order(do="offset", connector=name, partition=pair[0], offset=pair[1])
                kept = [each for each in offsets.get(name, []) if each[0] != pair[0]]
                offsets[name] = [*kept, pair]
            elif kind == "reset":
                group.order(do="reset", connector=name)
                offsets.pop(name, None)
            else:
                (group.kill if kind == "kill" else group.stop)()
                group.start()
            seen = group.order(do="view")
            assert seen["connectors"] == connectors
            assert {key: sorted(map(str, pairs)) for key, pairs in seen["offsets"].items()} == {
                key: sorted(map(str, pairs)) for key, pairs in offsets.items()
            }
            done += 1
    finally:
        group.kill()
    return done, connectors


@contextmanager
def java_groups(groups: list[JavaGroup]) -> Iterator[None]:
    with ExitStack() as stack:
        for group in groups:
            stack.callback(group.close)
        yield


def foreign_trouble(group: JavaGroup, ids: list[str]) -> list[str]:
    """WARN and ERROR lines of a group's workers that have to do with other groups' records."""
    others = [other for other in ids if not f"{group.group}.".startswith(f"{other}.")]
    about = re.compile("|".join(rf"\b{re.escape(other)}\." for other in others))
    found = []
    for worker in group.all_workers:
        found += LogLines(worker, from_start=True).about_foreign()
        found += [
            line for line in worker.log().splitlines() if re.search(r"\b(WARN|ERROR)\b", line) and about.search(line)
        ]
    return found


@pytest.mark.timeout(int(_MINUTES * 60) + 420)
@pytest.mark.parametrize(
    ("versions", "extra"),
    [(_VERSIONS, {}), (_EXACTLY_ONCE_GROUPS, EXACTLY_ONCE)],
    ids=["three-versions", "exactly-once"],
)
def test_every_group_is_what_its_own_operations_made_it(
    broker: TestBroker, unique: str, tmp_path: Path, versions: dict[str, str], extra: dict[str, str]
) -> None:
    seed = int(os.environ.get("CONNECT_SHARE_SOAK_SEED", str(random.randrange(10**6))))
    print(f"CONNECT_SHARE_SOAK_SEED={seed}")
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    topics.create()
    deadline_s = time.monotonic() + _MINUTES * 60
    groups = [
        JavaGroup(topics, topics.group(name), version, tmp_path / name, random.Random(f"{seed}{name}"), extra)
        for name, version in versions.items()
    ]
    files = {
        name: write_properties(tmp_path / f"{name}.properties", topics.properties(topics.group(name)))
        for name in _PYTHON_GROUPS
    }
    with java_groups(groups), ThreadPoolExecutor(len(groups) + len(files)) as threads:
        java = [threads.submit(run_java, group, deadline_s) for group in groups]
        python = [
            threads.submit(run_python, file, random.Random(f"{seed}{name}"), deadline_s) for name, file in files.items()
        ]
        steps = [run.result() for run in java] + [run.result()[0] for run in python]
        print("steps by group:", dict(zip((*versions, *_PYTHON_GROUPS), steps, strict=True)))
        assert min(steps) >= 3
        ids = [topics.group(name) for name in (*versions, *_PYTHON_GROUPS)]
        for group in groups:
            group.await_model()
            assert foreign_trouble(group, ids) == []
            # A Python store of the same group, beside the live workers, sees the same.
            file = write_properties(tmp_path / f"{group.group}-view.properties", group.properties)
            with ConnectStorage(WorkerConfig.from_file(file), allow_live_members=True, allow_empty=True) as storage:
                config = storage.config.snapshot()
                targets = {
                    name: (config.target_state(name) or TargetState.STARTED).name for name in config.connectors()
                }
                assert targets == group.target_states()
                assert {name: config.connector_config(name) for name in group.model} == {
                    name: connector.config for name, connector in group.model.items()
                }
            for name, lines in group.expected_lines.items():
                topic = f"{unique}-{group.group}-{name}"
                paused = name not in group.model or group.model[name].target != "RUNNING"
                found = len(topics.records(topic, isolation=Isolation.READ_COMMITTED))
                assert found <= lines if paused else found == lines, (group.group, name)
        for run, name in zip(python, _PYTHON_GROUPS, strict=True):
            with ConnectStorage(WorkerConfig.from_file(files[name]), allow_empty=True) as storage:
                assert storage.config.snapshot().connectors() == run.result()[1].keys()
    assert topics.plain_keys() == []
    seen = {
        split[0]
        for record in topics.records(topics.topic(TopicType.CONFIG))
        if (split := split_key(TopicType.CONFIG, record.key or b""))
    }
    assert {topics.group(name) for name in versions} <= seen
