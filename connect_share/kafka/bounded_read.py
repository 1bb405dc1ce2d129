"""Reading the first records of many partitions with one client, in bounded time and memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from connect_share.errors import BrokerError
from connect_share.kafka.client import (
    Consumer,
    KafkaException,
    Message,
    TopicPartition,
    TopicRight,
    consumer,
    is_end_of_partition,
    to_record,
    translate,
)
from connect_share.kafka.facts import CONSOLE_CLIENT_ID
from connect_share.kafka.read import CATCH_UP_SETTINGS, is_about_groups
from connect_share.model.records import Record
from connect_share.worker_config import ClientSettings, Isolation

T = TypeVar("T")

Partition = tuple[str, int]

_AT_ONCE: Final = 1_000
"""Partitions of one client."""
_BATCH: Final = 300
_POLL_S: Final = 0.1
_SETTINGS: Final[Mapping[str, str]] = {
    **CATCH_UP_SETTINGS,
    "auto.offset.reset": "earliest",  # the cleaner and retention go on meanwhile
    "max.partition.fetch.bytes": "65536",
    "fetch.max.bytes": "4194304",
    "queued.min.messages": "1000",
    "queued.max.messages.kbytes": "8192",
}


class BoundedReader:
    """Reads partitions from given offsets to their ends, and no more records than are allowed.

    Attributes:
        left: records that may still be read, of all calls together.
        refused: for each topic that could not be read, why.
        unread: topics that were not read as far as they should be.
    """

    def __init__(self, settings: ClientSettings, *, most: int, idle_timeout_s: float) -> None:
        self.left = most
        self.refused: dict[str, BrokerError] = {}
        self.unread: set[str] = set()
        self._settings = settings
        self._idle_timeout_s = idle_timeout_s

    def read(
        self,
        ranges: Mapping[Partition, tuple[int, int]],
        take: Callable[[Record], None],
        *,
        each: int | None = None,
    ) -> None:
        """Hand over the records from the start to the end of each partition, at most ``each`` of it.

        Every isolation level's records come: what they look like matters, not whether they were committed.
        """
        wanted = [at for at, (start, end) in ranges.items() if start < end and at[0] not in self.refused]
        for some in batches(wanted, _AT_ONCE):
            if self.left <= 0:
                self.unread.update(topic for topic, _ in some)
            else:
                self._read_some({at: ranges[at] for at in some}, take, each)

    def _read_some(
        self, ranges: Mapping[Partition, tuple[int, int]], take: Callable[[Record], None], each: int | None
    ) -> None:
        client = consumer(
            self._settings, client_id=CONSOLE_CLIENT_ID, isolation=Isolation.READ_UNCOMMITTED, overrides=_SETTINGS
        )
        try:
            client.assign([TopicPartition(*at, start) for at, (start, _) in ranges.items()])
            self._follow(client, ranges, take, each)
        except KafkaException as exc:
            raise translate(exc, "reading topics", TopicRight.READ) from exc
        finally:
            client.close()

    def _follow(
        self,
        client: Consumer,
        ranges: Mapping[Partition, tuple[int, int]],
        take: Callable[[Record], None],
        each: int | None,
    ) -> None:
        open_ = dict.fromkeys(ranges, 0)
        quiet_since = time.monotonic()
        while open_ and self.left > 0:
            messages = client.consume(_BATCH, _POLL_S)
            done = set()
            for message in messages:
                at = (message.topic() or "", message.partition() or 0)
                if at not in open_:
                    continue
                if message.error() is not None:
                    done |= self._ended(message, open_)
                    continue
                offset, end = message.offset() or 0, ranges[at][1]
                if offset < end and self.left > 0:
                    take(to_record(message))
                    self.left -= 1
                    open_[at] += 1
                if offset >= end - 1 or open_[at] == each:
                    del open_[at]
                    done.add(at)
            if done:
                client.pause([TopicPartition(*at) for at in done])
            if messages:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > self._idle_timeout_s:
                break
        self.unread.update(topic for topic, _ in open_)

    def _ended(self, message: Message, open_: dict[Partition, int]) -> set[Partition]:
        """Take out the partitions that an error ends, and return them."""
        error, topic = message.error(), message.topic() or ""
        if error is None:
            return set()
        if is_end_of_partition(error):
            ended = {(topic, message.partition() or 0)}
        else:
            reason = translate(error, f"reading topic {topic}", TopicRight.READ)
            if reason.retriable or is_about_groups(reason):
                return set()
            self.refused[topic] = reason
            ended = {at for at in open_ if at[0] == topic}
        for at in ended:
            del open_[at]
        return ended


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items, so many at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
