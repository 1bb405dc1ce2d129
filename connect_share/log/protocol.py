"""What a log gives its writers, and what it needs of a backing store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from connect_share.records import Record

STOP_TIMEOUT_S: Final = 10.0
"""How long what is under way may take at a stop, unless the caller says so."""


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where an acknowledged record went."""

    topic: str
    partition: int
    offset: int


class RecordSink(Protocol):
    """The receiving side of a log: one backing store."""

    @property
    def key_prefix(self) -> bytes:
        """Keys that do not start with these bytes are foreign; ``b""`` lets every record through."""

    def apply(self, records: Sequence[Record]) -> None:
        """Apply the next records whose key starts with ``key_prefix`` (``b""``: null keys too).

        Called from one thread at a time, in log order per partition. It must not raise for a bad record (it is counted
        instead); what it does raise ends the log with ``LogFailedError``.
        """
