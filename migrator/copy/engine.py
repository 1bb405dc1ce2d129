"""The local engine: copies slices in this process, and continues when the destination was lost for a while."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Final

from connect_share.log import RangeReader
from connect_share.records import TopicType
from migrator.copy.checked_writer import PROCESS_PRODUCERS, Producers
from migrator.copy.copy_job import CopyJob, PendingCopy
from migrator.copy.evidence import SliceEvidence
from migrator.copy.existing_records import ExistingRecords
from migrator.errors import UnacknowledgedError
from migrator.progress import Progress, Silent
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
    progress.phase("copying", sum(_length(job) for job in jobs))
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
