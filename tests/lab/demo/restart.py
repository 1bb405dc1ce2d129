"""The second start of the same Java workers: on the shared topics with the jar, nothing else changed.

Differences are named without values: neither configurations nor offsets nor lines are in the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

from connect_share.jar import jar_path
from connect_share.kafka.admin import Admin
from connect_share.model.keys import split_key
from connect_share.model.records import TopicType
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig, load_properties
from tests.lab.compatibility.worker_log import read_log
from tests.lab.demo.clusters import PASSWORD, SEALED_GROUP, data_file
from tests.lab.demo.result import DataAgain, GroupAgain, SealedGroup, SegmentSearch, SharedTopic
from tests.lab.demo.views import GroupComparison, compare_views, states_alone, view_from_rest, view_from_storage
from tests.lab.demo.workers import DEADLINE_S, Captured, capture, source_position
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.worker import ConnectWorker
from tests.lab.waiting import until
from tests.support.topics import read_topic

T = TypeVar("T")

Place = tuple[Literal["data topic", "file of sink"], str]

DataState = Mapping[Place, Sequence[bytes | None]]
"""What connectors have moved so far: values of data topics (one partition each), and lines of sinks' files."""


def run_again(captured: Sequence[Captured], admin: Admin, work: Path, say: Callable[[str], None]) -> list[GroupAgain]:
    """Start all workers again side by side, let each do one more piece of work, and stop them in order.

    What is not as it should be is in the result, by name.
    """
    before = [_data_state(admin, each) for each in captured]
    # Left in this order: workers first, which ends the threads that wait for them, also after Ctrl-C.
    with ThreadPoolExecutor(len(captured)) as threads, ExitStack() as stack:
        workers = []
        for each in captured:
            properties = load_properties(each.shared_worker_file)  # the worker itself gets the keys
            workers.append(stack.enter_context(ConnectWorker(properties, class_path=(jar_path(),), wait=False)))
        try:
            say(f"{len(workers)} workers started with {jar_path().name}")
            runs = list(threads.map(_run_cluster, [admin] * len(captured), captured, workers))
        finally:
            with ThreadPoolExecutor(len(workers)) as stopping:
                list(stopping.map(ConnectWorker.stop, workers))
            logs = [worker.log() for worker in workers]
            for each, log in zip(captured, logs, strict=True):
                (work / f"worker-{each.cluster.group_id}-shared.log").write_text(log, encoding="utf-8")
    found = []
    for each, data, (group, started, appended), log in zip(captured, before, runs, logs, strict=True):
        # Looked at when all have been stopped: nothing comes late any more.
        others = [other.cluster.group_id for other in captured if other is not each]
        checks = {
            "data": _compare_data(data, started, _data_state(admin, each), appended),
            "foreign_log_lines": read_log(log, others).foreign,
        }
        found.append(group.model_copy(update=checks))
        say(f"{each.cluster.group_id}: {len(group.restart.connectors)} connectors back after {group.seconds:.1f} s")
    return found


def compare_stores(captured: Captured, *, allow_live_members: bool = False) -> GroupComparison:
    """Start the Python stores of a group on the shared topics, and compare them with what REST said."""
    worker = WorkerConfig.from_file(captured.shared_worker_file)
    with ConnectStorage(worker, allow_live_members=allow_live_members) as storage:
        return compare_views(captured.cluster.group_id, captured.view, view_from_storage(storage))


def look_at_shared_topics(captured: Captured, admin: Admin) -> list[SharedTopic]:
    """Read the three shared topics whole and count the keys without a group's prefix.

    Raises:
        BrokerError, ReadToEndTimeoutError: a topic could not be read.
    """
    worker = WorkerConfig.from_file(captured.shared_worker_file)
    found = []
    for topic_type in TopicType:
        topic = worker.topic(topic_type)
        keys = [split_key(topic_type, record.key) for record in read_topic(admin, worker.client_settings(), topic)]
        plain = sum(each is None or each[0] is None for each in keys)
        found.append(SharedTopic(topic=topic, records=len(keys), plain_keys=plain))
    return found


def look_at_sealed_group(captured: Sequence[Captured], data_folder: Path) -> SealedGroup:
    """Look for the password of the sealed group's connector on the broker's disk."""
    (sealed,) = (each for each in captured if each.cluster.group_id == SEALED_GROUP)
    dedicated, shared = (
        _search_segments(data_folder, {worker.topic(topic_type) for topic_type in TopicType}, PASSWORD.encode())
        for worker in map(WorkerConfig.from_file, (sealed.worker_file, sealed.shared_worker_file))
    )
    return SealedGroup(cluster_group_id=SEALED_GROUP, dedicated=dedicated, shared=shared)


