"""Clients of the exporter that are slow on purpose: few, for a short time, and without a line in the log."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from connect_share.exporter import server
from connect_share.exporter.server import MetricsServer
from tests.support.waiting import await_that


class Large(Collector):
    """An answer that no buffer of a socket takes whole."""

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("large", "x" * 12_000_000, value=1)


def threads() -> int:
    return sum("process_request_thread" in each.name for each in threading.enumerate())


@pytest.mark.parametrize("asks", [b"G", b"GET /metrics HTTP/1.0\r\n\r\n"], ids=["asks slowly", "reads nothing"])
def test_slow_clients_are_few_and_have_to_go(
    asks: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "_MOST_CLIENTS", 4)
    exporter = MetricsServer("127.0.0.1", 0, Large(), lambda: True)
    with ExitStack() as stack:
        stack.callback(exporter.close)
        clients = [stack.enter_context(socket.socket()) for _ in range(9)]
        for client in clients:
            client.connect(("127.0.0.1", exporter.port))
            client.sendall(asks)
            assert threads() <= 4
        with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=30) as found:
            assert len(found.read()) > 12_000_000
        monkeypatch.setattr(server, "_ANSWER_S", 0.0)
        await_that(threads, lambda left: left == 0, what="those that are left have to go")
    assert capfd.readouterr() == ("", "")
