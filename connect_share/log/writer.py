"""The writing side of a log, and whether its topic is still the one that was read (KIP-516).

One producer is made at the first record, and a thread uses it and hands out acknowledgements. Neither readers nor producers
hear that a topic was deleted and created again: a reader goes on at its offset in the new topic, a producer writes into it,
both without an error. So the id is asked for again and again, and an acknowledgement counts only once it is known to be of
that topic.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Final

from connect_share.errors import (
    BrokerError,
    BrokerTimeoutError,
    ConnectShareError,
    LogFailedError,
    StoreClosedError,
    StoreError,
    TopicRecreatedError,
    listed,
)
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Deadline, Producer, give_up, producer, translate
from connect_share.log.protocol import RecordMetadata
from connect_share.log.threads import BackgroundThread, SafeCondition, SafeFuture, await_end, fail_all
from connect_share.worker_config import ClientSettings

_log = logging.getLogger(__name__)

_IDLE_S: Final = 0.1
_SOON_S: Final = 0.001  # how late a record is handed over while others are under way; more while nothing comes back
_LATEST_S: Final = 0.05
_FULL_S: Final = 0.05
_MOST_WAITING: Final = 100_000  # as many as the client itself queues
_GIVEN_UP_S: Final = 5.0  # what is under way has failed by then, unless a callback stands


@dataclass(eq=False, slots=True)
class _Write:
    """A record on its way; ``before``: how far the topic had been read when it was sent; ``number``: in that order."""

    key: bytes = field(repr=False)
    value: bytes | None = field(repr=False)
    before: Mapping[int, int]
    partition: int = -1
    number: int = 0
    future: SafeFuture[RecordMetadata] = field(default_factory=SafeFuture)


@dataclass(eq=False, repr=False)
class LogWriter:
    """Sends records and completes their futures; thread-safe. Records of one key get into the topic in their order.

    So a record waits until the one before it with its key is acknowledged or has failed. Where one request is in flight,
    Java's producer keeps the order. librdkafka (2.16.0) has built the next one meanwhile, and if a broker refuses the first
    for the moment, the next overtakes it.

    The client is used by one thread alone, which no signal interrupts: a caller hands a record over in one step, and an
    exception in its own thread, whenever it comes, leaves the record not sent, or sent as any other.

    ``acknowledged`` is given the future of a record, where it went and what ``before`` was; it completes the future.
    ``failed`` is called with what every later call raises, if the thread ends by an unexpected error.

    Attributes:
        thread: writes, and hands out acknowledgements; ``None`` before the first record.
    """

    topic: str
    settings: ClientSettings
    _: KW_ONLY
    client_id: str
    acknowledged: Callable[[Future[RecordMetadata], RecordMetadata, Mapping[int, int]], None]
    failed: Callable[[ConnectShareError], None]

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._inbox: queue.SimpleQueue[_Write | Future[None]] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        self._serving = threading.Lock()  # held for ever by the thread that serves
        self._close_by: Deadline | None = None
        self._refusal: ConnectShareError | None = None  # of what comes now: it was stopped, or the thread has ended
        # What follows changes in the thread that serves.
        self._taken = 0
        self._open: dict[int, _Write] = {}  # not acknowledged, and not failed, by their numbers
        self._behind: dict[bytes, deque[_Write]] = {}  # what waits, by the keys of records that are under way
        self._waiting = 0
        self._due: deque[_Write] = deque()  # what the client gets next
        self._is_full = False
        self._flushes: deque[tuple[int, Future[None]]] = deque()  # and the last record that each waits for

    def send(
        self, key: bytes, value: bytes | None, before: Mapping[int, int], partition: int = -1
    ) -> Future[RecordMetadata]:
        """Send one record; the future ends with where it went, or with what went wrong.

        ``before``: how far the topic has been read; ``partition``: -1 for that of murmur2.
        """
        write = _Write(key, value, before, partition)
        while True:
            with self._lock:
                self._require_thread()
                if self._has_room(key):
                    self._inbox.put(write)
                    return write.future
            time.sleep(_FULL_S)

    def _has_room(self, key: bytes) -> bool:
        waits = self._waiting >= _MOST_WAITING and key in self._behind
        return not waits and not self._is_full and self._inbox.qsize() < _MOST_WAITING

    def _require_thread(self) -> None:
        """Make the client and begin to serve it, unless that was done."""
        if self._refusal is not None:
            raise self._refusal
        if self.thread is None:
            sender = producer(self.settings, client_id=self.client_id)
            thread = BackgroundThread(f"log-writer-{self.topic}", partial(self._serve, sender), self._fail)
            thread.start()  # there may be no more threads
            self.thread = thread

    def flush(self, timeout_s: float) -> None:
        """Wait until everything sent before is acknowledged or failed."""
        flushed: Future[None] = SafeFuture()
        with self._lock:
            if self.thread is None or self._refusal is not None:
                return
            self._inbox.put(flushed)
        try:
            flushed.result(timeout_s)
        except TimeoutError:
            raise BrokerTimeoutError(
                f"writes to topic {self.topic} were not acknowledged within {timeout_s:g} s; check the brokers",
                retriable=True,
            ) from None

    def close(self, timeout_s: float) -> None:
        """Wait so long for what is under way, then let go; futures that are still open fail."""
        with self._lock:
            self._close_by = self._close_by or Deadline.after(timeout_s)
            self._refusal = self._refusal or StoreClosedError(f"the log of topic {self.topic} was stopped")
            self._inbox.put(Future())  # it may wait for something to do
        await_end(self.thread, self._close_by.remaining_s() + _GIVEN_UP_S)

    def _serve(self, sender: Producer) -> None:
        """Body of the thread; acknowledgements are only handed out inside poll()."""
        if not self._serving.acquire(blocking=False):
            return  # the start of the one that serves was cut off behind its begin
        with self._lock:
            self.thread = threading.current_thread()
        poll_s = _SOON_S
        try:
            while not self._is_over():
                came = self._take(wait=not self._open)
                self._send_due(sender)
                came += sender.poll(poll_s if self._open else 0)
                poll_s = _SOON_S if came else min(2 * poll_s, _LATEST_S)
                self._send_due(sender)
                self._end_flushes()
            self._take(wait=False)
            if self._open:
                _log.warning(
                    "%d records for topic %s were not acknowledged before the log was stopped",
                    len(self._open),
                    self.topic,
                )
                give_up(sender)
            self._end_all()
        except BaseException:
            sender.purge()  # the trace keeps the client alive, which would send on
            raise

    def _is_over(self) -> bool:
        if self._close_by is None:
            return False
        return self._close_by.is_within() or not (self._open or self._inbox.qsize())

    def _take(self, *, wait: bool) -> int:
        """Take over what callers have put in; return how much."""
        taken = 0
        with suppress(queue.Empty):
            for _ in range(self._inbox.qsize() or int(wait)):
                entry = self._inbox.get(wait, _IDLE_S)
                taken += 1
                if isinstance(entry, Future):
                    self._flushes.append((self._taken, entry))
                    continue
                self._taken += 1
                entry.number = self._taken
                self._open[entry.number] = entry
                if entry.key in self._behind:
                    self._behind[entry.key].append(entry)
                    self._waiting += 1
                else:
                    self._behind[entry.key] = deque()
                    self._due.append(entry)
        return taken

    def _send_due(self, sender: Producer) -> None:
        """Hand what waits no longer to the client, as much as it takes."""
        self._is_full = False
        while self._due and not self._is_full:
            write = self._due.popleft()
            try:
                on_delivery = partial(self._delivered, write)
                sender.produce(self.topic, write.value, write.key, write.partition, on_delivery=on_delivery)
            except BufferError:  # again after the next acknowledgement
                self._due.appendleft(write)
                self._is_full = True
            except Exception as exc:  # noqa: BLE001 - what the client does not take holds no other up
                self._end(write)
                write.future.set_exception(self._translated(exc, write))

    def _delivered(self, write: _Write, error: Any, message: Any) -> None:
        self._end(write)
        if error is None:
            record = RecordMetadata(message.topic(), message.partition(), message.offset())
            self.acknowledged(write.future, record, write.before)
        else:
            write.future.set_exception(self._translated(error, write))

    def _translated(self, error: Any, write: _Write) -> BrokerError:
        size = len(write.key) + len(write.value or b"")
        return translate(error, f"writing {size:,} bytes to topic {self.topic}", "WRITE")

    def _end(self, write: _Write) -> None:
        del self._open[write.number]
        behind = self._behind[write.key]
        if behind:
            self._due.append(behind.popleft())
            self._waiting -= 1
        else:
            del self._behind[write.key]

    def _end_flushes(self) -> None:
        while self._flushes and next(iter(self._open), self._taken + 1) > self._flushes[0][0]:
            self._flushes.popleft()[1].set_result(None)

    def _fail(self, error: BaseException) -> None:
        """Let every caller know why this thread has ended, those who wait and those who come."""
        what = f"the thread that writes to topic {self.topic} has ended; what was under way may be written all the same"
        failure = LogFailedError.caused_by(error, what)
        with self._lock:
            self._refusal = failure
        try:
            self.failed(failure)
        finally:
            self._end_all()

    def _end_all(self) -> None:
        """Fail what is still open, and what was put in meanwhile; nothing is put in any more."""
        assert self._refusal is not None  # noqa: S101 - since nothing is put in
        self._take(wait=False)
        ended = [write.future for write in self._open.values()]
        self._open.clear()
        fail_all(ended, self._refusal)
        self._end_flushes()


FRESH_S: Final = 1.0
"""An id that was seen later than this is taken to be the topic's still."""
_WATCH_S: Final = 5.0
_ASK_S: Final = 10.0  # longer than brokers may differ
_RETRY_S: Final = 0.2
_NAMED: Final = 10


