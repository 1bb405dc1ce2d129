"""The copy of one source partition, shared by the local engine and by Spark, and its evidence: counts and digests.

One call consumes the planned range, gives each record its new key and produces it, in order, through one
producer. A key lives in one source partition, so order per key holds at the destination as well.

The engine of this process: copies slices, plain records unopened, and goes on when the destination was lost.
"""

from __future__ import annotations

import hashlib
import logging
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, Final, Self, cast

from connect_share.errors import BrokerError, UnacknowledgedError, UnreadableHeadersError
from connect_share.files import Progress, counted
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Message, ask_headers, to_record, to_whole_record
from connect_share.kafka.read import RangeReader, Reader
from connect_share.kafka.write import PROCESS_PRODUCERS, CheckedWriter, Outgoing, Producers
from connect_share.model.keys import MARKER
from connect_share.model.records import OffsetRange, Record, TopicType, now_ms, size_of
from connect_share.model.removal import BARRIER_RECORDS
from connect_share.sealing.cipher import is_sealed
from connect_share.transform.canonical import fold_state
from connect_share.transform.rules import KeyTransform, Skipped, SkipReason
from connect_share.transform.sealed import NO_SEALING, Opener, Resealer, Sealing, SealTimes
from connect_share.worker_config import ClientSettings, Isolation
from migrator.copy.existing_records import ExistingRecords, ResumePoint
from migrator.plan import CopySlice, MigrationPlan, PlanPart

_AT_ONCE: Final = 4_000
"""Keys and values hashed in one call: a call for each costs more than the hashing."""


class SliceEvidence(PlanPart):
    """The result of copying one slice; one per source partition, never per record.

    Attributes:
        first_offset: of the first record read, ``None`` when there was none.
        last_offset: of the last record read.
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
        barriers: how many records a resume has written beside, of all slices that it goes on with in this topic.
    """

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
    barriers: int = 0


