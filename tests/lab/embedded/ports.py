"""Free ports on the loopback interface."""

from __future__ import annotations

import atexit
import socket
import sys
from contextlib import ExitStack
from typing import Final

_HOST: Final = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Return ports that are free, for servers that bind them with ``SO_REUSEADDR``, as Java's do.

    On Linux they are bound, and nobody listens, as long as this process lives: no other one is given these ports, nor one of
    its connections. Elsewhere they were free a moment ago, and a server may lose the race.
    """
    keep = sys.platform == "linux"
    with ExitStack() as sockets:
        ports = []
        for _ in range(count):
            one = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            if keep:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((_HOST, 0))
            ports.append(int(one.getsockname()[1]))
        if keep:
            atexit.register(sockets.pop_all().close)
    return ports
