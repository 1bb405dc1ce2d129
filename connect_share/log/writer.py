"""The writing side of a log: one producer, made at the first record, and a thread that hands out acknowledgements."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final

from connect_share.errors import BrokerError, BrokerTimeoutError, StoreClosedError, WriteError
from connect_share.kafka.client import KafkaException, TopicRight, give_up, producer, translate
from connect_share.kafka.deadline import Deadline
from connect_share.log.protocol import RecordMetadata
from connect_share.worker_config.client_settings import ClientSettings

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
    future: Future[RecordMetadata] = field(default_factory=Future)


class LogWriter:
    """Sends records and completes their futures; thread-safe. Records of one key get into the topic in their order.

    So a record waits until the one before it with its key is acknowledged or has failed. Where one request is in flight,
    Java's producer keeps the order. librdkafka (2.16.0) has built the next one meanwhile, and if a broker refuses the first
    for the moment, the next overtakes it.

    ``acknowledged`` is given the future of a record, where it went and what ``before`` was; it completes the future.

    Attributes:
        thread: hands out acknowledgements; ``None`` before the first record.
    """

    def __init__(
        self,
        topic: str,
        settings: ClientSettings,
        *,
        client_id: str,
        acknowledged: Callable[[Future[RecordMetadata], RecordMetadata, Mapping[int, int]], None],
    ) -> None:
        self._acknowledged = acknowledged
        self._topic = topic
        self._settings = settings
        self._client_id = client_id
        self._lock = threading.Lock()
        self._producer: Any = None
        self.thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._given_up = False
        self._behind: dict[bytes, deque[_Write]] = {}  # what waits, by the keys of records that are under way
        self._due: deque[_Write] = deque()  # what waits no longer
        self._waiting = 0

    def send(self, key: bytes, value: bytes | None, before: Mapping[int, int]) -> Future[RecordMetadata]:
        """Send one record; the future ends with where it went, or with what went wrong.

        ``before``: how far the topic has been read.
        """
        write = _Write(key, value, before)
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
            sender.produce(
                self._topic, value=write.value, key=write.key, on_delivery=partial(self._delivered, sender, write)
            )
        except KafkaException as exc:
            return translate(exc, f"writing to topic {self._topic}", TopicRight.WRITE)
        self._behind.setdefault(write.key, deque())
        return None

    def _delivered(self, sender: Any, write: _Write, error: Any, message: Any) -> None:
        self._end(write)
        self._send_due(sender)
        if error is None:
            record = RecordMetadata(message.topic(), message.partition(), message.offset())
            self._acknowledged(write.future, record, write.before)
        else:
            write.future.set_exception(translate(error, f"writing to topic {self._topic}", TopicRight.WRITE))

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
        """Wait until everything sent is acknowledged or failed.

        Raises:
            BrokerTimeoutError: not within ``timeout_s``.
        """
        sender = self._producer
        if sender is not None and self._flush(sender, timeout_s) > 0:
            raise BrokerTimeoutError(
                f"writes to topic {self._topic} were not acknowledged within {timeout_s:g} s; check the brokers",
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
                    "%d records for topic %s were not acknowledged before the log was stopped", left, self._topic
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
        return StoreClosedError(f"the log of topic {self._topic} was stopped")

    def _ready(self) -> Any:
        if self._stopping.is_set():
            raise self._stopped()
        if self._producer is None:
            try:
                sender = producer(self._settings, client_id=self._client_id)
            except KafkaException as exc:
                raise WriteError(f"no producer for topic {self._topic}: {translate(exc, 'creating it')}") from exc
            name = f"log-writer-{self._topic}"
            thread = threading.Thread(target=self._serve, args=(sender,), name=name, daemon=True)
            thread.start()  # there may be no more threads: its acknowledgements would never be handed out
            self._producer, self.thread = sender, thread
        return self._producer

    def _serve(self, sender: Any) -> None:
        """Acknowledgements are only handed out inside poll()."""
        while not self._stopping.is_set():
            sender.poll(_POLL_S)
            self._send_due(sender)
