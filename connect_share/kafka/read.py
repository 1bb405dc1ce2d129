"""Reading offset ranges once, with bounded memory, and the first records of many partitions, in bounded time.

Who holds up readers of committed records is found here, too: the transaction that is open at the last stable offset.
"""

from __future__ import annotations

import logging
import math
import time
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeVar

from connect_share.errors import BrokerError, ConnectShareError, ReadToEndTimeoutError, command_line
from connect_share.kafka.admin import Admin, admin_for
from connect_share.kafka.client import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
    consumer,
    is_end_of_partition,
    to_record,
    to_whole_record,
    translate,
)
from connect_share.kafka.create import require_topics
from connect_share.kafka.waits import Awaited, longest_wait_s
from connect_share.kafka.write import MIGRATE_CLIENT_ID
from connect_share.model.keys import ClusterGroupId, connector_of, owner_of, shown, split_key
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.worker_config import ClientSettings, Isolation, TopicSet, WorkerConfig

CONSOLE_CLIENT_ID: Final = "connect-share-console"
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
IDLE_TIMEOUT_S: Final = 60.0
"""The longest wait without progress while records are read, without a command that has another one."""
_log = logging.getLogger(__name__)
_BATCH: Final = 300
"""As in the catch-up: Python's collector looks at what is young after 700 new objects, and a caller that looks at each
record makes one or two more of it. With 2,000 at a time it was a fifth of a copy, and two fifths of a comparison."""
_POLL_S: Final = 0.02
ASKED_AFTER_S: Final = 1.0
_BULK_SETTINGS: Final[Mapping[str, str]] = {
    **CATCH_UP_SETTINGS,
    # A caller that looks at each record is slower than the client: what is fetched far ahead only costs memory, and the
    # kernel's time to hand it out (a quarter of the read of a million records).
    "max.partition.fetch.bytes": "524288",
    "fetch.max.bytes": "8388608",
    "queued.max.messages.kbytes": "8192",
}


def console_admin(topic_set: TopicSet) -> AbstractContextManager[Admin]:
    """Return an admin client of a command that looks at topics, as :func:`admin_for` does."""
    return admin_for(topic_set.settings, CONSOLE_CLIENT_ID)


class Apart(NamedTuple):
    """A group whose workers read a topic with the other isolation than all others.

    ``stable`` are the ends of what is committed; whoever sees more was read up to ``known`` before.
    """

    topic_type: TopicType
    group: ClusterGroupId | None
    stable: Mapping[tuple[str, int], int]
    known: Mapping[tuple[str, int], int]


class Reader(NamedTuple):
    """How ranges of topics are read, by a client of its own each time; the settings are secret.

    ``only``: these records, by topic, partition and offset. ``apart``: the group that is not read with this isolation.
    """

    settings: ClientSettings
    client_id: str
    isolation: Isolation
    only: Collection[tuple[str, int, int]] | None = None
    apart: Apart | None = None

    @classmethod
    def of(cls, worker: WorkerConfig, isolation: Isolation) -> Reader:
        """Return how the topics of a worker are read."""
        return cls(worker.consumer_settings(), worker.client_id(MIGRATE_CLIENT_ID), isolation)

    def batches(self, ranges: Sequence[OffsetRange], idle_timeout_s: float | None = None) -> Iterator[list[Message]]:
        """Yield what half-open ranges hold, at most one of each partition, in offset order within each partition.

        ``idle_timeout_s`` is the longest time without any progress, by default that of the command that runs.

        Raises:
            ReadToEndTimeoutError: no progress for so long: a range goes past the log's end, or a transaction is open.
            BrokerError: a partition cannot be read, or an offset is not there any more.
        """
        with self.open(ranges) as reader:
            for batch in reader.batches(idle_timeout_s):
                yield batch if self.only is None else [each for each in batch if place_of(each) in self.only]

    def open(self, ranges: Sequence[OffsetRange]) -> RangeReader:
        """Return a client that fetches from now on."""
        return RangeReader(self, ranges) if self.apart is None else _GroupsReader(self, self.apart, ranges)

    def consumer(self, overrides: Mapping[str, str]) -> Consumer:
        """Return a client that reads so, with settings of its own."""
        return consumer(self.settings, client_id=self.client_id, isolation=self.isolation, overrides=overrides)

    def records(self, ranges: Sequence[OffsetRange], idle_timeout_s: float | None = None) -> Iterator[Record]:
        """Yield the same as records."""
        for batch in self.batches(ranges, idle_timeout_s):
            yield from map(to_whole_record, batch)


