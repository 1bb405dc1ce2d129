"""Free ports on the loopback interface."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """Give ports that were free a moment ago; whoever binds them must be ready to lose the race."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for candidate in sockets:
            candidate.bind(("127.0.0.1", 0))
        return [int(candidate.getsockname()[1]) for candidate in sockets]
    finally:
        for candidate in sockets:
            candidate.close()
