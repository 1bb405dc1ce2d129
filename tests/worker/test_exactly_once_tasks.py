"""A source task of a Java worker and of Python by turns, in transactions: no line twice, none lost, whoever is killed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from connect_share import ConnectStorage, FencedError, WorkerConfig
from connect_share.stores.task_offset_writer import TaskOffsetWriter
from connect_share.worker_config import Isolation
from tests.lab.embedded.rest import when_possible
from tests.support.java_groups import EXACTLY_ONCE, JAR, SharedTopics, Start, put
from tests.support.long_forms import LONG
from tests.support.waiting import await_that

NAME = "my.conn"
FENCED = re.compile(r"InvalidProducerEpochException|ProducerFencedException")
# Copies five lines and commits, sends the others, and waits in that transaction until it is killed.
TASK = """
import json, sys
from connect_share import ConnectStorage, WorkerConfig
from tests.worker.test_exactly_once_tasks import NAME, copy
properties, topic, file = json.loads(sys.stdin.readline())
with ConnectStorage(WorkerConfig.from_properties(properties), allow_live_members=True) as storage:
    with storage.task_offset_writer(NAME, 0) as writer:
        copy(storage, writer, file, topic, most=5)
        copy(storage, writer, file, topic, commits=False)
        writer._producer._producer.flush()
        print("in a transaction", flush=True)
        sys.stdin.read()
"""


def lines(first: int, last: int) -> list[bytes]:
    return [b"line %d" % number for number in range(first, last)]


def append(file: Path, first: int, last: int) -> None:
    with file.open("ab") as text:
        text.writelines(line + b"\n" for line in lines(first, last))


def copy(
    storage: ConnectStorage, writer: TaskOffsetWriter, file: str, topic: str, *, most: int = 1_000, commits: bool = True
) -> None:
    """Do what ``FileStreamSourceTask`` does, from where its offset is."""
    offset = storage.offset_reader(NAME).offset({"filename": file})
    with Path(file).open("rb") as text:
        text.seek(0 if offset is None else offset["position"])
        for _ in range(most):
            line = text.readline()
            if not line:
                break
            writer.send(topic, line.rstrip())
            writer.offset({"filename": file}, {"position": text.tell()})
    if commits:
        writer.commit()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", *(["3.9.2"] if LONG else [])])
def test_java_and_python_take_turns_with_one_task(
    topics: SharedTopics, worker_factory: Start, tmp_path: Path, version: str
) -> None:
    topic, file = topics.create_data_topic("data"), tmp_path / "in.txt"
    properties = {**topics.properties(topics.group("com.acme.tasks")), **EXACTLY_ONCE}
    connector = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic}
    append(file, 0, 20)

    def committed() -> list[bytes | None]:
        return [record.value for record in topics.records(topic, isolation=Isolation.READ_COMMITTED)]

    def await_committed(last: int) -> None:
        await_that(committed, lambda found: found == lines(0, last), what=f"{last} committed", timeout_s=120)

    # Java commits, then is killed in a transaction that would stay open for long.
    worker = worker_factory(properties, version=version, class_path=JAR)
    put(worker, NAME, connector)
    await_committed(20)
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "600000"}
    put(worker, NAME, {**connector, **interval})
    append(file, 20, 30)
    await_that(lambda: len(topics.records(topic)), lambda found: found == 30, what="sent by Java", timeout_s=120)
    worker.kill()

    # So is Python, after five more lines.
    command = [sys.executable, "-c", TASK]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([properties, topic, str(file)]) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "in a transaction\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL

    with ConnectStorage(WorkerConfig.from_properties(properties), allow_live_members=True) as storage:
        storage.config.claim_write_privileges()
        task = storage.config.snapshot().task_config(storage.config.snapshot().tasks(NAME)[0])
        assert task is not None
        storage.config.put_task_configs(NAME, [task])
        storage.fence_zombie_source_tasks(NAME)
        writer = storage.task_offset_writer(NAME, 0)
        writer.claim()
        copy(storage, writer, str(file), topic)
        await_committed(30)  # a commit is acknowledged before its markers are written
        writer.send(topic, b"of a zombie")

        # Java fences Python, and goes on from its offset.
        worker.start()
        put(worker, NAME, connector)
        for last in (35, 40):  # the first may be committed by the task with the long interval, when it is stopped
            append(file, last - 5, last)
            await_committed(last)
        with pytest.raises(FencedError, match=r"task 'my\.conn-0' cannot write any more"):
            writer.commit()

        # And Python Java.
        storage.fence_tasks(NAME, 1)
        append(file, 40, 50)

        def failed(status: dict[str, Any]) -> bool:
            return [task["state"] for task in status["tasks"]] == ["FAILED"]

        status = worker.rest.await_status(NAME, failed, what="fenced")
        assert FENCED.search(status["tasks"][0]["trace"])
        when_possible(lambda: worker.rest.restart(NAME, tasks=True))
        await_committed(50)
        assert storage.offset_reader(NAME).offset({"filename": str(file)}) == {"position": file.stat().st_size}
    assert topics.plain_keys() == []