def _search_segments(data_folder: Path, topics: Collection[str], text: bytes) -> SegmentSearch:
    """Return how many segment files of topics there are, and how many of them hold a text; none may be compressed."""
    found = [
        text in segment.read_bytes()
        for partition in data_folder.iterdir()
        if partition.name.rpartition("-")[0] in topics
        for segment in partition.glob("*.log")
    ]
    return SegmentSearch(files=len(found), with_text=sum(found))


def _run_cluster(
    admin: Admin, captured: Captured, worker: ConnectWorker
) -> tuple[GroupAgain, DataState, dict[Place, bytes]]:
    """Return what was seen without what became of the data, the data after the start, and the lines appended since."""
    began_s = time.monotonic()
    worker.await_healthy()
    name, worker_id = captured.cluster.group_id, worker.rest.url.removeprefix("http://")
    # The worker that runs now writes statuses anew: their states are compared, and who wrote them.
    before = states_alone(captured.view, worker_id)
    restart = _await(
        lambda: compare_views(name, before, states_alone(view_from_rest(worker.rest))),
        lambda seen: seen.equal,
        worker,
        f"group {name} to be what it was",
    )
    seconds = round(time.monotonic() - began_s, 2)
    started = _data_state(admin, captured)
    appended = _append_lines(captured)
    _await(lambda: _all_arrived(admin, captured, worker, appended), bool, worker, f"the new lines of group {name}")
    now = capture(worker, {line.connector for line in restart.connectors if line.found is not None})
    stores = compare_stores(replace(captured, view=now), allow_live_members=True)
    group = GroupAgain(seconds=seconds, restart=restart, data=(), stores=stores, foreign_log_lines=0)
    return group, started, appended


def _await(ask: Callable[[], T], accept: Callable[[T], bool], worker: ConnectWorker, what: str) -> T:
    def answer() -> T:
        if not worker.running:
            raise EmbeddedError(f"a worker ended with exit code {worker.exit_code}: {worker.log()[-2_000:]}")
        return ask()

    return until(answer, accept, what=what, timeout_s=DEADLINE_S)


def _append_lines(captured: Captured) -> dict[Place, bytes]:
    """Append a line to the file of each running source; return the places where it has to arrive."""
    running = [connector for connector in captured.cluster.connectors if connector.fate == "runs"]
    appended: dict[Place, bytes] = {}
    for connector in running:
        if connector.kind == "source":
            line = f"{connector.topic} appended after the move"
            with data_file(captured.folder, connector).open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            appended["data topic", connector.topic] = line.encode()
    for connector in running:
        if connector.kind == "sink" and (line_of_topic := appended.get(("data topic", connector.topic))):
            appended["file of sink", connector.name] = line_of_topic
    return appended


def _all_arrived(admin: Admin, captured: Captured, worker: ConnectWorker, appended: Mapping[Place, bytes]) -> bool:
    """Return whether each line is the last one in its places, and the sources have committed it."""
    data = _data_state(admin, captured)
    return all(data[place][-1:] == [line] for place, line in appended.items()) and all(
        source_position(worker, connector.name) == data_file(captured.folder, connector).stat().st_size
        for connector in captured.cluster.connectors
        if connector.kind == "source" and connector.fate == "runs"
    )


def _data_state(admin: Admin, captured: Captured) -> DataState:
    settings = WorkerConfig.from_file(captured.shared_worker_file).client_settings()
    found: dict[Place, Sequence[bytes | None]] = {
        ("data topic", topic): [record.value for record in read_topic(admin, settings, topic)]
        for topic in sorted({connector.topic for connector in captured.cluster.connectors})
    }
    for connector in captured.cluster.connectors:
        if connector.kind == "sink":
            file = data_file(captured.folder, connector)
            found["file of sink", connector.name] = file.read_bytes().splitlines() if file.exists() else []
    return found


def _compare_data(
    before: DataState, started: DataState, at_end: DataState, appended: Mapping[Place, bytes]
) -> tuple[DataAgain, ...]:
    """Check that nothing was read twice, and that each line arrived exactly once: the old content is there, then the line.

    Args:
        before: when the workers were gone.
        started: when they were back.
        at_end: when they had been stopped again.
        appended: the line that has to arrive at a place, without its end.
    """
    found = []
    for place, old in before.items():
        kind, name = place
        wanted, since = appended.get(place), at_end[place][len(old) :]
        hits = 0 if wanted is None else since.count(wanted)
        differences = [] if started[place] == old else ["changed by the start"]
        if at_end[place][: len(old)] != old:
            differences.append("what was in it before is not in it any more")
        if wanted is not None and hits != 1:
            differences.append(f"the appended line arrived {hits} times")
        if others := len(since) - hits:
            differences.append(f"{others} lines that were not appended")
        found.append(
            DataAgain(
                kind=kind,
                name=name,
                before=len(old),
                after_start=len(started[place]),
                at_end=len(at_end[place]),
                lines_appended=int(wanted is not None),
                lines_arrived=hits,
                differences=tuple(differences),
            )
        )
    return tuple(found)