class Tally:
    """Running figures of one slice.

    ``salt`` is secret: the digest begins with it where values are not for everybody's eyes.

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
            cluster_group_id=transform.destination,
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


_logger = logging.getLogger(__name__)


def marker(topic: str, prefix: bytes) -> Record:
    """Return the group's marker: without it a cleaned tombstone of a config topic would move the group's position back."""
    return Record(topic, 0, 0, now_ms(), prefix + MARKER[0], MARKER[1])


def rewritten(
    slice_: CopySlice,
    records: Iterable[Record],
    tally: Tally,
    on_progress: Callable[[int], None] | None = None,
    *,
    resealer: Resealer,
) -> Iterator[Record]:
    """Yield what a slice writes, in order, with the new keys, not sealed yet; ``tally`` counts what was read and left out."""
    transform, before_sealing = slice_.transform, resealer.sealer.before_sealing
    opened = resealer.opener.open_all(tally.count_read(records, on_progress), tally.skipped)
    if slice_.replaced:
        opened = _without_replaced(slice_, opened, tally)
    if slice_.fold:
        yield from map(before_sealing, fold_state(transform, opened, tally.skipped))
        return
    for record in opened:
        answer = transform.apply(record)
        if isinstance(answer, Skipped):
            tally.skipped[answer.reason] += 1
        else:
            yield before_sealing(answer)


def _without_replaced(slice_: CopySlice, records: Iterable[Record], tally: Tally) -> Iterator[Record]:
    for record in records:
        if slice_.transform.original_key(record.key) in slice_.replaced:
            tally.skipped[SkipReason.REPLACED] += 1
        else:
            yield record


class PendingCopy:
    """The copy of one slice with all that goes along; after :meth:`end` its acknowledgements may still be missing.

    ``existing`` is what an interrupted copy has left at the destination.
    """

    def __init__(self, job: CopyJob, producers: Producers, existing: ExistingRecords | None = None) -> None:
        self.job = job
        self.resealer = job.resealer(existing)
        self.tally = Tally(job.source_sealing.salt + job.sealing.salt)
        self.writer = CheckedWriter(producers, job.producer_settings, job.slice_.destination_topic, job.client_id)
        self.resume_point: ResumePoint | None = None
        self._has_marker = False

    def end(self) -> Self:
        """Return the copy after its last record was queued; a config topic with tombstones gets its marker."""
        slice_ = self.job.slice_
        self.resealer.add_times_to(self.job.noted)
        self.tally.flush()  # a sealed removal is no tombstone
        self._has_marker = slice_.topic_type is TopicType.CONFIG and self.tally.tombstones > 0
        if self._has_marker:
            self.writer.write(marker(slice_.destination_topic, slice_.transform.prefix))
        return self

    def finish(self, ends: Mapping[int, int] | None = None) -> SliceEvidence:
        """Wait for the missing acknowledgements and return what was done; raises as :meth:`CheckedWriter.finish`.

        A bulk producer does not say where the records are: ``ends`` are those of the destination's partitions, asked for
        when all was acknowledged.
        """
        self.writer.finish()
        offsets, resumed = self.writer.offsets, self.resume_point
        if ends is not None:
            starts = self.job.destination_starts
            offsets = {number: (start, ends[number] - 1) for number, start in starts if ends[number] > start}
        spans = offsets if resumed is None else resumed.spans(offsets)
        return self.tally.evidence(self.job.slice_, marker=self._has_marker, spans=spans)


def finish_together(begun: Sequence[PendingCopy]) -> Iterator[SliceEvidence]:
    """Wait for all acknowledgements of copies by one bulk producer, and yield what was done.

    Raises:
        UnacknowledgedError: acknowledgements stay away, or the ends of the topics cannot be learnt just now.
    """
    for each in begun:
        each.writer.finish()
    jobs = [each.job for each in begun]
    places = {(job.slice_.destination_topic, number) for job in jobs for number, _ in job.destination_starts}
    try:
        with Admin(jobs[0].destination_consumer_settings, client_id=jobs[0].client_id) as admin:
            ends = admin.end_offsets(sorted(places))
    except BrokerError as error:
        if not error.retriable:
            raise
        raise UnacknowledgedError(f"all was acknowledged, but not where the topics end: {error}") from error
    for each in begun:
        topic = each.job.slice_.destination_topic
        yield each.finish({number: end for (name, number), end in ends.items() if name == topic})


@dataclass(frozen=True)
class CopyJob:
    """A slice with all that is needed to copy it anywhere: what an engine sends to a worker process.

    It holds client settings and keys, hence secrets: it is pickled to workers, never written to a file.

    Attributes:
        destination_starts: per destination partition the end offset before anything was written.
        resumed: an interrupted copy may have written a part of it.
        stamped: the destination's topic gives records the time of their write.
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
    stamped: bool = False
    source_sealing: Sealing = NO_SEALING
    sealing: Sealing = NO_SEALING
    times: SealTimes = field(default_factory=SealTimes)
    noted: SealTimes = field(default_factory=SealTimes)

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

        ``existing``: what an interrupted copy has left at the destination, which is not written again. ``reader``: what
        :func:`open_slices` returned; closed here.

        Raises:
            BrokerError: reading or writing was refused; the destination may hold a part of the slice.
            ReadToEndTimeoutError, ConfigError: the end of the range was not reached; a key of the source is missing.
        """
        slice_, copy, resume_point = self.slice_, PendingCopy(self, producers, existing), None
        resealer, tally, writer = copy.resealer, copy.tally, copy.writer
        try:
            if existing is not None and existing.found:
                with reader or open_slices([self]) as first:
                    sent = rewritten(slice_, _records(first), Tally(), resealer=self.resealer())
                    resume_point, reader = existing.resume_point(sent, slice_.destination_partitions), None
                    copy.resume_point = resume_point
            with reader or open_slices([self]) as source:
                for record in rewritten(slice_, _records(source), tally, on_progress, resealer=resealer):
                    tally.add(record)
                    if resume_point is not None and resume_point.passes(record):
                        tally.found_present += 1
                    else:
                        writer.write(resealer.sealed(record))
            return copy.end()
        except BaseException:
            writer.abandon()
            raise

    def may_be_mirrored(self, existing: ExistingRecords | None) -> bool:
        """Return whether every record is copied as it is but for its key; ``existing``: as for :meth:`begin`."""
        opens = self.source_sealing.keys is not None
        seals = self.sealing.keys is not None and self.slice_.transform.destination is not None
        return not (self.slice_.fold or self.slice_.replaced or (existing and existing.found) or opens or seals)

    def outgoing(self) -> Iterator[Record]:
        """Yield what is to be written, as it goes to the topic; markers are no larger."""
        resealer, topic = self.resealer(), self.slice_.destination_topic
        with open_slices([self]) as source:
            for record in rewritten(self.slice_, _records(source), Tally(), resealer=resealer):
                yield replace(resealer.sealed(record), topic=topic)

    def resealer(self, existing: ExistingRecords | None = None) -> Resealer:
        """Return a new way of its values, after what an interrupted copy has left."""
        times = self.times
        if existing is not None:
            times = SealTimes(times.source, {**times.destination, **existing.newest})
        return Resealer(self.slice_.transform, self.source_sealing, self.sealing, times)

    def read_existing(self) -> ExistingRecords:
        """Read what was written under the keys of this slice's destination since the copy began."""
        slice_, settings = self.slice_, self.destination_consumer_settings
        starts = dict(self.destination_starts)
        self.write_barrier()
        with Admin(settings, client_id=self.client_id) as admin:
            ends = admin.end_offsets([(slice_.destination_topic, number) for number in starts])
        ranges = [OffsetRange(topic, number, starts[number], end) for (topic, number), end in ends.items()]
        records = Reader(settings, self.client_id, Isolation.READ_UNCOMMITTED).records(ranges)
        opener = Opener(self.sealing, slice_.transform.at_destination(), self.times.destination)
        return ExistingRecords.read(records, opener, stamped=self.stamped)

    def write_barrier(self) -> None:
        """Make visible what an interrupted copy has written: write one record to each partition of the destination.

        A record that was not acknowledged may be in its partition all the same. It lies behind the high watermark while
        replicas are missing, and becomes visible when they are back. A resume that reads before that would write it once
        more. When all replicas have acknowledged a record behind it, everything before that record is visible.
        """
        topic, (key, value) = self.slice_.destination_topic, BARRIER_RECORDS[self.slice_.topic_type]
        writer = CheckedWriter(Producers(), self.producer_settings, topic, self.client_id)
        whole_key = self.slice_.transform.prefix + key
        record = Record(topic, 0, 0, 0, whole_key, self.resealer().sealer.sealed(whole_key, value, now_ms()))
        for place, _ in self.destination_starts:
            writer.write(record, place)
        writer.finish()


