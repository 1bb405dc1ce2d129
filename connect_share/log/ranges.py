"""Reading given offset ranges, once, with bounded memory: for the migrator, the console and Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from connect_share.client import (
    KafkaException,
    Message,
    TopicPartition,
    consumer,
    is_end_of_partition,
    to_record,
    translate,
)
from connect_share.errors import ReadToEndTimeoutError
from connect_share.log.catch_up import CATCH_UP_SETTINGS, raise_unless_passing
from connect_share.records import OffsetRange, Record
from connect_share.worker_config.client_settings import ClientSettings, Isolation

IDLE_TIMEOUT_S: Final = 30.0
_BATCH: Final = 2_000
_POLL_S: Final = 0.02


def read_ranges(
    settings: ClientSettings,
    ranges: Sequence[OffsetRange],
    *,
    isolation: Isolation,
    client_id: str,
    idle_timeout_s: float = IDLE_TIMEOUT_S,
) -> Iterator[Record]:
    """Yield the records of half-open ranges, in offset order within each partition.

    Holes of compaction, markers and (read_committed) aborted records are passed over.

    Args:
        settings: how to reach the cluster.
        ranges: at most one range for each partition.
        isolation: which records of transactions are seen.
        client_id: shown in the broker's logs.
        idle_timeout_s: longest time without any progress.

    Raises:
        ReadToEndTimeoutError: no progress for so long; a range may go past the log's end, or an open transaction holds.
        BrokerError: a partition cannot be read, or an offset is not there any more.
    """
    for batch in read_batches(
        settings, ranges, isolation=isolation, client_id=client_id, idle_timeout_s=idle_timeout_s
    ):
        for message in batch:
            yield to_record(message)


def read_batches(
    settings: ClientSettings,
    ranges: Sequence[OffsetRange],
    *,
    isolation: Isolation,
    client_id: str,
    idle_timeout_s: float = IDLE_TIMEOUT_S,
) -> Iterator[list[Message]]:
    """Yield the same records as :func:`read_ranges`, in batches of the client's own messages.

    Raises:
        ReadToEndTimeoutError, BrokerError: as :func:`read_ranges`.
    """
    waiting = {(r.topic, r.partition): r.end for r in ranges if r.end > r.start}
    if len(waiting) < sum(r.end > r.start for r in ranges):
        raise ValueError("a partition may have one range only")
    if not waiting:
        return
    what = ", ".join(sorted({topic for topic, _ in waiting}))
    reader = consumer(settings, client_id=client_id, isolation=isolation, overrides=CATCH_UP_SETTINGS)
    try:
        reader.assign([TopicPartition(r.topic, r.partition, r.start) for r in ranges if r.end > r.start])
        positions = {(r.topic, r.partition): r.start for r in ranges}
        budget = sum(r.end - r.start for r in ranges)
        quiet_since = time.monotonic()
        while waiting:
            wanted = max(1, min(_BATCH, budget))
            try:
                messages = reader.consume(wanted, _POLL_S)
            except KafkaException as exc:
                raise translate(exc, f"reading {what}") from exc
            eof: dict[tuple[str, int], int] = {}
            batch = [message for message in messages if _inside(message, waiting, eof)]
            budget -= len(batch)
            if batch:
                yield batch
                quiet_since = time.monotonic()  # what the caller did in between does not count
            moved = _advance(reader.position([TopicPartition(*at) for at in waiting]), eof, positions, waiting)
            now = time.monotonic()
            if moved:
                quiet_since = now
            elif waiting and now - quiet_since > idle_timeout_s:
                raise _stuck(positions, waiting, idle_timeout_s)
    finally:
        reader.close()


def _inside(message: Message, waiting: dict[tuple[str, int], int], eof: dict[tuple[str, int], int]) -> bool:
    at = (message.topic() or "", message.partition() or 0)
    error = message.error()
    if error is not None:
        if is_end_of_partition(error):
            eof[at] = message.offset() or 0
        else:
            raise_unless_passing(error, at[0])
        return False
    return (message.offset() or 0) < waiting.get(at, 0)


def _advance(
    found: Sequence[TopicPartition],
    eof: dict[tuple[str, int], int],
    positions: dict[tuple[str, int], int],
    waiting: dict[tuple[str, int], int],
) -> bool:
    moved = False
    for partition in found:
        at = (partition.topic, partition.partition)
        position = max(partition.offset, eof.get(at, 0))
        if position > positions[at]:
            positions[at] = position
            moved = True
        if positions[at] >= waiting[at]:
            del waiting[at]
    return moved


def _stuck(
    positions: dict[tuple[str, int], int], waiting: dict[tuple[str, int], int], idle_timeout_s: float
) -> ReadToEndTimeoutError:
    topic, partition = min(waiting)
    position, end = positions[(topic, partition)], waiting[(topic, partition)]
    return ReadToEndTimeoutError(
        f"{topic}[{partition}] gave nothing for {idle_timeout_s:g} s: position {position}, end of range {end}; an open "
        f"transaction, a range past the end of the log, or no broker",
        topic=topic,
        partition=partition,
        position=position,
        end_offset=end,
    )
