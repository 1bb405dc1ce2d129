"""What a worker's REST interface answers, also in the moment in which it is killed, and what passes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.lab.embedded.rest import ConnectRest, RestError


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
        (b"HTTP/1.1 500 Error\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", 500),
    ],
)
def test_half_an_answer_is_none(answer: bytes, status: int) -> None:
    """A worker that is killed has often begun to answer."""
    with _answering(answer) as rest:
        with pytest.raises(RestError) as refused:
            rest.call("GET", "/connectors")
        assert refused.value.status == status


def test_an_answer() -> None:
    with _answering(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n["a"]') as rest:
        assert rest.call("GET", "/connectors") == ["a"]


@contextmanager
def _worker(answers: Callable[[int], tuple[int, bytes]]) -> Iterator[ConnectRest]:
    """Serve what ``answers`` gives for the n-th request."""

    class Handler(BaseHTTPRequestHandler):
        asked = 0

        def do_GET(self) -> None:
            self.answer()

        def do_PUT(self) -> None:
            self.answer()

        def answer(self) -> None:
            type(self).asked += 1
            status, body = answers(self.asked)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield ConnectRest(f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()


def test_a_question_that_meets_a_rebalance_is_asked_again() -> None:
    with _worker(lambda number: (200, b'{"a":"b"}') if number > 2 else (409, b"rebalance")) as rest:
        assert rest.call("GET", "/connectors/c/config") == {"a": "b"}


def test_a_change_that_meets_one_is_told() -> None:
    with _worker(lambda _: (409, b"rebalance")) as rest:
        with pytest.raises(RestError) as refused:
            rest.put_config("c", {})
        assert refused.value.status == 409
        with pytest.raises(RestError) as refused:  # and a question at the end of its time
            rest.call("GET", "/connectors/c/config", timeout_s=0.2)
        assert refused.value.status == 409
