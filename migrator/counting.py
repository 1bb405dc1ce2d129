"""Reading a source topic while a plan is made: what the transform would do to it, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from connect_share.records import Record
from migrator.connector_keys import connector_of
from migrator.errors import PlanRejectedError
from migrator.inspection import PROGRESS_EVERY
from migrator.plan import RecordCounts
from migrator.transform import KeyTransform, SkipReason

RECORD_OVERHEAD_BYTES: Final = 61 + 70
"""A batch header and the lengths and deltas of one record, rounded up."""


class Counting:
    """Reads one source topic, counts what the transform does, and passes the records on."""

    def __init__(self, transform: KeyTransform, limit_bytes: int, advance: Callable[[int], None]) -> None:
        self._transform = transform
        self._prefix = transform.prefix
        self._limit_bytes = limit_bytes
        self._advance = advance
        self._skipped: Counter[SkipReason] = Counter()
        self._read = self._to_write = self._tombstones = self._bytes = 0
        self.undated = 0
        self.connectors: set[str] = set()

    def through(self, records: Iterator[Record]) -> Iterator[Record]:
        """Pass records on, counted."""
        for record in records:
            self.count(record)
            yield record

    def count(self, record: Record) -> bytes | None:
        """Count one record; gives its original key if it is taken.

        Raises:
            PlanRejectedError: with its new key it does not fit into the destination's topic.
        """
        self._read += 1
        if self._read % PROGRESS_EVERY == 0:
            self._advance(PROGRESS_EVERY)
        original = self._transform.original_key(record.key)
        if isinstance(original, SkipReason):
            self._skipped[original] += 1
            return None
        connector = connector_of(self._transform.topic_type, original)
        if connector is not None:
            self.connectors.add(connector)
        size = len(self._prefix) + len(original) + len(record.value or b"")
        self._to_write += 1
        self._bytes += size
        self._tombstones += record.value is None
        self.undated += record.timestamp_ms == 0  # the client library takes 0 for "now"
        headers = sum(len(name.encode()) + len(value or b"") + 10 for name, value in record.headers)
        if size + headers + RECORD_OVERHEAD_BYTES > self._limit_bytes:
            raise PlanRejectedError(
                f"{record.topic}[{record.partition}]@{record.offset}: with its new key the record has {size} bytes "
                f"and no longer fits into max.message.bytes={self._limit_bytes} of the destination: raise that"
            )
        return original

    def counts(self) -> RecordCounts:
        """Give the figures so far."""
        return RecordCounts(
            read=self._read,
            to_write=self._to_write,
            tombstones=self._tombstones,
            bytes_to_write=self._bytes,
            skipped=dict(sorted(self._skipped.items(), key=lambda item: item[0].value)),
        )
