"""The local engine: copies slices in this process, and continues when the destination was lost for a while."""

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
from migrator.copy.copy_job import CopyJob, PendingCopy
from migrator.copy.evidence import SliceEvidence
from migrator.copy.existing_records import ExistingRecords
from migrator.errors import CopyError, UnacknowledgedError
from migrator.progress import Progress, Silent
from migrator.second_process import SecondProcess
from migrator.transform.rules import KeyTransform

LOCAL_ENGINE: Final = "local"
OPEN_AHEAD: Final = 1
"""Slices fetched while one is written. A second thread would take a quarter more CPU time without a gain."""
Engine = Callable[[Sequence[CopyJob]], Iterable[SliceEvidence]]
"""Runs every job once and yields the evidence as jobs end, in any order."""

_Space = tuple[TopicType, KeyTransform]
_MAX_ATTEMPTS_IN_VAIN: Final = 3
"""Attempts to continue without anything new at the destination."""
_BROKER_HANDLES_S: Final = 1.0
"""Time in which a broker has handled what it had received when a connection broke."""

_logger = logging.getLogger(__name__)


def local_engine(progress: Progress, producers: Producers | None = None, second: SecondProcess | None = None) -> Engine:
    """Return the engine that copies in this process, and half of the records in a second one if there is one.

    Args:
        progress: of the copy.
        producers: made with ``once``.
        second: copies half of the slices.
    """
    writers = producers or Producers(once=True)

    def run(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        progress.phase("copying", sum(_length(job) for job in jobs))
        if second is None:
            return copy_all(jobs, writers, progress)
        return _copy_in_two(jobs, writers, progress, second)

    return run


def open_ahead(settings: ClientSettings, client_id: str) -> Iterator[None]:
    """Make a kept producer: it has its id when the first slice comes."""
    PROCESS_PRODUCERS.get(settings, client_id)
    yield from ()


def _copy_in_two(
    jobs: Sequence[CopyJob], producers: Producers, progress: Progress, second: SecondProcess
) -> Iterator[SliceEvidence]:
    mine, others = _halves(jobs)
    if others:
        second.begin(_copy_others, others)
    received: deque[SliceEvidence] = deque()

    class PollingProgress(Silent):
        """Receives from the other process now and then, so that it never waits for this one."""

        def phase(self, what: str, total: int) -> None:
            del what, total  # the phase of the whole copy continues

        def advance(self, records: int) -> None:
            progress.advance(records)
            received.extend(second.answers(wait=False))

    for evidence in copy_all(mine, producers, PollingProgress()):
        yield evidence
        while received:
            progress.advance(received[0].read)
            yield received.popleft()
    for evidence in (*received, *second.answers(wait=True)):
        progress.advance(evidence.read)
        yield evidence


def _copy_others(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
    try:
        yield from copy_all(jobs, PROCESS_PRODUCERS, Silent())
    except UnacknowledgedError as lost:
        # No attempt is left. The first process would take this error for one of its own, and continue.
        raise CopyError(str(lost)) from lost


def _halves(jobs: Sequence[CopyJob]) -> tuple[list[CopyJob], list[CopyJob]]:
    """Return two shares with about as many records each; config topics, which have an order, stay together."""
    mine = [job for job in jobs if job.slice_.topic_type is TopicType.CONFIG]
    others: list[CopyJob] = []
    for job in sorted((job for job in jobs if job not in mine), key=_length, reverse=True):
        (mine if sum(map(_length, mine)) <= sum(map(_length, others)) else others).append(job)
    return mine, others


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
    existing = _read_existing(jobs)
    in_vain = 0
    while left:
        before = (-len(left), _found(existing))
        try:
            for evidence in _copy(list(left.values()), existing, producers, progress):
                del left[evidence.slice_name]
                yield evidence
        except UnacknowledgedError as lost:
            _logger.warning(
                "%s: reading what the destination has, then copying the remaining %d slices", lost, len(left)
            )
            left = {name: replace(job, resumed=True) for name, job in left.items()}
            progress.phase("reading what the destination has", 0)
            time.sleep(_BROKER_HANDLES_S)
            existing = _read_existing(list(left.values()))
            in_vain = 0 if (-len(left), _found(existing)) > before else in_vain + 1
            if in_vain == _MAX_ATTEMPTS_IN_VAIN:
                raise
            progress.phase("copying", sum(_length(job) for job in left.values()))


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
                while begun and (begun[0].writer.is_acknowledged or begun[0].writer.has_failed):
                    yield begun.popleft().finish()
            while begun:
                yield begun.popleft().finish()
        except UnacknowledgedError:
            yield from (each.finish() for each in begun if each.writer.is_acknowledged)
            raise


def _length(job: CopyJob) -> int:
    return job.slice_.offset_range.end - job.slice_.offset_range.start


def _space(job: CopyJob) -> _Space:
    """Return what slices have in common whose copies are found by one read of the destination."""
    return job.slice_.topic_type, job.slice_.transform.at_destination()


def _read_existing(jobs: Sequence[CopyJob]) -> dict[_Space, ExistingRecords]:
    existing: dict[_Space, ExistingRecords] = {}
    for job in jobs:
        if job.resumed and _space(job) not in existing:
            existing[_space(job)] = job.read_existing()
    return existing


def _found(existing: Mapping[_Space, ExistingRecords]) -> int:
    return sum(counts.total() for each in existing.values() for counts in each.found.values())
