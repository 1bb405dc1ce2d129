"""Ports that are given out stay free for the server they were asked for."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys

import pytest

from tests.lab.embedded.ports import free_ports

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a port be kept for somebody else")


def test_a_server_gets_its_port_and_nobody_else_does() -> None:
    first, second = free_ports(2)
    assert first != second
    for _ in range(2):  # a server that is started again, too
        with socket.socket() as stranger, pytest.raises(OSError, match="in use") as refused:
            stranger.bind(("127.0.0.1", first))
        assert refused.value.errno == errno.EADDRINUSE
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", first), timeout=30)
        with (
            socket.create_server(("127.0.0.1", first)) as server,  # with SO_REUSEADDR, as Java's
            socket.create_connection(("127.0.0.1", first), timeout=30) as client,
        ):
            server.accept()[0].close()
            assert client.recv(1) == b""


def test_nothing_is_complained_of_at_the_end() -> None:
    script = "from tests.lab.embedded.ports import free_ports; free_ports(2)"
    ended = subprocess.run([sys.executable, "-X", "dev", "-c", script], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
