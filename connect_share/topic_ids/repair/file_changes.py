"""The changes to the files of one stopped broker. Each can be checked, done and undone any number of times.

The files themselves show which changes are done, so an interrupted repair can be continued. Nothing is deleted but indexes,
which brokers create again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, Self

from pydantic import Field

from connect_share.errors import UsageError
from connect_share.files import sync_folder
from connect_share.topic_ids.authority.authority import read_id
from connect_share.topic_ids.errors import TopicIdRepairError, explained
from connect_share.topic_ids.repair.backup import BackupPart, Checksum, Number, Text, keep_files, read_kept
from connect_share.topic_ids.repair.broker_folder import entries, held, is_directory, opened, replace_file
from connect_share.topic_ids.scan.scanner import METADATA_FILE, directory_names
from connect_share.topic_ids.scan.scans import CURRENT, STRAY

if TYPE_CHECKING:
    from connect_share.topic_ids.repair.broker_repair import BrokerBackup

_CHUNK: Final = 1024 * 1024
_LOG: Final = ".log"
_INDEXES: Final = (".index", ".timeindex")
_METADATA_LIMIT: Final = 64 * 1024
_AS_BROKER: Final = "; run this as the broker's user"


class FileState(NamedTuple):
    """The size in bytes and the SHA-256 of one file of a directory."""

    size: Annotated[int, Field(strict=True, ge=0, lt=2**63)]
    sha256: Checksum


class WriteId(BackupPart):
    """The change that writes the right id into ``partition.metadata``.

    Attributes:
        folder: the partition's directory, under the name it has after the repair.
        number: names the kept files.
        before: content of the file; ``None``: there is none.
    """

    act: Literal["write-id"] = "write-id"
    topic: Text
    partition: Number
    folder: Text
    topic_id: Text
    number: Number
    before_sha256: Checksum | None
    before: bytes | None = Field(default=None, exclude=True, repr=False)

    @property
    def after(self) -> bytes:
        """The content of the file, as brokers write it."""
        return f"version: 0\ntopic_id: {self.topic_id}".encode()

    @property
    def path(self) -> str:
        """The path of the file after the repair."""
        return f"{self.folder}/{METADATA_FILE}"

    def load(self, backup: BrokerBackup) -> Self:
        """Return the change with the kept content; raise ``UsageError`` for another directory, or a changed file."""
        _check_place(self, self.folder, CURRENT, backup)
        if read_id(self.topic_id)[0] != self.topic_id:
            raise UsageError(f"{backup.folder}: backup.json has an id for {self.topic!a} that no topic has")
        before = None
        if self.before_sha256 is not None:
            before = read_kept(backup.folder / f"{self.number}.before", self.before_sha256)
        return self.model_copy(update={"before": before})

    def keep(self, backup: Path) -> tuple[Self, dict[str, str]]:
        """Write both contents into a folder; return the change and the checksums."""
        before = {} if self.before is None else {f"{self.number}.before": self.before}
        return self, keep_files(backup, {**before, f"{self.number}.after": self.after})

    def preview(self, *, undo: bool) -> list[str]:
        """Return the lines that show it to people."""
        if undo:
            return [f"{self.path}: {'stays' if self.before is None else 'as before'}"]
        return [f"{self.path}: id {self.topic_id}"]

    def is_done(self, changes: Sequence[FileChange]) -> bool:
        """Return whether it is done."""
        home = self._home(changes)
        if not is_directory(home):
            raise _changed(home)
        now = read_metadata(home)
        if now not in (self.before, self.after):
            raise _changed(f"{home}/{METADATA_FILE}")
        return now == self.after

    def do(self, _changes: Sequence[FileChange]) -> str:
        """Do it; return the line that says so."""
        _replace(self.folder, self.after)
        return f"{self.path}: id {self.topic_id} written"

    def is_undone(self, changes: Sequence[FileChange]) -> bool:
        """Return whether nothing is left to undo."""
        now = read_metadata(self._home(changes))
        if now not in (self.before, self.after):
            raise _changed(self.path)
        # A file that did not exist stays: without one a KRaft broker sets the directory aside.
        return now == self.before or self.before is None

    def undo(self, changes: Sequence[FileChange]) -> str:
        """Undo it; return the line that says so."""
        _replace(self._home(changes), self.before or b"")
        return f"{self.path}: as before"

    def _home(self, changes: Sequence[FileChange]) -> str:
        """Return the directory of the file, under its present name."""
        for other in changes:
            if isinstance(other, PutBack) and other.folder == self.folder and Path(other.stray).exists():
                return other.stray
        return self.folder


class PutBack(BackupPart):
    """The change that puts a directory which was set aside in the place of the empty one, which is set aside instead.

    Attributes:
        folder: the name it gets back.
        stray: its name before the repair.
        empty: the directory that has its place, in any log dir; ``None``: there is none.
        aside: the name that the empty one gets.
        number: names the copy.
        files: of the stray directory.
    """

    act: Literal["put-back"] = "put-back"
    topic: Text
    partition: Number
    folder: Text
    stray: Text
    empty: Text | None
    aside: Text | None
    number: Number
    files: dict[Text, FileState] = Field(default_factory=dict)

    @property
    def _logs(self) -> dict[str, FileState]:
        return {name: file for name, file in self.files.items() if name.endswith(_LOG)}

    @property
    def log_bytes(self) -> int:
        """The size of the logs in the copy."""
        return sum(file.size for file in self._logs.values())

    def load(self, backup: BrokerBackup) -> Self:
        """Return the change; raise ``UsageError`` for another partition's directory, ``ValueError`` for a wrong one."""
        for path, state in ((self.folder, CURRENT), (self.stray, STRAY), (self.empty, CURRENT), (self.aside, STRAY)):
            if path is not None:
                _check_place(self, path, state, backup)
        if (self.empty is None) != (self.aside is None) or any(Path(one).name != one for one in self.files):
            raise ValueError(self.folder)
        return self

    def keep(self, backup: Path) -> tuple[Self, dict[str, str]]:
        """Copy the directory into a folder; return the change with the files, and the checksums."""
        copy = backup / f"{self.number}.directory"
        copy.mkdir(mode=0o700)
        with held(self.stray) as directory:
            files = {
                name: _copy(name, directory, self.stray, copy / name)
                for name, found in entries(directory).items()
                if not stat.S_ISDIR(found.st_mode)
            }
        sync_folder(copy)
        sums = {f"{copy.name}/{name}": file.sha256 for name, file in files.items()}
        return self.model_copy(update={"files": files}), sums

    def preview(self, *, undo: bool) -> list[str]:
        """Return the lines that show it to people."""
        if undo:
            back = [] if self.empty is None else [f"{self.aside} -> {self.empty}"]
            return [f"{self.folder} -> {self.stray}", *back]
        away = [] if self.empty is None else [f"{self.empty}, which is empty -> {self.aside}"]
        return [*away, f"{self.stray} -> {self.folder}"]

    def is_done(self, _changes: Sequence[FileChange]) -> bool:
        """Return whether it is done."""
        if not is_directory(self.stray):
            if not is_directory(self.folder):
                raise _changed(self.stray)
            return True
        if self.empty is not None and not self._half_done():
            if not Path(self.empty).exists() or Path(str(self.aside)).exists():
                raise _changed(self.empty)
            if log_bytes(self.empty):
                raise TopicIdRepairError(
                    f"{self.empty} has records by now: they were written since, and the two logs cannot be joined. Put back, "
                    "the old directory would take their place, and what was acknowledged since would be lost; nothing was "
                    "changed"
                )
        if Path(self.folder).exists() and self.folder != self.empty:
            raise _changed(self.folder)
        # A broker that stops trims indexes and the like; it does not touch the logs of such directories.
        if _log_sizes(self.stray) != {name: file.size for name, file in self._logs.items()}:
            raise _changed(self.stray)
        return False

    def do(self, _changes: Sequence[FileChange]) -> str:
        """Do it; return the line that says so."""
        _drop_indexes(self.stray)
        if self.empty is not None and Path(self.empty).exists():
            _rename(self.empty, str(self.aside))
        _rename(self.stray, self.folder)
        return f"{self.stray} is {Path(self.folder).name} again"

    def is_undone(self, _changes: Sequence[FileChange]) -> bool:
        """Return whether nothing is left to undo."""
        if Path(self.stray).exists():
            return not self._half_done()
        if not Path(self.folder).exists():
            raise _changed(self.stray)
        same = _log_sizes(self.folder).keys() == self._logs.keys()
        if same:
            with held(self.folder) as directory:
                same = all(_state(name, directory, self.folder) == file for name, file in self._logs.items())
        if not same:
            raise TopicIdRepairError(
                f"{self.folder} was written to since it was put back: set aside again, what was acknowledged since would be "
                "lost; nothing was changed"
            )
        return False

    def undo(self, _changes: Sequence[FileChange]) -> str:
        """Undo it; return the line that says so."""
        if not Path(self.stray).exists():
            _rename(self.folder, self.stray)
        if self.empty is not None and Path(str(self.aside)).exists():
            _rename(str(self.aside), self.empty)
        return f"{self.stray} is set aside again"

    def _half_done(self) -> bool:
        """Return whether the repair was killed between the two renames: the empty directory has left its place."""
        if self.empty is None or Path(self.empty).exists():
            return False
        return Path(str(self.aside)).exists() and Path(self.stray).exists()