def open_slices(jobs: Sequence[CopyJob]) -> RangeReader:
    """Begin to fetch slices by one client, as their own worker reads them."""
    first, ranges = jobs[0], [job.slice_.offset_range for job in jobs]
    return Reader(first.consumer_settings, first.client_id, first.slice_.isolation).open(ranges)


def _records(reader: RangeReader) -> Iterator[Record]:
    return (to_whole_record(message) for batch in reader.batches() for message in batch)


def begin_together(
    jobs: Sequence[CopyJob],
    reader: RangeReader,
    producers: Producers,
    on_progress: Callable[[int], None] | None = None,
) -> list[PendingCopy]:
    """Read slices and queue all that is to be written, as :meth:`CopyJob.begin` does for one.

    The jobs may be mirrored and have different partitions; the reader has all their ranges, and is closed here.
    """
    copies = {job.slice_.offset_range[:2]: PendingCopy(job, producers) for job in jobs}
    alone = next(iter(copies.values())) if len(copies) == 1 else None
    try:
        with reader:
            for batch in reader.batches():
                if alone is not None:
                    _mirror(alone, batch)
                else:
                    for place, messages in groupby(batch, key=_place):
                        _mirror(copies[place], [*messages])
                if on_progress is not None:
                    on_progress(len(batch))
        return [copy.end() for copy in copies.values()]
    except BaseException:
        for copy in copies.values():
            copy.writer.abandon()
        raise


