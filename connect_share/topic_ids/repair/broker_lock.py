"""The lock that a broker holds on each of its log dirs: only its holder may change files there."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from connect_share.topic_ids.errors import TopicIdRepairError, explained
from connect_share.topic_ids.scan.scanner import META_FILE

_LOCK_FILE: Final = ".lock"


@contextmanager
def broker_stopped(log_dirs: Sequence[str]) -> Iterator[None]:
    """Hold the locks of all log dirs: the broker is stopped and cannot start.

    All are needed: a broker releases the lock of a log dir that went offline, and continues with the others. Raise
    ``TopicIdRepairError`` if the broker runs, or that is not known.
    """
    with ExitStack() as locks:
        for log_dir in log_dirs:
            if not locks.enter_context(_locked(Path(log_dir, _LOCK_FILE))):
                raise TopicIdRepairError(
                    f"{Path(log_dir, _LOCK_FILE)} is locked: the broker runs. Files are changed only while it is stopped, "
                    "cleanly; nothing was changed"
                )
        yield


def is_stopped(log_dirs: Sequence[str]) -> bool:
    """Return whether nobody holds the locks; raise ``TopicIdRepairError`` if that is not known."""
    with ExitStack() as locks:
        return all(locks.enter_context(_locked(Path(log_dir, _LOCK_FILE))) for log_dir in log_dirs)


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Take a lock; yield whether nobody else holds it. A file that was created for it is removed afterwards."""
    import fcntl

    unknown = (
        "whether the broker is stopped is not known. Is this a log dir of a broker, and are you the user that runs it?"
    )
    with explained(str(path), f"; {unknown}"):
        handle, created = _opened(path)
    free = False
    try:
        with suppress(OSError):
            # Java's FileLock is a lock of this kind.
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A broker that stopped has removed the file, and may run again with another one.
            free = os.path.samestat(path.lstat(), os.fstat(handle))
        yield free
    finally:
        with suppress(OSError):
            # If a broker that has just started holds it now, the file must stay.
            if created and free:
                path.unlink()
        with suppress(OSError):
            os.close(handle)


def _opened(path: Path) -> tuple[int, bool]:
    """Open a lock file; return whether it was created, as newer brokers remove theirs when they stop."""
    if not path.with_name(META_FILE).exists():
        raise FileNotFoundError(errno.ENOENT, f"there is no {META_FILE} beside it")
    # Through a link, a file somewhere else would be created, and given to the broker's user.
    flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        return os.open(path, flags), False
    try:
        handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return os.open(path, flags), False  # a broker has created it just now
    with suppress(OSError):
        owner = path.parent.stat()
        os.fchown(handle, owner.st_uid, owner.st_gid)
    return handle, True
