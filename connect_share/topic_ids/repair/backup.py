"""The backup of a repair: a folder with everything that is changed, with checksums, and the state of the repair."""

from __future__ import annotations

import enum
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from connect_share.errors import UsageError
from connect_share.files import read_bounded, sync_folder, write_private_file
from connect_share.topic_ids.errors import TopicIdRepairError, explained
from connect_share.topic_ids.scan.scans import json_object

Text = Annotated[str, Field(strict=True, pattern=r"^[^\x00]*$")]
Number = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
Report = Callable[[str], None]
Checksum = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{64}$")]

_INDEX: Final = "backup.json"
_INDEX_LIMIT: Final = 64 * 1024 * 1024
_SUMS: Final = "SHA256SUMS"


class RepairState(enum.Enum):
    """The states of a repair."""

    PREPARED = "prepared"
    """The backup is complete; any number of the changes may be done."""
    WRITTEN = "written"
    """All changes of this broker are done; the check that it serves is not."""
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


class BackupPart(BaseModel):
    """A part of ``backup.json``. A repair may run as root, and the file may come from anybody, so nothing else is allowed."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class RepairBackup(BackupPart):
    """A repair on disk: ``backup.json``, the bytes that are replaced, and ``SHA256SUMS`` for ``sha256sum -c``.

    Attributes:
        changes: in order. What each changes shows whether it is done, so an interrupted repair can be continued:
            ``is_done`` and ``is_undone`` raise ``TopicIdRepairError`` if things are neither as before nor as after;
            ``do`` and ``undo`` return the line that says so. All four look around in the other changes, or a session.
    """

    folder: Path = Field(exclude=True)
    format: Literal[1] = 1
    state: RepairState = RepairState.PREPARED
    changes: tuple[Any, ...]

    def preview(self, *, undo: bool = False) -> list[str]:
        """Return the lines that show to people what would be done, or undone."""
        ordered = reversed(self.changes) if undo else self.changes
        return [line for one in ordered for line in one.preview(undo=undo)]

    def not_done(self, context: object) -> list[Any]:
        """Return the changes that are still to be done, after a check of all."""
        return [one for one in self.changes if not one.is_done(context)]

    def not_undone(self, context: object) -> list[Any]:
        """Return the changes that are still to be undone, the last one first, after a check of all."""
        return [one for one in reversed(self.changes) if not one.is_undone(context)]

    @classmethod
    def find(cls, folder: Path) -> Self | None:
        """Read a backup; return ``None`` if the folder does not exist.

        Raise ``UsageError`` if it is no backup of this kind, or a file in it was changed.
        """
        if not folder.exists():
            return None
        try:
            found = cls.model_validate({**read_index(folder), "folder": folder})
            return found.model_copy(update={"changes": tuple(one.load(found) for one in found.changes)})
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as exc:
            raise UsageError(f"{folder} is no backup of a repair, or is damaged; give another with --backup") from exc

    def at(self, state: RepairState) -> Self:
        """Write the new state to disk; return the backup with it, or raise ``TopicIdRepairError`` if it cannot be written."""
        changed = self.model_copy(update={"state": state})
        with explained(f"cannot note in {self.folder} how far the repair is"):
            write_private_file(self.folder / _INDEX, changed.index())
        return changed

    def write(self) -> Self:
        """Create the folder in one step, with everything in it or not at all; return the backup with its checksums.

        Raise ``UsageError`` if the name is in use, ``TopicIdRepairError`` if it cannot be written.
        """
        folder = self.folder
        if folder.exists():
            raise UsageError(f"{folder} is there already and is no backup of a repair; give another with --backup")
        with explained(f"the backup {folder} cannot be written", "; nothing was changed"):
            folder.parent.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))  # mode 0700
            try:
                changes = [one.keep(temporary) for one in self.changes]
                kept = self.model_copy(update={"changes": tuple(one for one, _ in changes)})
                sums = [f"{digest}  {name}\n" for _, part in changes for name, digest in part.items()]
                write_private_file(temporary / _SUMS, "".join(sums).encode())
                write_private_file(temporary / _INDEX, kept.index())
                temporary.rename(folder)
                sync_folder(folder.parent)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        return kept

    def index(self) -> bytes:
        """Return the content of ``backup.json``."""
        try:
            return self.model_dump_json(indent=1, by_alias=True).encode() + b"\n"
        except ValueError as exc:
            raise TopicIdRepairError("a path of the repair is no UTF-8 text: rename it; nothing was changed") from exc


def read_index(folder: Path) -> Mapping[str, Any]:
    """Return ``backup.json`` as it is.

    Raise ``OSError`` or ``ValueError`` if it cannot be read, or is larger than any that is written.
    """
    index = json_object(read_bounded(folder / _INDEX, _INDEX_LIMIT))
    if not index:
        raise ValueError(_INDEX)
    return index


def keep_files(folder: Path, contents: Mapping[str, bytes]) -> dict[str, str]:
    """Write files into a folder; return their checksums by name."""
    for name, data in contents.items():
        write_private_file(folder / name, data)
    return {name: checksum(data) for name, data in contents.items()}


def read_kept(path: Path, digest: str) -> bytes:
    """Read a file of a backup; raise ``UsageError`` if it has another checksum than ``backup.json`` says."""
    data = read_bounded(path)
    if checksum(data) != digest:
        raise UsageError(f"{path} has another checksum than backup.json says: it was changed")
    return data


def checksum(data: bytes) -> str:
    """Return the SHA-256, as ``sha256sum`` prints it."""
    return hashlib.sha256(data).hexdigest()
