"""Noticing that a topic was deleted and created again (KIP-516): neither readers nor producers hear of it.

A reader goes on at its offset in the new topic, a producer writes into it, both without an error. So the id is asked for
again and again, and an acknowledgement counts only once it is known to be of the topic that was read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final

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
from connect_share.kafka.deadline import Deadline
from connect_share.log.protocol import RecordMetadata

_log = logging.getLogger(__name__)

FRESH_S: Final = 1.0
"""An id that was seen later than this is taken to be the topic's still."""
_WATCH_S: Final = 5.0
_ASK_S: Final = 3.0
_RETRY_S: Final = 0.2
_NAMED: Final = 10


class TopicIdentity:
    """The id a topic had when it was read, and when that was seen last. Thread-safe."""

    def __init__(self, admin: Admin, topic: str) -> None:
        self._admin = admin
        self._topic = topic
        self._asking = threading.Lock()
        self.topic_id: str | None = None
        self.seen_s = 0.0

    def begin(self, topic_id: str | None, at_s: float) -> None:
        """Set the id of the topic that is read from now on; ``at_s``: of the monotonic clock, when it was asked for."""
        self.topic_id, self.seen_s = topic_id, at_s
        if topic_id is None:
            _log.info("The brokers give no id of topic %s: that it is created again would not be noticed", self._topic)

    def is_fresh(self) -> bool:
        """Return whether the id was seen a moment ago, or cannot be asked for."""
        return self.topic_id is None or time.monotonic() - self.seen_s <= FRESH_S

    def confirm(self, timeout_s: float, *, at_once: bool = False) -> None:
        """Make sure that the topic is the same, unless that was seen a moment ago (and ``at_once`` is not set).

        Raises:
            TopicRecreatedError: it is gone, or another one.
            BrokerError: that could not be learnt.
        """
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

    def look_now(self) -> bool:
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
