"""The copy of one source partition, shared by the local engine and by Spark.

One call consumes the planned range, gives each record its new key and produces it, in order, through one
producer. A key lives in one source partition, so order per key holds at the destination as well.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict

from connect_share.admin import Admin
from connect_share.keys import SEPARATOR
from connect_share.log.ranges import read_ranges
from connect_share.records import OffsetRange, Record, TopicType
from connect_share.worker_config.client_settings import ClientSettings, Isolation
from migrator.plan import CopySlice
from migrator.rewrite import KafkaConnectTopicMigrator, Skipped, SkipReason
from migrator.writing import PROCESS_PRODUCERS, CheckedWriter, Producers

MARKER_KEY: Final = b"target-state-"
MARKER_VALUE: Final = b"null"
IDLE_TIMEOUT_S: Final = 60.0
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
    cluster_group_id: str
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


def _identity(record: Record) -> bytes:
    """Everything by which a written record can be recognised again, in 16 bytes."""
    told = (record.key, record.value, record.timestamp_ms, record.headers)
    return hashlib.blake2b(repr(told).encode(), digest_size=16).digest()


@dataclass
class _Tally:
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

    def saw(self, record: Record) -> None:
        self.read += 1
        self.last_offset = record.offset
        if self.first_offset is None:
            self.first_offset = record.offset

    def carried(self, key: bytes, value: bytes | None) -> None:
        self.written += 1
        self.digest = (self.digest + record_digest(key, value)) % _SUM_MODULUS
        self.crc32 = zlib.crc32(key, self.crc32)
        self.bytes_written += len(key)
        if value is None:
            self.tombstones += 1
        else:
            self.crc32 = zlib.crc32(value, self.crc32)
            self.bytes_written += len(value)


def _written_before(
    slice_: CopySlice, starts: Mapping[int, int], settings: ClientSettings, client_id: str
) -> Counter[bytes]:
    """Read back what earlier attempts wrote for this group; empty when there was none."""
    partitions = [(slice_.destination_topic, number) for number in range(slice_.destination_partitions)]
    with Admin(settings, client_id=client_id) as admin:
        ends = admin.end_offsets(partitions)
    ranges = [
        OffsetRange(topic, number, starts[number], ends[(topic, number)])
        for topic, number in partitions
        if ends[(topic, number)] > starts[number]
    ]
    prefix = slice_.cluster_group_id.encode() + SEPARATOR
    records = read_ranges(
        settings,
        ranges,
        isolation=Isolation.READ_UNCOMMITTED,
        client_id=client_id,
        idle_timeout_s=IDLE_TIMEOUT_S,
    )
    return Counter(_identity(record) for record in records if record.key and record.key.startswith(prefix))


def copy_slice(
    slice_: CopySlice,
    migrator: KafkaConnectTopicMigrator,
    consumer_settings: ClientSettings,
    producer_settings: ClientSettings,
    *,
    client_id: str,
    producers: Producers | None = None,
    present: Counter[bytes] | None = None,
    on_progress: Callable[[int], None] | None = None,
    idle_timeout_s: float = IDLE_TIMEOUT_S,
) -> SliceEvidence:
    """Copy one source partition; memory does not grow with its size.

    Args:
        slice_: what to read and where to write.
        migrator: gives the new keys.
        consumer_settings: of the source's worker.
        producer_settings: of the destination's worker.
        client_id: for both clients.
        producers: kept producers of the caller, by default those of the process.
        present: what earlier attempts of the same task left at the destination; not written again.
        on_progress: called now and then with the number of records read since the last call.
        idle_timeout_s: seconds without a record after which reading is given up.

    Raises:
        BrokerError: reading or writing was refused; the destination may hold a part of the slice.
        ReadToEndTimeoutError: the end of the range was not reached.
        CopyError: an acknowledgement is missing.
    """
    tally = _Tally()
    left = Counter(present or ())
    reported = 0
    writer = CheckedWriter(producers or PROCESS_PRODUCERS, producer_settings, slice_.destination_topic, client_id)
    records: Iterator[Record] = read_ranges(
        consumer_settings,
        [slice_.offset_range],
        isolation=slice_.isolation,
        client_id=client_id,
        idle_timeout_s=idle_timeout_s,
    )

    def carry(record: Record) -> None:
        tally.carried(record.key or b"", record.value)  # the transform gives no record without a key
        if left and (identity := _identity(record)) in left:
            left[identity] -= 1
            if not left[identity]:
                del left[identity]
            tally.found_present += 1
        else:
            writer.write(record)

    try:
        for record in records:
            tally.saw(record)
            rewritten = migrator.apply(record)
            if isinstance(rewritten, Skipped):
                tally.skipped[rewritten.reason] += 1
            else:
                carry(rewritten)
            if on_progress is not None and tally.read - reported >= PROGRESS_EVERY:
                on_progress(tally.read - reported)
                reported = tally.read
        marker = slice_.topic_type is TopicType.CONFIG and tally.tombstones > 0
        if marker:
            _write_marker(writer, slice_, tally.last_offset)
        writer.finish()
    except BaseException:
        writer.abandon()
        raise
    if on_progress is not None:
        on_progress(tally.read - reported)
    return SliceEvidence(
        slice_name=slice_.name,
        source_index=slice_.source_index,
        cluster_group_id=slice_.cluster_group_id,
        topic_type=slice_.topic_type,
        topic=slice_.offset_range.topic,
        partition=slice_.offset_range.partition,
        start=slice_.offset_range.start,
        end=slice_.offset_range.end,
        destination_topic=slice_.destination_topic,
        first_offset=tally.first_offset,
        last_offset=tally.last_offset,
        read=tally.read,
        written=tally.written,
        found_present=tally.found_present,
        tombstones=tally.tombstones,
        bytes_written=tally.bytes_written,
        skipped=dict(tally.skipped),
        digest=f"{tally.digest:016x}",
        crc32=tally.crc32,
        marker_written=marker,
        destination_offsets=writer.offsets,
    )


def _write_marker(writer: CheckedWriter, slice_: CopySlice, last_offset: int | None) -> None:
    """Close with the group's marker: without it a cleaned tombstone would move the group's position back."""
    writer.write(
        Record(
            topic=slice_.destination_topic,
            partition=0,
            offset=last_offset or 0,
            timestamp_ms=int(time.time() * 1000),
            key=slice_.cluster_group_id.encode() + SEPARATOR + MARKER_KEY,
            value=MARKER_VALUE,
        )
    )


@dataclass(frozen=True)
class CopyJob:
    """A slice with all that is needed to copy it anywhere: what an engine sends to a worker process.

    It holds client settings, hence secrets: it is pickled to workers, never written to a file.

    Attributes:
        destination_starts: per destination partition the end offset before anything was written.
    """

    slice_: CopySlice
    consumer_settings: ClientSettings
    producer_settings: ClientSettings
    destination_consumer_settings: ClientSettings
    destination_starts: tuple[tuple[int, int], ...]
    client_id: str

    def run(
        self,
        *,
        attempt: int = 0,
        producers: Producers | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> SliceEvidence:
        """Copy the slice; ``attempt`` above 0 first reads back what earlier attempts wrote.

        Raises:
            ConnectShareError: as :func:`copy_slice`.
        """
        present: Counter[bytes] | None = None
        if attempt > 0:
            present = _written_before(
                self.slice_,
                dict(self.destination_starts),
                self.destination_consumer_settings,
                self.client_id,
            )
        return copy_slice(
            self.slice_,
            self.slice_.migrator(),
            self.consumer_settings,
            self.producer_settings,
            client_id=self.client_id,
            producers=producers,
            present=present,
            on_progress=on_progress,
        )
