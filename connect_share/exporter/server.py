"""The HTTP server of the exporter: ``/metrics`` and ``/-/healthy``."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any, Final, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from connect_share.errors import UsageError

_REQUEST_S: Final = 60.0
_ANSWER_S: Final = 30.0  # what ends by the time-out of its socket would be a traceback
_MOST_CLIENTS: Final = 8

_SINCE: Final = "connect_share.since_s"
_ASKED: Final = ("HTTP_ACCEPT", "HTTP_ACCEPT_ENCODING", "QUERY_STRING")
"""What the form of an answer depends on."""

Respond = Callable[[str, list[tuple[str, str]]], Any]


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_S  # of one who connects and asks nothing

    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), _SINCE: self.server.since_s(self.connection)}  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the library
        """Log no line for each scrape."""


class _Server(ThreadingMixIn, WSGIServer):
    """Slow clients take a few threads for a short time: when one more comes, the oldest has to go."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *args: Any, **options: Any) -> None:
        self._since: dict[socket.socket, float] = {}
        self._changed = threading.Condition()
        super().__init__(*args, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            while len(self._since) >= _MOST_CLIENTS:
                _cut_off(next(iter(self._since)))
                self._changed.wait()
            self._since[request] = time.monotonic()
        super().process_request(request, client_address)

    def since_s(self, request: Any) -> float:
        """Return when a client has come."""
        with self._changed:
            return self._since.get(request, time.monotonic())

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._since.pop(request, None)
            self._changed.notify()

    def service_actions(self) -> None:  # twice a second
        with self._changed:
            for request, since_s in self._since.items():
                if time.monotonic() - since_s > _ANSWER_S:
                    _cut_off(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing of clients that have gone."""


def _cut_off(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)  # its thread ends by that


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class _Answer(NamedTuple):
    ready_s: float
    asked: str
    head: list[Any]
    body: list[bytes]


class MetricsServer:
    """Answers scrapes in threads of its own until it is closed.

    Port 0 is any free one; ``is_healthy``: whether the metrics are of now.
    """

    def __init__(self, host: str, port: int, metrics: Collector, is_healthy: Callable[[], bool]) -> None:
        registry = CollectorRegistry()
        registry.register(metrics)
        answer: Callable[[dict[str, Any], Respond], Iterable[bytes]] = make_wsgi_app(registry)
        one_at_a_time, newest = threading.Lock(), _Answer(-1.0, "", [], [])

        def app(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
            nonlocal newest
            path = environ.get("PATH_INFO", "/")
            if path == "/metrics":
                with one_at_a_time:  # who waited takes the answer that was made meanwhile: slow ones would pile up
                    asked = str([environ.get(name) for name in _ASKED])
                    if newest.ready_s < environ[_SINCE] or newest.asked != asked:
                        head: list[Any] = []
                        body = [*answer(environ, lambda *status: head.extend(status))]
                        newest = _Answer(time.monotonic(), asked, head, body)
                    found = newest
                respond(*found.head)
                return found.body
            if path == "/-/healthy":
                status, text = ("200 OK", b"ok\n") if is_healthy() else ("503 Service Unavailable", b"not up\n")
            else:
                status, text = "404 Not Found", b"/metrics or /-/healthy\n"
            respond(status, [("Content-Type", "text/plain; charset=utf-8")])
            return [text]

        try:
            self._server = make_server(host, port, app, _ServerV6 if ":" in host else _Server, _Handler)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"--listen: {host}:{port} cannot be listened on ({reason}); choose another") from error
        self.port = int(self._server.server_port)
        self._thread = threading.Thread(target=self._server.serve_forever, name="exporter-http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no further requests."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_REQUEST_S)
