"""Reading given offset ranges, once, with bounded memory: for the migrator, the console and Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self

from connect_share.errors import BrokerError, ReadToEndTimeoutError
from connect_share.kafka.client import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
    TopicRight,
    consumer,
    is_end_of_partition,
    to_record,
    to_whole_record,
    translate,
)
from connect_share.model.records import OffsetRange, Record
from connect_share.worker_config.client_settings import ClientSettings, Isolation

CATCH_UP_SETTINGS: Final[Mapping[str, str]] = {
    "enable.partition.eof": "true",
    "fetch.queue.backoff.ms": "10",
    "fetch.wait.max.ms": "10",
    "fetch.min.bytes": "1",
    # A broker puts an answer together before it sends the first byte: with 16 MiB the first record of a large partition
    # came 20 ms later, and the whole read took half as long again.
    "max.partition.fetch.bytes": "4194304",
    # What is fetched far ahead only costs memory: with 64 MiB and a million records, a third more time and 400 MB.
    "fetch.max.bytes": "8388608",
    "queued.min.messages": "50000",
    "queued.max.messages.kbytes": "32768",
}
IDLE_TIMEOUT_S: Final = 30.0
_log = logging.getLogger(__name__)
_BATCH: Final = 300
"""As in the catch-up: Python's collector looks at what is young after 700 new objects, and a caller that looks at each
record makes one or two more of it. With 2,000 at a time it was a fifth of a copy, and two fifths of a comparison."""
_POLL_S: Final = 0.02
_BULK_SETTINGS: Final[Mapping[str, str]] = {
    **CATCH_UP_SETTINGS,
    # A caller that looks at each record is slower than the client: what is fetched far ahead only costs memory, and the
    # kernel's time to hand it out (a quarter of the read of a million records).
    "max.partition.fetch.bytes": "524288",
    "fetch.max.bytes": "8388608",
    "queued.max.messages.kbytes": "8192",
}


def read_ranges(
    settings: ClientSettings,
    ranges: Sequence[OffsetRange],
    *,
    isolation: Isolation,
    client_id: str,
    idle_timeout_s: float = IDLE_TIMEOUT_S,
    with_headers: bool = False,
) -> Iterator[Record]:
    """Yield the records of half-open ranges, in offset order within each partition.

    Holes of compaction, markers and (read_committed) aborted records are passed over.

    There is at most one range for each partition; ``idle_timeout_s`` is the longest time without any progress. A caller
    that only looks at keys and values does without headers.

    Raises:
        ReadToEndTimeoutError: no progress for so long; a range may go past the log's end, or an open transaction holds.
        BrokerError: a partition cannot be read, or an offset is not there any more.
    """
    taken = to_whole_record if with_headers else to_record
    for batch in read_batches(
        settings, ranges, isolation=isolation, client_id=client_id, idle_timeout_s=idle_timeout_s
    ):
        for message in batch:
            yield taken(message)


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
    with RangeReader(settings, ranges, isolation=isolation, client_id=client_id) as reader:
        yield from reader.batches(idle_timeout_s)


class RangeReader:
    """The client that reads given ranges; it fetches from the moment on when it is made, while others are being read.

    ``ranges`` has at most one range for each partition.
    """

    def __init__(
        self, settings: ClientSettings, ranges: Sequence[OffsetRange], *, isolation: Isolation, client_id: str
    ) -> None:
        wanted = [each for each in ranges if each.end > each.start]
        self._ends = {(each.topic, each.partition): each.end for each in wanted}
        if len(self._ends) < len(wanted):
            raise ValueError("a partition may have one range only")
        self._waiting = dict(self._ends)
        self._positions = {(each.topic, each.partition): each.start for each in wanted}
        self._partitions = [TopicPartition(*at) for at in self._ends]
        self._what = ", ".join(sorted({each.topic for each in wanted}))
        self._overrun = False
        self._client: Consumer | None = None
        if wanted:
            # A client of its own each time: one that is given another topic needs up to a second to find its leaders.
            self._client = consumer(settings, client_id=client_id, isolation=isolation, overrides=_BULK_SETTINGS)
            self._client.assign(
                [TopicPartition(topic, part, start) for (topic, part), start in self._positions.items()]
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the client; may be called twice."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def batches(self, idle_timeout_s: float = IDLE_TIMEOUT_S) -> Iterator[list[Message]]:
        """Yield all records once, in offset order within each partition.

        Raises:
            ReadToEndTimeoutError, BrokerError: as :func:`read_ranges`.
        """
        budget = sum(self._ends[at] - start for at, start in self._positions.items())
        quiet_since = time.monotonic()
        client = self._client
        while self._waiting:
            assert client is not None  # noqa: S101 - closed before its time: a read must not end early without a word
            try:
                messages = client.consume(max(1, min(_BATCH, budget)), _POLL_S)
            except KafkaException as exc:
                raise translate(exc, f"reading {self._what}", TopicRight.READ) from exc
            eof: dict[tuple[str, int], int] = {}
            batch = [message for message in messages if message.error() is None]
            if len(batch) < len(messages):
                self._note_errors(messages, eof)
            moved = self._advance(client, eof)
            if self._overrun:
                batch = [message for message in batch if self._is_inside(message)]
            budget -= len(batch)
            if batch:
                yield batch
                quiet_since = time.monotonic()  # what the caller did in between does not count
            now = time.monotonic()
            if moved:
                quiet_since = now
            elif self._waiting and now - quiet_since > idle_timeout_s:
                raise _stuck(self._positions, self._waiting, idle_timeout_s)

    def _note_errors(self, messages: Sequence[Message], eof: dict[tuple[str, int], int]) -> None:
        for message in messages:
            error = message.error()
            if error is None:
                continue
            topic = message.topic() or ""
            if is_end_of_partition(error):
                eof[topic, message.partition() or 0] = message.offset() or 0
            else:
                raise_unless_passing(error, topic)

    def _is_inside(self, message: Message) -> bool:
        return (message.offset() or 0) < self._ends.get((message.topic() or "", message.partition() or 0), 0)

    def _advance(self, client: Consumer, eof: dict[tuple[str, int], int]) -> bool:
        """Ask for all positions at once, which costs less than a look at the place of every record."""
        moved = False
        for partition in client.position(self._partitions):
            at = (partition.topic, partition.partition)
            position = max(partition.offset, eof.get(at, 0))
            # From now on records behind the end of a range may be among those that come.
            self._overrun = self._overrun or position > self._ends[at]
            if position > self._positions[at]:
                self._positions[at] = position
                moved = True
            if position >= self._ends[at]:
                self._waiting.pop(at, None)
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


def raise_unless_passing(error: KafkaError, topic: str) -> None:
    """Log an error that passes by itself.

    Raises:
        BrokerError: the topic is gone, may not be read, or has lost the records at this offset.
    """
    translated = translate(error, f"reading topic {topic}", TopicRight.READ)
    if is_about_groups(translated):
        return
    if not translated.retriable:
        raise translated
    _log.warning("Reading topic %s: %s", topic, translated)


def is_about_groups(error: BrokerError) -> bool:
    """Return whether an error only says that the right on a consumer group is missing: no log ever uses one.

    The library looks up a coordinator although nothing is ever committed; without the right nothing is lost.
    """
    return error.name == "GROUP_AUTHORIZATION_FAILED"