def begun_slices(
    jobs: Sequence[CopyJob], reader: RangeReader, existing: Callable[[CopyJob], ExistingRecords]
) -> Iterator[str]:
    """Yield the names of slices of which an interrupted copy may have left records: one of their keys is there.

    The jobs may be mirrored and have different partitions. The reader of all their ranges is closed as soon as all are
    known.
    """
    left = {job.slice_.offset_range[:2]: job for job in jobs}
    with reader:
        for batch in reader.batches():
            for place, messages in groupby(batch, key=_place):
                job = left.get(place)
                if job and existing(job).may_have_begun(job.slice_.transform, (each.key() for each in messages)):
                    yield left.pop(place).slice_.name
            if not left:
                return


def _place(message: Message) -> tuple[str, int]:
    return message.topic() or "", message.partition() or 0


def _mirror(copy: PendingCopy, batch: Sequence[Message]) -> None:
    """Queue the next records of a slice, as ``mirror`` mode rewrites them, without a ``Record`` for each message.

    Most of a copy's time is spent on each single record. Both sides have no keys.
    """
    transform, opener, skipped = copy.job.slice_.transform, copy.resealer.opener, copy.tally.skipped
    prefix, (beginnings, cut) = transform.prefix, transform.sure_beginnings
    refuses, topic, delivered = opener.seals.refuses, copy.writer.topic, copy.writer.delivered
    outgoing: list[Outgoing] = []
    for message in batch:
        key: Any = message.key()
        if key is not None and key.startswith(beginnings):
            key = prefix + key[cut:]
        else:
            original = transform.original_key(key)
            if isinstance(original, SkipReason):
                skipped[original] += 1
                continue
            key = prefix + original
        value: Any = message.value()
        if refuses and is_sealed(value) and opener.open(to_record(message)) is None:
            skipped[SkipReason.REFUSED] += 1
            continue
        try:
            headers = ask_headers(message) or None
        except SystemError:
            raise UnreadableHeadersError.at(*_place(message), message.offset() or 0) from None
        outgoing.append((topic, value, key, -1, delivered, delivered, message.timestamp()[1], headers))
    copy.tally.add_batch(batch, outgoing)
    copy.writer.write_all(outgoing)


LOCAL_ENGINE: Final = "local"
SPARK_ENGINE: Final = "spark"
OPEN_AHEAD: Final = 1
"""Clients that fetch while the slices of one are written. A second thread would take a quarter more CPU time without a
gain."""
TOGETHER: Final = 50_000
"""Offsets of slices that are read by one client; larger slices have one each."""
BULK: Final = 200_000
"""Offsets of a plan from which on the producer does not wait for larger batches, and says of failures only."""
_UNSETTLED: Final = 200_000
"""Records after which a bulk copy waits for their acknowledgements: what is in the manifest then, a resume need not read."""
_MAX_ATTEMPTS_IN_VAIN: Final = 3
"""Attempts to continue without anything new at the destination."""
BROKER_HANDLES_S: Final = 1.0
"""Time in which a broker has handled what it had received when a connection broke."""


