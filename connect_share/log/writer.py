"""The writing side of a log: one producer, made at the first record, and a thread that hands out acknowledgements."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from connect_share.client import KafkaException, TopicRight, give_up, producer, translate
from connect_share.errors import BrokerTimeoutError, StoreClosedError, WriteError
from connect_share.log.protocol import RecordMetadata
from connect_share.worker_config.client_settings import ClientSettings

_log = logging.getLogger(__name__)

_POLL_S: Final = 0.1
_QUEUE_FULL_S: Final = 0.05


class LogWriter:
    """Sends records and completes their futures; thread-safe.

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

    def send(self, key: bytes, value: bytes | None, before: Mapping[int, int]) -> Future[RecordMetadata]:
        """Send one record; the future ends with where it went, or with what went wrong.

        ``before``: how far the topic has been read.
        """
        future: Future[RecordMetadata] = Future()
        future.set_running_or_notify_cancel()  # what is sent cannot be called back

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self._acknowledged(
                    future, RecordMetadata(message.topic(), message.partition(), message.offset()), before
                )
            else:
                future.set_exception(translate(error, f"writing to topic {self._topic}", TopicRight.WRITE))

        sender = self._ready()
        while not self._stopping.is_set():
            try:
                sender.produce(self._topic, value=value, key=key, on_delivery=delivered)
            except BufferError:
                self._stopping.wait(_QUEUE_FULL_S)
                continue
            except KafkaException as exc:
                future.set_exception(translate(exc, f"writing to topic {self._topic}", TopicRight.WRITE))
            if self._stopping.is_set():
                give_up(sender)  # close() may have looked before this record was there
            return future
        raise StoreClosedError(f"the log of topic {self._topic} was stopped")

    def flush(self, timeout_s: float) -> None:
        """Wait until everything sent is acknowledged or failed.

        Raises:
            BrokerTimeoutError: not within ``timeout_s``.
        """
        sender = self._producer
        if sender is not None and sender.flush(timeout_s) > 0:
            raise BrokerTimeoutError(
                f"writes to topic {self._topic} were not acknowledged within {timeout_s:g} s; check the brokers",
                retriable=True,
            )

    def close(self, timeout_s: float) -> None:
        """Wait so long for what is under way, then let go; futures that are still open fail."""
        self._stopping.set()
        with self._lock:
            sender, self._producer = self._producer, None
            thread, self.thread = self.thread, None
        if sender is not None:
            left = sender.flush(timeout_s)
            if left:
                _log.warning(
                    "%d records for topic %s were not acknowledged before the log was stopped", left, self._topic
                )
                give_up(sender)  # fails the futures of everything that is not acknowledged
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _ready(self) -> Any:
        with self._lock:
            if self._stopping.is_set():
                raise StoreClosedError(f"the log of topic {self._topic} was stopped")
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


def remaining_s(deadline_s: float) -> float:
    """Seconds until a point of the monotonic clock, never negative."""
    return max(0.0, deadline_s - time.monotonic())
