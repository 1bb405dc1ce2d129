"""What is done to the files of one stopped broker: each act can be looked at, done, and taken back, any number of times.

How far a repair is, the files tell; so one that was killed goes on. Nothing is deleted but indexes, which brokers make anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connect_share.private_file import sync_folder
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.broker_folder import entries, held, is_directory, opened, replace_file
from connect_share.topic_ids.scan.scanner import METADATA_FILE

_CHUNK: Final = 1024 * 1024
_LOG: Final = ".log"
_INDEXES: Final = (".index", ".timeindex")
_METADATA_LIMIT: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class FileState:
    """Size and SHA-256 of one file of a directory."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class WriteId:
    """The right id into ``partition.metadata``.

    Attributes:
        folder: the partition's directory, under the name it has at the end.
        before: content; ``None``: there is no such file.
        after: what is written.
    """

    topic: str
    partition: int
    folder: str
    topic_id: str
    before: bytes | None = field(repr=False)
    after: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class PutBack:
    """A directory that was set aside takes the place of the empty one, which is set aside instead.

    Attributes:
        folder: the name it gets back.
        stray: the name it has.
        empty: the one that takes its place now, in any log dir; ``None``: there is none.
        aside: the name the empty one gets.
        files: what is in the stray directory.
    """

    topic: str
    partition: int
    folder: str
    stray: str
    empty: str | None
    aside: str | None
    files: Mapping[str, FileState] = field(default_factory=dict)


Act = WriteId | PutBack


