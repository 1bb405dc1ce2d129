"""The HTTP server of the exporter: ``/metrics`` and ``/-/healthy``."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from connect_share.errors import UsageError

_REQUEST_S: Final = 10.0

Respond = Callable[[str, list[tuple[str, str]]], Any]


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_S  # of one who connects and asks nothing

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the library
        """Log no line for each scrape."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class MetricsServer:
    """Answers scrapes in threads of its own until it is closed.

    Port 0 is any free one; ``is_healthy``: whether the metrics are of now.
    """

    def __init__(self, host: str, port: int, metrics: Collector, is_healthy: Callable[[], bool]) -> None:
        registry = CollectorRegistry()
        registry.register(metrics)
        answer: Callable[[dict[str, Any], Respond], Iterable[bytes]] = make_wsgi_app(registry)

        def app(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
            path = environ.get("PATH_INFO", "/")
            if path == "/metrics":
                return answer(environ, respond)
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
