"""What a backing store needs of a log, and what a log needs of a backing store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from connect_share.records import Record

T = TypeVar("T")

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


class CompactedLog(Protocol):
    """A compacted topic that is followed to its end and written to. Source: ``KafkaBasedLog``."""

    @property
    def topic(self) -> str:
        """Name of the topic."""

    @property
    def partition_count(self) -> int:
        """Number of partitions seen at start."""

    @property
    def foreign_records(self) -> int:
        """Number of records read whose key does not have the sink's prefix."""

    def start(self) -> None:
        """Make sure of the topic, read it to the end known now, then follow it in a thread.

        Raises:
            TopicError: missing, or not as Connect demands.
            ReadToEndTimeoutError: the end was not reached in time.
            BrokerError: the cluster refused.
        """

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what is under way, within ``timeout_s``, then end the thread and close the clients; may be called twice."""

    def check_may_wait(self) -> None:
        """Raise ``UsageError`` in a thread that a wait would wait for, such as the one that calls a listener."""

    def read_to_end(self, timeout_s: float) -> None:
        """Return once every record that is in the topic at the time of the call was applied.

        Raises:
            ReadToEndTimeoutError: with topic, partition, position and end offset.
            LogFailedError: the thread died earlier.
        """

    def read_past(self, written: RecordMetadata, timeout_s: float) -> None:
        """Return once an acknowledged record, and everything before it in its partition, was applied.

        Raises:
            ReadToEndTimeoutError, LogFailedError: as :meth:`read_to_end`.
        """

    def send(self, key: bytes, value: bytes | None) -> Future[RecordMetadata]:
        """Write one record; the future ends with the acknowledgement or a ``ConnectShareError``."""

    def flush(self, timeout_s: float) -> None:
        """Wait until every record sent so far is acknowledged or failed."""

    def check_topic(self) -> None:
        """Raise if what was read must not be believed any more.

        Raises:
            TopicRecreatedError: the topic was deleted, or created again.
            LogFailedError: the thread that follows it died.
            StoreClosedError: it is followed by another process, from which this one was forked.
        """

    def positions(self) -> Mapping[int, int]:
        """Return the next offset to be read of each partition: the consumer's progress, foreign records included."""

    def between_batches(self, look: Callable[[Mapping[int, int]], T], timeout_s: float) -> T:
        """Read to the end, then return the result of ``look``, called with the positions while nothing is being applied.

        Raises:
            ReadToEndTimeoutError, LogFailedError: as :meth:`read_to_end`.
        """
