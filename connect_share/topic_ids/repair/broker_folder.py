"""An open directory of a stopped broker: its files are opened relative to it, never through a link.

The broker's user can put anything there at any time, and a repair may run as root: neither a link nor a file of another
user may decide what is read, written or given to another owner.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from connect_share.topic_ids.errors import TopicIdRepairError


def is_directory(path: str | Path) -> bool:
    """Return whether a path is a directory, and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


@contextmanager
def held(path: str | Path) -> Iterator[int]:
    """Open a directory, but no link to one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def entries(folder: int) -> dict[str, os.stat_result]:
    """Return the entries of an open directory by name; links are not followed."""
    return {name: os.stat(name, dir_fd=folder, follow_symlinks=False) for name in sorted(os.listdir(folder))}


def opened(name: str, folder: int, where: str) -> BufferedReader:
    """Open a regular file of the directory ``where``, which is open, for reading; ``OSError``: it cannot be opened.

    Raise ``TopicIdRepairError`` for a link, a pipe or the like.
    """
    # A named pipe would block a reader for ever.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    _refuse_special(where, name, os.stat(name, dir_fd=folder, follow_symlinks=False))
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        _refuse_special(where, name, os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _refuse_special(where: str, name: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        what = "a link" if stat.S_ISLNK(found.st_mode) else "no regular file"
        raise TopicIdRepairError(
            f"{where}: {name} is {what}, which brokers do not make: look where it comes from, and remove it"
        )


def replace_file(name: str, data: bytes, folder: int, where: str) -> None:
    """Replace a file as one step; owner and mode stay, or are those of the directory if there was no file.

    Raise ``TopicIdRepairError`` if it is no regular file, ``OSError`` if it cannot be written; the old one is unchanged.
    """
    try:
        like = os.stat(name, dir_fd=folder, follow_symlinks=False)
        _refuse_special(where, name, like)
        mode = like.st_mode & 0o777
    except FileNotFoundError:
        like, mode = os.fstat(folder), 0o644
    new = f"{name}.new"
    with suppress(FileNotFoundError):
        os.unlink(new, dir_fd=folder)  # of a repair that was killed
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(handle, like.st_uid, like.st_gid)
            os.fchmod(handle, mode)
            os.fsync(handle)
        os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise
