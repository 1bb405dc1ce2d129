"""The lock a broker holds on each of its log dirs: who has it, may change files in there."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.scan.scanner import META_FILE

_LOCK_FILE: Final = ".lock"


@dataclass(frozen=True, slots=True)
class _Lock:
    path: Path
    handle: int
    made: bool


@contextmanager
def broker_stopped(log_dirs: Sequence[str]) -> Iterator[None]:
    """Hold the locks of all log dirs, so that the broker is stopped and cannot start meanwhile.

    A broker gives up the lock of a log dir that went offline and runs on with the others, so every one is needed.

    Raises:
        TopicIdRepairError: the broker runs, or a log dir has no lock file or cannot be opened.
    """
    held: list[_Lock] = []
    try:
        taken = _take(log_dirs, held)
        if taken is not None:
            raise TopicIdRepairError(
                f"{taken} is locked: the broker runs. Files are changed only while it is stopped, cleanly; "
                "nothing was changed"
            )
        yield
    finally:
        _give_up(held)


def is_stopped(log_dirs: Sequence[str]) -> bool:
    """Tell whether nobody holds the locks.

    Raises:
        TopicIdRepairError: that cannot be told.
    """
    held: list[_Lock] = []
    try:
        return _take(log_dirs, held) is None
    finally:
        _give_up(held)


def _take(log_dirs: Sequence[str], held: list[_Lock]) -> str | None:
    """Take locks; gives the first that somebody else holds."""
    import fcntl

    for log_dir in log_dirs:
        path = Path(log_dir, _LOCK_FILE)
        try:
            held.append(_opened(path))
        except OSError as exc:
            raise TopicIdRepairError(
                f"{path}: {exc.strerror}; whether the broker is stopped cannot be told. Is this a log dir of a broker, "
                "and are you the user that runs it?"
            ) from exc
        try:
            # Java's FileLock is one of these, and holds against them.
            fcntl.lockf(held[-1].handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            has_it = True
        else:
            has_it = not _is_there(held[-1])
        if has_it:
            # Whoever made the file: a broker that has just started has it now, and it must not be removed.
            held[-1] = replace(held[-1], made=False)
            return str(path)
    return None


def _is_there(one: _Lock) -> bool:
    """Tell whether the file has its name still: a broker that stopped a moment ago has removed it, and may run again."""
    try:
        return os.path.samestat(one.path.lstat(), os.fstat(one.handle))
    except OSError:
        return False


def _opened(path: Path) -> _Lock:
    """Open a lock file; newer brokers remove theirs when they stop, so it may have to be made, for the broker's user."""
    if not path.with_name(META_FILE).exists():
        raise FileNotFoundError(errno.ENOENT, f"there is no {META_FILE} beside it")
    # Through a link, a file somewhere else would be made, and given to the broker's user.
    flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return _Lock(path, os.open(path, flags), made=False)
    except FileNotFoundError:
        with suppress(FileExistsError):
            one = _Lock(path, os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644), made=True)
            owner = path.parent.stat()
            with suppress(OSError):
                os.fchown(one.handle, owner.st_uid, owner.st_gid)
            return one
    return _Lock(path, os.open(path, flags), made=False)  # a broker has made it just now


def _give_up(held: Sequence[_Lock]) -> None:
    for one in held:
        with suppress(OSError):
            if one.made:
                one.path.unlink()
        with suppress(OSError):
            os.close(one.handle)
