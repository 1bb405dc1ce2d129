"""The lock a broker holds on each of its log dirs: who has it, may change files in there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from connect_share.errors import TopicIdRepairError

_LOCK_FILE: Final = ".lock"


@contextmanager
def broker_stopped(log_dirs: Sequence[str]) -> Iterator[None]:
    """Hold the locks of all log dirs, so that the broker is stopped and cannot start meanwhile.

    A broker gives up the lock of a log dir that went offline and runs on with the others, so every one is needed.

    Raises:
        TopicIdRepairError: the broker runs, or a log dir has no lock file or cannot be opened.
    """
    handles: list[int] = []
    try:
        held = _take(log_dirs, handles)
        if held is not None:
            raise TopicIdRepairError(
                f"{held} is locked: the broker runs. Files are changed only while it is stopped, cleanly; "
                "nothing was changed"
            )
        yield
    finally:
        _give_up(handles)


def is_stopped(log_dirs: Sequence[str]) -> bool:
    """Tell whether nobody holds the locks.

    Raises:
        TopicIdRepairError: that cannot be told.
    """
    handles: list[int] = []
    try:
        return _take(log_dirs, handles) is None
    finally:
        _give_up(handles)


def _take(log_dirs: Sequence[str], handles: list[int]) -> str | None:
    """Take locks; gives the first that somebody else holds."""
    import fcntl

    for log_dir in log_dirs:
        path = Path(log_dir, _LOCK_FILE)
        try:
            handles.append(os.open(path, os.O_RDWR))
        except OSError as exc:
            raise TopicIdRepairError(
                f"{path}: {exc.strerror}; whether the broker is stopped cannot be told. Is this a log dir of a broker, "
                "and are you the user that runs it?"
            ) from exc
        try:
            # Java's FileLock is one of these, and holds against them.
            fcntl.lockf(handles[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return str(path)
    return None


def _give_up(handles: Sequence[int]) -> None:
    for handle in handles:
        with suppress(OSError):
            os.close(handle)
