"""The copy of one source partition, shared by the local engine and by Spark.

One call consumes the planned range, gives each record its new key and produces it, in order, through one
producer. A key lives in one source partition, so order per key holds at the destination as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from connect_share.admin import Admin
from connect_share.client import Message, headers_of, to_record, to_whole_record
from connect_share.log.ranges import RangeReader, read_ranges
from connect_share.records import Record, TopicType
from connect_share.worker_config.client_settings import ClientSettings, Isolation
from migrator.copy.barrier import write_barrier
from migrator.copy.checked_writer import PROCESS_PRODUCERS, CheckedWriter, Outgoing, Producers
from migrator.copy.evidence import SliceEvidence, Tally
from migrator.copy.existing_records import ExistingRecords, Skipping, ranges_since
from migrator.plan.plan import CopySlice
from migrator.transform.canonical import fold_state
from migrator.transform.rules import Skipped, SkipReason

MARKER_KEY: Final = b"target-state-"
MARKER_VALUE: Final = b"null"
IDLE_TIMEOUT_S: Final = 60.0


def read_slice(
    slice_: CopySlice, settings: ClientSettings, *, client_id: str, idle_timeout_s: float = IDLE_TIMEOUT_S
) -> Iterator[Record]:
    """Yield the records of a slice as its own worker reads them.

    Raises:
        BrokerError: reading was refused.
        ReadToEndTimeoutError: the end of the range was not reached.
    """
    return read_ranges(
        settings,
        [slice_.offset_range],
        isolation=slice_.isolation,
        client_id=client_id,
        idle_timeout_s=idle_timeout_s,
        with_headers=True,
    )


def open_slice(slice_: CopySlice, settings: ClientSettings, *, client_id: str) -> RangeReader:
    """Begin to fetch a slice as its own worker reads it."""
    return RangeReader(settings, [slice_.offset_range], isolation=slice_.isolation, client_id=client_id)


def rewritten(
    slice_: CopySlice, records: Iterable[Record], tally: Tally, on_progress: Callable[[int], None] | None = None
) -> Iterator[Record]:
    """Yield what a slice writes, in order, with the new keys; ``tally`` counts what was read and left out."""
    if slice_.fold:
        yield from fold_state(slice_.transform, tally.reading(records, on_progress), tally.skipped)
        return
    transform = slice_.transform
    for record in tally.reading(records, on_progress):
        answer = transform.apply(record)
        if isinstance(answer, Skipped):
            tally.skipped[answer.reason] += 1
        else:
            yield answer


def begin_copy(
    slice_: CopySlice,
    consumer_settings: ClientSettings,
    producer_settings: ClientSettings,
    *,
    client_id: str,
    producers: Producers | None = None,
    present: ExistingRecords | None = None,
    opened: RangeReader | None = None,
    on_progress: Callable[[int], None] | None = None,
    idle_timeout_s: float = IDLE_TIMEOUT_S,
) -> BegunCopy:
    """Read one source partition and queue all that is to be written; what it gives waits for the acknowledgements.

    Between the two the caller may begin further slices with the same producers: small slices then share requests, of
    which a slice of its own needs one for each partition of the destination. In ``mirror`` mode memory does not grow
    with the size of a slice.

    Args:
        slice_: what to read and where to write.
        consumer_settings: of the source's worker.
        producer_settings: of the destination's worker.
        client_id: for both clients.
        producers: kept producers of the caller, by default those of the process.
        present: what an interrupted copy has left at the destination; not written again.
        opened: what reads the slice, if it was opened before; closed here.
        on_progress: called now and then with the number of records read since the last call.
        idle_timeout_s: seconds without a record after which reading is given up.

    Raises:
        BrokerError: reading or writing was refused; the destination may hold a part of the slice.
        ReadToEndTimeoutError: the end of the range was not reached.
        CopyError: an acknowledgement is missing; only from what is given.
    """
    tally = Tally()
    writer = CheckedWriter(producers or PROCESS_PRODUCERS, producer_settings, slice_.destination_topic, client_id)
    skipping = None

    def read() -> Iterator[list[Message]]:
        with open_slice(slice_, consumer_settings, client_id=client_id) as reader:
            yield from reader.batches(idle_timeout_s)

    if present is not None and present.found:
        lengths = present.lengths(rewritten(slice_, _records(read()), Tally()), slice_.destination_partitions)
        skipping = Skipping(lengths, slice_.destination_partitions)
    try:
        if skipping is None and not slice_.fold:
            with opened or open_slice(slice_, consumer_settings, client_id=client_id) as reader:
                _mirror(slice_, reader.batches(idle_timeout_s), tally, writer, on_progress)
        else:
            for record in rewritten(slice_, _records(read()), tally, on_progress):
                tally.carried(record)
                if skipping is not None and skipping.was_written(record):
                    tally.found_present += 1
                else:
                    writer.write(record)
        tally.settle()
        marker = slice_.topic_type is TopicType.CONFIG and tally.tombstones > 0
        if marker:
            _write_marker(writer, slice_, tally.last_offset)
    except BaseException:
        writer.abandon()
        raise

    def evidence() -> SliceEvidence:
        spans = dict(writer.offsets)
        if present is not None and skipping is not None:
            for number in skipping.lengths:
                first, last = present.spans[number]
                written = spans.get(number, (first, last))
                spans[number] = (min(first, written[0]), max(last, written[1]))
        return tally.evidence(slice_, marker=marker, spans=spans)

    return BegunCopy(writer, evidence)


class BegunCopy:
    """A slice of which everything was read and queued.

    Args:
        writer: which waits for acknowledgements.
        evidence: gives what was done, once all are there.
    """

    def __init__(self, writer: CheckedWriter, evidence: Callable[[], SliceEvidence]) -> None:
        self._writer = writer
        self._evidence = evidence

    @property
    def is_acknowledged(self) -> bool:
        """Whether :meth:`finish` has nothing to wait for.

        Raises:
            BrokerError: a record was refused.
        """
        try:
            return self._writer.is_acknowledged
        except BaseException:
            self._writer.abandon()
            raise

    @property
    def is_whole(self) -> bool:
        """Whether every record is known to be at the destination, whatever befell others."""
        return self._writer.is_whole

    def finish(self) -> SliceEvidence:
        """Wait for the acknowledgements that are missing; give what was done.

        Raises:
            BrokerError: a record was refused or not acknowledged in time.
            CopyError: fewer acknowledgements than records.
        """
        try:
            self._writer.finish()
        except BaseException:
            self._writer.abandon()
            raise
        return self._evidence()


def _records(batches: Iterable[list[Message]]) -> Iterator[Record]:
    return (to_whole_record(message) for batch in batches for message in batch)


def _mirror(
    slice_: CopySlice,
    batches: Iterable[list[Message]],
    tally: Tally,
    writer: CheckedWriter,
    on_progress: Callable[[int], None] | None,
) -> None:
    """Do what :func:`rewritten` does in ``mirror`` mode, and write, without a :class:`Record` for each message.

    Twice as fast: of a copy's time most is what is done for each single record.
    """
    transform = slice_.transform
    prefix, (beginnings, cut) = transform.prefix, transform.sure_beginnings
    for batch in batches:
        going: list[Outgoing] = []
        for message in batch:
            key: Any = message.key()
            if key is not None and key.startswith(beginnings):
                key = prefix + key[cut:]
            else:
                original = transform.original_key(key)
                if isinstance(original, SkipReason):
                    tally.skipped[original] += 1
                    continue
                key = prefix + original
            value: Any = message.value()
            headers: Any = headers_of(message)
            if headers is None:
                to_record(message, headers).whole_headers()  # raises
            going.append((key, value, message.timestamp()[1], [*headers] if headers else None))
        tally.took(batch, going)
        writer.write_all(going)
        if on_progress is not None:
            on_progress(len(batch))


def _write_marker(writer: CheckedWriter, slice_: CopySlice, last_offset: int | None) -> None:
    """Close with the group's marker: without it a cleaned tombstone would move the group's position back."""
    writer.write(
        Record(
            topic=slice_.destination_topic,
            partition=0,
            offset=last_offset or 0,
            timestamp_ms=int(time.time() * 1000),
            key=slice_.transform.prefix + MARKER_KEY,
            value=MARKER_VALUE,
        )
    )


@dataclass(frozen=True)
class CopyJob:
    """A slice with all that is needed to copy it anywhere: what an engine sends to a worker process.

    It holds client settings, hence secrets: it is pickled to workers, never written to a file.

    Attributes:
        destination_starts: per destination partition the end offset before anything was written.
        resumed: an interrupted copy may have written a part of it.
    """

    slice_: CopySlice
    consumer_settings: ClientSettings
    producer_settings: ClientSettings
    destination_consumer_settings: ClientSettings
    destination_starts: tuple[tuple[int, int], ...]
    client_id: str
    resumed: bool = False

    def begin(
        self,
        *,
        present: ExistingRecords | None = None,
        producers: Producers | None = None,
        opened: RangeReader | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> BegunCopy:
        """Queue all that is to be written; what this gives waits for the acknowledgements.

        Args:
            present: what is there.
            producers: kept producers of the caller.
            opened: what :meth:`open` gave.
            on_progress: told of records read.

        Raises:
            ConnectShareError: as :func:`begin_copy`.
        """
        if present is None and self.resumed:
            present = self.read_back()
        return begin_copy(
            self.slice_,
            self.consumer_settings,
            self.producer_settings,
            client_id=self.client_id,
            producers=producers,
            present=present,
            opened=opened,
            on_progress=on_progress,
        )

    def open(self, *, present: ExistingRecords | None = None) -> RangeReader | None:
        """Begin to fetch the slice ahead of :meth:`begin`, unless it is read in another way."""
        if present is not None or self.resumed or self.slice_.fold:
            return None
        return open_slice(self.slice_, self.consumer_settings, client_id=self.client_id)

    def read_back(self) -> ExistingRecords:
        """Read what was written under the keys of this slice's destination since the copy began.

        Raises:
            BrokerError: reading was refused, or replicas are missing.
        """
        slice_, settings = self.slice_, self.destination_consumer_settings
        starts = dict(self.destination_starts)
        write_barrier(
            self.producer_settings,
            slice_.topic_type,
            slice_.destination_topic,
            starts,
            prefix=slice_.transform.prefix,
            client_id=self.client_id,
        )
        with Admin(settings, client_id=self.client_id) as admin:
            ends = admin.end_offsets([(slice_.destination_topic, number) for number in starts])
        ranges = ranges_since(slice_.destination_topic, starts, {number: end for (_, number), end in ends.items()})
        records = read_ranges(
            settings,
            ranges,
            isolation=Isolation.READ_UNCOMMITTED,
            client_id=self.client_id,
            idle_timeout_s=IDLE_TIMEOUT_S,
            with_headers=True,
        )
        return ExistingRecords.read(records, slice_.transform)
