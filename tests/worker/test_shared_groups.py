"""Java groups and Python groups on one set of topics; each is what its own operations made it.

``make soak MINUTES=n`` runs it with three versions and for longer, on a broker of its own that is killed meanwhile.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from connect_share.model.config_state import TargetState
from connect_share.model.keys import prefix_key, split_key
from connect_share.model.records import TopicType
from connect_share.model.status import StatusFold, TwoClusters
from connect_share.storage import ConnectStorage
from connect_share.worker_config import Isolation, WorkerConfig
from tests.lab.embedded.worker import write_properties
from tests.support.java_group_model import JavaGroup
from tests.support.java_groups import EXACTLY_ONCE, LogLines, SharedTopics
from tests.support.kafka import given_broker
from tests.support.long_forms import LONG
from tests.support.python_group_model import PythonModel
from tests.support.soak import Faults, Soak, clear, keep_logs, kill_broker

_MINUTES = float(os.environ.get("CONNECT_SHARE_SOAK_MINUTES", "0.25"))
_VERSIONS = {"com.acme": "2.8.2", "com.acme.orders": "4.3.1", **({"team-7": "3.9.2"} if LONG else {})}
_EXACTLY_ONCE_GROUPS = {"com.acme.orders": "4.3.1", "team-7": "4.3.1"}
_PYTHON_GROUPS = ("com", "com.acme.orders.my.conn")


def run_java(group: JavaGroup, soak: Soak) -> int:
    done = 0
    group.start()
    while True:
        for step in group.steps():
            group.done.append(step.__name__)
            step()
            done += 1
            if soak.over_after(done):
                return done


@contextmanager
def java_groups(groups: list[JavaGroup]) -> Iterator[None]:
    with ExitStack() as stack:
        for group in groups:
            stack.callback(group.close)
        yield


@contextmanager
def kept_on_failure(groups: list[JavaGroup], faults: Faults, seed: int) -> Iterator[None]:
    """Tell how to repeat what has failed, and keep what the workers have logged."""
    try:
        yield
    except BaseException:
        logs = clear(Path("build/soak") / str(seed))
        for group in groups:
            keep_logs(group.all_workers, logs / group.group)
        print(f"CONNECT_SHARE_SOAK_SEED={seed} repeats it; the workers' logs are in {logs}")
        print("faults:", faults.total, faults.by_kind(), "done again:", faults.repeated(), flush=True)
        raise


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


@pytest.mark.timeout(int(_MINUTES * 60) + 900)
@pytest.mark.parametrize(
    ("versions", "extra"),
    [(_VERSIONS, {}), *([(_EXACTLY_ONCE_GROUPS, EXACTLY_ONCE)] if LONG else [])],
)
def test_every_group_is_what_its_own_operations_made_it(
    request: pytest.FixtureRequest, unique: str, tmp_path: Path, versions: dict[str, str], extra: dict[str, str]
) -> None:
    # The same operations each time; the soak has others.
    chosen = random.randrange(10**6) if LONG else 1
    seed = int(os.environ.get("CONNECT_SHARE_SOAK_SEED", str(chosen)))
    print(f"CONNECT_SHARE_SOAK_SEED={seed}", flush=True)
    killed = LONG and given_broker() is None  # the broker that all tests share stays
    broker = request.getfixturevalue("own_broker" if killed else "broker")
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    topics.create()
    faults = Faults()
    groups = [
        JavaGroup(
            topics,
            topics.group(name),
            version,
            tmp_path / name,
            random.Random(f"{seed}{name}"),
            extra,
            faults=faults,
            wait_s=240.0 if killed else 180.0,
        )
        for name, version in versions.items()
    ]
    files = {
        name: write_properties(tmp_path / f"{name}.properties", topics.properties(topics.group(name)))
        for name in _PYTHON_GROUPS
    }
    soak = Soak(_MINUTES, faults)
    models = {name: PythonModel(file, random.Random(f"{seed}{name}"), soak) for name, file in files.items()}
    with java_groups(groups), kept_on_failure(groups, faults, seed):
        with ThreadPoolExecutor(len(groups) + len(models) + 1) as threads:
            runs = [threads.submit(soak.run, partial(run_java, group, soak)) for group in groups]
            runs += [threads.submit(soak.run, model.run) for model in models.values()]
            if killed:
                kills = threads.submit(soak.run, partial(kill_broker, broker, random.Random(f"{seed}broker"), soak))
        steps = [run.result() for run in runs]
        assert not killed or kills.result() >= 1
        print("operations:", sum(steps), dict(zip((*versions, *_PYTHON_GROUPS), steps, strict=True)))
        print("faults:", faults.total, faults.by_kind())
        print("done again:", faults.repeated(), flush=True)
        compare(topics, groups, models, files, tmp_path, twice=killed and not extra)
    print("differences: 0", flush=True)


def two_clusters(topics: SharedTopics, group: JavaGroup) -> TwoClusters | None:
    """What would be said if the group's keys were plain."""
    fold = StatusFold()
    prefix = prefix_key(group.group, b"")
    for record in topics.records(topics.topic(TopicType.STATUS)):
        if record.key is not None and record.key.startswith(prefix):
            fold.apply(replace(record, key=record.key.removeprefix(prefix)))
    return fold.clusters.found


def compare(
    topics: SharedTopics,
    groups: list[JavaGroup],
    models: dict[str, PythonModel],
    files: dict[str, Path],
    folder: Path,
    *,
    twice: bool,
) -> None:
    """Compare workers, stores and topics with the models.

    ``twice``: a source may have sent lines again that a broker took and could not acknowledge any more.
    """
    ids = [*(group.group for group in groups), *(topics.group(name) for name in models)]
    for group in groups:
        group.await_model()
        assert foreign_trouble(group, ids) == []
        # A Python store of the same group, beside the live workers, sees the same.
        file = write_properties(folder / f"{group.group}-view.properties", group.properties)
        with ConnectStorage(WorkerConfig.from_file(file), allow_live_members=True, allow_empty=True) as storage:
            config = storage.config.snapshot()
            targets = {name: (config.target_state(name) or TargetState.STARTED).name for name in config.connectors()}
            assert targets == group.target_states()
            assert {name: config.connector_config(name) for name in group.model} == {
                name: connector.config for name, connector in group.model.items()
            }
        assert two_clusters(topics, group) is None  # workers that come and go are one cluster
        for name, lines in group.expected_lines.items():
            topic = f"{topics.prefix}-{group.group}-{name}"
            running = name in group.model and group.model[name].target == "RUNNING"
            found = len(topics.records(topic, isolation=Isolation.READ_COMMITTED))
            assert found >= lines or not running, (group.group, name)
            assert found <= lines or twice, (group.group, name)
    for name, model in models.items():
        with ConnectStorage(WorkerConfig.from_file(files[name]), allow_empty=True) as storage:
            assert storage.config.snapshot().connectors() == model.connectors.keys()
    assert topics.plain_keys() == []
    seen = {
        split[0]
        for record in topics.records(topics.topic(TopicType.CONFIG))
        if (split := split_key(TopicType.CONFIG, record.key or b""))
    }
    assert {group.group for group in groups} <= seen