class Wave(PlanPart):
    """Slices that begin together, when all that began before are at the destination.

    Attributes:
        slices: their names.
        destination_ends: of the destination's partitions before their first record.
    """

    slices: tuple[str, ...]
    destination_ends: dict[TopicType, dict[int, int]]

    @classmethod
    def of(cls, slices: Iterable[CopyJob], left: Sequence[CopyJob]) -> Wave:
        """Return what begins now, these of all that are left; asks for the ends."""
        topics = {job.slice_.topic_type: (job.slice_.destination_topic, job.destination_starts) for job in left}
        with Admin(left[0].destination_consumer_settings, client_id=left[0].client_id) as admin:
            found = admin.end_offsets([(topic, number) for topic, starts in topics.values() for number, _ in starts])
        ends = {kind: {at: found[topic, at] for at, _ in starts} for kind, (topic, starts) in topics.items()}
        return cls(slices=tuple(job.slice_.name for job in slices), destination_ends=ends)

    def begun(self, job: CopyJob, *, resumed: bool) -> CopyJob:
        """Return a job that reads what an interrupted copy has left behind these ends, if it is one of these slices."""
        starts = tuple(sorted(self.destination_ends[job.slice_.topic_type].items()))
        return replace(job, destination_starts=starts, resumed=resumed and job.slice_.name in self.slices)


Engine = Callable[[Sequence[CopyJob]], Iterable["SliceEvidence | Wave"]]
"""Runs every job once and yields the evidence as jobs end, in any order; a wave before slices begin beside no others: then a
resume reads what came since."""
_Space = tuple[TopicType, KeyTransform]


@contextmanager
def early_engine(jobs: Sequence[CopyJob], producers: Producers, progress: Progress) -> Iterator[Engine]:
    """Give the engine of this process; its producer gets its id, and its reader fetches what a copy of all reads first."""
    producers.get(jobs[0].producer_settings, jobs[0].client_id)
    with open_slices(_groups(jobs, {})[0]) as early:
        yield partial(copy_all, producers=producers, progress=progress, early=early)


def producers_for(plan: MigrationPlan) -> Producers:
    """Return the producers with which a whole plan is copied."""
    ranges = [slice_.offset_range for slice_ in plan.slices()]
    return Producers(once=True, bulk=sum(map(size_of, ranges)) > BULK)


def copy_all(
    jobs: Sequence[CopyJob], producers: Producers, progress: Progress, early: RangeReader | None = None
) -> Iterator[SliceEvidence]:
    """Copy slices one after the other in this process, and yield the evidence of each; ``producers`` send nothing twice.

    A batch whose answer does not come, as when a broker is killed, is never sent again: a broker may have taken it and
    have forgotten that. Instead the destination is read, as by a resume, and what is missing there is written.

    Raises:
        BrokerError: reading or writing was refused, or the destination did not come back in time.
        CopyError: an acknowledgement is missing.
    """
    left, barriers = {job.slice_.name: job for job in jobs}, Counter[TopicType]()
    existing, count = _read_existing(jobs, progress, barriers) if any(job.resumed for job in jobs) else ({}, 0)
    in_vain, reached = 0, (-len(left), count)
    while left:
        ranges = [job.slice_.offset_range for job in left.values()]
        progress.phase("copying", sum(map(size_of, ranges)))
        try:
            for evidence in _copy(list(left.values()), existing, producers, progress, early):
                del left[evidence.slice_name]
                yield evidence.model_copy(update={"barriers": barriers.pop(evidence.topic_type, 0)})
        except UnacknowledgedError as lost:
            _logger.warning(
                "%s: reading what the destination has, then copying the remaining %d slices", lost, len(left)
            )
            left, early = {name: replace(job, resumed=True) for name, job in left.items()}, None
            time.sleep(BROKER_HANDLES_S)
            existing, count = _read_existing(list(left.values()), progress, barriers)
            before, reached = reached, (-len(left), count)
            in_vain = 0 if reached > before else in_vain + 1
            if in_vain == _MAX_ATTEMPTS_IN_VAIN:
                raise


