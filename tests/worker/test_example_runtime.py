"""The example runtime: its REST by clients of others, its workers killed, and Java before and after it."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count as numbers
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from kafka_connect import KafkaConnect

from connect_share import ConnectorTaskId, ConnectStorage, State, TaskStatus, WorkerConfig
from connect_share.jar import INTERCEPTOR_CLASS, jar_path
from connect_share.runtime import signature_headers
from connect_share.sealing import KEYS_PROPERTY
from tests.lab.compatibility.mixed_releases import RuntimeWorker
from tests.lab.compatibility.releases import BUILT
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.java_groups import EXACTLY_ONCE, file_source
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.runtime_workers import EXAMPLES
from tests.support.sealed import key_text
from tests.support.waiting import await_that

SHARING = {"connect.management.topic.sharing.support": "enabled"}
STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
FAST = {"session.timeout.ms": "12000", "heartbeat.interval.ms": "300", "rebalance.timeout.ms": "15000"}
JAR = SHARING | {"interceptor.classes": INTERCEPTOR_CLASS}
_MINUTES = float(os.environ.get("CONNECT_SHARE_SOAK_MINUTES", "0"))
Start = Callable[..., RuntimeWorker]


@pytest.fixture
def start(broker: TestBroker, unique: str, tmp_path: Path) -> Iterator[Start]:
    files = (tmp_path / f"{number}.properties" for number in numbers())
    with ExitStack() as stack:

        def start(**more: str) -> RuntimeWorker:
            properties = FAST | worker_properties(broker.bootstrap_servers, unique) | SHARING
            properties |= {name.replace("_", "."): value for name, value in more.items()}
            return stack.enter_context(RuntimeWorker(BUILT, write_properties(next(files), properties)))

        yield start


def lines_of(broker: TestBroker, topic: str, count: int, group: str = "lines", *, timeout_s: float = 180) -> list[str]:
    """The committed records of a topic, once there are so many, and none more for a second."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"{topic}-{group}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found: list[str] = []

    def read(timeout_s: float) -> int:
        # A message with an error is no record: the topic may not be there yet.
        found.extend(
            (each.value() or b"").decode() for each in consumer.consume(500, timeout_s) if each.error() is None
        )
        return len(found)

    try:
        await_that(lambda: read(0.2), lambda lines: lines >= count, what=f"{count} lines", timeout_s=timeout_s)
        read(1.0)
    finally:
        consumer.close()
    return found


def sink(file: Path, topic: str, tasks: int = 1) -> dict[str, str]:
    return {"connector.class": "FileStreamSink", "tasks.max": str(tasks), "file": str(file), "topics": topic}


def test_a_client_of_others_runs_its_connectors(start: Start, unique: str, tmp_path: Path) -> None:
    lines, copied = tmp_path / "in.txt", tmp_path / "out.txt"
    lines.write_text("one\ntwo\n")
    worker = start()
    client = KafkaConnect(worker.rest.url)
    assert client.get_cluster_info()["kafka_cluster_id"]
    assert {each["type"] for each in client.list_connector_plugins()} == {"source", "sink"}
    made = client.create_connector({"name": "read", "config": file_source(lines, f"{unique}-lines")})
    assert made["config"]["name"] == "read"
    client.update_connector("write", sink(copied, f"{unique}-lines", 2))
    assert sorted(client.list_connectors()) == ["read", "write"]
    worker.rest.await_state("read", "RUNNING", tasks=1)
    worker.rest.await_state("write", "RUNNING", tasks=2)
    await_that(lambda: copied.read_text() if copied.exists() else "", lambda text: text == "one\ntwo\n", what="copied")
    assert client.list_connector_topics("read") == {"read": {"topics": [f"{unique}-lines"]}}
    assert set(client.list_connectors(expand="status", state="RUNNING")) == {"read", "write"}
    # Paused, a task reads nothing.
    client.pause_connector("read")
    worker.rest.await_state("read", "PAUSED", tasks=1)
    with lines.open("a") as file:
        file.write("three\n")
    client.resume_connector("read")
    await_that(copied.read_text, lambda text: text.endswith("three\n"), what="resumed")
    client.restart_connector("write", include_tasks=True)
    client.restart_connector_task("read", 0)
    # Offsets of a stopped connector.
    worker.rest.call("PUT", "/connectors/read/stop")
    worker.rest.await_state("read", "STOPPED", tasks=0)
    (stored,) = worker.rest.offsets("read")
    assert stored == {"partition": {"filename": str(lines)}, "offset": {"position": 14}}
    worker.rest.alter_offsets("read", [stored | {"offset": {"position": 8}}])
    client.resume_connector("read")
    await_that(copied.read_text, lambda text: text == "one\ntwo\nthree\nthree\n", what="read again")
    # And of a sink: those of its consumer group.
    worker.rest.call("PUT", "/connectors/write/stop")
    worker.rest.await_state("write", "STOPPED", tasks=0)
    (committed,) = worker.rest.offsets("write")
    assert committed["offset"] == {"kafka_offset": 4}
    worker.rest.alter_offsets("write", [committed | {"offset": {"kafka_offset": 3}}])
    client.resume_connector("write")
    await_that(copied.read_text, lambda text: text == "one\ntwo\nthree\nthree\nthree\n", what="written again")
    with pytest.raises(Exception, match="409"):
        client.create_connector({"name": "read", "config": file_source(lines, "t")})
    client.delete_connector("read")
    client.delete_connector("write")
    assert await_that(client.list_connectors, lambda found: not found, what="deleted") == []
    worker.stop()
    assert worker.exit_code == 0


