"""The quick way through a copy, for slices whose records change nothing but their keys; several are read by one client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from connect_share.errors import UnreadableHeadersError
from connect_share.kafka.client import Message, ask_headers, to_record
from connect_share.kafka.facts import IDLE_TIMEOUT_S
from connect_share.kafka.read import RangeReader
from connect_share.kafka.write import Outgoing, Producers
from connect_share.sealing.cipher import is_sealed
from connect_share.transform.rules import SkipReason
from migrator.copy.copy_job import CopyJob, PendingCopy
from migrator.copy.existing_records import ExistingRecords


def begin_together(
    jobs: Sequence[CopyJob],
    reader: RangeReader,
    producers: Producers,
    on_progress: Callable[[int], None] | None = None,
) -> list[PendingCopy]:
    """Read slices and queue all that is to be written, as :meth:`CopyJob.begin` does for one.

    Args:
        jobs: that may be mirrored, of different partitions.
        reader: of all their ranges; closed here.
        producers: kept producers of the caller.
        on_progress: called with the number of records read since the last call.

    Raises:
        BrokerError, ReadToEndTimeoutError, ConfigError: as :meth:`CopyJob.begin`.
    """
    mirrors = {job.slice_.offset_range[:2]: _Mirror(job, producers) for job in jobs}
    alone = next(iter(mirrors.values())) if len(mirrors) == 1 else None
    try:
        with reader:
            for batch in reader.batches(IDLE_TIMEOUT_S):
                if alone is not None:
                    alone.add(batch)
                else:
                    for place, messages in groupby(batch, key=_place):
                        mirrors[place].add([*messages])
                if on_progress is not None:
                    on_progress(len(batch))
        return [mirror.ended() for mirror in mirrors.values()]
    except BaseException:
        for mirror in mirrors.values():
            mirror.writer.abandon()
        raise


def begun_slices(
    jobs: Sequence[CopyJob], reader: RangeReader, existing: Callable[[CopyJob], ExistingRecords]
) -> Iterator[str]:
    """Yield the names of slices of which an interrupted copy may have left records: one of their keys is there.

    Args:
        jobs: that may be mirrored, of different partitions.
        reader: of all their ranges; closed here, as soon as all are known.
        existing: what was found at the destination of a job.

    Raises:
        BrokerError, ReadToEndTimeoutError: as :meth:`CopyJob.begin`.
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


class _Mirror:
    """What :func:`~migrator.copy.copy_job.rewritten` does in ``mirror`` mode, without a ``Record`` for each message.

    Most of a copy's time is spent on each single record. Both sides have no keys.
    """

    def __init__(self, job: CopyJob, producers: Producers) -> None:
        self._job = job
        self._passage = job.passage()
        self._tally = job.tally()
        self.writer = job.writer(producers)

    def add(self, batch: Sequence[Message]) -> None:
        """Queue the next records of the slice."""
        transform, opening, skipped = self._job.slice_.transform, self._passage.opening, self._tally.skipped
        prefix, (beginnings, cut) = transform.prefix, transform.sure_beginnings
        refuses, topic, delivered = opening.may_refuse, self.writer.topic, self.writer.delivered
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
            if refuses and (is_sealed(value) or opening.unopened) and opening.take(to_record(message)) is None:
                skipped[SkipReason.REFUSED] += 1
                continue
            try:
                headers = ask_headers(message) or None
            except SystemError:
                raise UnreadableHeadersError.at(*_place(message), message.offset() or 0) from None
            outgoing.append((topic, value, key, -1, delivered, delivered, message.timestamp()[1], headers))
        self._tally.add_batch(batch, outgoing)
        self.writer.write_all(outgoing)

    def ended(self) -> PendingCopy:
        """Return the copy after the last record."""
        return self._job.ended(self._passage, self._tally, self.writer)