def place_of(message: Message) -> tuple[str, int, int]:
    """Return topic, partition and offset."""
    return message.topic() or "", message.partition() or 0, message.offset() or 0


class RangeReader(AbstractContextManager["RangeReader"]):
    """The client that reads given ranges; it fetches from the moment on when it is made, while others are being read.

    ``ranges`` has at most one range for each partition.
    """

    def __init__(self, reader: Reader, ranges: Sequence[OffsetRange]) -> None:
        self.ranges: list[OffsetRange] = list(ranges)
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
            self._client = reader.consumer(_BULK_SETTINGS)
            self._client.assign(
                [TopicPartition(topic, part, start) for (topic, part), start in self._positions.items()]
            )

    def close(self, *_: object) -> None:
        """Let go of the client; may be called twice."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    __exit__ = close

    def batches(self, idle_timeout_s: float | None = None) -> Iterator[list[Message]]:
        """Yield all records once, in offset order within each partition."""
        limit_s = longest_wait_s(IDLE_TIMEOUT_S) if idle_timeout_s is None else idle_timeout_s
        with Awaited(f"records of {self._what}") as wait:
            yield from self._batches(wait, limit_s)

    def _batches(self, wait: Awaited, limit_s: float) -> Iterator[list[Message]]:
        budget = sum(self._ends[at] - start for at, start in self._positions.items())
        client, asked_s = self._client, 0.0
        while self._waiting:
            assert client is not None  # noqa: S101 - closed before its time: a read must not end early without a word
            try:
                messages = client.consume(max(1, min(_BATCH, budget)), _POLL_S)
            except KafkaException as exc:
                raise translate(exc, f"reading {self._what}", "READ") from exc
            eof: dict[tuple[str, int], int] = {}
            batch = [message for message in messages if message.error() is None]
            if len(batch) < len(messages):
                self._note_errors(messages, eof)
            moved = self._advance(client, eof)
            if self._overrun:
                batch = [message for message in batch if self._is_inside(message)]
            budget -= len(batch)
            if batch:
                wait.since_s = math.inf
                yield batch
                wait.since_s = time.monotonic()  # what the caller did in between does not count
            now = time.monotonic()
            if moved:
                wait.since_s = now
            elif self._waiting and now - wait.since_s > limit_s:
                raise _stuck(self._positions, self._waiting, limit_s)
            elif self._waiting and now - max(wait.since_s, asked_s) > ASKED_AFTER_S:
                asked_s = require_readable(client, self._waiting)

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


def require_readable(client: Consumer, partitions: Iterable[tuple[str, int]]) -> float:
    """Ask whether topics may be read: a client that knows no leader waits for ever, and says nothing. Returns the time."""
    for topic in {topic for topic, _ in partitions}:
        with suppress(KafkaException):  # no answer: it goes on waiting
            error = client.list_topics(topic, ASKED_AFTER_S).topics[topic].error
            if error is not None:
                raise_unless_passing(error, topic)
    return time.monotonic()


class _GroupsReader(RangeReader):
    """Reads a topic of which groups see different records: first what is committed, then all, without the rest."""

    def __init__(self, reader: Reader, apart: Apart, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(reader._replace(isolation=Isolation.READ_UNCOMMITTED), ranges)
        self._reader, self._apart = reader, apart

    def batches(self, idle_timeout_s: float | None = None) -> Iterator[list[Message]]:
        """Yield what the workers of each group see, once, in offset order within each partition."""
        committed: defaultdict[int, array[int]] = defaultdict(partial(array, "q"))
        ends = [each._replace(end=min(each.end, self._apart.stable[each[:2]])) for each in self.ranges]
        first = self._reader._replace(isolation=Isolation.READ_COMMITTED, apart=None)
        for batch in first.batches(ends, idle_timeout_s):
            for message in batch:
                committed[message.partition() or 0].append(message.offset() or 0)
        for batch in super().batches(idle_timeout_s):
            yield [each for each in batch if self._is_seen(each, committed[each.partition() or 0])]

    def _is_seen(self, message: Message, committed: array[int]) -> bool:
        topic, partition, offset = place_of(message)
        owner = split_key(self._apart.topic_type, message.key())
        is_apart = owner is not None and owner[0] == self._apart.group
        if is_apart is (self._reader.isolation is Isolation.READ_COMMITTED):
            return offset >= self._apart.known.get((topic, partition), 0)
        at = bisect_left(committed, offset)
        return at < len(committed) and committed[at] == offset


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
    translated = translate(error, f"reading topic {topic}", "READ")
    if is_about_groups(translated):
        return
    if not translated.retriable:
        raise translated
    _log.warning("%s; it goes on when that has passed", translated)


def is_about_groups(error: BrokerError) -> bool:
    """Return whether an error only says that the right on a consumer group is missing: no log ever uses one.

    The library looks up a coordinator although nothing is ever committed; without the right nothing is lost.
    """
    return error.name == "GROUP_AUTHORIZATION_FAILED"


T = TypeVar("T")

Partition = tuple[str, int]

_AT_ONCE: Final = 1_000
"""Partitions of one client."""
_ANSWER_S: Final = 0.1
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

    def __init__(self, settings: ClientSettings, most: int) -> None:
        self.left: int = most
        self.refused: dict[str, BrokerError] = {}
        self.unread: set[str] = set()
        self._settings = settings
        self._idle_timeout_s = longest_wait_s(IDLE_TIMEOUT_S)

    def records(self, ranges: Mapping[Partition, tuple[int, int]], each: int | None = None) -> Iterator[Record]:
        """Yield the records from the start to the end of each partition, at most ``each`` of it.

        Every isolation level's records come: what they look like matters, not whether they were committed.
        """
        wanted = [at for at, (start, end) in ranges.items() if start < end and at[0] not in self.refused]
        for some in batches(wanted, _AT_ONCE):
            if self.left <= 0:
                self.unread.update(topic for topic, _ in some)
            else:
                yield from self._some({at: ranges[at] for at in some}, each)

    def _some(self, ranges: Mapping[Partition, tuple[int, int]], each: int | None) -> Iterator[Record]:
        client = consumer(
            self._settings, client_id=CONSOLE_CLIENT_ID, isolation=Isolation.READ_UNCOMMITTED, overrides=_SETTINGS
        )
        try:
            client.assign([TopicPartition(*at, start) for at, (start, _) in ranges.items()])
            with Awaited(f"records of {len(ranges):,} partitions"):
                yield from self._follow(client, ranges, each)
        except KafkaException as exc:
            raise translate(exc, "reading topics", "READ") from exc
        finally:
            client.close()

    def _follow(
        self, client: Consumer, ranges: Mapping[Partition, tuple[int, int]], each: int | None
    ) -> Iterator[Record]:
        open_ = dict.fromkeys(ranges, 0)
        quiet_since = time.monotonic()
        while open_ and self.left > 0:
            messages = client.consume(_BATCH, _ANSWER_S)
            done = set()
            for message in messages:
                at = (message.topic() or "", message.partition() or 0)
                if at not in open_ or self.left <= 0:
                    continue
                if (error := message.error()) is not None:
                    done |= self._ended(error, at, open_)
                    continue
                offset, end = message.offset() or 0, ranges[at][1]
                if offset < end:
                    self.left -= 1
                    open_[at] += 1
                    yield to_record(message)
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

    def _ended(self, error: KafkaError, at: Partition, open_: dict[Partition, int]) -> set[Partition]:
        """Take out the partitions that an error ends, and return them."""
        ended, topic = {at}, at[0]
        if not is_end_of_partition(error):
            reason = translate(error, f"reading topic {topic}", "READ")
            if reason.retriable or is_about_groups(reason):
                return set()
            self.refused[topic] = reason
            ended = {each for each in open_ if each[0] == topic}
        for each in ended:
            del open_[each]
        return ended


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items, so many at a time."""
    return (items[start : start + size] for start in range(0, len(items), size))


