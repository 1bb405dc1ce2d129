"""Ports are chosen before they are bound: another program may have one by then, and even answer on it."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.embedded import broker as embedded_broker
from tests.lab.embedded import worker as embedded_worker
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.worker import ConnectWorker, worker_properties
from tests.support.kafka import TestBroker


def test_another_broker_that_answers_is_not_taken_for_ours(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the port that ours was to bind; ours cannot know that yet, and runs."""
    taken = int(broker.bootstrap_servers.rpartition(":")[2])
    monkeypatch.setattr(LocalBroker, "_format", lambda _: None)
    monkeypatch.setattr(LocalBroker, "_java", lambda *_: ["sleep", "300"])
    monkeypatch.setattr(embedded_broker, "free_ports", lambda count: [taken] * count)
    monkeypatch.setattr(embedded_broker, "_START_S", 0.5)
    local = LocalBroker()
    try:
        with pytest.raises(EmbeddedError, match="not ready within"):
            local.start()
    finally:
        local.close()


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
