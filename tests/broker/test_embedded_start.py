"""Ports are chosen before they are bound: another program may have one by then, and even answer on it."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import cluster as embedded_cluster
from tests.lab.cluster import ClusterNode, LocalCluster
from tests.lab.embedded import broker as embedded_broker
from tests.lab.embedded import worker as embedded_worker
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.worker import ConnectWorker, worker_properties
from tests.support.kafka import TestBroker

_LAST_WORDS = f"java.net.BindException: Address already in use; {'what is logged while it ends ' * 500}"


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have brokers be a shell script."""

    def instead(script: str) -> None:
        for kind in (LocalBroker, ClusterNode):
            monkeypatch.setattr(kind, "_format", lambda _: None)
        monkeypatch.setattr(LocalBroker, "_java", lambda *_: ["sh", "-c", script])

    return instead


def test_another_broker_that_answers_is_not_taken_for_ours(
    broker: TestBroker, no_java: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the port that ours was to bind; ours cannot know that yet, and runs."""
    taken = int(broker.bootstrap_servers.rpartition(":")[2])
    no_java("exec sleep 300")
    monkeypatch.setattr(embedded_broker, "free_ports", lambda count: [taken] * count)
    monkeypatch.setattr(embedded_broker, "_START_S", 0.5)
    local = LocalBroker()
    try:
        with pytest.raises(EmbeddedError, match="not ready within"):
            local.start()
    finally:
        local.close()


def test_brokers_that_lost_a_port_are_started_again_on_others(no_java: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker says of the port is far from the end of its log."""
    no_java(f"echo '{_LAST_WORDS}'; exit 1")
    chosen: list[int] = []

    def choose(count: int) -> list[int]:
        chosen.append(count)
        return list(range(1, count + 1))

    monkeypatch.setattr(embedded_cluster, "free_ports", choose)
    cluster = LocalCluster(3, controllers=3)
    try:
        with pytest.raises(EmbeddedError, match="Address already in use"):
            cluster.start()
    finally:
        cluster.close()
    # All at once: what is free after one broker has chosen may be what that has chosen.
    assert chosen == [9] * embedded_cluster._TRIES


class _Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def other_worker() -> Iterator[int]:
    """A port on which somebody says that all is well."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_another_worker_that_is_healthy_is_not_taken_for_ours(
    other_worker: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(embedded_worker, "free_ports", lambda count: [other_worker] * count)
    monkeypatch.setattr(embedded_worker, "java_arguments", lambda *_, **__: ["sleep", "300"])
    worker = ConnectWorker(worker_properties("127.0.0.1:1", "g"), libraries=tmp_path, wait=False)
    with worker, pytest.raises(EmbeddedError, match="not healthy within"):
        worker.await_healthy(timeout_s=0.5)
