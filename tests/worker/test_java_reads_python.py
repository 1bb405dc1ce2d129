"""A fresh Java worker takes over what the Python stores wrote with plain keys, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connect_share.admin import Admin, NewTopicRequest
from connect_share.embedded.worker import ConnectWorker, worker_properties
from connect_share.log import read_ranges
from connect_share.records import ConnectorTaskId, OffsetRange
from connect_share.state import ConnectorStatus, State, TargetState, TaskStatus
from connect_share.storage import ConnectStorage
from connect_share.worker_config import Isolation, WorkerConfig
from tests.support.waiting import await_that

pytestmark = [pytest.mark.broker, pytest.mark.worker]

SOURCE = "my.conn-1"
SINK = "größe-😀-日本"
STOPPED = "connector-x"
REMOVED = "gone.for-good-2"
REMOVED_BY_JSON_NULL = "gone.by-json-null"
TWO_TASKS = "with space:colon"
LINES = ["one", "two", "three", "four", "five"]
READ_BEFORE = len("one\ntwo\n")
PAUSED_OFFSET = 4


@dataclass
class Written:
    """What the Python stores wrote, and the worker that was started on it."""

    properties: dict[str, str]
    configs: dict[str, dict[str, str]]
    worker: ConnectWorker
    topic: str


def source_config(name: str, file: Path, topic: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic, "name": name}


def task_config(connector: dict[str, str], kind: str) -> dict[str, str]:
    task_class = f"org.apache.kafka.connect.file.FileStream{kind}Task"
    return {**connector, "task.class": task_class}


@pytest.fixture(params=["disabled", "enabled"])
def written(request: pytest.FixtureRequest, broker: Any, unique: str, tmp_path: Path) -> Iterator[Written]:
    properties = worker_properties(broker.bootstrap_servers, unique)
    properties["exactly.once.source.support"] = request.param
    topic = f"{unique}-lines"
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{line}\n" for line in LINES))
    configs = {
        SOURCE: source_config(SOURCE, lines, topic),
        TWO_TASKS: {**source_config(TWO_TASKS, tmp_path / "none.txt", topic), "tasks.max": "1"},
        STOPPED: source_config(STOPPED, lines, topic),
        SINK: {
            "connector.class": "FileStreamSink",
            "tasks.max": "1",
            "file": str(tmp_path / "out.txt"),
            "topics": topic,
            "name": SINK,
        },
    }
    config = WorkerConfig.from_properties(properties)
    settings = config.admin_settings()
    with Admin(settings, client_id=f"{unique}-test") as admin:
        admin.create_topic(NewTopicRequest(topic, 1, 1))
        try:
            write(config, configs)
            with ConnectWorker(properties) as worker:
                yield Written(properties, configs, worker, topic)
        finally:
            admin.delete_topics([topic, *(f"{unique}-{kind}" for kind in ("configs", "offsets", "status"))])


def write(config: WorkerConfig, configs: dict[str, dict[str, str]]) -> None:
    """Write four connectors, and two that are removed again."""
    with ConnectStorage(config) as storage:
        storage.config.claim_write_privileges()
        for name, connector in configs.items():
            state = TargetState.STOPPED if name == STOPPED else None
            storage.config.put_connector_config(name, connector, state)
            tasks = [] if name == STOPPED else [task_config(connector, "Sink" if name == SINK else "Source")]
            storage.config.put_task_configs(name, tasks)
            storage.status.put(ConnectorStatus(name, State.RUNNING, "python:1", 1))
        storage.config.put_target_state(SINK, TargetState.PAUSED)
        for name in (REMOVED, REMOVED_BY_JSON_NULL):
            storage.config.put_connector_config(name, {**configs[SOURCE], "name": name})
            storage.config.put_task_configs(name, [task_config(configs[SOURCE], "Source")])
        storage.config.remove_connector_config(REMOVED)
        storage.status.put(TaskStatus(ConnectorTaskId(SOURCE, 0), State.RUNNING, "python:1", 1))
        storage.status.flush()
        for name, position in ((SOURCE, READ_BEFORE), (STOPPED, PAUSED_OFFSET)):
            writer = storage.offset_writer(name)
            writer.offset({"filename": configs[name]["file"]}, {"position": position})
            assert writer.begin_flush()
            flush = writer.do_flush()
            assert flush is not None
            flush.result(30)
        # What a cluster group that shares topics writes as a removal, seen by an unmodified worker.
        for key in (f"connector-{REMOVED_BY_JSON_NULL}", f"target-state-{REMOVED_BY_JSON_NULL}"):
            storage.config._send(key.encode(), b"null").result(30)


def test_java_worker_restores_what_python_wrote(written: Written) -> None:
    rest = written.worker.rest
    assert sorted(rest.connectors()) == sorted(written.configs)
    for name, connector in written.configs.items():
        assert rest.config(name) == connector
    rest.await_state(SOURCE, "RUNNING", tasks=1)
    rest.await_state(SINK, "PAUSED", tasks=1)
    rest.await_state(STOPPED, "STOPPED", tasks=0)
    assert rest.tasks(SOURCE)[0]["config"] == task_config(written.configs[SOURCE], "Source")
    assert rest.tasks(STOPPED) == []
    assert rest.offsets(STOPPED) == [
        {"partition": {"filename": written.configs[STOPPED]["file"]}, "offset": {"position": PAUSED_OFFSET}}
    ]
    log = written.worker.log()
    assert "invalid key" not in log
    assert "couldn't be parsed" not in log

    # The source goes on behind the offset it was given, so the first two lines never come.
    config = WorkerConfig.from_properties(written.properties)
    await_that(lambda: lines_in(config, written.topic), lambda lines: len(lines) >= len(LINES) - 2, what="all read")
    assert lines_in(config, written.topic) == LINES[2:]
    rest.pause(SOURCE)
    rest.await_state(SOURCE, "PAUSED", tasks=1)
    expected = len("".join(f"{line}\n" for line in LINES))
    position = {"partition": {"filename": written.configs[SOURCE]["file"]}, "offset": {"position": expected}}
    await_that(lambda: rest.offsets(SOURCE), lambda offsets: offsets == [position], what="the offset committed")
    states = {name: rest.status(name)["connector"]["state"] for name in written.configs}

    # And Python believes what Java wrote on top.
    with ConnectStorage(config) as storage:
        state = storage.config.snapshot()
        assert state.connectors() == frozenset(written.configs)
        assert {name: state.connector_config(name) for name in written.configs} == written.configs
        assert state.target_state(SOURCE) is TargetState.PAUSED
        assert state.session_key is not None
        assert {name: seen.state.name for name in written.configs if (seen := storage.status.get(name))} == states
        filename = {"filename": written.configs[SOURCE]["file"]}
        assert storage.offset_reader(SOURCE).offset(filename) == {"position": expected}
        assert storage.status.snapshot().topics(SOURCE) == {written.topic}


def lines_in(config: WorkerConfig, topic: str) -> list[str]:
    """Read the topic the source writes to."""
    with Admin(config.admin_settings(), client_id="test") as admin:
        end = admin.end_offsets([(topic, 0)])[topic, 0]
    if end == 0:
        return []
    records = read_ranges(
        config.consumer_settings(),
        [OffsetRange(topic, 0, 0, end)],
        isolation=Isolation.READ_COMMITTED,
        client_id="test",
    )
    return [(record.value or b"").decode() for record in records]
