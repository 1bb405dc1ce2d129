"""One group in both languages one after the other: each goes on with exactly what the other has left.

With exactly-once also at the same time, which nobody should do: whoever claims last is the leader, and the other is told.
Plain keys and the newest worker; in ``make soak`` also 3.9.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import FencedError, LiveMembersError, PrivilegedWriteError, UsageError
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.config_state import TargetState
from connect_share.model.records import ConnectorTaskId, TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.storage import ConnectStorage
from connect_share.worker_config import Isolation, WorkerConfig
from tests.lab.embedded.rest import RestError, when_possible
from tests.lab.embedded.worker import ConnectWorker, worker_properties
from tests.support.flushes import flush_offsets
from tests.support.java_groups import LogLines, Start, file_source, put
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.topics import create_known, in_transaction, pairs_of, read_topic
from tests.support.waiting import await_that

SOURCE = "my.conn-1"
SINK = "größe-😀-日本"
STOPPED = "connector-x"
IDLE = "with space:colon"
REMOVED = "gone.for-good-2"
REMOVED_BY_JSON_NULL = "gone.by-json-null"
GHOST = "never.committed"
# Which of the two depends on the request that meets the new epoch first.
FENCED = re.compile(r"InvalidProducerEpochException|ProducerFencedException")
LINES = ["one", "two", "three", "four", "five"]


def size(lines: int) -> int:
    return len("".join(f"{line}\n" for line in LINES[:lines]))


@dataclass
class Group:
    """The group's worker file, its connectors and their data."""

    properties: dict[str, str]
    folder: Path
    topic: str
    second_topic: str
    version: str = "4.3.1"

    def __post_init__(self) -> None:
        self.config = WorkerConfig.from_properties(self.properties)
        self.file = self.folder / "lines.txt"
        self.file.write_text("".join(f"{line}\n" for line in LINES))
        self.configs = {
            SOURCE: self.source(SOURCE, self.file),
            IDLE: self.source(IDLE, self.folder / "none.txt"),
            STOPPED: self.source(STOPPED, self.file),
            SINK: {
                "connector.class": "FileStreamSink",
                "tasks.max": "1",
                "file": str(self.folder / "out.txt"),
                "topics": self.topic,
                # A worker that ends may not have closed its consumer, which then counts as alive for so long.
                "consumer.override.session.timeout.ms": "6000",
                # Captures have a sink of this name, too; tests of them ask this broker for its offsets.
                "consumer.override.group.id": f"{self.topic}-sink",
                "name": SINK,
            },
        }

    def source(self, name: str, file: Path) -> dict[str, str]:
        return file_source(file, self.topic, name=name)

    @property
    def exactly_once(self) -> bool:
        return self.properties["exactly.once.source.support"] == "enabled"

    def position(self, name: str, position: int) -> list[dict[str, Any]]:
        """A source's only offset, as REST gives it."""
        return [{"partition": {"filename": self.configs[name]["file"]}, "offset": {"position": position}}]

    def lines(self, topic: str) -> list[str]:
        with Admin(self.config.admin_settings(), client_id="tests") as admin:
            records = read_topic(admin, self.config.consumer_settings(), topic, Isolation.READ_COMMITTED)
        return [(record.value or b"").decode() for record in records]

    def await_lines(self, topic: str, lines: list[str]) -> None:
        await_that(lambda: self.lines(topic), lambda found: len(found) >= len(lines), what="read", timeout_s=120)
        assert self.lines(topic) == lines

    def await_position(self, worker: ConnectWorker, name: str, position: int) -> None:
        wanted = self.position(name, position)
        await_that(lambda: worker.rest.offsets(name), lambda found: found == wanted, what="committed", timeout_s=120)


_VERSIONS = ["4.3.1", *(["3.9.2"] if LONG else [])]