ASK_S: Final = 3.0
LOG_AFTER_S: Final = 5.0
"""A start that takes longer than this says what it waits for."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that readers of committed records have to wait for.

    Clients of this language cannot list transactions, so all that is known comes from the key of its first record, which
    its writer has chosen: a claim.

    Attributes:
        start_offset: of its first record, the last stable offset.
        cluster_group_id: who claims to have written that record; ``None`` if the key is plain or not one of Connect's.
        plain: the key is one of Connect's, without a prefix.
        transactional_id: what Connect gives the producer of such a record; ``None`` if the key does not say, as on the
            offset topic, where tasks write too.
        connector: whose offsets these are, on an offset topic.
        since_ms: time of its first record, milliseconds since the epoch; its writer has chosen that, too.
    """

    topic: str
    partition: int
    start_offset: int
    cluster_group_id: ClusterGroupId | None
    plain: bool
    transactional_id: str | None
    connector: str | None = None
    since_ms: int | None = None

    def aborting(self, client: ClientSettings) -> str:
        """Return the command that aborts it."""
        where = ("--topic", self.topic, "--partition", self.partition, "--start-offset", self.start_offset)
        return client.kafka_tool("kafka-transactions", "abort", *where)

    def text(self, client: ClientSettings) -> str:
        """Return whose it claims to be and what to do."""
        where = ("--topic", self.topic, "--partition", self.partition)
        shows = client.kafka_tool("kafka-transactions", "describe-producers", *where)
        return (
            f"a transaction is open at {self.topic}[{self.partition}]@{self.start_offset}. {self.claim()}. It ends when it "
            f"is committed or aborted, at the latest after its transaction.timeout.ms (a minute by default), also if its "
            f"producer is dead: wait. If it stays for longer, it hangs. The broker shows the producer id and epoch: "
            f"{shows}; stop that producer, then {self.aborting(client)}"
        )

    def claim(self) -> str:
        """Return what the key of the first record says; any writer of the topic can choose it."""
        if self.plain:
            return "The key of its first record is that of a cluster with plain keys, transactional id unknown"
        if self.cluster_group_id is None:
            return "Its first record is no record of Connect, transactional id unknown"
        group, leader = str(self.cluster_group_id), shown(f"connect-cluster-{self.cluster_group_id}")
        task = "" if self.connector is None else f"{shown(f'{group}-{self.connector}-<task>')} of a source task or "
        claim = f"it appears to belong to cluster group {shown(group)}, transactional id {task}{leader}"
        return f"By the key of its first record {claim}"


