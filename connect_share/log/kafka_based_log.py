"""One compacted topic: read to its end at the start, followed by a thread, written to and read back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeVar

from connect_share.admin import Admin
from connect_share.client import (
    Consumer,
    KafkaException,
    TopicPartition,
    TopicRight,
    consumer,
    is_unknown_topic,
    translate,
)
from connect_share.errors import (
    BrokerError,
    BrokerTimeoutError,
    ConnectShareError,
    NotStartedError,
    ReadToEndTimeoutError,
    StoreClosedError,
    TopicRecreatedError,
    UsageError,
    WriteError,
)
from connect_share.log.catch_up import (
    CatchUp,
    Reading,
    catch_up,
    catch_up_consumer,
    not_at_end,
)
from connect_share.log.end_offsets import EndOffsets
from connect_share.log.facts import TopicFacts
from connect_share.log.following import take_next
from connect_share.log.health import Health, OnFailed, told
from connect_share.log.identity import IdentityWatch, TopicIdentity
from connect_share.log.open_transactions import OpenTransactions
from connect_share.log.protocol import STOP_TIMEOUT_S, RecordMetadata, RecordSink
from connect_share.log.shared_reader import SharedReader
from connect_share.log.tail_tasks import TailTasks
from connect_share.log.topic_bootstrap import TopicBootstrap
from connect_share.log.troubles import Troubles
from connect_share.log.writer import LogWriter, remaining_s
from connect_share.topics import CREATE_TIMEOUT_S, TopicSpec, check_partition_count
from connect_share.worker_config.client_settings import ClientSettings, Isolation

_log = logging.getLogger(__name__)

T = TypeVar("T")

START_TIMEOUT_S: Final = 900.0
"""Java tries for 15 minutes to learn the ends of a topic at start; here that is the limit of the whole first read."""

_TAIL_SETTINGS: Final[Mapping[str, str]] = {
    "enable.partition.eof": "true",
    "fetch.queue.backoff.ms": "100",
    "queued.max.messages.kbytes": "16384",
}
_HELD_S: Final = 0.005
_JOIN_S: Final = 10.0
_RETRY_S: Final = 0.1
_EXPLAIN_S: Final = 3.0
_PROBE_S: Final = 0.3
_QUESTION_S: Final = 3.0


class KafkaBasedLog:
    """A compacted topic that is followed to its end and written to.

    Args:
        spec: the topic, and what to create if it is missing.
        sink: the store that takes the records.
        admin: shared client, left open.
        consumer_settings: how to read.
        producer_settings: how to write, ``None`` for a log that is only read.
        isolation: which records of transactions are seen.
        client_id: shown in the broker's logs.
        facts: what a common admin round found out about the topic, if there was one.
        common: reads this topic together with others, if it covers it.
        hold_tail: until it is set, or somebody waits for the end, nothing is followed: making another client takes time
            from the first reads of others.
        on_failed: called once with what every later call raises, by the thread that noticed.
        start_timeout_s: limit of the first read to the end.
        create_timeout_s: limit of creating the topic.

    Source: ``KafkaBasedLog``. Unlike Java's it gives up at a deadline and says so, and after its thread has failed every
    call fails (decision 3). Errors of the broker that Java's logs and survives do not end it.
    """

    def __init__(
        self,
        spec: TopicSpec,
        *,
        sink: RecordSink,
        admin: Admin,
        consumer_settings: ClientSettings,
        producer_settings: ClientSettings | None = None,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        client_id: str = "connect-share",
        facts: TopicFacts | None = None,
        common: SharedReader | None = None,
        hold_tail: threading.Event | None = None,
        on_failed: OnFailed | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
        create_timeout_s: float = CREATE_TIMEOUT_S,
    ) -> None:
        self._spec = spec
        self._sink = sink
        self._admin = admin
        self._consumer_settings = consumer_settings
        self._isolation = isolation
        self._client_id = client_id
        self._facts = facts
        self._common = common if common is not None and common.covers(spec.topic, isolation) else None
        self._hold_tail = hold_tail
        self._health = Health(spec.topic, on_failed)
        self._start_timeout_s = start_timeout_s
        self._identity = TopicIdentity(admin, spec.topic)
        self._watch = IdentityWatch(spec.topic, self._identity, fail=self._fail)
        self._writer = None
        if producer_settings is not None:
            self._writer = LogWriter(
                spec.topic, producer_settings, client_id=client_id, acknowledged=self._watch.acknowledged
            )
        self._changed = threading.Condition()
        self._positions: dict[int, int] = {}
        self._awaited = 0
        self._tail_tasks = TailTasks(spec.topic)
        self._troubles = Troubles(spec.topic, self._watch.look_now)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._reader: Consumer | None = None
        self._end_offsets = EndOffsets(
            spec.topic, admin, consumer_settings, client_id=client_id, isolation=isolation, stopping=self._stopping
        )
        self._bootstrap = TopicBootstrap(
            spec,
            admin,
            self._end_offsets,
            create_timeout_s=create_timeout_s,
            stopping=self._stopping,
            go_on=self._check_not_stopped,
        )
        self._open_transactions = OpenTransactions(
            spec.topic, admin, consumer_settings, client_id=client_id, isolation=isolation
        )
        self.caught_up: CatchUp | None = None

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self._spec.topic

    @property
    def topic_id(self) -> str | None:
        """Id the topic had at the start, as Kafka prints it; ``None`` if the broker gives none."""
        return self._identity.topic_id

    @property
    def partition_count(self) -> int:
        """Number of partitions seen at start; partitions added later are not read, as in Java."""
        return len(self._positions)

    def positions(self) -> Mapping[int, int]:
        """Next offset to be read of each partition: the consumer's progress, foreign records included."""
        with self._changed:
            return dict(self._positions)

    def start(self) -> None:
        """Make sure of the topic, read it to the end known now, then follow it in a thread.

        Raises:
            TopicError: missing, or not as Connect demands.
            ReadToEndTimeoutError: the end was not reached in time.
            BrokerError: the cluster refused.
        """
        if self._thread is not None or self._stopping.is_set():
            raise StoreClosedError(f"the log of topic {self.topic} was started before; make a new one")
        began = time.monotonic()
        try:
            facts = self._facts or self._bootstrap.find()
            check_partition_count(self._spec, len(facts.description.partitions))
        except BaseException:
            if self._common is not None:
                self._common.withdraw(self.topic)
            raise
        self._identity.learnt(facts.description.topic_id, facts.asked_s)
        reading = Reading(self.topic, facts.end_offsets, self._sink, facts.starts, partial(self._while_reading, facts))
        timeout_s = max(0.0, self._start_timeout_s - (time.monotonic() - began))
        read = self._read_alone if self._common is None else self._common.read
        try:
            self.caught_up = read(reading, timeout_s)
        except ReadToEndTimeoutError as exc:
            raise self._open_transactions.explained(exc) from exc
        with self._changed:
            self._positions = dict(self.caught_up.positions)
        _log.info(
            "Read topic %s to its end: %d records, %d of them own, in %.3f s",
            self.topic,
            self.caught_up.records,
            self.caught_up.own,
            time.monotonic() - began,
        )
        self._watch.start()
        follower = threading.Thread(target=self._follow, name=f"log-{self.topic}", daemon=True)
        follower.start()
        self._thread = follower
        if self._stopping.is_set():
            # Whoever stopped this log meanwhile saw no thread to wait for.
            follower.join(_JOIN_S)
            self._check_not_stopped()

    def _read_alone(self, reading: Reading, timeout_s: float) -> CatchUp:
        self._reader = catch_up_consumer(
            self._consumer_settings,
            client_id=self._client_id,
            isolation=self._isolation,
            from_the_beginning=not reading.starts,
        )
        try:
            return catch_up(self._reader, [reading], timeout_s=timeout_s, isolation=self._isolation)[self.topic]
        except BaseException:
            self._reader.close()
            self._reader = None
            raise

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what is under way, within ``timeout_s``, then end the thread and close the clients; may be called twice."""
        if self._health.forked:
            return  # threads and clients are the other process's
        deadline_s = time.monotonic() + timeout_s
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        try:
            if self._writer is not None:
                self._writer.close(remaining_s(deadline_s))
        finally:
            self._watch.stop(remaining_s(deadline_s))
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join(_JOIN_S)

    def check_topic(self) -> None:
        """Refuse to believe what was read if the topic is gone, or is not followed any more.

        Raises:
            TopicRecreatedError: it was deleted, or created again.
            LogFailedError: the thread that follows it died.
            StoreClosedError: it is followed by another process, from which this one was forked.
        """
        self._health.check()

    def check_may_wait(self) -> None:
        """Refuse a wait by a thread that it would wait for, such as one that tells a listener.

        Raises:
            UsageError: it is one.
        """
        writing = None if self._writer is None else self._writer.thread
        if threading.current_thread() in (self._thread, self._watch.thread, writing):
            raise UsageError(
                f"a listener or callback of topic {self.topic} waits for the thread that it runs on, for ever: "
                "take note, return, and wait in a thread of your own"
            )

    def send(self, key: bytes, value: bytes | None) -> Future[RecordMetadata]:
        """Write one record; the future ends with the acknowledgement or a ``ConnectShareError``.

        Raises:
            WriteError: the log was opened for reading only.
            LogFailedError, StoreClosedError, NotStartedError: the log does not run.
        """
        self._check_running()
        if self._writer is None:
            raise WriteError(f"the log of topic {self.topic} was opened for reading only")
        return self._writer.send(key, value, self.positions())

    def flush(self, timeout_s: float) -> None:
        """Wait until every record sent so far is acknowledged or failed.

        Raises:
            BrokerTimeoutError: not within ``timeout_s``.
        """
        if self._writer is None:
            return
        self.check_may_wait()
        deadline_s = time.monotonic() + timeout_s
        self._writer.flush(timeout_s)
        if not self._watch.flush(remaining_s(deadline_s)):
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
        deadline_s = time.monotonic() + timeout_s
        ends = self._ends_now(timeout_s, deadline_s)
        with self._changed:
            self._awaited += 1
            try:
                self._changed.wait_for(lambda: self._stopped_or_at(ends), remaining_s(deadline_s))
            finally:
                self._awaited -= 1
            behind = {partition: end for partition, end in ends.items() if self._positions[partition] < end}
            positions = dict(self._positions)
        if behind:
            self._check_running()
            late = not_at_end(self.topic, behind, positions, timeout_s, self._isolation, trouble=self._troubles.newest)
            raise self._explained_in_time(late)

    def _explained_in_time(self, late: ReadToEndTimeoutError) -> ReadToEndTimeoutError:
        """Say whose transaction is in the way, if there is a broker that would know: the deadline has passed."""
        try:
            self._confirm_identity(_PROBE_S, at_once=True)
        except BrokerError:
            return late
        return self._open_transactions.explained(late)

    def _ends_now(self, timeout_s: float, deadline_s: float) -> dict[int, int]:
        """Ask for the ends once all that was sent is acknowledged, again while the brokers may come back in time."""
        while True:
            try:
                self.flush(max(remaining_s(deadline_s), 0.001))
                # A stop is noticed between two questions.
                self._confirm_identity(min(remaining_s(deadline_s), _QUESTION_S))
                return self._end_offsets.ask(list(self._positions), min(remaining_s(deadline_s), _QUESTION_S))
            except BrokerError as exc:
                passes = exc.retriable
                if is_unknown_topic(exc):
                    # The reader never tells that its topic is gone; or a broker that starts has not heard of it yet.
                    self._confirm_identity(remaining_s(deadline_s), at_once=True)
                    passes = self._identity.topic_id is not None
                if not passes:
                    raise
                if remaining_s(deadline_s) <= _RETRY_S:
                    raise ReadToEndTimeoutError(
                        f"where topic {self.topic} ends could not be learnt within {timeout_s:g} s: {exc}",
                        topic=self.topic,
                    ) from exc
            self._stopping.wait(_RETRY_S)
            self._check_running()

    def between_batches(self, look: Callable[[Mapping[int, int]], T], timeout_s: float) -> T:
        """Read to the end, then give what ``look`` says of the positions while nothing is being applied.

        The thread that applies records calls it, so it has to be quick.

        Raises:
            ReadToEndTimeoutError, LogFailedError, TopicRecreatedError, BrokerError: as :meth:`read_to_end`.
        """
        deadline_s = time.monotonic() + timeout_s
        self.read_to_end(timeout_s)
        with self._changed:
            self._awaited += 1
        try:
            return self._tail_tasks.ask(look, deadline_s, go_on=self._check_running)
        finally:
            with self._changed:
                self._awaited -= 1

    def _stopped_or_at(self, ends: Mapping[int, int]) -> bool:
        if self._health.failure is not None or self._stopping.is_set():
            return True
        return all(self._positions[partition] >= end for partition, end in ends.items())

    def _confirm_identity(self, timeout_s: float, *, at_once: bool = False) -> None:
        try:
            self._identity.confirm(timeout_s, at_once=at_once)
        except TopicRecreatedError as error:
            self._fail(error)
            raise

    def _check_running(self) -> None:
        self.check_topic()
        if self._stopping.is_set():
            raise StoreClosedError(f"the log of topic {self.topic} was stopped")
        if self._thread is None:
            raise NotStartedError(f"the log of topic {self.topic} was not started; call start()")

    def _while_reading(self, facts: TopicFacts) -> None:
        self._check_not_stopped()
        self._open_transactions.look(facts.end_offsets.keys())

    def _check_not_stopped(self) -> None:
        if self._stopping.is_set():
            raise StoreClosedError(f"the log of topic {self.topic} was stopped while it was read for the first time")

    def _fail(self, error: BaseException) -> None:
        self._health.fail(error)
        with self._changed:
            self._changed.notify_all()

    def _follow(self) -> None:
        """Body of the tail thread."""
        reader: Consumer | None = None
        try:
            while self._hold_tail is not None and not self._awaited and not self._stopping.is_set():
                if self._hold_tail.wait(_HELD_S):
                    break
            reader = consumer(
                self._consumer_settings, client_id=self._client_id, isolation=self._isolation, overrides=_TAIL_SETTINGS
            )
            reader.assign(
                [TopicPartition(self.topic, partition, position) for partition, position in self._positions.items()]
            )
            self._close_catch_up_reader()
            while not self._stopping.is_set():
                self._take_next(reader)
                self._tail_tasks.run(self._positions)
        except (KafkaException, BrokerError) as exc:
            self._fail(
                self._explained(
                    translate(exc, f"reading topic {self.topic}", TopicRight.READ)
                    if isinstance(exc, KafkaException)
                    else exc
                )
            )
        except BaseException as exc:  # noqa: BLE001 - whatever ends this thread has to reach every later caller
            _log.error("The log of topic %s has failed: %s", self.topic, told(exc))
            self._fail(exc)
        finally:
            self._close_catch_up_reader()
            if reader is not None:
                reader.close()

    def _explained(self, error: BrokerError) -> ConnectShareError:
        """A reader whose offset is not there any more may be in another topic."""
        explained: ConnectShareError = error
        try:
            self._identity.confirm(_EXPLAIN_S, at_once=True)
        except TopicRecreatedError as recreated:
            explained = recreated
        except BrokerError:
            pass
        _log.error("The log of topic %s has failed: %s", self.topic, explained)
        return explained

    def _close_catch_up_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _take_next(self, reader: Consumer) -> None:
        partitions, awaited = list(self._positions), self._awaited > 0
        reached = take_next(
            reader, self.topic, self._sink, partitions, awaited=awaited, on_error=self._troubles.survive
        )
        with self._changed:
            if reached != self._positions:
                self._troubles.passed()
            for partition, position in reached.items():
                self._positions[partition] = max(position, self._positions.get(partition, 0))
            self._changed.notify_all()