@pytest.fixture(params=product(_VERSIONS, ["disabled", "enabled"]), ids="-".join)
def group(request: pytest.FixtureRequest, broker: TestBroker, unique: str, tmp_path: Path) -> Group:
    version, exactly_once = request.param
    properties = {**worker_properties(broker.bootstrap_servers, unique), "exactly.once.source.support": exactly_once}
    group = Group(properties, tmp_path, f"{unique}-lines", f"{unique}-second", version)
    with broker.admin() as admin:
        for topic in (group.topic, group.second_topic):
            create_known(admin, NewTopicRequest(topic, 1, 1))
    return group


def task_config(connector: dict[str, str], kind: str) -> dict[str, str]:
    task_class = f"org.apache.kafka.connect.file.FileStream{kind}Task"
    return {**connector, "task.class": task_class}


def write_offset(storage: ConnectStorage, group: Group, name: str, position: int) -> None:
    writer = storage.offset_writer(name, transactional=False)  # no task of it runs yet
    flush_offsets(writer, ({"filename": group.configs[name]["file"]}, {"position": position}))


def python_begins(group: Group) -> None:
    """Write four connectors, and two that are removed again."""
    with ConnectStorage(group.config) as storage:
        storage.config.claim_write_privileges()
        for name, connector in group.configs.items():
            state = TargetState.STOPPED if name == STOPPED else None
            storage.config.put_connector_config(name, connector, state)
            tasks = [] if name == STOPPED else [task_config(connector, "Sink" if name == SINK else "Source")]
            storage.config.put_task_configs(name, tasks)
            storage.status.put(ConnectorStatus(name, State.RUNNING, "python:1", 1))
        storage.config.put_target_state(SINK, TargetState.PAUSED)
        for name in (REMOVED, REMOVED_BY_JSON_NULL):
            storage.config.put_connector_config(name, {**group.configs[SOURCE], "name": name})
            storage.config.put_task_configs(name, [task_config(group.configs[SOURCE], "Source")])
        storage.config.remove_connector_config(REMOVED)
        storage.status.put(TaskStatus(ConnectorTaskId(SOURCE, 0), State.RUNNING, "python:1", 1))
        storage.status.flush()
        write_offset(storage, group, SOURCE, size(2))
        write_offset(storage, group, STOPPED, 4)
        # What a cluster group that shares topics writes as a removal, seen by an unmodified worker.
        for key in (f"connector-{REMOVED_BY_JSON_NULL}", f"target-state-{REMOVED_BY_JSON_NULL}"):
            storage.config._send(key.encode(), b"null").result(120)


def java_goes_on(group: Group, worker: ConnectWorker) -> None:
    rest = worker.rest
    assert sorted(rest.connectors()) == sorted(group.configs)
    for name, connector in group.configs.items():
        assert rest.config(name) == connector
    rest.await_state(SOURCE, "RUNNING", tasks=1)
    rest.await_state(SINK, "PAUSED", tasks=1)
    rest.await_state(STOPPED, "STOPPED", tasks=0)
    assert rest.tasks(SOURCE)[0]["config"] == task_config(group.configs[SOURCE], "Source")
    assert rest.tasks(STOPPED) == []
    assert rest.offsets(STOPPED) == group.position(STOPPED, 4)
    # The source goes on behind the offset it was given, so the first two lines never come.
    group.await_lines(group.topic, LINES[2:])
    rest.pause(SOURCE)
    rest.await_state(SOURCE, "PAUSED", tasks=1)
    group.await_position(worker, SOURCE, size(5))


def python_believes_java(group: Group, worker: ConnectWorker) -> None:
    """Beside the live worker; what is written is refused."""
    rest = worker.rest
    states = {name: rest.status(name)["connector"]["state"] for name in group.configs}
    with ConnectStorage(group.config) as storage:
        state = storage.config.snapshot()
        assert state.connectors() == frozenset(group.configs)
        assert {name: state.connector_config(name) for name in group.configs} == group.configs
        assert state.target_state(SOURCE) is TargetState.PAUSED
        assert state.session_key is not None
        assert {name: seen.state.name for name in group.configs if (seen := storage.status.get(name))} == states
        filename = {"filename": str(group.file)}
        assert storage.offset_reader(SOURCE).offset(filename) == {"position": size(5)}
        assert storage.status.snapshot().topics(SOURCE) == {group.topic}
        with pytest.raises(LiveMembersError, match="1 live Connect workers"):
            storage.config.put_target_state(SOURCE, TargetState.STARTED)
        if group.exactly_once:
            with pytest.raises(LiveMembersError):
                storage.config.claim_write_privileges()