def find_open_transactions(
    admin: Admin, settings: ClientSettings, places: Collection[Partition], *, client_id: str, timeout_s: float = ASK_S
) -> list[OpenTransaction]:
    """Look in which partitions a transaction is open now, and whose it is.

    ``timeout_s`` is the longest wait for each of three answers.
    """
    ends = admin.end_offsets(places, timeout_s=timeout_s)
    # Asked for after the ends: what is committed meanwhile only raises it.
    stable = admin.end_offsets(places, Isolation.READ_COMMITTED, timeout_s=timeout_s)
    # The log is not cleaned from there on, so these are the transactions' own first records.
    first = [OffsetRange(*place, offset, offset + 1) for place, offset in stable.items() if offset < ends[place]]
    records = Reader(settings, client_id, Isolation.READ_UNCOMMITTED).records(first, timeout_s)
    found = {(record.topic, record.partition): record for record in records}
    return [_described(each, found.get(each[:2])) for each in first]


def _described(at: OffsetRange, record: Record | None) -> OpenTransaction:
    topic, partition, offset, _ = at
    key = None if record is None else record.key
    since_ms = None if record is None or record.timestamp_ms < 0 else record.timestamp_ms
    owner = owner_of(key)
    if owner is None:
        return OpenTransaction(topic, partition, offset, None, False, None, since_ms=since_ms)
    topic_type, group, original = owner
    of_offsets = topic_type is TopicType.OFFSET
    leader = None if group is None or of_offsets else f"connect-cluster-{group}"
    connector = connector_of(topic_type, original) if of_offsets else None
    return OpenTransaction(topic, partition, offset, group, group is None, leader, connector, since_ms)


class OpenTransactions:
    """What a log says of transactions that hold it up. Readers of uncommitted records wait for none."""

    def __init__(self, topic: str, admin: Admin, reader: Reader) -> None:
        self._topic = topic
        self._admin = admin
        self._settings, self._client_id = reader.settings, reader.client_id
        self._committed_only = reader.isolation is Isolation.READ_COMMITTED
        self._log_at_s: float | None = None
        self._logged = False

    def look(self, partitions: Collection[int]) -> None:
        """Called again and again during the first read: after a while, log once what is open in the topic."""
        if not self._committed_only or self._logged:
            return
        if self._log_at_s is None:
            self._log_at_s = time.monotonic() + LOG_AFTER_S
        if time.monotonic() < self._log_at_s:
            return
        self._logged = True
        for found in self._find([(self._topic, partition) for partition in partitions]):
            _log.warning("Reading topic %s waits: %s", self._topic, found.text(self._settings))

    def explain(self, error: ReadToEndTimeoutError) -> None:
        """Add whose transaction it is, if one is open where a read to the end got stuck."""
        if error.topic is None or error.partition is None or not self._committed_only:
            return
        for found in self._find([(error.topic, error.partition)]):
            error.args = (f"{str(error).split(';', 1)[0]}; {found.text(self._settings)}",)
            error.blocked_by = None if found.cluster_group_id is None else str(found.cluster_group_id)
            error.transactional_id = found.transactional_id

    def _find(self, places: Collection[Partition]) -> list[OpenTransaction]:
        try:
            return find_open_transactions(self._admin, self._settings, places, client_id=self._client_id)
        except ConnectShareError as error:  # the time-out itself is the news
            _log.debug("Whether a transaction is open in %s could not be learnt: %s", self._topic, error)
            return []


