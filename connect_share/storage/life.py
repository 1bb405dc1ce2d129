"""The life of a storage: started once, closed by any thread at any moment, failed, forked."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from connect_share.errors import ConnectShareError, NotStartedError, StoreClosedError
from connect_share.log.log_state import OnFailed, OwnerProcess
from connect_share.log.protocol import STOP_TIMEOUT_S
from connect_share.log.writer import remaining_s

_logger = logging.getLogger(__name__)


class StorageLife:
    """What threads that start, use and close a storage have to know of each other.

    ``on_failed`` is called once, in a thread of its own, when the log of a store has failed.

    Attributes:
        ended: everything that ran was stopped: another start has a life of its own.
    """

    def __init__(self, on_failed: OnFailed | None) -> None:
        self._on_failed = on_failed
        self._process = OwnerProcess("this ConnectStorage")
        self._lock = threading.Lock()
        self._starter: int | None = None
        self._start_ended = threading.Event()
        self._aborts: list[Callable[[], object]] = []
        self._close_by_s: float | None = None
        self._failure: ConnectShareError | None = None
        self.ended = False

    @property
    def failure(self) -> ConnectShareError | None:
        """What ended the first log that ended; in a forked process, that it is one."""
        try:
            self.check_process()
        except StoreClosedError as error:
            return error
        return self._failure

    @property
    def is_new(self) -> bool:
        """Whether nothing was started with it so far."""
        return self._starter is None and not self.ended

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Guard the start: there is one, and it fails if the storage is closed meanwhile.

        Raises:
            NotStartedError: there was one before.
            StoreClosedError: it was closed meanwhile.
        """
        self.check_process()
        with self._lock:
            if self._starter is not None:
                raise NotStartedError("this ConnectStorage was started before, and not stopped since")
            self._starter = threading.get_ident()
        try:
            yield
        except ConnectShareError as error:
            if self._close_by_s is not None and not isinstance(error, StoreClosedError):
                raise _closed_meanwhile() from error
            raise
        finally:
            self._start_ended.set()

    def on_abort(self, abort: Callable[[], object]) -> None:
        """Have this called if the storage is closed while it starts.

        Raises:
            StoreClosedError: it was closed already.
        """
        with self._lock:
            self._aborts.append(abort)
        self.check_not_closed()

    def check_not_closed(self) -> None:
        """Raise ``StoreClosedError`` if the storage was closed since its start began."""
        if self._close_by_s is not None:
            raise _closed_meanwhile()

    def check_process(self) -> None:
        """Raise ``StoreClosedError`` in a process that was forked from the one that made the storage."""
        self._process.check()

    def close(self, timeout_s: float) -> bool:
        """Begin to close, and end a start that is under way. Return whether there is anything to be closed here."""
        if self._process.forked:
            return False  # threads and clients are the other process's
        with self._lock:
            if self._starter is None:
                return False
            if self._close_by_s is None:
                self._close_by_s = time.monotonic() + timeout_s
            aborts = [] if self._start_ended.is_set() else list(self._aborts)
        for abort in aborts:
            abort()
        if self._starter != threading.get_ident():
            self._start_ended.wait(remaining_s(self._close_by_s))
        return True

    def left_s(self) -> float:
        """Seconds that are left for what has to be ended."""
        return STOP_TIMEOUT_S if self._close_by_s is None else remaining_s(self._close_by_s)

    def fail(self, error: ConnectShareError) -> None:
        """Note what ended a log; called by the thread that noticed, which is not kept waiting."""
        with self._lock:
            if self._failure is not None or self._close_by_s is not None:
                return
            self._failure = error
        if self._on_failed is not None:
            threading.Thread(
                target=self._call_on_failed, args=(error,), name="connect-storage-failed", daemon=True
            ).start()

    def _call_on_failed(self, error: ConnectShareError) -> None:
        try:
            if self._on_failed is not None:
                self._on_failed(error)
        except Exception:
            _logger.exception("on_failed of a ConnectStorage failed")


def _closed_meanwhile() -> StoreClosedError:
    return StoreClosedError("the storage was closed while it started")
