"""The demo's input: records that unmodified Java workers of several Connect clusters write while they do real work."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.sealing.key_ring import new_key
from tests.lab.demo.clusters import (
    CLUSTERS,
    Cluster,
    Connector,
    connector_config,
    data_file,
    dedicated_properties,
    shared_properties,
)
from tests.lab.demo.views import ClusterView, view_from_rest
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.worker import ConnectWorker, write_properties

DEADLINE_S: Final = 45.0
"""The longest wait of the demo for any one thing."""

_LINES: Final = 200
_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Captured:
    """A cluster after its workers are gone.

    Attributes:
        folder: has the files that the connectors read and write.
        view: what REST said last.
    """

    cluster: Cluster
    folder: Path
    worker_file: Path
    shared_worker_file: Path
    view: ClusterView


def run_clusters(bootstrap_servers: str, admin: Admin, work: Path, say: Callable[[str], None]) -> list[Captured]:
    """Run all clusters side by side until their work is done, keep what REST says, then kill the workers.

    They are killed, not stopped: a worker that ends in order writes other statuses while it does, which cannot be
    compared with what REST said before.

    Raises:
        EmbeddedError: a worker or connector did not get where it should.
    """
    work = work.resolve()  # the workers run in folders of their own
    folders = [work / "files" / cluster.group_id for cluster in CLUSTERS]
    for topic in sorted({connector.topic for cluster in CLUSTERS for connector in cluster.connectors}):
        admin.create_topic(NewTopicRequest(topic, partitions=1, replication_factor=1))
    # Left in this order: workers first, which ends the threads that wait for them, also after Ctrl-C.
    with ThreadPoolExecutor(len(CLUSTERS)) as threads, ExitStack() as stack:
        workers = [
            stack.enter_context(ConnectWorker(dedicated_properties(bootstrap_servers, cluster), wait=False))
            for cluster in CLUSTERS
        ]
        try:
            views = list(threads.map(_run_cluster, CLUSTERS, workers, folders))
        finally:
            for cluster, worker in zip(CLUSTERS, workers, strict=True):
                worker.kill()
                (work / f"worker-{cluster.group_id}.log").write_text(worker.log(), encoding="utf-8")
    captured, keys_file = [], write_properties(work / "keys.properties", {"keys": new_key()})
    for cluster, folder, view in zip(CLUSTERS, folders, views, strict=True):
        name = cluster.group_id
        before = dedicated_properties(bootstrap_servers, cluster)
        after = shared_properties(bootstrap_servers, cluster, keys_file)
        worker_file = write_properties(work / f"{name}.properties", before)
        shared_worker_file = write_properties(work / f"{name}-shared.properties", after)
        captured.append(Captured(cluster, folder, worker_file, shared_worker_file, view))
        say(f"{name}: {len(view)} connectors, worker killed")
    return captured


def await_no_members(admin: Admin, groups: Iterable[str]) -> None:
    """Wait until the brokers have noticed that the workers are gone.

    Raises:
        EmbeddedError: a group still has members at the deadline.
    """
    wanted = set(groups)
    for _ in until(lambda: f"groups {', '.join(sorted(wanted))} without members"):
        alive = admin.connect_groups()
        if not any(alive.get(group) for group in wanted):
            return


def until(what: Callable[[], str], worker: ConnectWorker | None = None) -> Iterator[None]:
    """Yield again and again until the caller leaves the loop.

    Raises:
        EmbeddedError: the deadline has passed, or the worker that is waited for has ended.
    """
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        if worker is not None and not worker.running:
            raise EmbeddedError(f"the worker ended with exit code {worker.exit_code} before: {what()}")
        yield
        time.sleep(0.1)
    raise EmbeddedError(f"not within {DEADLINE_S:g} s: {what()}")


def _run_cluster(cluster: Cluster, worker: ConnectWorker, folder: Path) -> ClusterView:
    worker.await_healthy()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rest, connectors = worker.rest, cluster.connectors
    for connector in connectors:
        if connector.kind == "source":
            _append_lines(folder, connector, 0)
    for connector in connectors:
        rest.put_config(connector.name, connector_config(folder, connector))
    for connector in connectors:
        states = ["FAILED"] if connector.fate == "fails" else ["RUNNING"] * _tasks(connector)
        _await_states(worker, connector.name, "RUNNING", states)
    for number in range(1, _ROUNDS):
        for connector in connectors:
            if connector.kind == "source":
                _append_lines(folder, connector, number)
    _await_work_done(worker, folder, connectors)
    actions = {"is paused": rest.pause, "is stopped": rest.stop, "is deleted": rest.delete}
    for connector in connectors:
        if connector.fate in actions:
            actions[connector.fate](connector.name)
    for connector in connectors:
        if connector.fate == "is paused":
            _await_states(worker, connector.name, "PAUSED", ["PAUSED"] * _tasks(connector))
        elif connector.fate == "is stopped":
            _await_states(worker, connector.name, "STOPPED", [])
    return capture(worker, {connector.name for connector in connectors if connector.fate != "is deleted"})


def _append_lines(folder: Path, connector: Connector, round_number: int) -> None:
    # ASCII: the source's position counts characters, a file's size counts bytes.
    with data_file(folder, connector).open("a", encoding="utf-8") as file:
        file.writelines(f"{connector.topic} round {round_number} line {line}\n" for line in range(_LINES))


def _tasks(connector: Connector) -> int:
    return int(connector.extra.get("tasks.max", "1"))


def _await_states(worker: ConnectWorker, name: str, state: str, task_states: list[str]) -> None:
    seen = "nothing"

    def what() -> str:
        return f"connector {name!r} {state} with tasks {task_states}; last seen: {seen}"

    for _ in until(what, worker):
        # Read from the list: right after its creation a connector has no status yet, which is a 404 of its own.
        answer = worker.rest.call("GET", "/connectors?expand=status").get(name)
        if answer is None:
            continue
        status = answer["status"]
        states = [task["state"] for task in status["tasks"]]
        seen = f"{status['connector']['state']}, tasks {states}"
        if status["connector"]["state"] == state and states == task_states:
            return


def _await_work_done(worker: ConnectWorker, folder: Path, connectors: Iterable[Connector]) -> None:
    """Wait until every source has committed the end of its file, and every sink has written and committed its topic."""
    for connector in connectors:
        if connector.fate != "fails":
            name = connector.name
            for _ in until(lambda name=name: f"the work of connector {name!r} done", worker):  # type: ignore[misc]
                if _is_done(worker, folder, connector):
                    break


def _is_done(worker: ConnectWorker, folder: Path, connector: Connector) -> bool:
    file = data_file(folder, connector)
    if connector.kind == "source":
        return source_position(worker, connector.name) == file.stat().st_size
    if not file.exists() or file.read_bytes().count(b"\n") < _LINES * _ROUNDS:
        return False
    # What a sink has not committed when it is killed, it rightly writes again when it is back.
    committed = [each["offset"].get("kafka_offset") for each in worker.rest.offsets(connector.name)]
    return committed == [_LINES * _ROUNDS]


def source_position(worker: ConnectWorker, connector: str) -> int | None:
    """Return how far a file source has committed, in characters; ``None`` before it has."""
    positions = [each["offset"].get("position") for each in worker.rest.offsets(connector)]
    return positions[0] if len(positions) == 1 else None


def view_of(worker: ConnectWorker) -> ClusterView:
    """Return everything that REST says about all connectors."""
    rest = worker.rest
    expanded = rest.call("GET", "/connectors?expand=info&expand=status")
    return view_from_rest(
        expanded,
        {name: rest.topics(name) for name in expanded},
        {name: rest.offsets(name) for name in expanded},
    )


def capture(worker: ConnectWorker, expected: set[str]) -> ClusterView:
    """Return what REST says once two answers in a row are the same: then nothing is being written any more.

    Raises:
        EmbeddedError: that did not come about in time, or the worker has ended.
    """
    last: ClusterView | None = None
    for _ in until(lambda: "two equal answers of REST in a row", worker):
        view = view_of(worker)
        if set(view) != expected:
            last = None
            continue
        if view == last:
            return view
        last = view
    raise AssertionError("until raises")
