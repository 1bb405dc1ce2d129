"""The demo's input: records that unmodified Java workers of several Connect clusters write while they do real work."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

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
from tests.lab.embedded.worker import ConnectWorker, write_properties
from tests.lab.waiting import until

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
    """Wait until the brokers have noticed that the workers are gone."""
    wanted = set(groups)
    until(
        admin.connect_groups,
        lambda alive: not any(alive.get(group) for group in wanted),
        what=f"groups {', '.join(sorted(wanted))} without members",
        timeout_s=DEADLINE_S,
    )


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
    for connector in connectors:
        if connector.fate != "fails":
            done = partial(_is_done, worker, folder, connector)
            until(done, bool, what=f"the work of connector {connector.name!r}", timeout_s=DEADLINE_S)
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
    def accept(status: dict[str, Any]) -> bool:
        states = [task["state"] for task in status["tasks"]]
        return bool(status["connector"]["state"] == state and states == task_states)

    worker.rest.await_status(name, accept, what=f"{state} with tasks {task_states}")


def _is_done(worker: ConnectWorker, folder: Path, connector: Connector) -> bool:
    """Return whether a source has committed the end of its file, or a sink has written and committed its topic."""
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


def capture(worker: ConnectWorker, expected: set[str]) -> ClusterView:
    """Return what REST says once two answers in a row are the same: then nothing is being written any more."""
    last: ClusterView = {}

    def again() -> bool:
        nonlocal last
        before, last = last, view_from_rest(worker.rest)
        return set(last) == expected and last == before

    until(again, bool, what="two equal answers of REST in a row", timeout_s=DEADLINE_S)
    return last
