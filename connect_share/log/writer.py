"""The writing side of a log, and whether its topic is still the one that was read (KIP-516).

One producer is made at the first record, and a thread hands out acknowledgements. Neither readers nor producers hear that a
topic was deleted and created again: a reader goes on at its offset in the new topic, a producer writes into it, both without
an error. So the id is asked for again and again, and an acknowledgement counts only once it is known to be of that topic.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final

from connect_share.errors import (
    BrokerError,
    BrokerTimeoutError,
    ConnectShareError,
    LogFailedError,
    StoreClosedError,
    StoreError,
    TopicRecreatedError,
    WriteError,
    listed,
)
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Deadline, KafkaException, TopicRight, give_up, producer, translate
from connect_share.log.protocol import RecordMetadata
from connect_share.worker_config import ClientSettings

_log = logging.getLogger(__name__)

_POLL_S: Final = 0.1
_QUEUE_FULL_S: Final = 0.05
_MOST_WAITING: Final = 100_000  # as many as the client itself queues


@dataclass(eq=False, slots=True)
class _Write:
    """A record on its way; ``before``: how far the topic had been read when it was sent."""

    key: bytes = field(repr=False)
    value: bytes | None = field(repr=False)
    before: Mapping[int, int]
    partition: int = -1
    future: Future[RecordMetadata] = field(default_factory=Future)


@dataclass(eq=False, repr=False)
class LogWriter:
    """Sends records and completes their futures; thread-safe. Records of one key get into the topic in their order.

    So a record waits until the one before it with its key is acknowledged or has failed. Where one request is in flight,
    Java's producer keeps the order. librdkafka (2.16.0) has built the next one meanwhile, and if a broker refuses the first
    for the moment, the next overtakes it.

    ``acknowledged`` is given the future of a record, where it went and what ``before`` was; it completes the future.

    Attributes:
        thread: hands out acknowledgements; ``None`` before the first record.
    """

    topic: str
    settings: ClientSettings
    _: KW_ONLY
    client_id: str
    acknowledged: Callable[[Future[RecordMetadata], RecordMetadata, Mapping[int, int]], None]

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._producer: Any = None
        self.thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._given_up = False
        self._behind: dict[bytes, deque[_Write]] = {}  # what waits, by the keys of records that are under way
        self._due: deque[_Write] = deque()  # what waits no longer
        self._waiting = 0

    def send(
        self, key: bytes, value: bytes | None, before: Mapping[int, int], partition: int = -1
    ) -> Future[RecordMetadata]:
        """Send one record; the future ends with where it went, or with what went wrong.

        ``before``: how far the topic has been read; ``partition``: -1 for that of murmur2.
        """
        write = _Write(key, value, before, partition)
        write.future.set_running_or_notify_cancel()  # what is sent cannot be called back
        while True:
            error: BrokerError | None = None
            with suppress(BufferError), self._lock:
                sender = self._ready()
                if key not in self._behind:
                    error = self._produce(sender, write)
                elif self._waiting < _MOST_WAITING:
                    self._behind[key].append(write)
                    self._waiting += 1
                else:
                    raise BufferError
                break
            self._stopping.wait(_QUEUE_FULL_S)
        if error is not None:
            write.future.set_exception(error)
        return write.future

    def _produce(self, sender: Any, write: _Write) -> BrokerError | None:
        """Hand a record over to the client; return why it does not take it.

        Raises:
            BufferError: it is full.
        """
        try:
            on_delivery = partial(self._delivered, sender, write)
            sender.produce(self.topic, write.value, write.key, write.partition, on_delivery=on_delivery)
        except KafkaException as exc:
            return translate(exc, f"writing to topic {self.topic}", TopicRight.WRITE)
        self._behind.setdefault(write.key, deque())
        return None

    def _delivered(self, sender: Any, write: _Write, error: Any, message: Any) -> None:
        self._end(write)
        self._send_due(sender)
        if error is None:
            record = RecordMetadata(message.topic(), message.partition(), message.offset())
            self.acknowledged(write.future, record, write.before)
        else:
            write.future.set_exception(translate(error, f"writing to topic {self.topic}", TopicRight.WRITE))

    def _end(self, write: _Write) -> None:
        with self._lock:
            behind = self._behind[write.key]
            if behind:
                self._due.append(behind.popleft())
            else:
                del self._behind[write.key]

    def _send_due(self, sender: Any) -> None:
        """Send what waits no longer, as much as the client takes."""
        refused: list[tuple[_Write, BrokerError]] = []
        with suppress(BufferError), self._lock:  # if it is full: after the next acknowledgement
            while self._due and not self._given_up:
                error = self._produce(sender, self._due[0])
                self._waiting -= 1
                write = self._due.popleft()
                if error is not None:
                    refused.append((write, error))
        for write, error in refused:
            self._end(write)
            write.future.set_exception(error)

    def flush(self, timeout_s: float) -> None:
        """Wait until everything sent is acknowledged or failed."""
        sender = self._producer
        if sender is not None and self._flush(sender, timeout_s) > 0:
            raise BrokerTimeoutError(
                f"writes to topic {self.topic} were not acknowledged within {timeout_s:g} s; check the brokers",
                retriable=True,
            )

    def _flush(self, sender: Any, timeout_s: float) -> int:
        """Return how many records are not acknowledged when the time is over."""
        deadline = Deadline.after(timeout_s)
        while True:
            sender.flush(deadline.remaining_s())
            self._send_due(sender)
            with self._lock:
                left = len(sender) + self._waiting
            if not left or not deadline.remaining_s():
                return left

    def close(self, timeout_s: float) -> None:
        """Wait so long for what is under way, then let go; futures that are still open fail."""
        with self._lock:
            self._stopping.set()
            sender, self._producer = self._producer, None
            thread, self.thread = self.thread, None
        if sender is not None:
            left = self._flush(sender, timeout_s)
            if left:
                _log.warning(
                    "%d records for topic %s were not acknowledged before the log was stopped", left, self.topic
                )
                self._give_up(sender)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _give_up(self, sender: Any) -> None:
        """Fail the futures of everything that is not acknowledged."""
        with self._lock:
            self._given_up = True
        give_up(sender)
        with self._lock:
            waiting = [*self._due, *chain.from_iterable(self._behind.values())]
        for write in waiting:
            write.future.set_exception(self._stopped())

    def _stopped(self) -> StoreClosedError:
        return StoreClosedError(f"the log of topic {self.topic} was stopped")

    def _ready(self) -> Any:
        if self._stopping.is_set():
            raise self._stopped()
        if self._producer is None:
            try:
                sender = producer(self.settings, client_id=self.client_id)
            except KafkaException as exc:
                raise WriteError(f"no producer for topic {self.topic}: {translate(exc, 'creating it')}") from exc
            name = f"log-writer-{self.topic}"
            thread = threading.Thread(target=self._serve, args=(sender,), name=name, daemon=True)
            thread.start()  # there may be no more threads: its acknowledgements would never be handed out
            self._producer, self.thread = sender, thread
        return self._producer

    def _serve(self, sender: Any) -> None:
        """Acknowledgements are only handed out inside poll()."""
        while not self._stopping.is_set():
            sender.poll(_POLL_S)
            self._send_due(sender)


FRESH_S: Final = 1.0
"""An id that was seen later than this is taken to be the topic's still."""
_WATCH_S: Final = 5.0
_ASK_S: Final = 3.0
_RETRY_S: Final = 0.2
_NAMED: Final = 10