def metadata_of(topic_id: str) -> bytes:
    """Give the content of ``partition.metadata`` as brokers write it."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


def read_metadata(folder: str) -> bytes | None:
    """Read ``partition.metadata``; ``None``: there is none.

    Raises:
        TopicIdRepairError: it is there and cannot be read.
    """
    path = Path(folder, METADATA_FILE)
    try:
        with held(folder) as directory, opened(METADATA_FILE, directory) as file:
            data = file.read(_METADATA_LIMIT + 1)
    except FileNotFoundError:
        return None
    except TopicIdRepairError as exc:
        raise TopicIdRepairError(f"{folder}: {exc}") from exc
    except OSError as exc:
        raise TopicIdRepairError(f"{path} cannot be read: {exc.strerror}; run this as the broker's user") from exc
    if len(data) > _METADATA_LIMIT:
        raise TopicIdRepairError(f"{path} is too large to be what brokers write: look where it comes from")
    return data


def log_bytes(folder: str) -> int:
    """Sum up the sizes of the ``.log`` files in a directory."""
    return sum(_log_sizes(folder).values())


def _log_sizes(folder: str) -> dict[str, int]:
    try:
        with held(folder) as directory:
            return {name: found.st_size for name, found in entries(directory).items() if name.endswith(_LOG)}
    except OSError as exc:
        raise TopicIdRepairError(f"{folder} cannot be read: {exc.strerror}; nothing was changed") from exc


def copied(name: str, folder: int, target: Path | None) -> FileState:
    """Read a file of a directory held open to its end; with a target it is copied there, for its owner only, and flushed.

    Raises:
        TopicIdRepairError: it is no regular file.
        OSError: it cannot be read, or there is no room.
    """
    digest, size = hashlib.sha256(), 0
    with opened(name, folder) as reader:
        handle = -1 if target is None else os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            while data := reader.read(_CHUNK):
                digest.update(data)
                size += len(data)
                if handle >= 0 and data.count(0) == len(data):
                    os.lseek(handle, len(data), os.SEEK_CUR)  # index files are made large and are mostly empty
                elif handle >= 0:
                    view = memoryview(data)
                    while view:
                        view = view[os.write(handle, view) :]
            if handle >= 0:
                os.ftruncate(handle, size)
                os.fsync(handle)
        finally:
            if handle >= 0:
                os.close(handle)
    return FileState(size, digest.hexdigest())


def waiting(acts: Sequence[Act]) -> list[Act]:
    """Give the acts that are still to be done, after a look at all of them.

    Raises:
        TopicIdRepairError: something is neither as it was nor as it will be, or what would be set aside is not empty.
    """
    return [one for one in acts if not (_is_back(one) if isinstance(one, PutBack) else _is_written(one, acts))]


def do(one: Act) -> str:
    """Do one act; gives what was done, for people."""
    if isinstance(one, WriteId):
        _replace(one.folder, one.after)
        return f"{one.folder}/{METADATA_FILE}: id {one.topic_id} written"
    _drop_indexes(one.stray)
    if one.empty is not None and one.aside is not None and Path(one.empty).exists():
        _rename(one.empty, one.aside)
    _rename(one.stray, one.folder)
    return f"{one.stray} is {Path(one.folder).name} again"


def to_take_back(acts: Sequence[Act]) -> list[Act]:
    """Give the acts that are still to be taken back, the last one first, after a look at all of them.

    Raises:
        TopicIdRepairError: something was changed since, such as a log that was written to.
    """
    found: list[Act] = []
    for one in reversed(acts):
        if isinstance(one, WriteId):
            now = read_metadata(_home(one, acts))
            if now not in (one.before, one.after):
                raise TopicIdRepairError(_changed(f"{one.folder}/{METADATA_FILE}"))
            # A file that was not there stays: without one a KRaft broker sets the directory aside.
            if now != one.before and one.before is not None:
                found.append(one)
        elif Path(one.folder).exists() and not Path(one.stray).exists():
            _unchanged(one)
            found.append(one)
        elif _half_done(one):
            found.append(one)
        elif not Path(one.stray).exists():
            raise TopicIdRepairError(_changed(one.stray))
    return found


def take_back(one: Act, acts: Sequence[Act]) -> str:
    """Take one act back; gives what was done, for people."""
    if isinstance(one, WriteId):
        _replace(_home(one, acts), one.before or b"")
        return f"{one.folder}/{METADATA_FILE}: as before"
    if not Path(one.stray).exists():
        _rename(one.folder, one.stray)
    if one.empty is not None and one.aside is not None and Path(one.aside).exists():
        _rename(one.aside, one.empty)
    return f"{one.stray} is set aside again"


def _home(one: WriteId, acts: Sequence[Act]) -> str:
    """Give the directory an id belongs into, under the name that it has now."""
    for other in acts:
        if isinstance(other, PutBack) and other.folder == one.folder and Path(other.stray).exists():
            return other.stray
    return one.folder


def _is_written(one: WriteId, acts: Sequence[Act]) -> bool:
    home = _home(one, acts)
    if not is_directory(home):
        raise TopicIdRepairError(_changed(home))
    now = read_metadata(home)
    if now not in (one.before, one.after):
        raise TopicIdRepairError(_changed(f"{home}/{METADATA_FILE}"))
    return now == one.after


def _is_back(one: PutBack) -> bool:
    folder, stray = Path(one.folder), Path(one.stray)
    if not is_directory(stray):
        if not is_directory(folder):
            raise TopicIdRepairError(_changed(one.stray))
        return True
    if one.empty is not None and Path(one.empty).exists() and not Path(one.aside or "").exists():
        if log_bytes(one.empty):
            raise TopicIdRepairError(
                f"{one.empty} has records by now: they were written since, and the two logs cannot be joined. Put back, the "
                "old directory would take their place, and what was acknowledged since would be lost; nothing was changed"
            )
    elif one.empty is not None and not _half_done(one):
        raise TopicIdRepairError(_changed(one.empty))
    if folder.exists() and one.folder != one.empty:
        raise TopicIdRepairError(_changed(one.folder))
    # Indexes and the like are trimmed when a broker stops; logs of such directories are not touched.
    if _log_sizes(one.stray) != {name: file.size for name, file in one.files.items() if name.endswith(_LOG)}:
        raise TopicIdRepairError(_changed(one.stray))
    return False


def _half_done(one: PutBack) -> bool:
    """Tell whether the empty directory is set aside, and nothing has its place: killed between the two renames."""
    return (
        one.empty is not None
        and one.aside is not None
        and Path(one.aside).exists()
        and not Path(one.empty).exists()
        and Path(one.stray).exists()
    )


def _unchanged(one: PutBack) -> None:
    """Refuse to set a log aside that was written to since it was put back."""
    kept = {name: file for name, file in one.files.items() if name.endswith(_LOG)}
    same = _log_sizes(one.folder).keys() == kept.keys()
    if same:
        with held(one.folder) as directory:
            same = all(copied(name, directory, None) == file for name, file in kept.items())
    if not same:
        raise TopicIdRepairError(
            f"{one.folder} was written to since it was put back: set aside again, what was acknowledged since would be lost; "
            "nothing was changed"
        )


def _drop_indexes(folder: str) -> None:
    """Have the broker make the indexes of a directory anew from its logs.

    It does not close what it has set aside, so the time index keeps the zeros it was made with. After a clean stop these
    are believed: the newest record would be of 1970, and retention would delete the segment.
    """
    try:
        with held(folder) as directory:
            for name in entries(directory):
                if name.endswith(_INDEXES):
                    os.unlink(name, dir_fd=directory)
            os.fsync(directory)
    except OSError as exc:
        raise TopicIdRepairError(f"indexes in {folder} cannot be removed: {exc.strerror}") from exc


def _rename(old: str, new: str) -> None:
    try:
        Path(old).rename(new)
        sync_folder(Path(new).parent)
    except OSError as exc:
        raise TopicIdRepairError(f"{old} cannot be renamed to {new}: {exc.strerror}") from exc


def _replace(folder: str, data: bytes) -> None:
    """Write ``partition.metadata`` under another name first: an empty one is fatal."""
    try:
        with held(folder) as directory:
            replace_file(METADATA_FILE, data, directory)
    except TopicIdRepairError as exc:
        raise TopicIdRepairError(f"{folder}: {exc}") from exc
    except OSError as exc:
        raise TopicIdRepairError(
            f"{folder}/{METADATA_FILE} cannot be written: {exc.strerror}; run this as the broker's user"
        ) from exc


def _changed(path: str) -> str:
    return (
        f"{path} is neither as it was when the backup was made nor as it was to be: was the broker started meanwhile? "
        "Nothing was changed now; scan again, and begin anew with another --backup"
    )
