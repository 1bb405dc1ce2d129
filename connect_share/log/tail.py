"""The thread that follows a topic after its first read, and how far its log has come."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from typing import Final, TypeVar

from connect_share.errors import (
    BrokerError,
    BrokerTimeoutError,
    ConnectShareError,
    LogFailedError,
    StoreClosedError,
    TopicRecreatedError,
    safe_text,
)
from connect_share.kafka.client import (
    Consumer,
    Deadline,
    KafkaError,
    KafkaException,
    TopicPartition,
    is_unknown_topic,
    translate,
)
from connect_share.kafka.read import Reader, is_about_groups
from connect_share.log.protocol import RecordFeed, Steps, Wait
from connect_share.log.threads import BackgroundThread, SafeFuture
from connect_share.log.writer import IdentityWatch, TopicIdentity
from connect_share.model.limited_log import LimitedLog

OnFailed = Callable[[ConnectShareError], None]


class OwnerProcess:
    """The process whose threads and clients something uses; one that is forked from it has only a copy.

    ``what`` is named in the error, such as ``the log of topic t``.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._process = os.getpid()

    @property
    def forked(self) -> bool:
        """Whether this is another process."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Raise ``StoreClosedError`` in a process that was forked from the owner."""
        if os.getpid() != self._process:
            raise StoreClosedError(
                f"{self._what} belongs to process {self._process}, from which this one was forked: start one of its own here"
            )


class LogState:
    """Positions, failure and stop of a log, shared by its threads; asking for a failure takes no lock.

    ``on_failed`` is called once with what every later call raises, by the thread that noticed.

    Attributes:
        stopping: set when the log is being stopped.
    """

    def __init__(self, topic: str, on_failed: OnFailed | None = None) -> None:
        self._topic = topic
        self._on_failed = on_failed
        self.process: OwnerProcess = OwnerProcess(f"the log of topic {topic}")
        self._changed = threading.Lock()
        self._positions: dict[int, int] = {}
        self.stopping: threading.Event = threading.Event()
        self.failure: BaseException | None = None
        self._waiting: dict[Future[None], Mapping[int, int]] = {}

    @property
    def awaited(self) -> bool:
        """Whether threads wait for the log to come further."""
        return bool(self._waiting)

    def positions(self) -> dict[int, int]:
        """Return the next offset to be read of each partition."""
        with self._changed:
            return dict(self._positions)

    def advance(self, reached: Mapping[int, int]) -> bool:
        """Take note of positions, which never fall; return whether one of them has moved."""
        with self._changed:
            moved = {part: at for part, at in reached.items() if at > self._positions.get(part, -1)}
            self._positions.update(moved)
            reached_now = [future for future, ends in self._waiting.items() if not self._behind(ends)] if moved else []
        _end(reached_now)
        return bool(moved)

    def follow(self, partitions: Iterable[int]) -> None:
        """Read these partitions, too, those from the beginning that are new."""
        with self._changed:
            for partition in partitions:
                self._positions.setdefault(partition, 0)

    @contextmanager
    def awaiting(self) -> Iterator[None]:
        """Let the thread that follows hurry meanwhile."""
        mark: Future[None] = Future()
        try:
            with self._changed:
                self._waiting[mark] = {}
            yield
        finally:
            with self._changed:
                self._waiting.pop(mark, None)

    def reaching(self, ends: Mapping[int, int], timeout_s: float) -> Steps[dict[int, int]]:
        """Wait until these ends are reached, or the log has failed or stops; return the ends that are not."""
        reached: Future[None] = SafeFuture()
        try:
            with self._changed:
                if self.failure is not None or self.stopping.is_set() or not self._behind(ends):
                    return self._behind(ends)
                self._waiting[reached] = ends
            yield Wait(reached, timeout_s)
        except TimeoutError:
            pass
        finally:
            with self._changed:
                self._waiting.pop(reached, None)
        with self._changed:
            return self._behind(ends)

    def _behind(self, ends: Mapping[int, int]) -> dict[int, int]:
        return {partition: end for partition, end in ends.items() if self._positions.get(partition, 0) < end}

    def stop(self) -> None:
        """Wake all who wait: the log is being stopped."""
        self.stopping.set()
        self._wake_all()

    def _wake_all(self) -> None:
        with self._changed:
            waiting = list(self._waiting)
        _end(waiting)

    def check(self) -> None:
        """Raise if what was read may not be that of the topic any more.

        Raises:
            TopicRecreatedError: the topic was deleted, or created again.
            LogFailedError: the thread that follows it died.
            StoreClosedError: it is followed by another process, from which this one was forked.
        """
        self.process.check()
        if self.failure is not None:
            raise self._raised(self.failure)

    def fail(self, error: BaseException) -> None:
        """Take note of what ended the log; what is known of the topic itself explains everything else."""
        with self._changed:
            first = self.failure is None
            if first or isinstance(error, TopicRecreatedError):
                self.failure = error
        self._wake_all()
        if first and self._on_failed is not None:
            self._on_failed(self._raised(error))

    def _raised(self, failure: BaseException) -> ConnectShareError:
        if isinstance(failure, TopicRecreatedError):
            return failure
        return LogFailedError.caused_by(failure, f"the log of topic {self._topic} has failed and must be started again")


