"""The lock that a broker holds on each of its log dirs: only its holder may change files there."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.scan.scanner import META_FILE

_LOCK_FILE: Final = ".lock"


@dataclass(slots=True)
class _Lock:
    path: Path
    handle: int
    created: bool

    def is_current(self) -> bool:
        """Return whether the path still names this file: a broker that stopped has removed it, and may run again."""
        try:
            return os.path.samestat(self.path.lstat(), os.fstat(self.handle))
        except OSError:
            return False

    def release(self) -> None:
        with suppress(OSError):
            if self.created:
                self.path.unlink()
        with suppress(OSError):
            os.close(self.handle)


@contextmanager
def broker_stopped(log_dirs: Sequence[str]) -> Iterator[None]:
    """Hold the locks of all log dirs: the broker is stopped and cannot start.

    All are needed: a broker releases the lock of a log dir that went offline, and continues with the others.

    Raises:
        TopicIdRepairError: the broker runs, or a log dir has no lock file or cannot be opened.
    """
    with _locked(log_dirs) as taken:
        if taken is not None:
            raise TopicIdRepairError(
                f"{taken} is locked: the broker runs. Files are changed only while it is stopped, cleanly; "
                "nothing was changed"
            )
        yield


def is_stopped(log_dirs: Sequence[str]) -> bool:
    """Return whether nobody holds the locks; raise ``TopicIdRepairError`` if that is not known."""
    with _locked(log_dirs) as taken:
        return taken is None


@contextmanager
def _locked(log_dirs: Sequence[str]) -> Iterator[Path | None]:
    """Take locks; yield the first lock file that somebody else holds."""
    import fcntl

    locks: list[_Lock] = []
    try:
        for log_dir in log_dirs:
            path = Path(log_dir, _LOCK_FILE)
            try:
                lock = _opened(path)
            except OSError as exc:
                raise TopicIdRepairError(
                    f"{path}: {exc.strerror}; whether the broker is stopped is not known. Is this a log dir of a broker, "
                    "and are you the user that runs it?"
                ) from exc
            locks.append(lock)
            try:
                # Java's FileLock is a lock of this kind.
                fcntl.lockf(lock.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                free = lock.is_current()
            except OSError:
                free = False
            if not free:
                lock.created = False  # a broker that has just started holds it now: the file must stay
                yield path
                return
        yield None
    finally:
        for lock in locks:
            lock.release()


def _opened(path: Path) -> _Lock:
    """Open a lock file; newer brokers remove theirs when they stop, then it is created for the broker's user."""
    if not path.with_name(META_FILE).exists():
        raise FileNotFoundError(errno.ENOENT, f"there is no {META_FILE} beside it")
    # Through a link, a file somewhere else would be created, and given to the broker's user.
    flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return _Lock(path, os.open(path, flags), created=False)
    except FileNotFoundError:
        with suppress(FileExistsError):
            lock = _Lock(path, os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644), created=True)
            owner = path.parent.stat()
            with suppress(OSError):
                os.fchown(lock.handle, owner.st_uid, owner.st_gid)
            return lock
    return _Lock(path, os.open(path, flags), created=False)  # a broker has created it just now
