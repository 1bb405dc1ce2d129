"""Real Java workers through whole moves: onto shared topics and out again, and two merged clusters taken apart."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connect_share import WorkerConfig
from tests.lab.embedded.rest import RestError
from tests.lab.embedded.worker import QUICK_MEMBERS, ConnectWorker, worker_properties, write_properties
from tests.support.java_groups import JAR, SharedTopics, Start, delete, put
from tests.support.kafka import TestBroker
from tests.support.migration_site import run_well
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


def move(broker: TestBroker, folder: Path, name: str, sources: list[Path], targets: list[Path], *more: str) -> None:
    """Plan, apply and verify on the command line; the workers' groups are empty by then."""
    plan = folder / f"{name}.json"
    arguments: list[str | Path] = ["plan", "--source-worker-config", *sources, "--destination-worker-config", *targets]
    for file in sources:
        broker.await_empty(WorkerConfig.from_file(file).group_id)
    for command in ([*arguments, *more, "-o", plan], ["apply", plan, "--yes"], ["verify", plan]):
        run_well(*command)


def test_onto_shared_topics_and_out_again(
    broker: TestBroker, topics: SharedTopics, unique: str, worker_factory: Start, tmp_path: Path
) -> None:
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
