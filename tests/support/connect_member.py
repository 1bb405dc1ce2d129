"""A live member of a Connect group, made of two requests of Kafka's protocol: what a Java worker looks like
to the group coordinator. confluent-kafka can only join groups of protocol type ``consumer``.
"""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Final, Self

from connect_share.kafka.connect_protocol import ConnectorsAndTasks, ExtendedAssignment, ExtendedWorkerState
from connect_share.model.records import ConnectorTaskId
from connect_share.runtime.protocol_encoding import encode_assignment, encode_worker_state

_JOIN_GROUP: Final = 11
_LEAVE_GROUP: Final = 13
_FIND_COORDINATOR: Final = 10
_SYNC_GROUP: Final = 14
_NO_COORDINATOR_YET: Final = (14, 15, 16)  # loading, not available, not this broker
_VERSION: Final = 2  # the oldest that brokers of 4.x take, and the last that gives a member id at once
_SESSION_TIMEOUT_MS: Final = 600_000  # it never sends a heartbeat: as long as a test may take


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


class ConnectMember:
    """Joins on entry, leaves on exit; the broker asked has to be the group's coordinator (one-broker clusters).

    Without an ``assignment`` its group never gets stable.
    """

    def __init__(
        self, bootstrap_servers: str, group: str, *, metadata: bytes = b"", assignment: bytes | None = None
    ) -> None:
        host, port = bootstrap_servers.split(",", maxsplit=1)[0].rsplit(":", 1)
        self._address = (host, int(port))
        self._group = group
        self._metadata, self._assignment = metadata, assignment

    def __enter__(self) -> Self:
        self._socket = socket.create_connection(self._address, timeout=120)
        body = (
            _text(self._group)
            + struct.pack(">ii", _SESSION_TIMEOUT_MS, _SESSION_TIMEOUT_MS)
            + _text("")
            + _text("connect")
            + struct.pack(">i", 1)
            + _text("sessioned")
            + struct.pack(">i", len(self._metadata))
            + self._metadata
        )
        answer = self._joined(body)
        position = 4 + 2 + 4
        for _ in range(2):  # protocol name, leader
            position += 2 + struct.unpack_from(">h", answer, position)[0]
        length = struct.unpack_from(">h", answer, position)[0]
        self._member = answer[position + 2 : position + 2 + length].decode()
        if self._assignment is not None:
            (generation,) = struct.unpack_from(">i", answer, 6)
            given = struct.pack(">i", len(self._assignment)) + self._assignment
            body = _text(self._group) + struct.pack(">i", generation) + _text(self._member)
            (error,) = struct.unpack_from(
                ">h", self._ask(_SYNC_GROUP, body + struct.pack(">i", 1) + _text(self._member) + given), 4
            )
            assert error == 0, f"giving {self._group} its assignment failed with error code {error}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._socket:
            self._ask(_LEAVE_GROUP, _text(self._group) + _text(self._member))

    def _joined(self, body: bytes) -> bytes:
        """Join, again while the broker has no coordinator yet: the first group of all makes it create a topic."""
        deadline_s = time.monotonic() + 180
        while True:
            answer = self._ask(_JOIN_GROUP, body)
            (error,) = struct.unpack_from(">h", answer, 4)
            if error == 0:
                return answer
            assert error in _NO_COORDINATOR_YET, f"joining {self._group} failed with error code {error}"
            assert time.monotonic() < deadline_s, f"{self._group} had no coordinator for three minutes"
            self._ask(_FIND_COORDINATOR, _text(self._group) + b"\0", version=1)
            time.sleep(0.05)

    def _ask(self, api: int, body: bytes, *, version: int = _VERSION) -> bytes:
        """Send one request; give the answer after its correlation id."""
        request = struct.pack(">hhi", api, version, 1) + _text("connect-member") + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)[4:]

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            assert chunk, "the broker closed the connection"
            received += chunk
        return received


RUNS = ConnectorsAndTasks(("c",), (ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)))


def a_worker(bootstrap_servers: str, group: str, position: int, url: str = "http://h:8083/") -> ConnectMember:
    """A member that says and is given what a worker is."""
    state = encode_worker_state(ExtendedWorkerState(url, position))
    given = encode_assignment(ExtendedAssignment("m", url, position, RUNS))
    return ConnectMember(bootstrap_servers, group, metadata=state, assignment=given)