def _copy(
    jobs: Sequence[CopyJob],
    existing: Mapping[str, ExistingRecords],
    producers: Producers,
    progress: Progress,
    early: RangeReader | None,
) -> Iterator[SliceEvidence]:
    groups = _groups(jobs, existing)
    begun: deque[PendingCopy] = deque()
    opened: deque[RangeReader] = deque()
    if early is not None and early.ranges == [job.slice_.offset_range for job in groups[0]]:
        opened.append(early)
    with ExitStack() as stack:
        try:
            for number, group in enumerate(groups):
                # While slices are being written the next ones are fetched.
                for ahead in groups[number + len(opened) : number + 1 + OPEN_AHEAD]:
                    opened.append(stack.enter_context(open_slices(ahead)))
                reader, known = opened.popleft(), existing.get(group[0].slice_.name)
                if group[0].may_be_mirrored(known):
                    begun += begin_together(group, reader, producers, progress.advance)
                else:
                    (job,) = group
                    begun.append(job.begin(producers, existing=known, reader=reader, on_progress=progress.advance))
                # The brokers work while the next slices are read; behind the last one all are waited for.
                last = number + 1 == len(groups)
                while not producers.bulk and begun and (last or begun[0].writer.is_settled):
                    yield begun.popleft().finish()
                if producers.bulk and (last or sum(each.tally.written for each in begun) > _UNSETTLED):
                    yield from finish_together(begun)
                    begun.clear()
        except UnacknowledgedError:
            if not producers.bulk:  # else where the topics end is not known
                yield from (each.finish() for each in begun if each.writer.is_acknowledged)
            raise


def _groups(jobs: Sequence[CopyJob], existing: Mapping[str, ExistingRecords]) -> list[list[CopyJob]]:
    """Return the slices that are read by one client, in order: a client of its own takes as long as thousands of records.

    ``existing``: by the name of the slice.
    """
    groups: list[list[CopyJob]] = []
    places: set[tuple[str, int]] = set()
    offsets, shared = 0, None
    for job in jobs:
        part, mirrored = job.slice_.offset_range, job.may_be_mirrored(existing.get(job.slice_.name))
        place, may_share = part[:2], (job.consumer_settings, job.client_id, job.slice_.isolation) if mirrored else None
        offsets += size_of(part)
        if may_share is None or may_share != shared or place in places or offsets > TOGETHER:
            groups.append([])
            places, offsets, shared = set(), size_of(part), may_share
        groups[-1].append(job)
        places.add(place)
    return groups


def _space(job: CopyJob) -> _Space:
    """Return what slices have in common whose copies are found by one read of the destination."""
    return job.slice_.topic_type, job.slice_.transform.at_destination()


def _read_existing(
    jobs: Sequence[CopyJob], progress: Progress, barriers: Counter[TopicType]
) -> tuple[dict[str, ExistingRecords], int]:
    """Return what interrupted copies have left at the destination, and how many records that is.

    It is by the name of each slice that has been begun; the others are copied the quick way. ``barriers`` counts those that
    are written.
    """
    spaces: dict[_Space, ExistingRecords] = {}
    resumed = [job for job in jobs if job.resumed]
    progress.phase("reading what the destination has", 0)
    for job in resumed:
        if _space(job) not in spaces:
            spaces[_space(job)] = job.read_existing()
            barriers[job.slice_.topic_type] += len(job.destination_starts)
    # What may not be mirrored goes the long way in any case, and with sealing needs the times of what is there.
    begun = {job.slice_.name for job in resumed if not job.may_be_mirrored(None)}
    in_doubt = [job for job in resumed if job.slice_.name not in begun and spaces[_space(job)].found]
    for group in _groups(in_doubt, {}):
        begun.update(begun_slices(group, open_slices(group), lambda job: spaces[_space(job)]))
    found = {job.slice_.name: spaces[_space(job)] for job in resumed if job.slice_.name in begun}
    return found, sum(each.count for each in spaces.values())
