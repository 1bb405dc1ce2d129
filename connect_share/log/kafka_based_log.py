"""One compacted topic: read to its end at the start, followed by a thread, written to and read back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, TypeVar

from connect_share.errors import (
    BrokerError,
    BrokerTimeoutError,
    NotStartedError,
    ReadToEndTimeoutError,
    StoreClosedError,
    TopicRecreatedError,
    WriteError,
)
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Deadline, is_unknown_topic
from connect_share.kafka.create import CREATE_TIMEOUT_S, TopicSpec, check_partition_count
from connect_share.kafka.facts import TopicFacts, find_or_create
from connect_share.kafka.read import OpenTransactions, Reader
from connect_share.log.first_read import CatchUp, OffsetsMissing, SharedReader, StartContext, TopicRead, not_at_end
from connect_share.log.protocol import (
    STOP_TIMEOUT_S,
    Call,
    RecordFeed,
    RecordMetadata,
    Steps,
    run_blocking,
    waits_for_itself,
)
from connect_share.log.tail import LogState, OnFailed, Tail
from connect_share.log.threads import await_end
from connect_share.log.writer import IdentityWatch, LogWriter, TopicIdentity
from connect_share.worker_config import ClientSettings

_log = logging.getLogger(__name__)

T = TypeVar("T")

START_TIMEOUT_S: Final = 900.0
"""Java tries for 15 minutes to learn the ends of a topic at start; here that is the limit of the whole first read."""

_RETRY_S: Final = 0.1
_PROBE_S: Final = 0.3
_QUESTION_S: Final = 3.0


@dataclass(eq=False, repr=False)
class KafkaBasedLog:
    """A compacted topic that is followed to its end and written to.

    Args:
        admin: shared client, left open.
        reader: how the topic is read.
        producer_settings: how to write, ``None`` for a log that is only read.
        context: what it shares with logs that start together with it.
        feed: takes the records.
        on_failed: called once with what every later call raises, by the thread that noticed.
        start_timeout_s: limit of the first read to the end.

    Attributes:
        caught_up: what the first read found; ``None`` before its end.
        check_topic: raises if what was read counts no more; as :meth:`LogState.check`.
        fail: as :meth:`LogState.fail`.
        positions: returns the next offset to be read of each partition: the consumer's progress, foreign records included.

    Source: ``KafkaBasedLog``. Unlike Java's it gives up at a deadline and says so, and after its thread has failed every
    call fails (decision 3). Errors of the broker that Java's logs and survives do not end it.
    """

    spec: TopicSpec
    _: KW_ONLY
    feed: RecordFeed
    admin: Admin
    reader: Reader
    producer_settings: ClientSettings | None = None
    context: StartContext = field(default_factory=StartContext)
    on_failed: OnFailed | None = None
    start_timeout_s: float = START_TIMEOUT_S
    create_timeout_s: float = CREATE_TIMEOUT_S

    def __post_init__(self) -> None:
        topic = self.topic
        self._state = LogState(topic, self.on_failed)
        self.check_topic, self.positions, self.fail = self._state.check, self._state.positions, self._state.fail
        self._identity = TopicIdentity(self.admin, topic)
        self._watch = IdentityWatch(topic, self._identity, fail=self._state.fail)
        self._writer = None
        if self.producer_settings is not None:
            self._writer = LogWriter(
                topic,
                self.producer_settings,
                client_id=self.reader.client_id,
                acknowledged=self._acknowledged,
                failed=self._state.fail,
            )
        self._open_transactions = OpenTransactions(topic, self.admin, self.reader)
        self._own_reader: SharedReader | None = None
        self._tail: Tail | None = None
        self.caught_up: CatchUp | None = None

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.spec.topic

    @property
    def topic_id(self) -> str | None:
        """Id the topic had at the start, as Kafka prints it; ``None`` if the broker gives none."""
        return self._identity.topic_id

    @property
    def partition_count(self) -> int:
        """Number of partitions that are read; those added later are read from when they are heard of, unlike in Java."""
        return len(self._state.positions())

    @property
    def foreign_records(self) -> int:
        """Number of records read whose key does not have the store's prefix."""
        return self.feed.foreign

    def start(self) -> None:
        """Make sure of the topic, read it to the end known now, then follow it in a thread."""
        if self._tail is not None or self._state.stopping.is_set():
            raise StoreClosedError(f"the log of topic {self.topic} was started before; make a new one")
        began = time.monotonic()
        shared = self.context.reader
        if shared is not None and not shared.covers(self.topic, self.reader.isolation):
            shared = None
        try:
            facts = self.context.facts.get(self.topic) or find_or_create(
                self.spec, self.admin, create_timeout_s=self.create_timeout_s, stopping=self._state.stopping
            )
            check_partition_count(self.spec, len(facts.description.partitions))
        except BaseException:
            if shared is not None:
                shared.withdraw(self.topic)
            raise
        self._identity.begin(facts.description.topic_id, facts.asked_s)
        self._state.advance(dict.fromkeys(facts.ends, 0))
        if shared is None:
            starts = {partition: facts.starts.get(partition, 0) for partition in facts.ends}
            shared = self._own_reader = SharedReader(
                {self.topic: starts}, self.reader, from_the_beginning=not facts.starts
            )
        try:
            found = self.caught_up = self._read(shared, facts, self.start_timeout_s - (time.monotonic() - began))
            _log.info(
                "Read topic %s to its end: %d records, %d of them own, in %.3f s",
                self.topic,
                found.own + found.foreign,
                found.own,
                time.monotonic() - began,
            )
            if self.context.gapless:
                self._require_gapless(found, facts.starts)
            self._follow()
        finally:
            if self._own_reader is not None:
                self._own_reader.release()

    def _read(self, reader: SharedReader, facts: TopicFacts, timeout_s: float) -> CatchUp:
        def check() -> None:
            self._check_not_stopped()
            self._open_transactions.look(facts.ends.keys())

        read = TopicRead(self.topic, facts.ends, self.feed, facts.starts, check)
        try:
            return reader.read(read, max(0.0, timeout_s))
        except ReadToEndTimeoutError as exc:
            self._open_transactions.explain(exc)
            raise

    def _require_gapless(self, found: CatchUp, starts: Mapping[int, int]) -> None:
        passed, came = sum(found.positions.values()) - sum(starts.values()), found.own + found.foreign
        if passed != came:
            raise OffsetsMissing(
                f"{passed - came} of {passed} new offsets of topic {self.topic} hold no record: cleaned away, perhaps with "
                "removals, or marks of transactions"
            )

    def _follow(self) -> None:
        assert self.caught_up is not None  # noqa: S101 - only called after the first read
        self._state.advance(self.caught_up.positions)
        self._watch.start()
        tail = Tail(
            self.topic,
            self._state,
            self.feed,
            self.reader,
            identity=self._identity,
            watch=self._watch,
            may_start=self.context.all_read,
        )
        tail.thread.start()
        self._tail = tail
        if self._state.stopping.is_set():
            # A stop() meanwhile saw no thread to wait for.
            await_end(tail.thread, STOP_TIMEOUT_S)
            self._check_not_stopped()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what is under way, within ``timeout_s``, then end the thread and close the clients; may be called twice."""
        if self._state.process.forked:
            return  # threads and clients are the other process's
        deadline = Deadline.after(timeout_s)
        self._state.stop()
        try:
            if self._writer is not None:
                self._writer.close(deadline.remaining_s())
        finally:
            self._watch.stop(deadline.remaining_s())
            if self._tail is not None:
                await_end(self._tail.thread, deadline.remaining_s())
            if self._own_reader is not None:
                self._own_reader.join()

    def check_may_wait(self) -> None:
        """Raise ``UsageError`` in a thread that a wait would wait for, such as the one that calls a listener."""
        threads = {
            None if self._tail is None else self._tail.thread,
            None if self._writer is None else self._writer.thread,
            self._watch.thread,
        }
        if threading.current_thread() in threads:
            raise waits_for_itself(self.topic)

    def _acknowledged(self, future: Future[RecordMetadata], record: RecordMetadata, before: Mapping[int, int]) -> None:
        self._state.follow([record.partition])
        self._watch.acknowledged(future, record, before)

    def send(self, key: bytes, value: bytes | None, partition: int = -1) -> Future[RecordMetadata]:
        """Write one record; the future ends with the acknowledgement or a ``ConnectShareError``."""
        self._check_running()
        if self._writer is None:
            raise WriteError(f"the log of topic {self.topic} was opened for reading only")
        return self._writer.send(key, value, self._state.positions(), partition)

    def flush(self, timeout_s: float) -> None:
        """Wait until every record sent so far is acknowledged or failed."""
        if self._writer is None:
            return
        self.check_may_wait()
        deadline = Deadline.after(timeout_s)
        self._writer.flush(timeout_s)
        if not self._watch.flush(deadline.remaining_s()):
            raise BrokerTimeoutError(
                f"writes to topic {self.topic} were acknowledged, but whether it is still the topic that was read could not "
                f"be learnt within {timeout_s:g} s; check the brokers",
                retriable=True,
            )

    def read_to_end(self, timeout_s: float) -> None:
        """Return once every record that is in the topic at the time of the call was applied.

        The end is asked for once; what others write meanwhile does not move it.

        Raises:
            ReadToEndTimeoutError: with topic, partition, position and end offset.
            LogFailedError: the thread died.
            TopicRecreatedError: the topic is another one than at the start.
            BrokerError: the ends could not be learnt.
        """
        self._check_running()
        self.check_may_wait()
        deadline = Deadline.after(timeout_s)
        run_blocking(self._await(self._ends_now(deadline), deadline))

    def reading_past(self, written: RecordMetadata, timeout_s: float) -> Steps[None]:
        """Wait until an acknowledged record, and everything before it in its partition, was applied.

        No broker is asked: the acknowledgement says where the record is.
        """
        self._check_running()
        self.check_may_wait()
        yield from self._await({written.partition: written.offset + 1}, Deadline.after(timeout_s))

    def _await(self, ends: Mapping[int, int], deadline: Deadline) -> Steps[None]:
        behind = yield from self._state.reaching(ends, deadline.remaining_s())
        if not behind:
            self._state.check()
            return
        self._check_running()
        trouble = None if self._tail is None else self._tail.trouble
        positions, timeout_s = self._state.positions(), deadline.timeout_s
        late = not_at_end(self.topic, behind, positions, timeout_s, self.reader.isolation, trouble=trouble)
        yield Call(lambda: self._explain_in_time(late))
        raise late

    def _explain_in_time(self, late: ReadToEndTimeoutError) -> None:
        """Add whose transaction is in the way, if there is a broker that would know: the deadline has passed."""
        try:
            self._confirm_identity(_PROBE_S, at_once=True)
        except BrokerError:
            return
        self._open_transactions.explain(late)

    def _ends_now(self, deadline: Deadline) -> dict[int, int]:
        """Ask for the ends once all that was sent is acknowledged, again while the brokers may come back in time."""
        while True:
            try:
                self.flush(deadline.remaining_s(0.001))
                # A stop is noticed between two questions.
                self._confirm_identity(min(deadline.remaining_s(), _QUESTION_S))
                places = [(self.topic, partition) for partition in self._state.positions()]
                ends = self.admin.end_offsets(places, timeout_s=min(deadline.remaining_s(), _QUESTION_S))
                return {partition: end for (_, partition), end in ends.items()}
            except BrokerError as exc:
                passes = exc.retriable
                if is_unknown_topic(exc):
                    # The reader never learns that its topic is gone; or a broker that starts has not heard of it yet.
                    self._confirm_identity(deadline.remaining_s(), at_once=True)
                    passes = self._identity.topic_id is not None
                if not passes:
                    raise
                if deadline.is_within(_RETRY_S):
                    raise ReadToEndTimeoutError(
                        f"where topic {self.topic} ends could not be learnt within {deadline.timeout_s:g} s: {exc}",
                        topic=self.topic,
                    ) from exc
            self._state.stopping.wait(_RETRY_S)
            self._check_running()

    def between_batches(self, read: Callable[[Mapping[int, int]], T], timeout_s: float) -> T:
        """Read to the end, then return the result of ``read``, called with the positions while nothing is being applied.

        The thread that applies records calls it, so it has to be quick.
        """
        deadline = Deadline.after(timeout_s)
        self.read_to_end(timeout_s)
        assert self._tail is not None  # noqa: S101 - nothing is read to the end before the start
        with self._state.awaiting():
            return self._tail.between_batches(read, deadline, self._check_running)

    def _confirm_identity(self, timeout_s: float, *, at_once: bool = False) -> None:
        try:
            self._identity.confirm(timeout_s, at_once=at_once)
        except TopicRecreatedError as error:
            self._state.fail(error)
            raise
        self._state.follow(self._identity.partitions)

    def _check_running(self) -> None:
        self._state.check()
        if self._state.stopping.is_set():
            raise StoreClosedError(f"the log of topic {self.topic} was stopped")
        if self._tail is None:
            raise NotStartedError(f"the log of topic {self.topic} was not started; call start()")

    def _check_not_stopped(self) -> None:
        if self._state.stopping.is_set():
            raise StoreClosedError(f"the log of topic {self.topic} was stopped while it was read for the first time")