class TopicIdentity:
    """The id a topic had when it was read, when that was seen last, and the partitions it had then. Thread-safe."""

    def __init__(self, admin: Admin, topic: str) -> None:
        self._admin = admin
        self._topic = topic
        self._asking = threading.RLock()  # which only its owner can release
        self.topic_id: str | None = None
        self.seen_s: float = 0.0
        self.partitions: list[int] = []

    def begin(self, topic_id: str | None, at_s: float) -> None:
        """Set the id of the topic that is read from now on; ``at_s``: of the monotonic clock, when it was asked for."""
        self.topic_id, self.seen_s = topic_id, at_s
        if topic_id is None:
            _log.info("The brokers give no id of topic %s: that it is created again would not be noticed", self._topic)

    def is_fresh(self) -> bool:
        """Return whether the id was seen a moment ago, or cannot be asked for."""
        return self.topic_id is None or time.monotonic() - self.seen_s <= FRESH_S

    def confirm(self, timeout_s: float, *, at_once: bool = False) -> None:
        """Make sure that the topic is the same, unless that was seen a moment ago (and ``at_once`` is not set)."""
        deadline = Deadline.after(timeout_s)
        if self.topic_id is None or (not at_once and self.is_fresh()):
            return
        try:
            if not self._asking.acquire(timeout=max(timeout_s, 0.0)):
                raise BrokerTimeoutError(
                    f"the id of topic {self._topic} is being asked for without an answer", retriable=True
                )
            if not at_once and self.is_fresh():
                return
            asked_s = time.monotonic()
            found = self._admin.describe_topics([self._topic], expected=True, timeout_s=deadline.remaining_s())
            description = found.get(self._topic)
            new_id = None if description is None else description.topic_id
            if description is not None and (new_id is None or new_id == self.topic_id):
                self.seen_s = asked_s
                self.partitions = [each.id for each in description.partitions]
                return
        finally:
            with suppress(RuntimeError):  # it was not acquired
                self._asking.release()
        noticed = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
        raise TopicRecreatedError(
            f"topic {self._topic} was deleted"
            + ("" if description is None else f" and created again (id {self.topic_id}, now {new_id})")
            + f", noticed {noticed}, last seen as it was {asked_s - self.seen_s:.1f} s before"
            + "; this state is of the old one: stop, and restore or migrate before starting again",
            topic=self._topic,
            old_id=self.topic_id,
            new_id=new_id,
        )


