"""Threads that do not end unheard, and waiting that an exception in the caller's thread does not spoil for others.

A signal handler may raise in the main thread between any two steps of Python, as for Ctrl-C or a time limit. So callers share
with our threads only what changes in one step: a queue, a plain lock entered by ``with``, and what is here.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, TypeVar

from connect_share.errors import safe_text

T = TypeVar("T")

_log = logging.getLogger(__name__)
_CLOSE_S: Final = 1.0  # of a client, whatever was waited for before


def where_raised(error: BaseException) -> str:
    """Return kind and place of an error of any code for a log line: its own text may quote configuration."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{safe_text(error)} (raised at {at.filename}:{at.lineno})"


class BackgroundThread(threading.Thread):
    """A daemon thread that runs ``body``; ``failed`` is called with whatever that raises, for whom depends on it."""

    def __init__(self, name: str, body: Callable[[], object], failed: Callable[[BaseException], object]) -> None:
        super().__init__(name=name, daemon=True)
        self._body = body
        self._failed = failed

    def run(self) -> None:
        """Run the body; what a thread raises itself ends up nowhere."""
        try:
            self._body()
        except BaseException as error:  # noqa: BLE001 - sys.exit() of a callback, too
            _log.error("Thread %s has failed: %s", self.name, where_raised(error))
            self._failed(error)


def await_end(thread: threading.Thread | None, timeout_s: float) -> None:
    """Wait so long for a thread to end, a second at least, unless it is this one; say so if it has not ended by then."""
    if thread is not None and thread.is_alive() and thread is not threading.current_thread():
        thread.join(max(timeout_s, _CLOSE_S))
        if thread.is_alive():
            _log.warning("Thread %s was stopped, and goes on: what it called, such as a listener, stands", thread.name)


class SafeCondition(threading.Condition):
    """A condition that an exception at any moment leaves unlocked, once.

    Python's stays locked for ever if one comes right behind its entry, and is unlocked twice if one comes right behind the
    begin of a wait.
    """

    _is_owned: Callable[[], bool]  # of the lock, which knows its owner
    __enter__ = property(lambda self: self._lock.__enter__)
    __exit__ = property(lambda self: self._lock.__exit__)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until notified, or so long."""
        try:
            return super().wait(timeout)
        finally:
            if not self._is_owned():
                self.acquire()


def fail_all(futures: Iterable[Future[T]], error: BaseException) -> None:
    """End those futures that have not ended with an error; what is called then may raise, and ends this for no other."""
    for future in futures:
        with suppress(BaseException):
            future.set_exception(error)


class SafeFuture(Future[T]):
    """A future that only a thread of ours ends, as what is sent cannot be called back; a caller may stop to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._condition = SafeCondition()
        self.set_running_or_notify_cancel()


class JobThread:
    """Runs jobs one after the other on a thread of its own, which is made for the first; ``failed`` hears if it ends.

    A job under a key that waits already takes the place of that one. Before each turn ``pause_s`` pass, once for all that
    wait then.
    """

    def __init__(self, name: str, failed: Callable[[BaseException], object], pause_s: float = 0.0) -> None:
        self.pause_s = pause_s
        self._name, self._failed = name, failed
        self._changed = SafeCondition()
        self._waiting: dict[object, Callable[[], object]] = {}
        self._stopping = False
        self._thread: threading.Thread | None = None

    def add(self, key: object, job: Callable[[], object]) -> None:
        """Add a job to those that wait, unless this was stopped."""
        with self._changed:
            if self._stopping:
                return
            if self._thread is None:
                thread = BackgroundThread(self._name, self._run, self._failed)
                thread.start()  # there may be no more threads, and stop() can only wait for one that has begun
                self._thread = thread
            self._waiting[key] = job
            self._changed.notify_all()

    def stop(self, timeout_s: float) -> None:
        """Run no more jobs, and wait so long for the one that runs."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        await_end(self._thread, timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopping)
                self._changed.wait_for(lambda: self._stopping, self.pause_s)
                turn = list(self._waiting)
            for key in turn:
                with self._changed:
                    if self._stopping:
                        return
                    job = self._waiting.pop(key)
                job()
            if self._stopping:
                return
