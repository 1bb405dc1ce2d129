"""Real Java workers through whole moves: onto shared topics and out again, and two merged clusters taken apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connect_share.model.records import TopicType
from connect_share.replay import replay_config
from tests.lab.embedded.rest import RestError
from tests.lab.embedded.worker import QUICK_MEMBERS, ConnectWorker, worker_properties, write_properties
from tests.support.java_groups import JAR, SharedTopics, delete, put
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.migration_site import run
from tests.support.waiting import await_that

View = dict[str, Any]
_WAIT_S = 180.0


@dataclass(frozen=True)
class Files:
    """Sources that read a file each into a topic each."""

    topics: SharedTopics
    folder: Path

    def add(self, worker: ConnectWorker, name: str, lines: int) -> None:
        self.folder.joinpath(name).write_text(f"{name} first\n" * lines)
        config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(self.folder / name)}
        put(worker, name, {**config, "topic": self.topics.create_data_topic(name)})
        self.await_read(worker, name)

    def append(self, worker: ConnectWorker, name: str) -> None:
        with self.folder.joinpath(name).open("a") as file:
            file.write(f"{name} appended\n")
        self.await_read(worker, name)

    def await_read(self, worker: ConnectWorker, name: str) -> None:
        """Wait until the worker has committed the end of the file."""
        size = self.folder.joinpath(name).stat().st_size

        def position() -> object:
            try:
                return [each["offset"].get("position") for each in worker.rest.offsets(name)]
            except RestError as error:  # a rebalance under way
                return error

        await_that(position, lambda found: found == [size], what=f"{name} read to {size}", timeout_s=_WAIT_S)

    def values(self, name: str) -> list[bytes | None]:
        return [record.value for record in self.topics.records(f"{self.topics.prefix}-{name}")]


def view(worker: ConnectWorker) -> View:
    """What REST says of every connector, the worker's own address and times apart."""
    rest = worker.rest
    found: View = {}
    for name, each in rest.call("GET", "/connectors?expand=info&expand=status").items():
        status = each["status"]
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        found[name] = (each["info"], states, [task["config"] for task in rest.tasks(name)], rest.offsets(name))
    return found


def await_view(worker: ConnectWorker, wanted: View) -> None:
    def look() -> View | RestError:
        try:
            return view(worker)
        except RestError as error:
            return error

    await_that(look, lambda found: found == wanted, what="as before", timeout_s=_WAIT_S)


def stop(workers: list[ConnectWorker]) -> None:
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(ConnectWorker.stop, workers))


def move(broker: TestBroker, folder: Path, name: str, sources: list[Path], targets: list[Path], *more: str) -> None:
    """Plan, apply and verify on the command line; the workers' groups are empty by then."""
    plan = folder / f"{name}.json"
    arguments: list[str | Path] = ["plan", "--source-worker-config", *sources, "--destination-worker-config", *targets]
    groups = {line.split("=")[1] for file in sources for line in file.read_text().splitlines() if "group.id=" in line}
    with broker.admin() as admin:
        await_that(admin.connect_groups, lambda alive: not any(alive.get(each) for each in groups), what="empty")
    for command in ([*arguments, *more, "-o", plan], ["apply", plan, "--yes"], ["verify", plan]):
        code, out, said = run(*command)
        assert code == 0, (command[0], out, said)


