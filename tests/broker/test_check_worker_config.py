"""``check worker-config`` looks at the group's own connectors, on shared topics and on ones not yet moved."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from connect_share import ConnectStorage, WorkerConfig
from connect_share.jar import INTERCEPTOR_CLASS, jar_path
from connect_share.model.connect_json import dumps
from connect_share.model.keys import prefix_key
from connect_share.worker_config import SHARING_PROPERTY
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.console import console
from tests.support.java_groups import write
from tests.support.kafka import TestBroker

LIST = "interceptor.classes"
LINES = {SHARING_PROPERTY: "enabled", LIST: INTERCEPTOR_CLASS, "connector.client.config.override.policy": "All"}
EXACTLY_ONCE = {
    "exactly.once.source.support": "enabled",
    **{f"{kind}.{LIST}": INTERCEPTOR_CLASS for kind in ("producer", "consumer")},
}
PRODUCER, CONSUMER = (f"{kind}.override.{LIST}" for kind in ("producer", "consumer"))
SOURCE = {"connector.class": "FileStreamSource", "secret": "zebra"}
EVIL = "\u202eevil\x1b[2J"


class Cluster:
    """A group's worker file, its connectors and what is said of them."""

    def __init__(self, broker: TestBroker, topics: str, group: str, folder: Path, capsys: Any) -> None:
        self._properties = worker_properties(broker.bootstrap_servers, group, topics)
        self._settings = broker.client_settings
        self._file = folder / f"{group}.properties"
        self._capsys = capsys

    def put(self, connectors: Mapping[str, Mapping[str, str]], *, sharing: bool = True, fenced: str = "") -> None:
        given = {**self._properties, SHARING_PROPERTY: "enabled" if sharing else "disabled"}
        with ConnectStorage(WorkerConfig.from_properties(given), allow_empty=True) as storage:
            for name, config in connectors.items():
                if name == EVIL:  # the store refuses such a name, a topic does not
                    key = prefix_key(given["group.id"], f"connector-{name}".encode())
                    write(self._settings, given["config.storage.topic"], [(key, dumps({"properties": config}))])
                else:
                    storage.config.put_connector_config(name, config)
            if fenced:
                storage.config.put_task_count_record(fenced, 1)

    def check(self, *words: str, **more: str) -> tuple[int, str, str]:
        write_properties(self._file, {**self._properties, **LINES, **more})
        ran = console(self._capsys)("check", "worker-config", self._file, "--libs", jar_path().parent, *words)
        assert "zebra" not in ran.out + ran.err
        return ran.code, ran.out, ran.err

    def found(self, **more: str) -> tuple[int, int | None, set[tuple[str, str, str]]]:
        """Exit code, connectors checked, and what was found in which."""
        code, out, _ = self.check("--output", "json", **more)
        result = json.loads(out)
        findings = {
            (one["severity"], one["connector"], one["property"]) for one in result["findings"] if one["connector"]
        }
        return code, result["connectors"], findings


@pytest.fixture
def cluster(broker: TestBroker, unique: str, tmp_path: Path, capsys: Any) -> Callable[..., Cluster]:
    def make(group: str = "") -> Cluster:
        return Cluster(broker, unique, unique + group, tmp_path, capsys)

    return make


def test_connectors_of_the_group_on_shared_topics(cluster: Any, unique: str) -> None:
    ours, others = cluster(), cluster(".orders")
    worse = {**SOURCE, PRODUCER: "com.other.Tracing", "offsets.storage.topic": f"{unique}-status"}
    others.put({"theirs": worse})
    ours.put({"plain": worse}, sharing=False)  # an old worker's on the same topics
    ours.put(
        {
            "fine": {**SOURCE, PRODUCER: f"com.other.Tracing,{INTERCEPTOR_CLASS}"},
            EVIL: {**SOURCE, PRODUCER: "com.other.Tracing"},
            "reader": {**SOURCE, CONSUMER: ""},
            "sink": {"connector.class": "FileStreamSink", "topics": "a", CONSUMER: "com.other.Tracing"},
            "mirror": {"connector.class": "MirrorSource", "topics": "a", CONSUMER: "com.other.Tracing"},
            "own": {**SOURCE, "offsets.storage.topic": f"{unique}-own", PRODUCER: "com.other.Tracing"},
            "mixed": {**SOURCE, "offsets.storage.topic": f"{unique}-offsets"},
            "lost": {**SOURCE, "offsets.storage.topic": f"{unique}-configs"},
        },
        fenced="mirror",
    )
    lost = ("error", "lost", "offsets.storage.topic")
    replaced = {
        lost,
        ("error", EVIL, PRODUCER),
        ("error", "reader", CONSUMER),
        ("error", "mirror", CONSUMER),
        ("warning", "sink", CONSUMER),
    }
    assert ours.found(**EXACTLY_ONCE) == (1, 8, replaced)
    assert ours.found() == (1, 8, {lost, ("error", "mixed", "offsets.storage.topic")})
    code, out, err = ours.check(**EXACTLY_ONCE)
    assert (code, err) == (1, "")
    assert f"error: connector '\\u202eevil\\x1b[2J': {PRODUCER} replaces the worker's interceptor" in out
    assert out.endswith("; 8 connectors checked\n")
    code, out, _ = ours.check()
    assert code == 1
    assert "error: connector 'mixed': offsets.storage.topic names the worker's own offset topic" in out
    assert f"\nproducer.{LIST}={INTERCEPTOR_CLASS}\nconsumer.{LIST}={INTERCEPTOR_CLASS}\n" in out
    assert "looked at" not in ours.check("--offline", **EXACTLY_ONCE)[1]


def test_connectors_on_topics_not_yet_moved(cluster: Any) -> None:
    group = cluster()
    group.put({"one": {**SOURCE, PRODUCER: "com.other.Tracing"}, "two": SOURCE}, sharing=False)
    assert group.found(**EXACTLY_ONCE) == (1, 2, {("error", "one", PRODUCER)})
    assert group.found() == (0, 2, set())
    # What is not switched on yet has plain keys for certain.
    assert group.found(**EXACTLY_ONCE, **{SHARING_PROPERTY: "disabled"}) == (1, 2, {("error", "one", PRODUCER)})
    cluster(".other").put({"three": SOURCE})
    assert group.found(**EXACTLY_ONCE) == (0, 0, set())


def test_topics_that_are_not_there(cluster: Any, unique: str) -> None:
    code, out, err = cluster().check(**EXACTLY_ONCE)
    assert code == 0
    assert "looked at" not in out
    assert f"connectors were not checked: topic {unique}-configs does not exist" in err
