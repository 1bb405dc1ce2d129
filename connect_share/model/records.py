"""The values everything else speaks of: records, topic types, offset ranges, task ids."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, cast

from connect_share.errors import UnreadableHeadersError

Headers = tuple[tuple[str, bytes | None], ...]
"""In order; names may repeat."""


class TopicType(enum.Enum):
    """Which of Connect's three internal topics a record belongs to."""

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__  # five times as fast as that of enum.Enum

    CONFIG = "config"
    STATUS = "status"
    OFFSET = "offset"


@dataclass(frozen=True, slots=True)
class Record:
    """One Kafka record.

    Attributes:
        offset: position in its partition.
        timestamp_ms: milliseconds since the epoch, -1 when the broker gave none.
        key: ``None`` is possible on topics that are not compacted.
        value: ``None`` is a tombstone, ``b""`` is not.
        headers: empty where the reader did not ask for them; ``None``: a name is not UTF-8, so they cannot be known.
        sealed_ms: when the value was sealed, if it was and was opened.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None = ()
    sealed_ms: int | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        """Where the record is, for people."""
        return f"{self.topic}[{self.partition}]@{self.offset}"

    def whole_headers(self) -> Headers:
        """Return the headers for a second write of the record.

        Raises:
            UnreadableHeadersError: they cannot be known.
        """
        if self.headers is None:
            raise UnreadableHeadersError.at(self.topic, self.partition, self.offset)
        return self.headers

    def headers_size(self) -> int:
        """Return an upper bound for the bytes the headers take."""
        return sum(len(name.encode()) + len(value or b"") + 10 for name, value in self.whole_headers())

    def __repr__(self) -> str:
        """Show where the record is and how large it is; keys and values may hold secrets."""
        key = "null" if self.key is None else f"{len(self.key)}B"
        value = "tombstone" if self.value is None else f"{len(self.value)}B"
        return f"<Record {self.place} key={key} value={value}>"


class _QuickRecord:
    """Makes a ``Record``: its fields are set in a quarter of the time that a frozen dataclass needs."""

    __slots__ = Record.__slots__

    def __init__(  # noqa: PLR0917 - the fields of a record in their order
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers
        self.sealed_ms = None
        self.__class__ = Record  # type: ignore[assignment]


quick_record: Final = cast("type[Record]", _QuickRecord)
"""Makes a record of all its fields, for loops over a million of them."""


def now_ms() -> int:
    """Return the time of now as records have it."""
    return int(time.time() * 1000)


def shown_time(at_ms: int | None) -> str | None:
    """Return a time of a record, which any writer may choose, for people."""
    if at_ms is None:
        return None
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000))
    except (OverflowError, OSError, ValueError):
        return f"{at_ms} ms"


class OffsetRange(NamedTuple):
    """Records of one partition from ``start`` (inclusive) to ``end`` (exclusive)."""

    topic: str
    partition: int
    start: int
    end: int


def size_of(part: OffsetRange) -> int:
    """Return the number of offsets of a range; fewer records may be there."""
    return max(0, part.end - part.start)


@dataclass(frozen=True, slots=True, order=True)
class ConnectorTaskId:
    """One task of a connector; text form ``<connector>-<task>`` (Connect's class of the same name)."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"