def abort(group: Group) -> None:
    """Leave an aborted transaction behind: a connector, and an offset."""
    ghost = f'{{"properties":{{"connector.class":"FileStreamSource","topic":"{group.topic}","name":"{GHOST}"}}}}'
    key = f'["{STOPPED}",{{"filename":"{group.file}"}}]'
    written = (
        (TopicType.CONFIG, f"target-state-{GHOST}", '{"state":"PAUSED","state.v2":"STOPPED"}'),
        (TopicType.CONFIG, f"connector-{GHOST}", ghost),
        (TopicType.OFFSET, key, '{"position":8}'),
    )
    records = [
        record
        for topic_type, name, value in written
        for record in pairs_of(group.config.topic(topic_type), [(name.encode(), value.encode())])
    ]
    producer = in_transaction(group.config.producer_settings(), f"{group.config.group_id}-somebody", records)
    producer.abort_transaction(120)
    producer.close()


def python_goes_on(storage: ConnectStorage, group: Group) -> None:
    """Change a configuration, pause a connector, write offsets."""
    storage.config.claim_write_privileges()
    group.configs[SOURCE] = {**group.configs[SOURCE], "topic": group.second_topic, "batch.size": "7"}
    storage.config.put_connector_config(SOURCE, group.configs[SOURCE])
    # A worker first starts the tasks it finds, and only then asks the connector for new ones.
    storage.config.put_task_configs(SOURCE, [task_config(group.configs[SOURCE], "Source")])
    storage.config.put_target_state(SOURCE, TargetState.STARTED)
    storage.config.put_target_state(SINK, TargetState.STARTED)
    storage.config.put_target_state(IDLE, TargetState.PAUSED)
    # It is to start with the next worker, and runs nowhere now.
    assert storage.alter_offsets(SOURCE, [({"filename": str(group.file)}, {"position": size(3)})], force=True) == 1
    assert storage.offset_reader(SOURCE).offset({"filename": str(group.file)}) == {"position": size(3)}


def java_goes_on_again(group: Group, worker: ConnectWorker) -> None:
    rest = worker.rest
    # Without exactly-once workers read uncommitted, and so do the stores: both believe what was aborted.
    extra = [] if group.exactly_once else [GHOST]
    assert sorted(rest.connectors()) == sorted([*group.configs, *extra])
    for name, connector in group.configs.items():
        assert rest.config(name) == connector
    rest.await_state(SOURCE, "RUNNING", tasks=1)
    rest.await_state(SINK, "RUNNING", tasks=1)
    rest.await_state(IDLE, "PAUSED", tasks=1)
    rest.await_state(STOPPED, "STOPPED", tasks=0)
    assert rest.offsets(STOPPED) == group.position(STOPPED, 4 if group.exactly_once else 8)
    group.await_lines(group.second_topic, LINES[3:])
    assert group.lines(group.topic) == LINES[2:]
    group.await_position(worker, SOURCE, size(5))
    assert rest.tasks(SOURCE)[0]["config"] == task_config(group.configs[SOURCE], "Source")
    out = group.folder / "out.txt"
    await_that(
        lambda: out.exists() and out.read_text().split(), lambda found: found == LINES[2:], what="sunk", timeout_s=120
    )


def lost(storage: ConnectStorage, name: str) -> None:
    """A write of a leader that was fenced fails, says why, and leaves nothing behind that others would wait for."""
    with pytest.raises(PrivilegedWriteError, match="claim write privileges again") as refused:
        storage.config.put_connector_config(name, {"name": name})
    assert isinstance(refused.value.__cause__, FencedError)
    with pytest.raises(PrivilegedWriteError, match="not claimed, or were lost"):
        storage.config.put_connector_config(name, {"name": name})
    storage.config.refresh(120)
    assert not storage.config.contains(name)


