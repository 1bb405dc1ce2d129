"""The copy of one source partition, shared by the local engine and by Spark; and the local engine.

One call consumes the planned range, gives each record its new key and produces it, in order, through one
producer. A key lives in one source partition, so order per key holds at the destination as well. The local engine
continues when the destination was lost for a while.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from connect_share import client
from connect_share.admin import Admin
from connect_share.client import headers_of, to_record, to_whole_record
from connect_share.keys import MARKER
from connect_share.log.ranges import RangeReader, read_ranges
from connect_share.migration_errors import UnacknowledgedError
from connect_share.progress import Progress, Silent
from connect_share.records import Record, TopicType
from connect_share.sealing.cipher import is_sealed
from connect_share.topic_io.checked_writer import (
    PROCESS_PRODUCERS,
    PRODUCER_OVERRIDES,
    CheckedWriter,
    Outgoing,
    Producers,
)
from connect_share.topic_io.facts import IDLE_TIMEOUT_S
from connect_share.transform.canonical import fold_state
from connect_share.transform.rules import KeyTransform, Skipped, SkipReason
from connect_share.transform.sealed import NO_SEALING, Opening, Passage, Sealing, Times
from connect_share.worker_config.client_settings import ClientSettings, Isolation
from migrator.copy.evidence import SliceEvidence, Tally
from migrator.copy.existing_records import BARRIER_RECORDS, ExistingRecords, ResumePoint, ranges_since
from migrator.plan.plan import CopySlice

_logger = logging.getLogger(__name__)

LOCAL_ENGINE: Final = "local"
OPEN_AHEAD: Final = 1
"""Slices fetched while one is written. A second thread would take a quarter more CPU time without a gain."""
_MAX_ATTEMPTS_IN_VAIN: Final = 3
"""Attempts to continue without anything new at the destination."""
_BROKER_HANDLES_S: Final = 1.0
"""Time in which a broker has handled what it had received when a connection broke."""
"""By topic type, original key and value of the record that :meth:`CopyJob.write_barrier` writes."""


def marker(topic: str, prefix: bytes) -> Record:
    """Return the group's marker: without it a cleaned tombstone of a config topic would move the group's position back."""
    return Record(topic, 0, 0, int(time.time() * 1000), prefix + MARKER[0], MARKER[1])


def rewritten(
    slice_: CopySlice,
    records: Iterable[Record],
    tally: Tally,
    on_progress: Callable[[int], None] | None = None,
    *,
    passage: Passage,
) -> Iterator[Record]:
    """Yield what a slice writes, in order, with the new keys, not sealed yet; ``tally`` counts what was read and left out."""
    transform, meant = slice_.transform, passage.sealer.meant
    opened = passage.opening.taken(tally.count_read(records, on_progress), tally.skipped)
    if slice_.fold:
        yield from map(meant, fold_state(transform, opened, tally.skipped))
        return
    for record in opened:
        answer = transform.apply(record)
        if isinstance(answer, Skipped):
            tally.skipped[answer.reason] += 1
        else:
            yield meant(answer)


@dataclass(frozen=True)
class PendingCopy:
    """A slice of which everything was read and queued; its acknowledgements may still be missing."""

    slice_: CopySlice
    writer: CheckedWriter
    tally: Tally
    resume_point: ResumePoint | None
    marker: bool

    def finish(self) -> SliceEvidence:
        """Wait for the missing acknowledgements and return what was done.

        Raises:
            BrokerError: a record was refused or not acknowledged in time.
            CopyError: fewer acknowledgements than records.
        """
        self.writer.finish()
        offsets, resumed = self.writer.offsets, self.resume_point
        spans = offsets if resumed is None else resumed.spans(offsets)
        return self.tally.evidence(self.slice_, marker=self.marker, spans=spans)


@dataclass(frozen=True)
class CopyJob:
    """A slice with all that is needed to copy it anywhere: what an engine sends to a worker process.

    It holds client settings and keys, hence secrets: it is pickled to workers, never written to a file.

    Attributes:
        destination_starts: per destination partition the end offset before anything was written.
        resumed: an interrupted copy may have written a part of it.
        source_sealing: of the source's worker file.
        sealing: of the destination's.
        times: of what the source has before the slice, and the destination before ``destination_starts``.
        noted: gets the times behind the slice, in this process.
    """

    slice_: CopySlice
    consumer_settings: ClientSettings
    producer_settings: ClientSettings
    destination_consumer_settings: ClientSettings
    destination_starts: tuple[tuple[int, int], ...]
    client_id: str
    resumed: bool = False
    source_sealing: Sealing = NO_SEALING
    sealing: Sealing = NO_SEALING
    times: Times = field(default_factory=Times)
    noted: Times = field(default_factory=Times)

    def open(self) -> RangeReader:
        """Begin to fetch the slice as its own worker reads it."""
        slice_ = self.slice_
        return RangeReader(
            self.consumer_settings, [slice_.offset_range], isolation=slice_.isolation, client_id=self.client_id
        )

    def begin(
        self,
        producers: Producers = PROCESS_PRODUCERS,
        *,
        existing: ExistingRecords | None = None,
        reader: RangeReader | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> PendingCopy:
        """Read the slice and queue all that is to be written.

        Before :meth:`PendingCopy.finish` the caller may begin further slices with the same producers. Small slices then
        share requests; a slice of its own needs one for each partition of the destination.

        Args:
            producers: kept producers of the caller, by default those of the process.
            existing: what an interrupted copy has left at the destination; not written again.
            reader: what :meth:`open` returned; closed here.
            on_progress: called now and then with the number of records read since the last call.

        Raises:
            BrokerError: reading or writing was refused; the destination may hold a part of the slice.
            ReadToEndTimeoutError, ConfigError: the end of the range was not reached; a key of the source is missing.
        """
        slice_, passage, resume_point = self.slice_, self.passage(existing), None
        tally = Tally(self.source_sealing.salt + self.sealing.salt)
        writer = CheckedWriter(producers, self.producer_settings, slice_.destination_topic, self.client_id)
        try:
            if existing is not None and existing.found:
                with reader or self.open() as first:
                    sent = rewritten(slice_, _records(first), Tally(), passage=self.passage())
                    resume_point, reader = existing.resume_point(sent, slice_.destination_partitions), None
            with reader or self.open() as source:
                if resume_point is None and not slice_.fold and passage.is_plain:
                    _mirror(slice_, source, tally, writer, opening=passage.opening, on_progress=on_progress)
                else:
                    for record in rewritten(slice_, _records(source), tally, on_progress, passage=passage):
                        tally.add(record)
                        if resume_point is not None and resume_point.passes(record):
                            tally.found_present += 1
                        else:
                            writer.write(passage.sealed(record))
            passage.end(self.noted)
            tally.flush()  # a sealed removal is no tombstone
            needs_marker = slice_.topic_type is TopicType.CONFIG and tally.tombstones > 0
            if needs_marker:
                writer.write(marker(slice_.destination_topic, slice_.transform.prefix))
        except BaseException:
            writer.abandon()
            raise
        return PendingCopy(slice_, writer, tally, resume_point, needs_marker)

    def passage(self, existing: ExistingRecords | None = None) -> Passage:
        """Return a new way of its values, after what an interrupted copy has left."""
        times = self.times if existing is None else self.times.behind(existing.newest)
        return Passage(self.slice_.transform, self.source_sealing, self.sealing, times)

    def read_existing(self) -> ExistingRecords:
        """Read what was written under the keys of this slice's destination since the copy began.

        Raises:
            BrokerError: reading was refused, or replicas are missing.
        """
        slice_, settings = self.slice_, self.destination_consumer_settings
        starts = dict(self.destination_starts)
        self.write_barrier()
        with Admin(settings, client_id=self.client_id) as admin:
            ends = admin.end_offsets([(slice_.destination_topic, number) for number in starts])
        records = read_ranges(
            settings,
            ranges_since(slice_.destination_topic, starts, {number: end for (_, number), end in ends.items()}),
            isolation=Isolation.READ_UNCOMMITTED,
            client_id=self.client_id,
            idle_timeout_s=IDLE_TIMEOUT_S,
            with_headers=True,
        )
        opening = Opening(self.sealing, slice_.transform.at_destination(), self.times.destination)
        return ExistingRecords.read(records, slice_.transform, opening)

    def write_barrier(self) -> None:
        """Make visible what an interrupted copy has written: write one record to each partition of the destination.

        A record that was not acknowledged may be in its partition all the same. It lies behind the high watermark while
        replicas are missing, and becomes visible when they are back. A resume that reads before that would write it once
        more. When all replicas have acknowledged a record behind it, everything before that record is visible.

        Raises:
            BrokerError: a record was not acknowledged, such as while replicas are missing.
        """
        topic, (key, value) = self.slice_.destination_topic, BARRIER_RECORDS[self.slice_.topic_type]
        producer = client.producer(
            self.producer_settings, client_id=self.client_id, overrides=PRODUCER_OVERRIDES, idempotent=True
        )
        failures: list[client.KafkaError] = []
        whole_key = self.slice_.transform.prefix + key
        value = self.passage().sealer.sealed(whole_key, value, int(time.time() * 1000))

        @client.callback
        def delivered(error: client.KafkaError | None, _: client.Message) -> None:
            if error is not None:
                failures.append(error)

        try:
            for partition, _ in self.destination_starts:
                producer.produce(topic, key=whole_key, value=value, partition=partition, on_delivery=delivered)
            while len(producer):  # each record has a time-out of its own
                producer.flush(0.5)
        except client.KafkaException as error:  # a fatal one
            raise client.translate(error, doing=f"writing to {topic}", needs=client.TopicRight.WRITE) from error
        if failures:
            raise client.translate(failures[0], doing=f"writing to {topic}", needs=client.TopicRight.WRITE)


def _records(reader: RangeReader) -> Iterator[Record]:
    return (to_whole_record(message) for batch in reader.batches(IDLE_TIMEOUT_S) for message in batch)


def _mirror(
    slice_: CopySlice,
    reader: RangeReader,
    tally: Tally,
    writer: CheckedWriter,
    *,
    opening: Opening,
    on_progress: Callable[[int], None] | None,
) -> None:
    """Do what :func:`rewritten` does in ``mirror`` mode, and write, without a :class:`Record` for each message.

    Twice as fast: most of a copy's time is spent on each single record. Both sides have no keys.
    """
    transform = slice_.transform
    prefix, (beginnings, cut) = transform.prefix, transform.sure_beginnings
    for batch in reader.batches(IDLE_TIMEOUT_S):
        outgoing: list[Outgoing] = []
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
            if (is_sealed(value) or opening.unopened) and opening.take(to_record(message)) is None:
                tally.skipped[SkipReason.REFUSED] += 1
                continue
            headers: Any = headers_of(message)
            if headers is None:
                to_record(message, headers).whole_headers()  # raises
            outgoing.append((key, value, message.timestamp()[1], [*headers] if headers else None))
        tally.add_batch(batch, outgoing)
        writer.write_all(outgoing)
        if on_progress is not None:
            on_progress(len(batch))


Engine = Callable[[Sequence[CopyJob]], Iterable[SliceEvidence]]
"""Runs every job once and yields the evidence as jobs end, in any order."""
_Space = tuple[TopicType, KeyTransform]


def local_engine(progress: Progress, producers: Producers | None = None) -> Engine:
    """Return the engine that copies in this process; ``producers`` are made with ``once``."""
    return partial(copy_all, producers=producers or Producers(once=True), progress=progress)


def copy_one(job: CopyJob, *, resumed: bool = False) -> SliceEvidence:
    """Copy one slice with producers that are kept for the next one.

    With ``resumed`` an earlier attempt may have written; what is there is not written again.

    Raises:
        ConnectShareError: as :func:`copy_all`.
    """
    (evidence,) = copy_all([replace(job, resumed=job.resumed or resumed)], PROCESS_PRODUCERS, Silent())
    return evidence


def copy_all(jobs: Sequence[CopyJob], producers: Producers, progress: Progress) -> Iterator[SliceEvidence]:
    """Copy slices one after the other, and yield the evidence of each.

    A batch whose answer does not come, as when a broker is killed, is never sent again: a broker may have taken it and
    have forgotten that. Instead the destination is read, as by a resume, and what is missing there is written.

    Raises:
        BrokerError: reading or writing was refused, or the destination did not come back in time.
        ReadToEndTimeoutError: the end of a range was not reached.
        CopyError: an acknowledgement is missing.
    """
    left = {job.slice_.name: job for job in jobs}
    existing = _read_existing(jobs, progress)
    in_vain, reached = 0, (-len(left), sum(each.count for each in existing.values()))
    while left:
        ranges = [job.slice_.offset_range for job in left.values()]
        progress.phase("copying", sum(part.end - part.start for part in ranges))
        try:
            for evidence in _copy(list(left.values()), existing, producers, progress):
                del left[evidence.slice_name]
                yield evidence
        except UnacknowledgedError as lost:
            _logger.warning(
                "%s: reading what the destination has, then copying the remaining %d slices", lost, len(left)
            )
            left = {name: replace(job, resumed=True) for name, job in left.items()}
            time.sleep(_BROKER_HANDLES_S)
            existing = _read_existing(list(left.values()), progress)
            before, reached = reached, (-len(left), sum(each.count for each in existing.values()))
            in_vain = 0 if reached > before else in_vain + 1
            if in_vain == _MAX_ATTEMPTS_IN_VAIN:
                raise


def _copy(
    jobs: Sequence[CopyJob], existing: Mapping[_Space, ExistingRecords], producers: Producers, progress: Progress
) -> Iterator[SliceEvidence]:
    begun: deque[PendingCopy] = deque()
    opened: deque[RangeReader] = deque()
    with ExitStack() as stack:
        try:
            for number, job in enumerate(jobs):
                # While a slice is being written the next one is fetched.
                for ahead in jobs[number + len(opened) : number + 1 + OPEN_AHEAD]:
                    opened.append(stack.enter_context(ahead.open()))
                begun.append(
                    job.begin(
                        producers,
                        existing=existing.get(_space(job)),
                        reader=opened.popleft(),
                        on_progress=progress.advance,
                    )
                )
                # Without waiting for acknowledgements: the brokers work while the next slices are read.
                while begun and begun[0].writer.is_settled:
                    yield begun.popleft().finish()
            while begun:
                yield begun.popleft().finish()
        except UnacknowledgedError:
            yield from (each.finish() for each in begun if each.writer.is_acknowledged)
            raise


def _space(job: CopyJob) -> _Space:
    """Return what slices have in common whose copies are found by one read of the destination."""
    return job.slice_.topic_type, job.slice_.transform.at_destination()


def _read_existing(jobs: Sequence[CopyJob], progress: Progress) -> dict[_Space, ExistingRecords]:
    existing: dict[_Space, ExistingRecords] = {}
    resumed = [job for job in jobs if job.resumed]
    if resumed:
        progress.phase("reading what the destination has", 0)
    for job in resumed:
        if _space(job) not in existing:
            existing[_space(job)] = job.read_existing()
    return existing