def test_onto_shared_topics_and_out_again(
    broker: TestBroker, unique: str, worker_factory: Callable[..., ConnectWorker], tmp_path: Path
) -> None:
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    topics.create()
    group, files = topics.group("orders.eu"), Files(topics, tmp_path)

    def dedicated(prefix: str) -> dict[str, str]:
        return {**worker_properties(broker.bootstrap_servers, group, f"{unique}-{prefix}"), **QUICK_MEMBERS}

    properties = {"old": dedicated("old"), "shared": topics.properties(group), "back": dedicated("back")}
    paths = {name: write_properties(tmp_path / f"{name}.properties", each) for name, each in properties.items()}

    worker = worker_factory(properties["old"])
    for name in ("my.source", "paused-1", "stopped.task-0", "gone"):
        files.add(worker, name, 3)
    worker.rest.pause("paused-1")
    worker.rest.stop("stopped.task-0")
    delete(worker, "gone")
    worker.rest.await_state("paused-1", "PAUSED", tasks=1)
    worker.rest.await_state("stopped.task-0", "STOPPED", tasks=0)
    said = view(worker)
    assert set(said) == {"my.source", "paused-1", "stopped.task-0"}
    worker.stop()

    move(broker, tmp_path, "in", [paths["old"]], [paths["shared"]])
    worker = worker_factory(properties["shared"], class_path=JAR)
    await_view(worker, said)
    files.append(worker, "my.source")
    assert topics.plain_keys() == []
    said = view(worker)
    worker.stop()

    move(broker, tmp_path, "out", [paths["shared"]], [paths["back"]])
    worker = worker_factory(properties["back"])
    await_view(worker, said)
    files.append(worker, "my.source")
    assert files.values("my.source") == [b"my.source first"] * 3 + [b"my.source appended"] * 2
    for name in ("paused-1", "stopped.task-0", "gone"):
        assert files.values(name) == [f"{name} first".encode()] * 3


@pytest.mark.skipif(not LONG, reason="five starts of workers: make soak")
def test_two_clusters_that_share_topics_by_accident_are_taken_apart(
    broker: TestBroker, unique: str, worker_factory: Callable[..., ConnectWorker], tmp_path: Path
) -> None:
    """Both run everything of both, as unprefixed clusters do; afterwards each has its own."""
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    topics.create()
    files = Files(topics, tmp_path)
    groups = {"one": topics.group("one"), "two": topics.group("two")}
    own = {"one": ["a", "a-0.b"], "two": ["a-0"]}
    merged = {
        name: {**worker_properties(broker.bootstrap_servers, group, f"{unique}-merged"), **QUICK_MEMBERS}
        for name, group in groups.items()
    }
    apart = {name: topics.properties(group) for name, group in groups.items()}
    sources, targets = (
        [write_properties(tmp_path / f"{name}-{kind}.properties", each) for name, each in files_of.items()]
        for kind, files_of in (("merged", merged), ("apart", apart))
    )
    # One at a time while connectors are made: two leaders that write the same tasks at once may leave them without any.
    workers: list[ConnectWorker] = []
    for name, connectors in own.items():
        stop(workers)
        workers.append(worker_factory(merged[name]))
        for connector in connectors:
            files.add(workers[-1], connector, 2)
    workers[0].start()
    for worker in workers:
        await_that(worker.rest.connectors, lambda names: len(names) == 3, what="merged")
    stop(workers)

    assignment = tmp_path / "assignment.json"
    assignment.write_text(json.dumps({groups[name]: connectors for name, connectors in own.items()}))
    # Two leaders may have written tasks and commits into each other: the log as it is may be inconsistent for Connect.
    move(broker, tmp_path, "split", sources, targets, "--assign", str(assignment), "--mode", "state")
    records = topics.records(topics.topic(TopicType.CONFIG))
    before = {name: len(files.values(name)) for connectors in own.values() for name in connectors}
    again = {name: worker_factory(each, class_path=JAR, wait=False) for name, each in apart.items()}
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(ConnectWorker.await_healthy, again.values()))
    for name, worker in again.items():
        assert replay_config(records, groups[name]).connectors() == set(own[name])
        assert sorted(worker.rest.connectors()) == sorted(own[name])
        for connector in own[name]:
            worker.rest.await_state(connector, "RUNNING", tasks=1)
            files.append(worker, connector)
            assert files.values(connector)[before[connector] :] == [f"{connector} appended".encode()]
