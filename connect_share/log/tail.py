"""The thread that follows a topic after its first read."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final, TypeVar

from connect_share.client import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
    TopicRight,
    consumer,
    is_unknown_topic,
    translate,
)
from connect_share.errors import BrokerError, BrokerTimeoutError, TopicRecreatedError, safe_text
from connect_share.log.catch_up import is_about_groups
from connect_share.log.identity import IdentityWatch, TopicIdentity
from connect_share.log.log_state import LogState
from connect_share.log.record_feed import RecordFeed
from connect_share.worker_config.client_settings import ClientSettings, Isolation

_log = logging.getLogger(__name__)

T = TypeVar("T")

_SETTINGS: Final[Mapping[str, str]] = {
    "enable.partition.eof": "true",
    "fetch.queue.backoff.ms": "100",
    "queued.max.messages.kbytes": "16384",
}
_IDLE_S: Final = 0.2  # how late a marker that no reader waits for is noticed
_AWAITED_S: Final = 0.002
_BATCH: Final = 500
_HELD_S: Final = 0.005
_EXPLAIN_S: Final = 3.0
_LOOK_S: Final = 0.1
_LOGGED_EVERY_S: Final = 30.0
_RECORDS_GONE: Final = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")


class Tail:
    """Follows a topic from the positions of its log on, until the log stops or has failed.

    Nothing is followed until ``may_start`` is set, or a caller waits for the end.

    Attributes:
        trouble: the newest error that the client reported since it moved on last.
    """

    def __init__(
        self,
        topic: str,
        state: LogState,
        feed: RecordFeed,
        settings: ClientSettings,
        *,
        client_id: str,
        isolation: Isolation,
        identity: TopicIdentity,
        watch: IdentityWatch,
        may_start: threading.Event,
    ) -> None:
        self._topic = topic
        self._state = state
        self._feed = feed
        self._settings = settings
        self._client_id = client_id
        self._isolation = isolation
        self._identity = identity
        self._watch = watch
        self._may_start = may_start
        self._logged_s = -_LOGGED_EVERY_S
        self._tasks: queue.SimpleQueue[Callable[[Mapping[int, int]], None]] = queue.SimpleQueue()
        self.trouble: BrokerError | None = None
        self.thread = threading.Thread(target=self._run, name=f"log-{topic}", daemon=True)

    def between_batches(
        self, look: Callable[[Mapping[int, int]], T], deadline_s: float, check: Callable[[], None]
    ) -> T:
        """Return the result of ``look``, called with the positions while nothing is being applied.

        ``look`` runs in the thread that applies records, so it has to be quick; what ``check`` raises ends the wait.

        Raises:
            BrokerTimeoutError: there was no such moment in time.
        """
        answer: Future[T] = Future()

        def run(positions: Mapping[int, int]) -> None:
            try:
                answer.set_result(look(positions))
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                answer.set_exception(error)

        self._tasks.put(run)
        while True:
            try:
                return answer.result(_LOOK_S)
            except FutureTimeoutError:
                check()
                if time.monotonic() > deadline_s + _LOOK_S:
                    raise BrokerTimeoutError(
                        f"the log of topic {self._topic} had no moment to spare in time", retriable=True
                    ) from None

    def _run(self) -> None:
        reader: Consumer | None = None
        try:
            while not self._state.awaited and not self._state.stopping.is_set():
                if self._may_start.wait(_HELD_S):
                    break
            reader = consumer(self._settings, client_id=self._client_id, isolation=self._isolation, overrides=_SETTINGS)
            positions = self._state.positions()
            reader.assign([TopicPartition(self._topic, partition, at) for partition, at in positions.items()])
            while not self._state.stopping.is_set():
                self._take_next(reader, [TopicPartition(self._topic, partition) for partition in positions])
                while not self._tasks.empty():
                    self._tasks.get()(self._state.positions())
        except (KafkaException, BrokerError) as error:
            self._fail(self._explained(error))
        except BaseException as error:  # noqa: BLE001 - whatever ends this thread has to reach every later caller
            self._fail(error)
        finally:
            if reader is not None:
                reader.close()

    def _take_next(self, reader: Consumer, partitions: list[TopicPartition]) -> None:
        first = reader.poll(_AWAITED_S if self._state.awaited else _IDLE_S)
        if first is not None:
            self._feed.deliver([first, *reader.consume(_BATCH, 0)], self._survive)
        # Markers and aborted records move the consumer's position without being delivered.
        if self._state.advance({at.partition: self._feed.position(at) for at in reader.position(partitions)}):
            self.trouble = None

    def _survive(self, error: KafkaError) -> None:
        """Note and log an error that passes: the library goes on once the topic, or the right to read it, is back.

        Raises:
            BrokerError: the records at this offset are gone, or nothing would notice another topic of the same name.

        Source: ``KafkaBasedLog.poll``, ``FetchCollector.handleInitializeErrors``.
        """
        trouble = translate(error, f"reading topic {self._topic}", TopicRight.READ)
        if is_about_groups(trouble):
            return
        if trouble.name in _RECORDS_GONE or error.fatal():
            raise trouble
        if is_unknown_topic(trouble) and not self._watch.look_now():
            raise trouble
        self.trouble = trouble
        if time.monotonic() - self._logged_s >= _LOGGED_EVERY_S:
            self._logged_s = time.monotonic()
            _log.warning("%s; it is followed again when that has passed", trouble)

    def _explained(self, error: KafkaException | BrokerError) -> BaseException:
        """Return why the reader's offset is not there any more: it may be in another topic."""
        try:
            self._identity.confirm(_EXPLAIN_S, at_once=True)
        except TopicRecreatedError as recreated:
            return recreated
        except BrokerError:
            pass
        if isinstance(error, BrokerError):
            return error
        return translate(error, f"reading topic {self._topic}", TopicRight.READ)

    def _fail(self, error: BaseException) -> None:
        _log.error("The log of topic %s has failed: %s", self._topic, safe_text(error))
        self._state.fail(error)