class IdentityWatch:
    """Asks for the id every few seconds, and before old knowledge would let an acknowledgement pass.

    ``fail`` is called with the error that ends the log.

    Attributes:
        thread: asks, and hands out acknowledgements; ``None`` where the brokers give no ids.
    """

    def __init__(self, topic: str, identity: TopicIdentity, *, fail: Callable[[ConnectShareError], None]) -> None:
        self._topic = topic
        self._identity = identity
        self._fail = fail
        self._changed = SafeCondition()
        self._waiting: list[tuple[Future[RecordMetadata], RecordMetadata]] = []
        self._asking: list[tuple[Future[RecordMetadata], RecordMetadata]] = []  # those for which it asks
        self._passed: list[RecordMetadata] = []
        self._error: ConnectShareError | None = None
        self._due = False
        self._stopping = False
        self._ended = False
        self.thread: threading.Thread | None = None

    def ask_now(self) -> bool:
        """Ask soon: there is a sign that the topic is gone. Return whether that can be known."""
        with self._changed:
            self._due = True
            self._changed.notify_all()
            return self.thread is not None

    def start(self) -> None:
        """Begin to watch, unless the brokers give no ids."""
        with self._changed:  # stop() may come now, and can only wait for a thread that has begun
            if self._identity.topic_id is None or self._stopping:
                return
            thread = BackgroundThread(f"log-identity-{self._topic}", self._run, self._end)
            thread.start()
            self.thread = thread

    def stop(self, timeout_s: float) -> None:
        """Hand out what is still waiting, then end; may be called twice."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            none_waits, thread = not self._waiting and not self._asking, self.thread
        if thread is not None and thread is not threading.current_thread():
            # It may be asking a broker that is gone, which is not worth a wait if no write depends on the answer.
            thread.join(_RETRY_S if none_waits else max(timeout_s, _RETRY_S))

    def acknowledged(self, future: Future[RecordMetadata], record: RecordMetadata, before: Mapping[int, int]) -> None:
        """Complete a write's future, now if the topic was seen a moment ago, else when it was seen again.

        ``before``: positions when it was sent; a record that lies before them is in another log.
        """
        with self._changed:
            # Not compared with other acknowledgements: several threads hand them out, in any order.
            fell_back = record.offset < before.get(record.partition, 0)
            in_doubt = self.thread is not None and self._error is None and (fell_back or not self._identity.is_fresh())
            if in_doubt and fell_back:
                self._error = self._lost(record)
            if in_doubt and not self._ended:
                self._waiting.append((future, record))
                self._changed.notify_all()
                return
            error = self._error
            if error is None and in_doubt:
                error = self._not_learnt("the store was stopped")
            elif error is None and self.thread is not None:
                self._passed.append(record)
        if error is None:
            future.set_result(record)
        else:
            future.set_exception(error)

    def flush(self, timeout_s: float) -> bool:
        """Wait until nothing waits to be handed out; return whether that is so."""
        deadline = Deadline.after(timeout_s)
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._asking, deadline.remaining_s())

    def _lost(self, record: RecordMetadata) -> StoreError:
        return StoreError(
            f"a record was acknowledged at {record.topic}[{record.partition}]@{record.offset}, before records that had "
            "been read: the log was cut, and acknowledged records are lost; stop, and start again"
        )

    def _not_learnt(self, why: str) -> StoreClosedError:
        return StoreClosedError(
            f"a record was acknowledged, but whether topic {self._topic} is still the one that was read could not be learnt "
            f"any more: {why}"
        )

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting and not self._stopping and not self._due:
                    self._changed.wait(_WATCH_S)
                self._due = False
                self._asking, self._waiting = self._waiting, []
                self._ended = self._stopping and not self._asking
            if self._ended:
                return
            self._ask(write_waits=bool(self._asking))
            for future, record in self._asking:
                future.set_result(record)
            with self._changed:
                self._asking = []
                self._changed.notify_all()

    def _end(self, error: BaseException) -> None:
        """Fail what waits, and what comes, with what ended the watch."""
        what = f"whether topic {self._topic} is still the one that was read cannot be learnt any more"
        failure = error if isinstance(error, ConnectShareError) else LogFailedError.caused_by(error, what)
        try:
            self._fail(failure)
        finally:
            with self._changed:
                self._error, self._ended = failure, True
                waiting, self._asking, self._waiting = [*self._asking, *self._waiting], [], []
                self._changed.notify_all()
            fail_all((future for future, _ in waiting), failure)

    def _ask(self, *, write_waits: bool) -> None:
        """Ask until there is an answer if a write waits for it; raise what is wrong."""
        while True:
            with self._changed:
                passed = list(self._passed)
            try:
                self._identity.confirm(_ASK_S, at_once=True)
            except TopicRecreatedError as error:
                _add_names(error, passed)
                raise
            except BrokerError as error:
                if not write_waits:
                    return
                with self._changed:
                    if self._stopping:
                        raise self._not_learnt(f"the store was stopped, and {error}") from None
                    self._changed.wait(_RETRY_S)
            else:
                with self._changed:
                    del self._passed[: len(passed)]
                    if self._error is not None:
                        raise self._error
                    return


def _add_names(error: TopicRecreatedError, passed: list[RecordMetadata]) -> None:
    """Add what was acknowledged since the topic was seen last: it may lie in the new one."""
    if passed:
        named = listed((f"[{record.partition}]@{record.offset}" for record in passed), _NAMED)
        error.args = (f"{error}. Acknowledged after it was last seen, so perhaps written to the new one: {named}",)