FileChange = WriteId | PutBack


def _check_place(change: FileChange, path: str, state: str, backup: BrokerBackup) -> None:
    """Refuse a path that is no directory of this partition, directly in a log dir."""
    place = Path(path)
    named = directory_names(place.name)
    if (
        named is None
        or all(place != Path(one, place.name) for one in backup.log_dirs)
        or named[1:] != (change.partition, state)
        # Kafka cuts long names of directories that are not current.
        or not (named[0] == change.topic if state == CURRENT else change.topic.startswith(named[0]))
    ):
        raise UsageError(
            f"{backup.folder}: backup.json names {path!a}, which is no directory of {change.topic!a}, partition "
            f"{change.partition}, in the broker's log dirs; nothing was changed"
        )


def read_metadata(folder: str) -> bytes | None:
    """Return ``partition.metadata``, ``None`` if there is none; raise ``TopicIdRepairError`` if it cannot be read."""
    path = Path(folder, METADATA_FILE)
    with explained(f"{path} cannot be read", _AS_BROKER):
        try:
            with held(folder) as directory, opened(METADATA_FILE, directory, folder) as file:
                data = file.read(_METADATA_LIMIT + 1)
        except FileNotFoundError:
            return None
    if len(data) > _METADATA_LIMIT:
        raise TopicIdRepairError(f"{path} is too large to be what brokers write: look where it comes from")
    return data


