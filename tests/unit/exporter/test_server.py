"""Clients of the exporter that are slow on purpose: few, for a short time, and without a line in the log."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
        with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=180) as found:
            assert len(found.read()) > 12_000_000
        monkeypatch.setattr(server, "_ANSWER_S", 0.0)
        await_that(threads, lambda left: left == 0, what="those that are left have to go")
    assert capfd.readouterr() == ("", "")


class Slow(Collector):
    """An answer that takes its time, each time another."""

    def __init__(self) -> None:
        self.asked, self.goes_on = 0, threading.Event()

    def collect(self) -> Iterator[Metric]:
        self.asked += 1
        assert self.goes_on.wait(300)
        yield GaugeMetricFamily("asked", "x", value=self.asked)


def test_who_waits_takes_the_answer_that_is_made() -> None:
    metrics = Slow()
    metrics.goes_on.set()  # it is asked once when it is registered
    exporter = MetricsServer("127.0.0.1", 0, metrics, lambda: True)
    metrics.goes_on.clear()
    before = metrics.asked

    def scrape() -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=180) as found:
            return bytes(found.read())

    with ExitStack() as stack:
        stack.callback(exporter.close)
        scrapes = stack.enter_context(ThreadPoolExecutor(4))
        found = [scrapes.submit(scrape) for _ in range(4)]
        await_that(threads, lambda there: there == 4, what="all have come")
        metrics.goes_on.set()
        assert len({each.result() for each in found}) == 1
        assert metrics.asked == before + 1
        assert scrape() != found[0].result()  # who comes later has one of its own