class TopicRanges(NamedTuple):
    """All partitions of a topic up to an end, its id, notes for stderr, how it is read, and up to where it is stable."""

    topic_id: str | None
    ranges: list[OffsetRange]
    notes: list[str]
    reader: Reader
    stable: Mapping[tuple[str, int], int]


def groups_reader(
    topic_set: TopicSet,
    topic_type: TopicType,
    groups: Collection[ClusterGroupId | None] | None,
    stable: Mapping[Partition, int],
    known: Mapping[Partition, int] | None = None,
) -> Reader:
    """Return how groups are read, all by default: that of the worker file as its workers do; see :class:`Apart`."""
    own: tuple[ClusterGroupId | None, ...] = topic_set.worker_group or ()
    levels = {topic_set.isolation_of(group, topic_type) for group in ((*own, "") if groups is None else groups)}
    apart = Apart(topic_type, own[0], stable, known or {}) if own and len(levels) > 1 else None
    return Reader(
        topic_set.settings, CONSOLE_CLIENT_ID, topic_set.isolation(topic_type) if apart else levels.pop(), apart=apart
    )


def topic_ranges(
    admin: Admin,
    topic_set: TopicSet,
    wanted: Collection[TopicType],
    groups: Collection[ClusterGroupId | None] | None = None,
    known: Mapping[tuple[str, int], int] | None = None,
) -> dict[TopicType, TopicRanges]:
    """Return all partitions of topics up to their present end, and how groups are read there, all by default.

    ``known``: up to where those are read already who do not wait for transactions.

    Raises:
        TopicMissingError: names the topic and the property; ``LostTopicError`` where others have records.
        BrokerError: not reachable, or not allowed.
    """
    names = {topic_type: topic_set.topics[topic_type] for topic_type in wanted}
    described = require_topics(admin, topic_set.topics, wanted, expected=bool(known))
    found: dict[TopicType, TopicRanges] = {}
    for topic_type, topic in names.items():
        partitions = [(topic, partition.id) for partition in described[topic].partitions]
        starts = admin.start_offsets(partitions)
        stable: dict[Partition, int] = {}
        reader = groups_reader(topic_set, topic_type, groups, stable, known)
        apart, isolation = reader.apart, reader.isolation
        # First the ends of all records: what is written in between can only raise those of the committed ones.
        ends = admin.end_offsets(partitions)
        waits = apart is not None or isolation is Isolation.READ_COMMITTED
        stable |= admin.end_offsets(partitions, Isolation.READ_COMMITTED) if waits else ends
        beside = ""
        if apart is not None and isolation is Isolation.READ_COMMITTED:
            beside = f", but all of {apart.group or 'plain keys'}"
        notes = []
        for place, end in sorted(ends.items()):
            if stable[place] < end:
                where = (*admin.settings.reached_by, f"--{topic_type.value}-storage-topic", topic)
                shows = command_line("connect-share", "get", "groups", *where, "-X", "isolation.level=read_uncommitted")
                notes.append(
                    f"an open transaction holds back the end of {topic}[{place[1]}]: read up to offset {stable[place]} of "
                    f"{end}{beside}; {shows} shows all"
                )
                notes += owners_of_open(admin, topic_set.settings, place, client_id=CONSOLE_CLIENT_ID)
        if topic_type is TopicType.CONFIG and len(partitions) != 1:
            notes.append(
                f"config topic {topic} has {len(partitions)} partitions, so its records have no order: "
                f"no worker starts on it, and what is shown may be wrong"
            )
        last = ends if apart else stable
        ranges = [OffsetRange(*place, starts[place], last[place]) for place in partitions]
        found[topic_type] = TopicRanges(described[topic].topic_id, ranges, notes, reader, stable)
    return found


def owners_of_open(admin: Admin, settings: ClientSettings, place: Partition, *, client_id: str) -> list[str]:
    """Return whose transaction is open in a partition and what to do, or why that is not known; nothing if it has ended."""
    try:
        found = find_open_transactions(admin, settings, [place], client_id=client_id)
    except (BrokerError, ReadToEndTimeoutError) as exc:
        return [f"its owner is not known: {exc}"]
    return [each.text(settings) for each in found]
