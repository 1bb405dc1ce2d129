"""A broker that clients reach through a proxy which delays every byte, both ways.

usage: python -m tests.lab.benchmarks.startup.delay LISTEN_PORT BROKER_PORT MILLISECONDS   (until its input is closed)
"""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time
from contextlib import ExitStack, suppress
from typing import Final

from tests.lab.benchmarks.frame import READY, running
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.ports import free_ports

_MODULE: Final = "tests.lab.benchmarks.startup.delay"
_CHUNK: Final = 1 << 16


class DelayedBroker(LocalBroker):
    """A broker in so many milliseconds' distance, one way."""

    def __init__(self, delay_ms: float) -> None:
        super().__init__("bench")
        self._delay_ms = delay_ms
        self._port = free_ports(1)[0]
        self._stack = ExitStack()

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of the proxy."""
        return f"127.0.0.1:{self._port}"

    def broker_properties(self) -> dict[str, str]:
        """Return settings by which clients are sent to the proxy."""
        properties = super().broker_properties()
        direct, advertised = f"127.0.0.1:{self._ports[0]}", properties["advertised.listeners"]
        return {**properties, "advertised.listeners": advertised.replace(direct, self.bootstrap_servers)}

    def _await_start(self) -> None:
        super()._await_start()
        self._stack.enter_context(running(_MODULE, self._port, self._ports[0], self._delay_ms))

    def close(self) -> None:
        """End the proxy, and the broker."""
        self._stack.close()
        super().close()


def _pass_on(source: socket.socket, sink: socket.socket, delay_s: float) -> None:
    """Start threads that send what comes, in its order, each piece when its time has come."""
    waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def receive() -> None:
        data = b"-"
        while data:
            data = b""
            with suppress(OSError):
                data = source.recv(_CHUNK)
            waiting.put((time.monotonic() + delay_s, data))

    def send() -> None:
        with suppress(OSError):
            while True:
                due_s, data = waiting.get()
                time.sleep(max(0.0, due_s - time.monotonic()))
                if not data:
                    sink.shutdown(socket.SHUT_RDWR)
                    return
                sink.sendall(data)

    for work in (receive, send):
        threading.Thread(target=work, daemon=True).start()


def main(argv: list[str]) -> int:
    """Pass connections on until standard input ends."""
    listen, broker, delay_s = int(argv[0]), int(argv[1]), float(argv[2]) / 1e3

    def accept(server: socket.socket) -> None:
        while True:
            client, _ = server.accept()
            upstream = socket.create_connection(("127.0.0.1", broker))
            for each in (client, upstream):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _pass_on(client, upstream, delay_s)
            _pass_on(upstream, client, delay_s)

    with socket.create_server(("127.0.0.1", listen), backlog=128) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        print(READY, flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