def answer(
    worker: RuntimeWorker, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> int:
    connection = http.client.HTTPConnection(worker.address, timeout=120)
    try:
        connection.request(method, path, body, dict(headers or {}))
        return connection.getresponse().status
    finally:
        connection.close()


def refuse_what_was_forwarded_to_the_wrong_worker(
    broker: TestBroker, unique: str, workers: Sequence[RuntimeWorker], name: str
) -> None:
    """A request that was forwarded goes no further, or two workers might send it to and fro."""
    properties = worker_properties(broker.bootstrap_servers, unique) | SHARING
    with ConnectStorage(WorkerConfig.from_properties(properties), allow_live_members=True) as storage:
        key = storage.config.snapshot().session_key
    assert key is not None
    body = b"{}"  # the leader looks at it, and refuses it
    signature = {"Content-Type": "application/json", **signature_headers(key.key, body)}
    tasks = [answer(worker, "POST", f"/connectors/{name}/tasks", body, signature) for worker in workers]
    assert sorted(tasks) == [400, 409, 409]
    signature = signature_headers(key.key, b"")
    follower = workers[tasks.index(409)]
    assert answer(follower, "PUT", f"/connectors/{name}/fence", b"", signature) == 409
    owner = workers[0].rest.status(name)["tasks"][0]["worker_id"]
    other = next(worker for worker in workers if worker.address != owner)
    path = f"/connectors/{name}/tasks/0/restart"
    assert answer(other, "POST", f"{path}?forward=false") == 409
    go_to_no_url_of_a_status(broker, unique, partial(answer, other, "POST", path), name)


def go_to_no_url_of_a_status(broker: TestBroker, unique: str, restart: Callable[[], int], name: str) -> None:
    """Whoever may write statuses says that the task is elsewhere."""
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        address = "127.0.0.1:{1}".format(*elsewhere.getsockname())
        settings = WorkerConfig.from_properties(worker_properties(broker.bootstrap_servers, unique) | SHARING)
        with ConnectStorage(settings, allow_live_members=True) as storage:
            storage.status.put(TaskStatus(ConnectorTaskId(name, 0), State.RUNNING, address, 0))
            storage.status.flush()
        assert await_that(restart, lambda found: found != 409, what="no rebalance") == 204
        elsewhere.setblocking(False)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


@pytest.mark.timeout(int(_MINUTES * 60) + 600)
def test_a_killed_worker_loses_nothing_and_repeats_nothing(
    start: Start, broker: TestBroker, unique: str, tmp_path: Path
) -> None:
    # Requests are signed with HmacSHA256 all the same: the algorithm of the signature is a setting of its own.
    exactly = {"exactly_once_source_support": "enabled", "inter_worker_key_generation_algorithm": "HmacSHA512"}
    workers = [start(**exactly) for _ in range(3)]
    names = [f"read-{number}" for number in range(4)]
    files = {name: tmp_path / f"{name}.txt" for name in names}
    with broker.admin() as admin:
        from connect_share.kafka.descriptions import NewTopicRequest

        admin.create_topic(NewTopicRequest(f"{unique}-lines", 1, 1))
    for number, name in enumerate(names):
        files[name].write_text("".join(f"{name} {line}\n" for line in range(50)))
        workers[number % 3].rest.put_config(name, file_source(files[name], f"{unique}-lines"))  # a follower forwards it
    for name in names:
        workers[0].rest.await_state(name, "RUNNING", tasks=1)

    def owners(worker: RuntimeWorker) -> set[str]:
        return {worker.rest.status(name)["tasks"][0]["worker_id"] for name in names}

    await_that(lambda: owners(workers[0]), lambda found: len(found) == 3, what="spread")
    refuse_what_was_forwarded_to_the_wrong_worker(broker, unique, workers, "read-0")
    end_s, count = time.monotonic() + 60 * _MINUTES, 50
    while count < 100 or time.monotonic() < end_s:
        for name in names:
            with files[name].open("a") as file:
                file.writelines(f"{name} {line}\n" for line in range(count, count + 50))
        count += 50
        # The first worker leads; in the long form then the next.
        workers.pop(0).kill()
        alive = {worker.address for worker in workers}
        await_that(lambda: owners(workers[-1]), lambda found: found <= alive, what="taken over")  # noqa: B023
        if LONG:
            workers.append(start(**exactly))
    for name in names:
        workers[0].rest.await_state(name, "RUNNING", tasks=1)
    lines = lines_of(broker, f"{unique}-lines", 4 * count)
    for name in names:
        assert [line for line in lines if line.startswith(name)] == [f"{name} {line}" for line in range(count)]
    assert len(lines) == 4 * count
    workers[0].stop()
    assert workers[0].exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("more", [{**EXACTLY_ONCE, KEYS_PROPERTY: key_text(7)}, *([{}] if LONG else [])])
def test_java_goes_on_where_it_ended_and_the_reverse(
    start: Start,
    broker: TestBroker,
    unique: str,
    tmp_path: Path,
    worker_factory: Callable[..., Any],
    more: dict[str, str],
) -> None:
    file, topic, own = tmp_path / "in.txt", f"{unique}-lines", {**STRINGS, **more}
    for turn, language in enumerate(("Python", "Java", "Python", *(("Java", "Python") if LONG else ())), 1):
        with file.open("a") as text:
            text.write(f"{turn}, read by {language}\n")
        if language == "Python":
            worker: Any = start(**own)
            if turn == 1:
                worker.rest.put_config("read", file_source(file, topic))
        else:
            properties = worker_properties(broker.bootstrap_servers, unique) | own | JAR
            worker = worker_factory(properties, class_path=(jar_path(),))
        worker.rest.await_state("read", "RUNNING", tasks=1)
        wanted = [{"position": file.stat().st_size}]
        await_that(lambda: [each["offset"] for each in worker.rest.offsets("read")], wanted.__eq__, what=language)  # noqa: B023
        worker.stop()
        broker.await_empty(unique)
        # Each line once, in order.
        assert lines_of(broker, topic, turn, f"turn-{turn}") == file.read_text().splitlines()


def refuse_what_a_page_in_a_browser_can_send(worker: RuntimeWorker) -> None:
    """Nor has it large bodies, and no task opens a device."""
    body = json.dumps({"name": "c", "config": file_source(Path("/dev/ptmx"), "t")}).encode()
    for found in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "", None):
        assert answer(worker, "POST", "/connectors", body, {} if found is None else {"Content-Type": found}) == 415
    as_json = {"Content-Type": "application/json; charset=utf-8"}
    assert answer(worker, "POST", "/connectors", b"[" + b"1," * 600_000, as_json) == 413
    assert worker.rest.connectors() == []
    for name in ("/dev/ptmx", "/dev/zero", "${file:/dev/ptmx:x}"):
        config = {"name": "c", **file_source(Path(name), "t")}
        assert answer(worker, "PUT", "/connectors/c/config", json.dumps(config).encode(), as_json) in {200, 201}
        await_that(
            partial(worker.rest.call, "GET", "/connectors?expand=status"),
            lambda found: "FAILED" in str(found),
            what=name,
        )
        worker.rest.call("DELETE", "/connectors/c")


def test_no_request_is_answered_with_an_error_of_the_server(start: Start, tmp_path: Path) -> None:
    """Schemathesis: what fits the schema, what does not, and deleted connectors, by its own choice."""
    worker = start()
    refuse_what_a_page_in_a_browser_can_send(worker)
    # What fits may be refused for other reasons, and what does not fit may be taken: Connect's configurations are free.
    unfit = "positive_data_acceptance,negative_data_rejection"
    schema = str(EXAMPLES / "runtime" / "openapi.json")
    command = [str(Path(sys.executable).with_name("st")), "run", schema, "--url", worker.rest.url]
    phases = "coverage,fuzzing" if LONG else "coverage"
    options = ["--exclude-checks", unfit, "--phases", phases, "--max-examples", "10", "--seed", "1"]
    options += ["--no-color", "--request-timeout", "120", "--warnings", "off", "--generation-database", "none"]
    ran = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-6000:] + worker.log_tail()
    worker.stop()
    assert worker.exit_code == 0
    assert "Traceback" not in worker.log()
