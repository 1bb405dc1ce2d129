"""How far a log has come, and whether it is still followed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress

from connect_share.errors import ConnectShareError, LogFailedError, StoreClosedError, TopicRecreatedError
from connect_share.steps import Steps, Wait

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
        if self.forked:
            raise StoreClosedError(
                f"{self._what} belongs to process {self._process}, from which this one was forked: start one of its own here"
            )


class LogState:
    """Positions, failure and stop of a log, shared by its threads; asking for a failure takes no lock.

    ``on_failed`` is called once with what every later call raises, by the thread that noticed.

    Attributes:
        stopping: set when the log is being stopped.
        failure: what ended the log.
        awaited: how many threads wait for the log to come further.
    """

    def __init__(self, topic: str, on_failed: OnFailed | None = None) -> None:
        self._topic = topic
        self._on_failed = on_failed
        self._process = OwnerProcess(f"the log of topic {topic}")
        self._changed = threading.Lock()
        self._positions: dict[int, int] = {}
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.awaited = 0
        self._waiting: dict[Future[None], Mapping[int, int]] = {}

    @property
    def forked(self) -> bool:
        """Whether this process has only a copy of the log, as it was when the process was forked."""
        return self._process.forked

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

    @contextmanager
    def awaiting(self) -> Iterator[None]:
        """Let the thread that follows hurry meanwhile."""
        with self._changed:
            self.awaited += 1
        try:
            yield
        finally:
            with self._changed:
                self.awaited -= 1

    def reaching(self, ends: Mapping[int, int], timeout_s: float) -> Steps[dict[int, int]]:
        """Wait until these ends are reached, or the log has failed or stops; return the ends that are not."""
        reached: Future[None] = Future()
        with self._changed:
            if self.failure is not None or self.stopping.is_set() or not self._behind(ends):
                return self._behind(ends)
            self.awaited += 1
            self._waiting[reached] = ends
        try:
            yield Wait(reached, timeout_s)
        except TimeoutError:
            pass
        finally:
            with self._changed:
                self.awaited -= 1
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
        """Raise if what was read must not be believed any more.

        Raises:
            TopicRecreatedError: the topic was deleted, or created again.
            LogFailedError: the thread that follows it died.
            StoreClosedError: it is followed by another process, from which this one was forked.
        """
        self._process.check()
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
