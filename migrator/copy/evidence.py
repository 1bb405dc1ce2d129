"""The evidence of one slice: counts and digests, never a record."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, cast

from pydantic import BaseModel, ConfigDict

from connect_share.files import counted
from connect_share.kafka.client import Message
from connect_share.kafka.write import Outgoing
from connect_share.model.records import Record, TopicType
from connect_share.transform.rules import SkipReason
from migrator.plan import CopySlice

_AT_ONCE: Final = 4_000
"""Keys and values hashed in one call: a call for each costs more than the hashing."""


class SliceEvidence(BaseModel):
    """The result of copying one slice; one per source partition, never per record.

    Attributes:
        slice_name: ``CopySlice.name``.
        first_offset: of the first record read, ``None`` when there was none.
        last_offset: of the last record read.
        read: records read.
        written: records acknowledged by this and, for a repeated task, by earlier attempts.
        found_present: how many of those an earlier attempt of the same task had written.
        tombstones: how many of the written have no value.
        bytes_written: keys and values.
        skipped: per reason.
        digest: SHA-256 over keys, opened values, their lengths and the places of tombstones, in the order read; of a sealed
            group it begins with something secret.
        marker_written: the group's marker closes the config topic, see decision 2.
        destination_offsets: per destination partition the first and last offset acknowledged; where a bulk producer wrote,
            where the partition ended before the plan's first record, and when the slice was acknowledged.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    slice_name: str
    source_index: int
    cluster_group_id: str | None
    topic_type: TopicType
    topic: str
    partition: int
    start: int
    end: int
    destination_topic: str
    first_offset: int | None
    last_offset: int | None
    read: int
    written: int
    found_present: int
    tombstones: int
    bytes_written: int
    skipped: dict[SkipReason, int]
    digest: str
    marker_written: bool
    destination_offsets: dict[int, tuple[int, int]]


class Tally:
    """Running figures of one slice.

    Args:
        salt: secret bytes that the digest begins with, where values are not for everybody's eyes.

    Attributes:
        pending: key and value of each record added since :meth:`flush`, in order; a tombstone's value is ``b""``.
        pending_tombstones: places of tombstones in ``pending``, counted in records.
    """

    def __init__(self, salt: bytes = b"") -> None:
        self.read = 0
        self.written = 0
        self.found_present = 0
        self.tombstones = 0
        self.bytes_written = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.skipped: Counter[SkipReason] = Counter()
        self.pending: list[bytes] = []
        self.pending_tombstones: list[int] = []
        self._contents, self._lengths, self._places = (hashlib.sha256(salt) for _ in range(3))

    def count_read(
        self, records: Iterable[Record], on_progress: Callable[[int], None] | None = None
    ) -> Iterator[Record]:
        """Yield the records and count them."""
        for record in counted(records, on_progress):
            self.read += 1
            self.last_offset = record.offset
            if self.first_offset is None:
                self.first_offset = record.offset
            yield record

    def add(self, record: Record) -> None:
        """Count a record that is at the destination now, or will be."""
        if record.value is None:
            self.pending_tombstones.append(len(self.pending) // 2)
        self.pending += (record.key or b"", record.value or b"")  # the transform returns no record without a key
        if len(self.pending) >= _AT_ONCE:
            self.flush()

    def add_batch(self, batch: Sequence[Message], added: Sequence[Outgoing]) -> None:
        """Count a batch that was read, and what of it is at the destination or will be."""
        if self.first_offset is None and batch:
            self.first_offset = batch[0].offset()
        if batch:
            self.last_offset = batch[-1].offset()
        self.read += len(batch)
        self.flush()
        values = [each[1] for each in added]
        if not all(values):
            self.pending_tombstones = [at for at, value in enumerate(values) if value is None]
            values = [value or b"" for value in values]
        self.pending = [b""] * (2 * len(added))
        self.pending[::2] = [each[2] or b"" for each in added]
        self.pending[1::2] = cast("list[bytes]", values)
        self.flush()

    def flush(self) -> None:
        """Hash and count what is pending; the result does not depend on how often this is called."""
        if not self.pending:
            return
        contents = b"".join(self.pending)
        self._contents.update(contents)
        self._lengths.update(array("Q", [*map(len, self.pending)]))
        self._places.update(array("Q", [self.written + place for place in self.pending_tombstones]))
        self.bytes_written += len(contents)
        self.written += len(self.pending) // 2
        self.tombstones += len(self.pending_tombstones)
        self.pending.clear()
        self.pending_tombstones.clear()

    @property
    def digest(self) -> str:
        """The digest of what was added so far."""
        self.flush()
        parts = (self._contents, self._lengths, self._places)
        return hashlib.sha256(b"".join(part.digest() for part in parts)).hexdigest()

    def evidence(self, slice_: CopySlice, *, marker: bool, spans: dict[int, tuple[int, int]]) -> SliceEvidence:
        """Return the figures of a slice that was copied to its end."""
        self.flush()
        transform = slice_.transform
        return SliceEvidence(
            slice_name=slice_.name,
            source_index=slice_.source_index,
            cluster_group_id=None if transform.destination is None else str(transform.destination),
            topic_type=slice_.topic_type,
            **slice_.offset_range._asdict(),
            destination_topic=slice_.destination_topic,
            first_offset=self.first_offset,
            last_offset=self.last_offset,
            read=self.read,
            written=self.written,
            found_present=self.found_present,
            tombstones=self.tombstones,
            bytes_written=self.bytes_written,
            skipped=dict(self.skipped),
            digest=self.digest,
            marker_written=marker,
            destination_offsets=spans,
        )
