"""Servers that tests talk to."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOOK_S = 0.05


@contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[str]:
    """Answer in a thread, which ends with the block however that ends; yield the address."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(_LOOK_S,))
        thread.start()
        try:
            yield "{}:{}".format(*server.server_address)
        finally:
            server.shutdown()
            thread.join()
