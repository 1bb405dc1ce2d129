"""The bytes that a member sends to its group; how they are read is in ``kafka/connect_protocol.py``."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from connect_share.errors import GroupProtocolError
from connect_share.kafka.connect_protocol import (
    CONNECTOR,
    EAGER_VERSION,
    ConnectorsAndTasks,
    ExtendedAssignment,
    ExtendedWorkerState,
)

_MOST_TEXT_BYTES: Final = 2**15 - 1


def encode_worker_state(state: ExtendedWorkerState) -> bytes:
    """Return the metadata of a member."""
    found = _packed(">h", state.version) + _text(state.url) + _packed(">q", state.config_offset)
    if state.version == EAGER_VERSION:
        return found
    if state.assignment is None:
        return found + _packed(">i", -1)
    assignment = encode_assignment(state.assignment)
    return found + _packed(">i", len(assignment)) + assignment


def encode_assignment(assignment: ExtendedAssignment) -> bytes:
    """Return the assignment of a member."""
    found = _packed(">hh", assignment.version, assignment.error) + _text(assignment.leader)
    found += _text(assignment.leader_url) + _packed(">q", assignment.config_offset) + _entries(assignment.assigned)
    if assignment.version == EAGER_VERSION:
        return found
    return found + _entries(assignment.revoked) + _packed(">i", assignment.delay_ms)


def _packed(layout: str, *numbers: int) -> bytes:
    try:
        return struct.pack(layout, *numbers)
    except struct.error as exc:
        raise GroupProtocolError(f"a number does not fit the group protocol: {exc}") from None


def fits(text: str) -> bool:
    """Return whether a text, such as the name of a connector, is short enough for the group protocol."""
    return len(text.encode()) <= _MOST_TEXT_BYTES


def _text(value: str) -> bytes:
    data = value.encode()
    if not fits(value):
        raise GroupProtocolError(f"a text of {len(data):,} bytes does not fit the group protocol: 32,767 at most")
    return _packed(">h", len(data)) + data


def _entries(items: ConnectorsAndTasks) -> bytes:
    by_connector: dict[str, list[int]] = {name: [CONNECTOR] for name in items.connectors}
    for task in items.tasks:
        by_connector.setdefault(task.connector, []).append(task.task)
    parts: Iterable[bytes] = (
        _text(name) + _packed(f">i{len(numbers)}i", len(numbers), *numbers) for name, numbers in by_connector.items()
    )
    return _packed(">i", len(by_connector)) + b"".join(parts)
