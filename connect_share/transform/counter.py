"""The counts of a source topic while a plan is made: what the transform would do to its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from connect_share.errors import PlanRejectedError, UnreadableHeadersError
from connect_share.kafka.client import Message, headers_of, to_record, to_whole_record
from connect_share.kafka.limits import RECORD_OVERHEAD_BYTES, Extent
from connect_share.model.keys import connector_of
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import BARRIER_RECORDS
from connect_share.sealing.cipher import is_sealed
from connect_share.transform.rules import KeyTransform, RecordCounts, SkipReason
from connect_share.transform.sealed import Opener, Sealing


class RecordCounter:
    """The counts of one source topic.

    Args:
        opener: opens them; by default they are counted as they are.
        added_bytes: by which a value is longer at the destination.
    """

    def __init__(self, transform: KeyTransform, opener: Opener | None = None, added_bytes: int = 0) -> None:
        self.opener = opener or Opener(Sealing(as_is=True), transform)
        self._transform = transform
        self._prefix = transform.prefix
        self._added_bytes = added_bytes
        self._skipped: Counter[SkipReason] = Counter()
        self._read = self._to_write = self._tombstones = self._bytes = 0
        self.undated = 0
        self.extent = Extent()
        self.connectors: set[str] = set()
        self._known: set[bytes] = set()
        self._mark = BARRIER_RECORDS[transform.topic_type][0]
        self._keys: dict[int, set[int]] = {}
        """Hashes of the keys of each partition."""

    def count_batch(self, batch: Sequence[Message]) -> None:
        """Count a batch as :meth:`count` does, without a record for each ordinary message."""
        if self._transform.topic_type is not TopicType.CONFIG:
            own, _ = self._transform.sure_beginnings
            for message in batch:
                name: Any = message.key()
                wanted = name is not None and (name.startswith(own) if own else self._transform.takes(name))
                if wanted and not name.endswith(self._mark):
                    self._keys.setdefault(message.partition() or 0, set()).add(hash(name))
        if self.opener.is_on:
            for message in batch:
                self.count(to_whole_record(message))
            return
        beginnings, cut = self._transform.sure_beginnings
        added = len(self._prefix) + self._added_bytes
        known, known_part = self._known, self._known_part
        times_ms, size, largest = list[int](), 0, 0
        for message in batch:
            key: Any = message.key()
            value: Any = message.value()
            headers = headers_of(message)
            if not is_sealed(value) and key is not None and value is not None and key.startswith(beginnings):
                length = len(key) - cut + len(value)
                at_ms = message.timestamp()[1]
                if known_part(key[cut:]) in known and length <= largest and at_ms > 0 and headers == ():
                    times_ms.append(at_ms)
                    size += length
                    continue
            self.count(to_record(message, headers))
            largest = self.extent.largest_bytes - added - RECORD_OVERHEAD_BYTES
        self._read += len(times_ms)
        self._to_write += len(times_ms)
        self._bytes += size + len(times_ms) * added
        self.extent.extend(0, times_ms)

    def _known_part(self, original: bytes) -> bytes:
        """Return the part of a key that names its connector: the whole, or ``["name",`` of an offset's."""
        if self._transform.topic_type is not TopicType.OFFSET:
            return original
        return original[: original.find(b'",') + 2]

    def through(self, records: Iterator[Record]) -> Iterator[Record]:
        """Yield the records, counted and opened, without sealed values that stay behind."""
        for record in records:
            counted = self.count(record)
            if counted is not None:
                yield counted[1]
            elif not is_sealed(record.value) and not self.opener.is_on:
                yield record

    def count(self, record: Record, original: bytes | SkipReason | None = None) -> tuple[bytes, Record] | None:
        """Count one record. Returns its original key and the record, opened, if it is to be written.

        ``original``: what the transform says of its key, if that was asked. ``PlanRejectedError``: it cannot be copied whole.
        """
        self._read += 1
        original = original or self._transform.original_key(record.key)
        if isinstance(original, SkipReason):
            self._skipped[original] += 1
            return None
        opened = self.opener.open(record)
        if opened is None:
            self._skipped[SkipReason.REFUSED] += 1
            return None
        part = self._known_part(original)
        connector = None if part in self._known else connector_of(self._transform.topic_type, original)
        if connector is not None:
            self.connectors.add(connector)
            # If the name holds an escaped quote, the part ends inside it.
            if self._transform.topic_type is not TopicType.OFFSET or part == b'["%s",' % connector.encode():
                self._known.add(part)
        size = len(self._prefix) + len(original) + len(opened.value or b"") + self._added_bytes
        self._to_write += 1
        self._bytes += size
        self._tombstones += opened.value is None
        self.undated += record.timestamp_ms == 0  # the client library takes 0 for "now"
        try:
            headers = record.headers_size()
        except UnreadableHeadersError as error:
            raise PlanRejectedError(str(error)) from error
        times_ms = [record.timestamp_ms] if record.timestamp_ms > 0 else []
        self.extent.extend(size + headers + RECORD_OVERHEAD_BYTES, times_ms, record.place)
        return original, opened

    @property
    def taken(self) -> int:
        """How many records of the transform were read so far."""
        return self._to_write + self._skipped[SkipReason.REFUSED]

    def add_aborted(self, count: int) -> None:
        """Add what readers of committed records do not see."""
        self._skipped += Counter({SkipReason.ABORTED: count})

    def counts(self) -> RecordCounts:
        """Return the figures so far."""
        return RecordCounts(
            read=self._read,
            to_write=self._to_write,
            tombstones=self._tombstones,
            bytes_to_write=self._bytes,
            skipped=dict(sorted(self._skipped.items(), key=lambda item: item[0].value)),
            largest_bytes=self.extent.largest_bytes,
            largest_at=self.extent.largest_at,
            times_ms=(self.extent.oldest_ms, self.extent.newest_ms) if self.extent.newest_ms else None,
            several=sum(count > 1 for count in Counter(chain.from_iterable(self._keys.values())).values()),
        )
