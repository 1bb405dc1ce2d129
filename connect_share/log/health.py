"""Whether a log is still followed, and what every later call raises when it is not."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from connect_share.errors import ConnectShareError, LogFailedError, StoreClosedError, TopicRecreatedError

OnFailed = Callable[[ConnectShareError], None]


class Health:
    """The end of a log by a failure, or by a fork: its threads are the other process's. Thread-safe, takes no lock to ask.

    Args:
        topic: of the log.
        on_failed: called once with what every later call raises, by the thread that noticed.
    """

    def __init__(self, topic: str, on_failed: OnFailed | None) -> None:
        self._topic = topic
        self._on_failed = on_failed
        self._process = os.getpid()
        self._lock = threading.Lock()
        self.failure: BaseException | None = None

    @property
    def forked(self) -> bool:
        """Whether this process has only a copy of the log, as it was when the process was forked."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Refuse what was read if the topic is gone, or is not followed any more.

        Raises:
            TopicRecreatedError: it was deleted, or created again.
            LogFailedError: the thread that follows it died.
            StoreClosedError: it is followed by another process, from which this one was forked.
        """
        if self.forked:
            raise StoreClosedError(
                f"the log of topic {self._topic} is followed by process {self._process}, from which this one was forked: "
                "start a store of its own here"
            )
        if self.failure is not None:
            raise self._told(self.failure)

    def fail(self, error: BaseException) -> None:
        """Take what ended the log; what is known of the topic itself explains everything else."""
        with self._lock:
            first = self.failure is None
            if first or isinstance(error, TopicRecreatedError):
                self.failure = error
        if first and self._on_failed is not None:
            self._on_failed(self._told(error))

    def _told(self, failure: BaseException) -> ConnectShareError:
        if isinstance(failure, TopicRecreatedError):
            return failure
        error = LogFailedError(f"the log of topic {self._topic} has failed and must be started again: {told(failure)}")
        error.__cause__ = failure
        return error


def told(error: BaseException) -> str:
    """Our own messages are free of record contents; of anything else only the type is told."""
    return str(error) if isinstance(error, ConnectShareError) else type(error).__name__
