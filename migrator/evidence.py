"""What is written down of one slice: counts and digests, never a record."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict

from connect_share.records import Record, TopicType
from migrator.plan import CopySlice
from migrator.transform import SkipReason

PROGRESS_EVERY: Final = 1_000
_SUM_MODULUS: Final = 2**64


class SliceEvidence(BaseModel):
    """What was done to one slice; one per source partition, never per record.

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
        digest: sum modulo 2**64 over the written of a hash of key and value: independent of order.
        crc32: over keys and values in the order written.
        marker_written: the group's marker closes the config topic, see decision 2.
        destination_offsets: per destination partition the first and last offset acknowledged.
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
    crc32: int
    marker_written: bool
    destination_offsets: dict[int, tuple[int, int]]


def record_digest(key: bytes, value: bytes | None) -> int:
    """Hash key and value into 64 bits; a tombstone and an empty value differ."""
    told = len(key).to_bytes(8, "big") + key
    if value is not None:
        told += b"\x01" + value
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "big")


@dataclass
class Tally:
    """Running figures of one slice."""

    read: int = 0
    written: int = 0
    found_present: int = 0
    tombstones: int = 0
    bytes_written: int = 0
    digest: int = 0
    crc32: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    skipped: Counter[SkipReason] = field(default_factory=Counter)

    def reading(self, records: Iterable[Record], on_progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        """Pass records on, counted."""
        reported = 0
        for record in records:
            self.read += 1
            self.last_offset = record.offset
            if self.first_offset is None:
                self.first_offset = record.offset
            if on_progress is not None and self.read - reported >= PROGRESS_EVERY:
                on_progress(self.read - reported)
                reported = self.read
            yield record
        if on_progress is not None:
            on_progress(self.read - reported)

    def carried(self, record: Record) -> None:
        """Count a record that is at the destination now, or will be."""
        key, value = record.key or b"", record.value  # the transform gives no record without a key
        self.written += 1
        self.digest = (self.digest + record_digest(key, value)) % _SUM_MODULUS
        self.crc32 = zlib.crc32(key, self.crc32)
        self.bytes_written += len(key)
        if value is None:
            self.tombstones += 1
        else:
            self.crc32 = zlib.crc32(value, self.crc32)
            self.bytes_written += len(value)

    def evidence(self, slice_: CopySlice, *, marker: bool, spans: dict[int, tuple[int, int]]) -> SliceEvidence:
        """Give the figures of a slice that was copied to its end."""
        offset_range, transform = slice_.offset_range, slice_.transform
        return SliceEvidence(
            slice_name=slice_.name,
            source_index=slice_.source_index,
            cluster_group_id=None if transform.destination is None else str(transform.destination),
            topic_type=slice_.topic_type,
            topic=offset_range.topic,
            partition=offset_range.partition,
            start=offset_range.start,
            end=offset_range.end,
            destination_topic=slice_.destination_topic,
            first_offset=self.first_offset,
            last_offset=self.last_offset,
            read=self.read,
            written=self.written,
            found_present=self.found_present,
            tombstones=self.tombstones,
            bytes_written=self.bytes_written,
            skipped=dict(self.skipped),
            digest=f"{self.digest:016x}",
            crc32=self.crc32,
            marker_written=marker,
            destination_offsets=spans,
        )
