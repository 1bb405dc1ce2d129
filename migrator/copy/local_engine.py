"""The engine of this process: copies slices, plain records unopened, and goes on when the destination was lost."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, Final

from connect_share.errors import UnacknowledgedError, UnreadableHeadersError
from connect_share.files import Progress, Silent
from connect_share.kafka.client import Message, ask_headers, to_record
from connect_share.kafka.facts import IDLE_TIMEOUT_S
from connect_share.kafka.read import RangeReader
from connect_share.kafka.write import PROCESS_PRODUCERS, Outgoing, Producers
from connect_share.model.records import TopicType
from connect_share.sealing.cipher import is_sealed
from connect_share.transform.rules import KeyTransform, SkipReason
from migrator.copy.copy_job import CopyJob, PendingCopy, SliceEvidence, finish_together, open_slices
from migrator.copy.existing_records import ExistingRecords
from migrator.plan import MigrationPlan


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
            for batch in reader.batches(IDLE_TIMEOUT_S):
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
        for batch in reader.batches(IDLE_TIMEOUT_S):
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
    refuses, topic, delivered = opener.may_refuse, copy.writer.topic, copy.writer.delivered
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
        if refuses and (is_sealed(value) or opener.unopened) and opener.open(to_record(message)) is None:
            skipped[SkipReason.REFUSED] += 1
            continue
        try:
            headers = ask_headers(message) or None
        except SystemError:
            raise UnreadableHeadersError.at(*_place(message), message.offset() or 0) from None
        outgoing.append((topic, value, key, -1, delivered, delivered, message.timestamp()[1], headers))
    copy.tally.add_batch(batch, outgoing)
    copy.writer.write_all(outgoing)


_logger = logging.getLogger(__name__)

LOCAL_ENGINE: Final = "local"
OPEN_AHEAD: Final = 1
"""Clients that fetch while the slices of one are written. A second thread would take a quarter more CPU time without a
gain."""
TOGETHER: Final = 50_000
"""Offsets of slices that are read by one client; larger slices have one each."""
_BULK: Final = 200_000
"""Offsets of a plan from which on the producer does not wait for larger batches, and says of failures only."""
_UNSETTLED: Final = 200_000
"""Records after which a bulk copy waits for their acknowledgements: what is in the manifest then, a resume need not read."""
_MAX_ATTEMPTS_IN_VAIN: Final = 3
"""Attempts to continue without anything new at the destination."""
_BROKER_HANDLES_S: Final = 1.0
"""Time in which a broker has handled what it had received when a connection broke."""

Engine = Callable[[Sequence[CopyJob]], Iterable[SliceEvidence]]
"""Runs every job once and yields the evidence as jobs end, in any order."""
_Space = tuple[TopicType, KeyTransform]


def early_reader(jobs: Sequence[CopyJob]) -> RangeReader:
    """Begin to fetch what a copy of all these slices reads first; the caller closes the reader."""
    return open_slices(_groups(jobs, {})[0])


def local_engine(progress: Progress, producers: Producers | None = None, early: RangeReader | None = None) -> Engine:
    """Return the engine that copies in this process; ``producers`` are made with ``once``."""
    return partial(copy_all, producers=producers or Producers(once=True), progress=progress, early=early)


def producers_for(plan: MigrationPlan) -> Producers:
    """Return the producers with which a whole plan is copied."""
    ranges = [slice_.offset_range for slice_ in plan.slices()]
    return Producers(once=True, bulk=sum(part.end - part.start for part in ranges) > _BULK)


def copy_one(job: CopyJob, *, resumed: bool = False) -> SliceEvidence:
    """Copy one slice with producers that are kept for the next one.

    With ``resumed`` an earlier attempt may have written; what is there is not written again.
    """
    (evidence,) = copy_all([replace(job, resumed=job.resumed or resumed)], PROCESS_PRODUCERS, Silent())
    return evidence


def copy_all(
    jobs: Sequence[CopyJob], producers: Producers, progress: Progress, early: RangeReader | None = None
) -> Iterator[SliceEvidence]:
    """Copy slices one after the other, and yield the evidence of each.

    A batch whose answer does not come, as when a broker is killed, is never sent again: a broker may have taken it and
    have forgotten that. Instead the destination is read, as by a resume, and what is missing there is written.

    Raises:
        BrokerError: reading or writing was refused, or the destination did not come back in time.
        CopyError: an acknowledgement is missing.
    """
    left = {job.slice_.name: job for job in jobs}
    existing, count = _read_existing(jobs, progress)
    in_vain, reached = 0, (-len(left), count)
    while left:
        ranges = [job.slice_.offset_range for job in left.values()]
        progress.phase("copying", sum(part.end - part.start for part in ranges))
        try:
            for evidence in _copy(list(left.values()), existing, producers, progress, early):
                del left[evidence.slice_name]
                yield evidence
        except UnacknowledgedError as lost:
            _logger.warning(
                "%s: reading what the destination has, then copying the remaining %d slices", lost, len(left)
            )
            left, early = {name: replace(job, resumed=True) for name, job in left.items()}, None
            time.sleep(_BROKER_HANDLES_S)
            existing, count = _read_existing(list(left.values()), progress)
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
                yield from _settled(begun, bulk=producers.bulk, last=number + 1 == len(groups))
        except UnacknowledgedError:
            if not producers.bulk:  # else where the topics end is not known
                yield from (each.finish() for each in begun if each.writer.is_acknowledged)
            raise


def _settled(begun: deque[PendingCopy], *, bulk: bool, last: bool) -> Iterator[SliceEvidence]:
    """Yield what was done of those slices that are not to be waited for; behind the ``last`` slice, of all.

    The brokers work while the next slices are read.
    """
    if not bulk:
        while begun and (last or begun[0].writer.is_settled):
            yield begun.popleft().finish()
    elif last or sum(each.tally.written for each in begun) > _UNSETTLED:
        yield from finish_together(begun)
        begun.clear()


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
        offsets += part.end - part.start
        if may_share is None or may_share != shared or place in places or offsets > TOGETHER:
            groups.append([])
            places, offsets, shared = set(), part.end - part.start, may_share
        groups[-1].append(job)
        places.add(place)
    return groups


def _space(job: CopyJob) -> _Space:
    """Return what slices have in common whose copies are found by one read of the destination."""
    return job.slice_.topic_type, job.slice_.transform.at_destination()


def _read_existing(jobs: Sequence[CopyJob], progress: Progress) -> tuple[dict[str, ExistingRecords], int]:
    """Return what interrupted copies have left at the destination, and how many records that is.

    It is by the name of each slice that has been begun; the others are copied the quick way.
    """
    spaces: dict[_Space, ExistingRecords] = {}
    resumed = [job for job in jobs if job.resumed]
    if resumed:
        progress.phase("reading what the destination has", 0)
    for job in resumed:
        if _space(job) not in spaces:
            spaces[_space(job)] = job.read_existing()
    # What may not be mirrored goes the long way in any case, and with sealing needs the times of what is there.
    begun = {job.slice_.name for job in resumed if not job.may_be_mirrored(None)}
    in_doubt = [job for job in resumed if job.slice_.name not in begun and spaces[_space(job)].found]
    for group in _groups(in_doubt, {}):
        begun.update(begun_slices(group, open_slices(group), lambda job: spaces[_space(job)]))
    found = {job.slice_.name: spaces[_space(job)] for job in resumed if job.slice_.name in begun}
    return found, sum(each.count for each in spaces.values())