def who_claims_last_leads(storage: ConnectStorage, group: Group, worker: ConnectWorker) -> None:
    rest = worker.rest
    lost(storage, "lost.to-java")  # the worker has claimed at its start
    storage.config.put_target_state(IDLE, TargetState.PAUSED)  # needs no privileges

    storage.config.claim_write_privileges()
    # Both are paused: of a running connector the worker would write task configurations by itself, and claim again.
    group.configs[SINK] = {**group.configs[SINK], "errors.tolerance": "all"}
    storage.config.put_connector_config(SINK, group.configs[SINK])
    await_that(lambda: rest.config(SINK), lambda found: found == group.configs[SINK], what="obeyed")
    log = LogLines(worker)
    rest.pause(IDLE)  # needs no privileges there either
    with pytest.raises(RestError, match="Failed to write to config topic") as refused:
        rest.put_config(IDLE, {**group.configs[IDLE], "batch.size": "3"})
    assert refused.value.status == 500
    assert log.count("Failed to write to config topic as leader") == 1
    assert log.count("PrivilegedWriteException: Failed to perform fencable send to config topic") > 0
    assert FENCED.search(log.text())

    # The worker claims again by itself, if it still leads its group; then its request succeeds, and ours fails.
    group.configs[IDLE] = {**group.configs[IDLE], "batch.size": "4"}
    put(worker, IDLE, group.configs[IDLE])
    lost(storage, "lost.again")
    assert storage.config.snapshot().connector_config(IDLE) == group.configs[IDLE]
    assert sorted(rest.connectors()) == sorted(group.configs)


def a_running_task_is_fenced(storage: ConnectStorage, group: Group, worker: ConnectWorker) -> None:
    position = ({"filename": str(group.file)}, {"position": size(4)})
    with pytest.raises(UsageError, match="is not stopped"):
        storage.alter_offsets(SOURCE, [position])
    storage.alter_offsets(SOURCE, [position], force=True)
    with group.file.open("a") as file:
        file.write("six\n")

    def failed(status: dict[str, Any]) -> bool:
        return [task["state"] for task in status["tasks"]] == ["FAILED"]

    status = worker.rest.await_status(SOURCE, failed, what="fenced")
    assert FENCED.search(status["tasks"][0]["trace"])
    assert group.lines(group.second_topic) == LINES[3:]  # what it wrote was aborted
    when_possible(lambda: worker.rest.restart(SOURCE, tasks=True))
    group.await_lines(group.second_topic, [*LINES[3:], LINES[4], "six"])


def test_each_goes_on_with_what_the_other_left(broker: TestBroker, group: Group, worker_factory: Start) -> None:
    python_begins(group)
    worker = worker_factory(group.properties, version=group.version)
    java_goes_on(group, worker)
    python_believes_java(group, worker)
    worker.stop()
    broker.await_empty(group.config.group_id)
    abort(group)
    # Kept open while the worker starts: then it is told, too.
    with ConnectStorage(group.config, allow_live_members=group.exactly_once) as storage:
        assert storage.config.contains(GHOST) == (not group.exactly_once)
        python_goes_on(storage, group)
        worker.start()
        java_goes_on_again(group, worker)
        worker.rest.pause(SINK)
        storage.config.refresh(120)
        assert storage.config.snapshot().target_state(SINK) is TargetState.PAUSED
        if group.exactly_once:
            who_claims_last_leads(storage, group, worker)
            a_running_task_is_fenced(storage, group, worker)
        else:

            def write() -> str:
                try:
                    storage.config.put_logger_level("nobody", "INFO")
                except LiveMembersError as error:
                    return str(error)
                return ""

            await_that(write, what="refused")  # what is known of members is five seconds old at most
    log = worker.log()
    assert "invalid key" not in log
    assert "couldn't be parsed" not in log
