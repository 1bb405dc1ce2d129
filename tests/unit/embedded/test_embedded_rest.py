"""What a worker's REST interface answers, also in the moment in which it is killed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from connect_share.embedded.rest import ConnectRest, RestError


@contextmanager
def _answering(text: bytes) -> Iterator[ConnectRest]:
    """Answer one request with these bytes, then hang up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(text)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield ConnectRest(f"http://127.0.0.1:{server.getsockname()[1]}")
        thread.join(30)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"", 0),
        (b"HTTP/1.1 2", 0),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n[", 0),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[", 0),
        (b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", 409),
    ],
)
def test_half_an_answer_is_none(answer: bytes, status: int) -> None:
    """A worker that is killed has often begun to answer."""
    with _answering(answer) as rest:
        with pytest.raises(RestError) as refused:
            rest.connectors()
        assert refused.value.status == status


def test_an_answer() -> None:
    with _answering(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n["a"]') as rest:
        assert rest.connectors() == ["a"]
