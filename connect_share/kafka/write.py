"""Producers that lose, double or reorder no record unnoticed."""

from __future__ import annotations

import contextlib
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import Any, Final

from connect_share.errors import BrokerError, ConnectShareError, CopyError, UnacknowledgedError
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.limits import TopicLimits
from connect_share.kafka.waits import CHANGES, Awaited
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import OLDEST_MS
from connect_share.worker_config import ClientSettings, WorkerConfig

MIGRATE_CLIENT_ID: Final = "migrate"
"""The end of the client id of every client that the migrator opens with a worker's settings."""
POLL_EVERY: Final = 200
"""Records between two polls for acknowledgements: a poll after each record takes a third of the copy's time."""

PRODUCER_OVERRIDES: Final[Mapping[str, str]] = {
    # Few large batches: a broker needs longer for the second batch of a new partition (its indexes get their first
    # entries) than for all that a small cluster has. A flush does not wait for it.
    "linger.ms": "300",
    # Bounds the memory of a slice whatever its size; the library's default is 1 GiB.
    "queue.buffering.max.kbytes": "65536",
    # A record that cannot be delivered must end the copy within minutes, not hang it.
    "message.timeout.ms": "120000",
}

ONCE_OVERRIDES: Final[Mapping[str, str]] = {
    **PRODUCER_OVERRIDES,
    # Longer than a record lives: a batch whose answer did not come waits in front of those behind it, and is not sent
    # again. A broker may have taken it and have forgotten who sent it: it forgets producers by the time stamps of their
    # records, and copies keep old ones.
    "retry.backoff.ms": "300000",
    "retry.backoff.max.ms": "300000",
    "topic.metadata.refresh.fast.interval.ms": "100",  # else as the back-off: a leader may not be known at once
}
"""For a producer that sends nothing twice: when acknowledgements stay away, the caller reads the destination."""

BULK_OVERRIDES: Final[Mapping[str, str]] = {
    **ONCE_OVERRIDES,
    # What waits for long is out of the processor's caches when its turn comes: a sixth of the time of a million records.
    "linger.ms": "20",
}
"""For hundreds of thousands of records."""

