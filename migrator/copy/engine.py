"""The local engine: copies slices in this process, and goes on when the destination was lost for a while."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from connect_share.log import RangeReader
from connect_share.records import TopicType
from connect_share.worker_config.client_settings import ClientSettings
from migrator.copy.checked_writer import PROCESS_PRODUCERS, Producers
from migrator.copy.copy_job import BegunCopy, CopyJob
from migrator.copy.evidence import SliceEvidence
from migrator.copy.existing_records import ExistingRecords
from migrator.errors import CopyError, UnacknowledgedError
from migrator.progress import Progress, Silent
from migrator.second_process import SecondProcess

LOCAL_ENGINE: Final = "local"
OPEN_AHEAD: Final = 1
"""Slices fetched while one is written. A second thread would take a quarter more CPU time, to no gain."""
Engine = Callable[[Sequence[CopyJob]], Iterable[SliceEvidence]]
"""Runs every job once and yields the evidence as jobs end, in any order."""

_Space = tuple[TopicType, str]
_MOST_IN_VAIN: Final = 3
"""Times to go on without anything new at the destination."""
_SETTLE_S: Final = 1.0
"""What a broker had received when a connection broke it has handled after this time."""

_logger = logging.getLogger(__name__)


def local_engine(progress: Progress, producers: Producers | None = None, second: SecondProcess | None = None) -> Engine:
    """Give the engine that copies in this process, and half of it in a second one if there is one.

    Args:
        progress: told how far it is.
        producers: made with ``once``; they may have been opened ahead.
        second: copies the half of the slices.
    """
    writers = producers or Producers(once=True)

    def run(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        progress.phase("copying", sum(_length(job) for job in jobs))
        if second is None:
            return copy_all(jobs, writers, progress)
        return _copy_in_two(jobs, writers, progress, second)

    return run


def open_ahead(settings: ClientSettings, client_id: str) -> Iterator[None]:
    """Open a kept producer: it has its id when the first slice comes."""
    PROCESS_PRODUCERS.get(settings, client_id)
    yield from ()


def _copy_in_two(
    jobs: Sequence[CopyJob], producers: Producers, progress: Progress, second: SecondProcess
) -> Iterator[SliceEvidence]:
    mine, others = _halves(jobs)
    if others:
        second.begin(_copy_others, others)
    heard: deque[SliceEvidence] = deque()

    class Listening(Silent):
        """Hears the other process now and then, so that it never waits for this one."""

        def phase(self, what: str, total: int) -> None:
            del what, total  # that of the whole goes on

        def advance(self, records: int) -> None:
            progress.advance(records)
            heard.extend(second.answers(wait=False))

    for evidence in copy_all(mine, producers, Listening()):
        yield evidence
        while heard:
            progress.advance(heard[0].read)
            yield heard.popleft()
    for evidence in (*heard, *second.answers(wait=True)):
        progress.advance(evidence.read)
        yield evidence


def _copy_others(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
    try:
        yield from copy_all(jobs, PROCESS_PRODUCERS, Silent())
    except UnacknowledgedError as lost:
        # It has gone on as often as it may. The first process would take this error for one of its own, and go on.
        raise CopyError(str(lost)) from lost


def _halves(jobs: Sequence[CopyJob]) -> tuple[list[CopyJob], list[CopyJob]]:
    """Share slices out, about as many records to each; config topics, which have an order, stay together."""
    mine = [job for job in jobs if job.slice_.topic_type is TopicType.CONFIG]
    others: list[CopyJob] = []
    for job in sorted((job for job in jobs if job not in mine), key=_length, reverse=True):
        (mine if sum(map(_length, mine)) <= sum(map(_length, others)) else others).append(job)
    return mine, others


def copy_one(job: CopyJob, *, resumed: bool = False) -> SliceEvidence:
    """Copy one slice with producers that are kept for the next one.

    Args:
        job: the slice.
        resumed: an earlier attempt may have written: what is there is read back first.

    Raises:
        ConnectShareError: as :func:`copy_all`.
    """
    (evidence,) = copy_all([replace(job, resumed=job.resumed or resumed)], PROCESS_PRODUCERS, Silent())
    return evidence


def copy_all(jobs: Sequence[CopyJob], producers: Producers, progress: Progress) -> Iterator[SliceEvidence]:
    """Copy slices one after the other, and yield the evidence of each.

    A batch whose answer does not come, as when a broker is killed, is never sent again: a broker may have taken it and
    have forgotten that. The destination is asked for what it has instead, as by a resume, and the rest is written.

    Args:
        jobs: the slices.
        producers: made with ``once``.
        progress: told of records read.

    Raises:
        BrokerError: reading or writing was refused, or the destination did not come back in time.
        ReadToEndTimeoutError: the end of a range was not reached.
        CopyError: an acknowledgement is missing.
    """
    left = {job.slice_.name: job for job in jobs}
    present = _read_back(jobs)
    in_vain = 0
    while left:
        before = (-len(left), _found(present))
        try:
            for evidence in _copy(list(left.values()), present, producers, progress):
                del left[evidence.slice_name]
                yield evidence
        except UnacknowledgedError as lost:
            _logger.warning("%s: asking the destination, then going on with %d slices", lost, len(left))
            left = {name: replace(job, resumed=True) for name, job in left.items()}
            progress.phase("asking the destination what it has", 0)
            time.sleep(_SETTLE_S)
            present = _read_back(list(left.values()))
            in_vain = 0 if (-len(left), _found(present)) > before else in_vain + 1
            if in_vain == _MOST_IN_VAIN:
                raise
            progress.phase("copying", sum(_length(job) for job in left.values()))


def _copy(
    jobs: Sequence[CopyJob], present: Mapping[_Space, ExistingRecords], producers: Producers, progress: Progress
) -> Iterator[SliceEvidence]:
    begun: deque[BegunCopy] = deque()
    with ExitStack() as stack:
        opened: deque[RangeReader | None] = deque()
        try:
            for number, job in enumerate(jobs):
                # While a slice is being written the next one is fetched: nobody waits for its first record.
                for ahead in jobs[number + len(opened) : number + 1 + OPEN_AHEAD]:
                    reader = ahead.open(present=present.get(_space(ahead)))
                    opened.append(None if reader is None else stack.enter_context(reader))
                found = present.get(_space(job))
                begun.append(
                    job.begin(producers=producers, present=found, opened=opened.popleft(), on_progress=progress.advance)
                )
                # Nobody waits for acknowledgements before the end: the brokers work while the next slices are read.
                while begun and begun[0].is_acknowledged:
                    yield begun.popleft().finish()
            while begun:
                yield begun.popleft().finish()
        except UnacknowledgedError:
            yield from (each.finish() for each in begun if each.is_whole)
            raise


def _length(job: CopyJob) -> int:
    return job.slice_.offset_range.end - job.slice_.offset_range.start


def _space(job: CopyJob) -> _Space:
    """What slices have in common whose copies are found by one look at the destination."""
    return job.slice_.topic_type, job.slice_.transform.at_destination().fingerprint


def _read_back(jobs: Sequence[CopyJob]) -> dict[_Space, ExistingRecords]:
    """Read once for all slices what an interrupted copy has left."""
    present: dict[_Space, ExistingRecords] = {}
    for job in jobs:
        if job.resumed and _space(job) not in present:
            present[_space(job)] = job.read_back()
    return present


def _found(present: Mapping[_Space, ExistingRecords]) -> int:
    return sum(counts.total() for each in present.values() for counts in each.found.values())
