"""Ctrl-C while a command runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar, Final

from connect_share.callbacks import is_in_callback
from connect_share.errors import ConnectShareError

_CALLBACK_S: Final = 0.01


class InterruptionError(ConnectShareError):
    """Ctrl-C; the exit code is the one that shells expect."""

    exit_code: ClassVar[int] = 130


class Interruption:
    """A handler of Ctrl-C: the first raises ``KeyboardInterrupt``, so the command cleans up; the second ends the process.

    The Kafka library forgets what its callbacks raise, so the exception waits for the end of a callback.
    """

    def __init__(self, last_words: str) -> None:
        self.came = False
        self._last_words = last_words.encode("ascii", "backslashreplace")

    @contextmanager
    def handled(self, *, process_ends: bool) -> Iterator[None]:
        """Handle it while the block runs. Afterwards the handler is as before, or Python's default if the process ends."""
        before = signal.getsignal(signal.SIGINT)
        # Only the main thread may. A process started with Ctrl-C ignored (nohup, a background job) keeps ignoring it.
        if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
            yield
            return
        hook = sys.unraisablehook
        sys.unraisablehook = self._hook(hook)
        signal.signal(signal.SIGINT, self._take)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.SIG_DFL if process_ends else before)
            sys.unraisablehook = hook

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            os.write(2, self._last_words)
            os._exit(InterruptionError.exit_code)
        self.came = True
        self._raise(number, frame)

    def _raise(self, _number: int, frame: FrameType | None) -> None:
        if is_in_callback(frame):
            self._later()
        else:
            raise KeyboardInterrupt

    def _later(self) -> None:
        signal.signal(signal.SIGALRM, self._raise)
        signal.setitimer(signal.ITIMER_REAL, _CALLBACK_S)

    def _hook(self, otherwise: Callable[[Any], object]) -> Callable[[Any], object]:
        """Return a hook for exceptions that cannot be raised, as in a destructor: an interruption is raised again later."""

        def unraisable(what: Any) -> None:
            if self.came and isinstance(what.exc_value, KeyboardInterrupt):
                self._later()
            else:
                otherwise(what)

        return unraisable
