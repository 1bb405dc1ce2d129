"""Small tasks for the thread that applies records, run between two batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final, TypeVar

from connect_share.errors import BrokerTimeoutError

T = TypeVar("T")

_LOOK_S: Final = 0.1


class TailTasks:
    """Tasks that wait to be run; thread-safe."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._lock = threading.Lock()
        self._waiting: list[Callable[[Mapping[int, int]], None]] = []

    def call(self, look: Callable[[Mapping[int, int]], T], deadline_s: float, *, check: Callable[[], None]) -> T:
        """Return the result of ``look``, called with the positions while nothing is being applied.

        Args:
            look: called by the thread that applies records, so it has to be quick.
            deadline_s: by the monotonic clock.
            check: called now and then; what it raises ends the wait.

        Raises:
            BrokerTimeoutError: there was no such moment in time.
        """
        answer: Future[T] = Future()

        def run(positions: Mapping[int, int]) -> None:
            try:
                answer.set_result(look(positions))
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                answer.set_exception(error)

        with self._lock:
            self._waiting.append(run)
        while True:
            try:
                return answer.result(_LOOK_S)
            except FutureTimeoutError:
                check()
                if time.monotonic() > deadline_s + _LOOK_S:
                    raise BrokerTimeoutError(
                        f"the log of topic {self._topic} had no moment to spare in time", retriable=True
                    ) from None

    def run(self, positions: Callable[[], Mapping[int, int]]) -> None:
        """Run all that wait."""
        if self._waiting:
            with self._lock:
                waiting, self._waiting = self._waiting, []
            for each in waiting:
                each(positions())