def _end(waiting: Iterable[Future[None]]) -> None:
    for future in waiting:
        with suppress(InvalidStateError):  # by now it was cancelled, or another thread was first
            future.set_result(None)


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
_CHECK_EVERY_S: Final = 0.1
_RECORDS_GONE: Final = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")


@dataclass(eq=False, repr=False)
class Tail:
    """Follows a topic from the positions of its log on, until the log stops or has failed.

    Nothing is followed until ``may_start`` is set, if there is one, or a caller waits for the end.

    Attributes:
        trouble: the newest error that the client reported since it moved on last.
    """

    topic: str
    state: LogState
    feed: RecordFeed
    reader: Reader
    _: KW_ONLY
    identity: TopicIdentity
    watch: IdentityWatch
    may_start: threading.Event | None

    def __post_init__(self) -> None:
        self._said = LimitedLog(_log, at_first=1, every_s=30.0)
        self._tasks: queue.SimpleQueue[Callable[[Mapping[int, int]], None]] = queue.SimpleQueue()
        self.trouble: BrokerError | None = None
        self.thread: BackgroundThread = BackgroundThread(f"log-{self.topic}", self._run, self.state.fail)

    def between_batches(
        self, read: Callable[[Mapping[int, int]], T], deadline: Deadline, check: Callable[[], None]
    ) -> T:
        """Return the result of ``read``, called with the positions while nothing is being applied.

        ``read`` runs in the thread that applies records, so it has to be quick; what ``check`` raises ends the wait.
        """
        answer: Future[T] = SafeFuture()

        def run(positions: Mapping[int, int]) -> None:
            try:
                answer.set_result(read(positions))
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                answer.set_exception(error)

        self._tasks.put(run)
        while True:
            try:
                return answer.result(_CHECK_EVERY_S)
            except TimeoutError:
                check()
                if deadline.is_within(-_CHECK_EVERY_S):
                    raise BrokerTimeoutError(
                        f"the log of topic {self.topic} had no moment to spare in time", retriable=True
                    ) from None

    def _run(self) -> None:
        reader: Consumer | None = None
        try:
            while not self.state.awaited and not self.state.stopping.is_set():
                if self.may_start is None or self.may_start.wait(_HELD_S):
                    break
            reader = self.reader.consumer(_SETTINGS)
            followed: dict[int, int] = {}
            while not self.state.stopping.is_set():
                positions = self.state.positions()
                if len(positions) > len(followed):
                    new = [
                        TopicPartition(self.topic, *place) for place in positions.items() if place[0] not in followed
                    ]
                    reader.incremental_assign(new) if followed else reader.assign(new)
                    followed = positions
                self._read_next(reader, [TopicPartition(self.topic, partition) for partition in followed])
                while not self._tasks.empty():
                    self._tasks.get()(self.state.positions())
        except BaseException as error:  # noqa: BLE001 - passed on at once: to close the client may take a while
            failure = self._explained(error)
            _log.error("The log of topic %s has failed: %s", self.topic, safe_text(failure))
            self.state.fail(failure)
        finally:
            if reader is not None:
                reader.close()

    def _read_next(self, reader: Consumer, partitions: list[TopicPartition]) -> None:
        first = reader.poll(_AWAITED_S if self.state.awaited else _IDLE_S)
        if first is not None:
            self.feed.deliver([first, *reader.consume(_BATCH, 0)], self._survive)
        # Markers and aborted records move the consumer's position without being delivered.
        if self.state.advance({at.partition: self.feed.position(at) for at in reader.position(partitions)}):
            self.trouble = None

    def _survive(self, error: KafkaError) -> None:
        """Note and log an error that passes: the library goes on once the topic, or the right to read it, is back.

        Raises:
            BrokerError: the records at this offset are gone, or nothing would notice another topic of the same name.

        Source: ``KafkaBasedLog.poll``, ``FetchCollector.handleInitializeErrors``.
        """
        trouble = translate(error, f"reading topic {self.topic}", "READ")
        if is_about_groups(trouble):
            return
        if trouble.name in _RECORDS_GONE or error.fatal():
            raise trouble
        if is_unknown_topic(trouble) and not self.watch.ask_now():
            raise trouble
        self.trouble = trouble
        self._said.warning("%s; it is followed again when that has passed", trouble)

    def _explained(self, error: BaseException) -> BaseException:
        """Return why the reader's offset is not there any more: it may be in another topic."""
        if not isinstance(error, KafkaException | BrokerError):
            return error
        try:
            self.identity.confirm(_EXPLAIN_S, at_once=True)
        except TopicRecreatedError as recreated:
            return recreated
        except BrokerError:
            pass
        return error if isinstance(error, BrokerError) else translate(error, f"reading topic {self.topic}", "READ")
