"""Real workers whose set-up is wrong stop before they read or write; an odd interceptor beside ours ends the worker alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.model.records import TopicType
from tests.lab.embedded.artifacts import class_path, ensure_artifacts
from tests.lab.embedded.java_program import compile_java
from tests.lab.embedded.worker import ConnectWorker
from tests.lab.plugin_jar import OLDEST_KAFKA
from tests.support.java_groups import JAR, SharedTopics, Start, file_source, put, write
from tests.support.long_forms import LONG
from tests.support.waiting import await_that

# What is wrong: a line of the worker file, and the words of the log that say what to do. tests/worker_plugin has every one;
# here it is how workers take one.
WRONG: dict[str, tuple[dict[str, str], str]] = {
    "illegal id": (
        {"group.id": "connector-{unique}"},
        "it starts with 'connector-', which is how keys of Connect begin; choose",
    ),
    "exactly once": (
        {"exactly.once.source.support": "enabled"},
        f"add the line producer.interceptor.classes={INTERCEPTOR_CLASS} to the worker file",
    ),
    "no jar": ({}, f"Class {INTERCEPTOR_CLASS} cannot be found"),
}
_MORE = dict.fromkeys(("3.9.2", "4.3.1"), tuple(WRONG)) if LONG else {}
CASES = {"2.8.2": ("illegal id",), "4.3.1": ("exactly once",)} | _MORE
STOPPED = "Topic sharing stopped: records could not be told apart by group"
JOINED = "Joined group at generation"
PLAIN = b'{"properties":{"connector.class":"FileStreamSource","name":"plain","topic":"none","file":"/none"}}'


def await_refusal(worker: ConnectWorker, words: str) -> None:
    """Wait for the words and for the end of REST; the later exit of 3.9 and 4.x, 40 s, is not waited for."""
    await_that(worker.log, lambda log: words in log, what=f"logged: {words}", timeout_s=120)
    await_that(worker.log, lambda log: "Uncaught exception in herder work thread, exiting" in log, what="given up")
    await_that(worker.rest.answers, lambda answers: not answers, what="without REST")
    assert "Herder started" not in worker.log()


@pytest.mark.parametrize("version", CASES)
def test_wrong_files_stop_the_worker(topics: SharedTopics, unique: str, worker_factory: Start, version: str) -> None:
    workers = {}
    for name in CASES[version]:
        lines = {key: value.format(unique=unique) for key, value in WRONG[name][0].items()}
        workers[name] = worker_factory(
            {**topics.properties(unique), **lines},
            version=version,
            class_path=() if name == "no jar" else JAR,
            wait=False,
        )
    for name, worker in workers.items():
        await_refusal(worker, WRONG[name][1])
        if version == "2.8.2":
            await_that(lambda worker=worker: worker.exit_code, lambda code: code == 1, what="ended with code 1")  # type: ignore[misc]
        worker.kill()
    for topic_type in TopicType:
        assert topics.records(topics.topic(topic_type)) == []


pytestmark = pytest.mark.xdist_group("plugin-refusals")


@pytest.fixture(scope="module")
def neighbour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the classes of another interceptor."""
    source = Path(__file__).parents[1] / "worker_plugin" / "java" / "neighbour" / "NeighbourInterceptor.java"
    classes = tmp_path_factory.mktemp("neighbour")
    compile_java([source], classes, class_path(ensure_artifacts(f"kafka-{OLDEST_KAFKA}")), release="1.8")
    return classes


def runs_on(status: dict[str, Any], url: str) -> bool:
    parts = [status["connector"], *status["tasks"]]
    return len(parts) == 2 and all(
        part["state"] == "RUNNING" and url.endswith(f"//{part['worker_id']}") for part in parts
    )


@pytest.mark.parametrize("version", ["4.3.1", *(["2.8.2", "3.9.2"] if LONG else [])])
def test_position_23(topics: SharedTopics, unique: str, worker_factory: Start, neighbour: Path, version: str) -> None:
    configs = topics.topic(TopicType.CONFIG)
    planted = [b"connector-plain", b"other.connector-throws"]
    write(topics.settings, configs, [(key, PLAIN) for key in planted])
    file = {**topics.properties(unique), "interceptor.classes": f"neighbour.NeighbourInterceptor,{INTERCEPTOR_CLASS}"}

    # An interceptor in front of ours that throws: Kafka goes on with what was polled, and ours still filters it.
    worker = worker_factory(file, version=version, class_path=(*JAR, neighbour))
    assert "the neighbour throws" in worker.log()
    assert worker.rest.connectors() == []
    put(worker, "mine", file_source("/none", f"{unique}-data"))
    worker.rest.await_state("mine", "RUNNING", tasks=1)
    assert worker.rest.connectors() == ["mine"]
    other = worker_factory(topics.properties(unique), version=version, class_path=JAR)
    settled = other.log().count(JOINED)

    # One that makes the keys what no internal client reads: nothing comes in any more, nothing goes out, the process ends.
    later = [b"other.connector-integers", b"connector-plain", f"{unique}.connector-unseen".encode()]
    write(topics.settings, configs, [(key, PLAIN) for key in later])
    await_that(lambda: worker.exit_code, lambda code: code == 1, what="ended with code 1")
    assert worker.log().count(STOPPED) == 1
    assert "keys of a shared topic are read as java.lang.Integer" in worker.log()

    # The rest of the group settles without it, and runs what it ran.
    put(other, "second", file_source("/none", f"{unique}-data"))
    for connector in ("mine", "second"):
        other.rest.await_status(connector, lambda status: runs_on(status, other.rest.url), what="running there")
    # One when the first has left, one or two for each that it hands on, two for the new connector: no storm.
    assert other.log().count(JOINED) - settled < 10
    other.kill()
    assert {key for _, key in topics.plain_keys()} == {b"connector-plain"}
