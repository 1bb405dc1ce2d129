"""What Connect workers send each other through the group coordinator: the state of a worker and its assignment.

Source: ``ConnectProtocol`` (version 0), ``IncrementalCooperativeConnectProtocol`` (1: KIP-415, 2: KIP-507), and the types
``ExtendedWorkerState`` and ``ExtendedAssignment``. What does not fit, and bytes that are none of a worker, are a
``GroupProtocolError``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from connect_share.errors import GroupProtocolError
from connect_share.model.records import ConnectorTaskId

PROTOCOL_TYPE: Final = "connect"
EAGER_VERSION: Final = 0
"""Version of the protocol ``default``: no assignment in the state, no revocations, no delay."""
SESSIONED_VERSION: Final = 2
NO_ERROR: Final = 0
CONFIG_MISMATCH: Final = 1
"""The leader has not read the config topic as far as another member. Source: ``ConnectProtocol.Assignment``."""
CONNECTOR: Final = -1
"""In the place of a task number: the connector itself."""
_SMALLEST_ENTRY: Final = 6  # bytes of a connector without a name and without tasks


@dataclass(frozen=True)
class ConnectorsAndTasks:
    """Connectors, by name, and tasks; the order is that of the bytes.

    >>> held, others = ConnectorsAndTasks(("a", "b")), ConnectorsAndTasks(("b", "c"))
    >>> (held | others).connectors, (held & others).connectors, (held - others).connectors
    (('a', 'b', 'c'), ('b',), ('a',))
    """

    connectors: tuple[str, ...] = ()
    tasks: tuple[ConnectorTaskId, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def __or__(self, more: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """Return these and others, each once."""
        return ConnectorsAndTasks(
            tuple(dict.fromkeys(self.connectors + more.connectors)), tuple(dict.fromkeys(self.tasks + more.tasks))
        )

    def __and__(self, others: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """Return those of these that others have, too."""
        return self - (self - others)

    def __sub__(self, others: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """Return those of these that others do not have."""
        connectors, tasks = set(others.connectors), set(others.tasks)
        return ConnectorsAndTasks(
            tuple(name for name in self.connectors if name not in connectors),
            tuple(task for task in self.tasks if task not in tasks),
        )


NOTHING: Final = ConnectorsAndTasks()


@dataclass(frozen=True)
class ExtendedAssignment:
    """What a leader assigns to one worker.

    Attributes:
        leader: member id of the leader, in the group protocol.
        leader_url: where its REST requests go.
        config_offset: position in the config topic that the assignment was made of.
        assigned: with version 0 all that the worker is to run, later only what it is to start.
        revoked: what it is to stop.
        delay_ms: time until the next rebalance that the leader has planned.
        error: ``NO_ERROR``, or ``CONFIG_MISMATCH``.
        version: version of the protocol.
    """

    leader: str
    leader_url: str
    config_offset: int
    assigned: ConnectorsAndTasks = NOTHING
    revoked: ConnectorsAndTasks = NOTHING
    delay_ms: int = 0
    error: int = NO_ERROR
    version: int = SESSIONED_VERSION


@dataclass(frozen=True)
class ExtendedWorkerState:
    """What a worker says of itself when it joins.

    Attributes:
        url: where its REST requests go.
        config_offset: position of its config store: the offset after the last record it has read.
        assignment: what it runs now; ``None`` before the first assignment, and always with version 0.
        version: version of the protocol.
    """

    url: str
    config_offset: int
    assignment: ExtendedAssignment | None = None
    version: int = SESSIONED_VERSION


def decode_worker_state(data: bytes) -> ExtendedWorkerState:
    """Return the state that the metadata of a member hold."""
    reader = _Reader(data)
    version = reader.version()
    url, config_offset = reader.text(), reader.number(">q")
    # A field that later versions added may be missing, as in Java.
    length = reader.number(">i") if version != EAGER_VERSION and reader.left() else -1
    assignment = None if length < 0 else decode_assignment(reader.bytes(length))
    return ExtendedWorkerState(url, config_offset, assignment, version)


def worker_url(metadata: bytes) -> str:
    """Return the URL of a worker from its metadata, with which those of all versions begin."""
    reader = _Reader(metadata)
    reader.version()
    return reader.text()


def decode_assignment(data: bytes) -> ExtendedAssignment:
    """Return the assignment that these bytes hold."""
    reader = _Reader(data)
    version, error = reader.version(), reader.number(">h")
    leader, leader_url, config_offset = reader.text(), reader.text(), reader.number(">q")
    assigned, revoked, delay_ms = reader.entries(), NOTHING, 0
    if version != EAGER_VERSION:
        revoked = reader.entries() if reader.left() else revoked
        delay_ms = reader.number(">i") if reader.left() else 0
    return ExtendedAssignment(leader, leader_url, config_offset, assigned, revoked, delay_ms, error, version)


class _Reader:
    """Reads fields one after the other; lengths are checked against the bytes that are there before anything is made."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = memoryview(data), 0

    def left(self) -> int:
        return len(self._data) - self._at

    def bytes(self, length: int) -> bytes:
        if not 0 <= length <= self.left():
            raise GroupProtocolError(f"byte {self._at}: {length} bytes were to follow, {self.left()} are left")
        self._at += length
        return bytes(self._data[self._at - length : self._at])

    def number(self, layout: str) -> int:
        (found,) = struct.unpack(layout, self.bytes(struct.calcsize(layout)))
        return int(found)

    def version(self) -> int:
        version = self.number(">h")
        if version < EAGER_VERSION:
            raise GroupProtocolError(f"{version} is no version of Connect's group protocol")
        return version

    def text(self) -> str:
        data = self.bytes(self.number(">h"))
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise GroupProtocolError(f"byte {self._at - len(data)}: the text is not UTF-8") from None

    def entries(self) -> ConnectorsAndTasks:
        count = self.number(">i")
        if not -1 <= count <= self.left() // _SMALLEST_ENTRY:  # -1: none
            raise GroupProtocolError(f"byte {self._at}: {count} connectors do not fit into {self.left()} bytes")
        connectors: list[str] = []
        tasks: list[ConnectorTaskId] = []
        for _ in range(count):
            name = self.text()
            data = self.bytes(4 * self.number(">i"))
            numbers = struct.unpack(f">{len(data) // 4}i", data)
            connectors.extend(name for number in numbers if number == CONNECTOR)
            tasks.extend(self._task(name, number) for number in numbers if number != CONNECTOR)
        return ConnectorsAndTasks(tuple(connectors), tuple(tasks))

    def _task(self, connector: str, number: int) -> ConnectorTaskId:
        if number < 0:
            raise GroupProtocolError(f"byte {self._at}: {number} is no task number")
        return ConnectorTaskId(connector, number)