def log_bytes(folder: str) -> int:
    """Return the size of all ``.log`` files in a directory."""
    return sum(_log_sizes(folder).values())


def _log_sizes(folder: str) -> dict[str, int]:
    with explained(f"{folder} cannot be read", "; nothing was changed"), held(folder) as directory:
        return {name: found.st_size for name, found in entries(directory).items() if name.endswith(_LOG)}


def _state(name: str, folder: int, where: str) -> FileState:
    with opened(name, folder, where) as reader:
        digest = hashlib.file_digest(reader, "sha256")
        return FileState(reader.tell(), digest.hexdigest())


def _copy(name: str, folder: int, where: str, target: Path) -> FileState:
    """Copy a file of an open directory: private, flushed, with holes."""
    digest = hashlib.sha256()
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as writer, opened(name, folder, where) as reader:
        while data := reader.read(_CHUNK):
            digest.update(data)
            if data.count(0) == len(data):
                writer.seek(len(data), os.SEEK_CUR)  # brokers create large index files, mostly empty
            else:
                writer.write(data)
        writer.truncate()
        writer.flush()
        os.fsync(handle)
        return FileState(reader.tell(), digest.hexdigest())


def _drop_indexes(folder: str) -> None:
    """Remove the indexes of a directory; the broker creates them again from the logs.

    A broker does not close a directory that it sets aside, so the time index keeps its initial zeros. After a clean stop
    brokers trust them: the newest record would be of 1970, and retention would delete the segment.
    """
    with explained(f"indexes in {folder} cannot be removed"), held(folder) as directory:
        for name in entries(directory):
            if name.endswith(_INDEXES):
                os.unlink(name, dir_fd=directory)
        os.fsync(directory)


def _rename(old: str, new: str) -> None:
    with explained(f"{old} cannot be renamed to {new}"):
        Path(old).rename(new)
        sync_folder(Path(new).parent)


def _replace(folder: str, data: bytes) -> None:
    with explained(f"{folder}/{METADATA_FILE} cannot be written", _AS_BROKER), held(folder) as directory:
        replace_file(METADATA_FILE, data, directory, folder)


def _changed(path: str) -> TopicIdRepairError:
    return TopicIdRepairError(
        f"{path} is neither as it was when the backup was made nor as it was to be: was the broker started meanwhile? "
        "Nothing was changed now; scan again, and begin anew with another --backup"
    )
