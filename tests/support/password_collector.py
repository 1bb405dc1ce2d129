"""Something on loopback that speaks enough of Kafka's protocol to be sent a password."""

from __future__ import annotations

import socketserver
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.servers import serving

_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_UNSUPPORTED_VERSION = 35
_KNOWN = ((0, 3, 8), (1, 4, 11), (3, 1, 5), (_API_VERSIONS, 0, 0), (_HANDSHAKE, 0, 1), (_AUTHENTICATE, 0, 1))


class PasswordCollector(socketserver.ThreadingTCPServer):
    """Whoever connects is asked for SASL/PLAIN; everything that comes is kept."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.connections = 0
        self.received = b""

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Connection(socketserver.BaseRequestHandler):
    server: PasswordCollector

    def handle(self) -> None:
        self.server.connections += 1
        while True:
            head = self._read(4)
            if len(head) < 4 or not 0 < struct.unpack(">i", head)[0] < 100_000:
                self.server.received += head
                return
            body = self._read(struct.unpack(">i", head)[0])
            self.server.received += body
            key, version, correlation = struct.unpack(">hhi", body[:8])
            if key == _API_VERSIONS:
                error = _UNSUPPORTED_VERSION if version else 0
                known = b"".join(struct.pack(">hhh", *each) for each in _KNOWN)
                self._answer(correlation, struct.pack(">hi", error, len(_KNOWN)) + known)
            elif key == _HANDSHAKE:
                self._answer(correlation, struct.pack(">hih", 0, 1, 5) + b"PLAIN")
            else:
                return

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            try:
                part = self.request.recv(size - len(found))
            except OSError:
                part = b""
            if not part:
                return found
            found += part
        return found

    def _answer(self, correlation: int, body: bytes) -> None:
        self.request.sendall(struct.pack(">ii", len(body) + 4, correlation) + body)


@contextmanager
def password_collector() -> Iterator[Any]:
    server = PasswordCollector()
    with serving(server):
        yield server