_QUIET_S: Final = 10.0
"""Without any acknowledgement for so long something is wrong; a throttled broker may need a part of it."""
_LOST_S: Final = 1.0
"""The same when a connection is known to be lost."""
_MOST_PATIENT: Final = 3
_NOTED_EVERY_S: Final = 1.0
_DRAIN_S: Final = 90.0
"""The client gives each request up after a minute."""
_MAY_BE_WRITTEN: Final = frozenset(
    {"_PURGE_INFLIGHT", "_MSG_TIMED_OUT", "_TIMED_OUT", "REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
)
"""Failures that leave open whether a record is there."""
_LOST: Final = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE"})

Outgoing = tuple[str, bytes | None, bytes | None, int, Any, Any, int, Any]
"""What the client's ``produce`` takes, made once for each record: topic, value, key, partition (-1: that of murmur2), the
writer's ``delivered`` twice, timestamp in ms, and the headers in the client's own form (``None``: none)."""


class KeptProducer:
    """A producer and the state of its connection; it waits ``patience`` times as long as usual for acknowledgements."""

    def __init__(
        self, settings: ClientSettings, client_id: str, *, once: bool, patience: int, bulk: bool = False
    ) -> None:
        self.once = once
        self.patience = patience
        self.connection_lost: bool = False
        self.fatal: client.KafkaException | None = None
        overrides = BULK_OVERRIDES if bulk else ONCE_OVERRIDES if once else PRODUCER_OVERRIDES
        self.client: client.Producer = client.producer(
            settings,
            client_id=client_id,
            overrides=overrides,
            idempotent=True,
            only_failures=bulk,
            on_error=self._note_error,
        )

    @client.callback
    def _note_error(self, error: client.KafkaError) -> None:
        if error.name() in _LOST:
            self.connection_lost = True

    def flush(self, timeout_s: float) -> None:
        """Wait for acknowledgements. A fatal error of the client fails all records, and only here it says why."""
        try:
            client.flush(self.client, timeout_s)
        except client.KafkaException as error:
            self.fatal = error

    def drop_queued(self) -> None:
        """Drop what was not sent, and wait until nothing that was sent is under way: it may still be accepted."""
        until_s = time.monotonic() + _DRAIN_S
        while len(self.client) and time.monotonic() < until_s:
            self.client.purge(in_flight=False)
            self.flush(0.5)
        client.give_up(self.client)


@dataclass
class _Wait:
    """One wait for acknowledgements, during which nothing is sent."""

    producer: KeptProducer
    left: int = -1
    since_s: float = 0.0


class Producers(threading.local):
    """Producers kept from one slice to the next; each thread has its own, so callbacks need no lock.

    A new idempotent producer waits half a second for its id, which is most of the time of a small slice.

    Args:
        once: no batch is sent a second time when its answer does not come; writing then ends with
            ``UnacknowledgedError``.
        bulk: likewise, for hundreds of thousands of records. Only failures are reported: an object and a call for each
            acknowledgement took a quarter of the time of a million records.
    """

    def __init__(self, *, once: bool = False, bulk: bool = False) -> None:
        self._once = once or bulk
        self.bulk: Final = bulk
        self._kept: dict[object, KeptProducer] = {}
        self._lost = 0

    def get(self, settings: ClientSettings, client_id: str) -> KeptProducer:
        """Return this thread's producer for these settings; one that is made early has its id when it is needed."""
        key = (client_id, tuple(sorted(settings.properties.items())))
        if key not in self._kept:
            patience = 2 ** min(self._lost, _MOST_PATIENT)
            self._kept[key] = KeptProducer(settings, client_id, once=self._once, patience=patience, bulk=self.bulk)
        return self._kept[key]

    def forget(self, producer: KeptProducer, *, lost: bool = False) -> None:
        """Make a new producer for the next slice; with ``lost`` it waits longer for acknowledgements."""
        self._lost += lost
        self._kept = {key: kept for key, kept in self._kept.items() if kept is not producer}


@dataclass(eq=False, repr=False)
class CheckedWriter:
    """A producer that notices every failed delivery; the first one ends the copy.

    The producer is made with the first record: most slices of a small cluster are empty.
    """

    producers: Producers
    settings: ClientSettings
    topic: str
    client_id: str
    _producer: KeptProducer | None = None
    failures: list[client.KafkaError] = field(default_factory=list)
    sent: int = 0
    _polled: int = 0
    acknowledged: int = 0
    runs: dict[int, list[list[int]]] = field(default_factory=dict)
    """The offsets acknowledged, per partition: first of each run, and the one behind it; a bulk producer says none."""

    @property
    def offsets(self) -> dict[int, tuple[int, int]]:
        """Per partition the first and last offset acknowledged."""
        return {partition: (runs[0][0], runs[-1][1] - 1) for partition, runs in self.runs.items()}

    @property
    def is_acknowledged(self) -> bool:
        """Whether every record is known to be at the destination."""
        return not self.failures and not self._unanswered

    @property
    def is_settled(self) -> bool:
        """Whether :meth:`finish` has nothing to wait for: all is acknowledged, or a record was refused."""
        return bool(self.failures) or not self._unanswered

    @property
    def _unanswered(self) -> int:
        """How many records may be under way; of a bulk producer, those of all its writers."""
        if self.producers.bulk and self._producer is not None:
            return len(self._producer.client)
        return self.sent - self.acknowledged

    @client.callback
    def delivered(self, error: client.KafkaError | None, message: client.Message) -> None:
        """Note an acknowledgement, of a bulk producer a failure only; the records of a partition come in their order."""
        if error is not None:
            self.failures.append(error)
            return
        self.acknowledged += 1
        CHANGES["records"] += 1
        runs, offset = self.runs.setdefault(message.partition() or 0, []), message.offset() or 0
        if runs and runs[-1][1] == offset:
            runs[-1][1] += 1
        else:
            runs.append([offset, offset + 1])

    def write(self, record: Record, partition: int = -1) -> None:
        """Queue one record, for this partition or that of murmur2; blocks while the queue is full."""
        headers, delivered = [*record.whole_headers()] or None, self.delivered
        self.write_all(
            ((self.topic, record.value, record.key, partition, delivered, delivered, record.timestamp_ms, headers),)
        )

    def write_all(self, records: Sequence[Outgoing]) -> None:
        """Queue records in this order; blocks while the queue is full.

        Raises:
            BrokerError: a record was refused.
            UnacknowledgedError: acknowledgements stay away, and the producer sends nothing twice.
        """
        if self._producer is None:
            self._producer = self.producers.get(self.settings, self.client_id)
        producer = self._producer
        produce = producer.client.produce
        self._raise_failure()
        try:
            for arguments in records:
                try:
                    produce(*arguments)
                except BufferError:
                    self._produce_when_there_is_room(producer, arguments)
            self.sent += len(records)
            CHANGES["records"] += self.producers.bulk
            if self.sent - self._polled >= POLL_EVERY:
                producer.client.poll(0)
                self._polled = self.sent
        except client.KafkaException as error:
            producer.flush(0)
            raise self._refusal(producer.fatal or error) from error

    def _produce_when_there_is_room(self, producer: KeptProducer, arguments: Sequence[Any]) -> None:
        wait = _Wait(producer)
        with Awaited(f"room for records of topic {self.topic}"):
            while True:
                self._raise_if_unacknowledged(wait)
                producer.client.poll(0.1)
                self._raise_failure()
                with contextlib.suppress(BufferError):
                    producer.client.produce(*arguments)
                    return

    def finish(self) -> None:
        """Wait for all acknowledgements; on an error :meth:`abandon` the producer.

        Raises:
            BrokerError: a record was refused or not acknowledged in time.
            CopyError: fewer acknowledgements than records.
            UnacknowledgedError: acknowledgements stay away, and the producer sends nothing twice.
        """
        with contextlib.ExitStack() as on_error, Awaited(f"acknowledgements of topic {self.topic}"):
            on_error.callback(self.abandon)
            if self._producer is not None:
                # Each record has a time-out of its own (message.timeout.ms), so this loop ends. What is left at its end
                # may belong to other slices.
                wait = _Wait(self._producer)
                while not self.is_settled and len(self._producer.client):
                    self._raise_if_unacknowledged(wait)
                    self._producer.flush(0.5)
            self._raise_failure()
            if unanswered := self._unanswered:
                raise CopyError(
                    f"{self.topic}: {self.sent} records were sent but {self.sent - unanswered} acknowledged; "
                    "the destination holds a part of them"
                )
            on_error.pop_all()

    def _raise_if_unacknowledged(self, wait: _Wait) -> None:
        """Raise when no acknowledgement has come for longer than a working cluster needs; nothing is under way by then.

        Never with a producer that sends again by itself: each of its records has a time-out of its own.
        """
        producer, now_s = wait.producer, time.monotonic()
        left = len(producer.client)
        if left != wait.left:
            wait.left, wait.since_s, producer.connection_lost = left, now_s, False
        limit_s = _LOST_S if producer.connection_lost else _QUIET_S
        if producer.once and now_s - wait.since_s > limit_s * producer.patience:
            self.producers.forget(producer, lost=True)
            producer.drop_queued()
            raise UnacknowledgedError(
                f"{self.topic}: the brokers have stopped acknowledging; it is not known what the destination has"
            )

    def abandon(self, *, drained: bool = False) -> None:
        """Drop what is still queued, and the producer; ``drained``: what was sent is waited for, and known then."""
        if self._producer is not None:
            self.producers.forget(self._producer)
            (self._producer.drop_queued if drained else partial(client.give_up, self._producer.client))()

    def _raise_failure(self) -> None:
        if self.failures:
            fatal = None if self._producer is None else self._producer.fatal
            raise self._refusal(fatal or self.failures[0])

    def _refusal(self, error: client.KafkaError | client.KafkaException) -> BrokerError:
        return client.translate(error, doing=f"writing to {self.topic}", needs="WRITE")


PROCESS_PRODUCERS: Final = Producers(once=True)
"""Kept by every thread of this process; Spark's workers live on from task to task."""


@dataclass(frozen=True)
class Written:
    """What brokers have acknowledged: by the place of the worker and the topic, the offsets of each partition in runs."""

    runs: Mapping[tuple[int, str], Mapping[int, list[list[int]]]] = field(default_factory=dict, repr=False)
    marks: frozenset[str] = frozenset()  # of records whose offsets are not known

    def __len__(self) -> int:
        """Return how many records."""
        return sum(end - first for topic in self.runs.values() for runs in topic.values() for first, end in runs)

    def has(self, index: int, record: Record) -> bool:
        """Return whether a record of the topics of a worker is one of these, wherever its key and value are from."""
        runs = self.runs.get((index, record.topic), {}).get(record.partition, [])
        at = bisect_right(runs, record.offset, key=itemgetter(0))
        return at > 0 and record.offset < runs[at - 1][1]


def write_records(
    workers: Sequence[WorkerConfig],
    records: Iterable[tuple[int, Record] | tuple[int, Record, int]],
    *,
    remedy: str = "the same command completes it",
    nothing: str = "Nothing was written",
    note: Callable[[Written], object] = lambda _: None,
) -> Written:
    """Write records, each to its topic in the cluster of the worker with that index. Returns where they are.

    A third member is the partition, else it is that of murmur2. The records of one cluster keep their order. What is to be
    as old as possible gets the oldest time that its topic takes. Returns when all are acknowledged. An error says what was
    written, what was not, and the ``remedy``. ``note`` gets what is acknowledged before the first record, every second, and
    at the end.
    """
    producers = Producers()
    writers: dict[tuple[int, str], CheckedWriter] = {}
    limits: dict[int, dict[str, TopicLimits]] = {}
    noted_s = 0.0
    try:
        for index, record, *place in records:
            if time.monotonic() - noted_s > _NOTED_EVERY_S:
                note(_written(writers))
                noted_s = time.monotonic()
            key = (index, record.topic)
            if key not in writers:
                worker, client_id = workers[index], workers[index].client_id(MIGRATE_CLIENT_ID)
                if index not in limits:
                    with Admin(worker.admin_settings(), client_id=client_id) as admin:
                        limits[index] = TopicLimits.seen(admin, {worker.topic(each) for each in TopicType})
                settings = limits[index][record.topic].batched(worker.producer_settings())
                writers[key] = CheckedWriter(producers, settings, record.topic, client_id)
            if record.timestamp_ms == OLDEST_MS:
                record = replace(record, timestamp_ms=limits[index][record.topic].oldest_ms())  # noqa: PLW2901
            writers[key].write(record, *place)
        for writer in writers.values():
            writer.finish()
        note(_written(writers))
    except BaseException as error:
        for writer in writers.values():
            writer.abandon(drained=isinstance(error, ConnectShareError))
        note(_written(writers))
        if isinstance(error, ConnectShareError):
            error.args = (f"{error}. {half_done(writers.values(), remedy, nothing)}",)
            error.says_what_is_done = any(writer.acknowledged for writer in writers.values())
        raise
    return _written(writers)


def _written(writers: Mapping[tuple[int, str], CheckedWriter]) -> Written:
    return Written({key: writer.runs for key, writer in writers.items()})


def half_done(writers: Collection[CheckedWriter], remedy: str, nothing: str = "Nothing was written") -> str:
    """Return what was written when a record was refused, and what was not; the one wording of all commands."""
    counts = [(writer.topic, writer.acknowledged, writer.sent) for writer in writers]  # of topics of several clusters
    maybe = sum(failure.name() in _MAY_BE_WRITTEN for writer in writers for failure in writer.failures)
    if not maybe and not any(done for _, done, _ in counts):
        return nothing
    topics = ", ".join(f"{topic} {done:,} of {sent:,}" for topic, done, sent in counts)
    topics += f", and {maybe:,} more may have been written" if maybe else ""
    return f"Half done: of the records sent so far were acknowledged: {topics}. When that is mended, {remedy}"
