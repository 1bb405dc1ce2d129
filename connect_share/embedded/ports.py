"""Free ports on the loopback interface."""

from __future__ import annotations

import atexit
import socket
import sys
from typing import Final

TAKEN: Final = "Address already in use"
"""Java's message for a port that another program has."""

_HOST: Final = "127.0.0.1"
_reserved: Final[list[socket.socket]] = []
"""Bound, and nobody listens: until this process ends no other one is given these ports, nor one of its connections."""


def free_ports(count: int) -> list[int]:
    """Return ports that are free, for servers that bind them with ``SO_REUSEADDR``, as Java's do.

    On Linux they are kept for such servers as long as this process lives, also between two starts of one. Elsewhere they
    were free a moment ago, and whoever binds them must be ready to lose the race.
    """
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    keep = sys.platform == "linux"
    try:
        for candidate in sockets:
            if keep:
                candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            candidate.bind((_HOST, 0))
        ports = [int(candidate.getsockname()[1]) for candidate in sockets]
    except OSError:
        keep = False
        raise
    finally:
        if keep:
            _reserved.extend(sockets)
        else:
            for candidate in sockets:
                candidate.close()
    return ports


@atexit.register
def _give_back() -> None:
    while _reserved:
        _reserved.pop().close()