class TopicIdentity:
    """The id a topic had when it was read, when that was seen last, and the partitions it had then. Thread-safe."""

    def __init__(self, admin: Admin, topic: str) -> None:
        self._admin = admin
        self._topic = topic
        self._asking = threading.Lock()
        self.topic_id: str | None = None
        self.seen_s = 0.0
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
        if not self._asking.acquire(timeout=max(timeout_s, 0.0)):
            raise BrokerTimeoutError(
                f"the id of topic {self._topic} is being asked for without an answer", retriable=True
            )
        try:
            if not at_once and self.is_fresh():
                return
            asked_s = time.monotonic()
            description = self._admin.describe_topics([self._topic], timeout_s=deadline.remaining_s()).get(self._topic)
            new_id = None if description is None else description.topic_id
            if description is not None and (new_id is None or new_id == self.topic_id):
                self.seen_s = asked_s
                self.partitions = [each.id for each in description.partitions]
                return
        finally:
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
        self._changed = threading.Condition()
        self._waiting: list[tuple[Future[RecordMetadata], RecordMetadata]] = []
        self._busy = 0
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
            thread = threading.Thread(target=self._run, name=f"log-identity-{self._topic}", daemon=True)
            thread.start()
            self.thread = thread

    def stop(self, timeout_s: float) -> None:
        """Hand out what is still waiting, then end; may be called twice."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            none_waits, thread = not self._waiting and not self._busy, self.thread
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
            elif error is None:
                self._passed.append(record)
        if error is None:
            future.set_result(record)
        else:
            future.set_exception(error)

    def flush(self, timeout_s: float) -> bool:
        """Wait until nothing waits to be handed out; return whether that is so."""
        deadline = Deadline.after(timeout_s)
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, deadline.remaining_s())

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
                waiting, self._waiting = self._waiting, []
                self._busy = len(waiting)
                stopping = self._stopping
                self._ended = stopping and not waiting
            if self._ended:
                return
            error = self._ask(bool(waiting))
            if error is not None:
                self._fail(error)
            for future, record in waiting:
                if error is None:
                    future.set_result(record)
                else:
                    future.set_exception(error)
            with self._changed:
                self._busy = 0
                self._changed.notify_all()
                if error is not None:
                    self._error = error
                self._ended = (stopping or error is not None) and not self._waiting
                if self._ended:
                    return

    def _ask(self, write_waits: bool) -> ConnectShareError | None:
        """Ask until there is an answer if a write waits for it; return what is wrong."""
        while True:
            with self._changed:
                passed = list(self._passed)
            try:
                self._identity.confirm(_ASK_S, at_once=True)
            except TopicRecreatedError as error:
                return _with_names(error, passed)
            except BrokerError as error:
                if not write_waits:
                    return None
                with self._changed:
                    if self._stopping:
                        return self._not_learnt(f"the store was stopped, and {error}")
                    self._changed.wait(_RETRY_S)
            except BaseException as error:  # noqa: BLE001 - writes wait for this thread: what ends it has to reach them
                what = f"whether topic {self._topic} is still the one that was read cannot be learnt any more"
                return LogFailedError.caused_by(error, what)
            else:
                with self._changed:
                    del self._passed[: len(passed)]
                    return self._error


def _with_names(error: TopicRecreatedError, passed: list[RecordMetadata]) -> TopicRecreatedError:
    """Add what was acknowledged since the topic was seen last: it may lie in the new one."""
    if not passed:
        return error
    named = listed((f"[{record.partition}]@{record.offset}" for record in passed), _NAMED)
    return TopicRecreatedError(
        f"{error}. Acknowledged after it was last seen, so perhaps written to the new one: {named}",
        topic=error.topic,
        old_id=error.old_id,
        new_id=error.new_id,
    )
