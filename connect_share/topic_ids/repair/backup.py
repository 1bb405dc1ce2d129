"""What a repair keeps of the znodes it writes: their old and new bytes with checksums, and how far it is."""

from __future__ import annotations

import enum
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from connect_share.errors import UsageError
from connect_share.private_file import sync_folder, write_private_file
from connect_share.topic_ids.authority.znodes import with_id
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.scan.scanner import ZERO_ID, directory_names, id_bytes

_FORMAT: Final = 1
INDEX: Final = "backup.json"
_INDEX_LIMIT: Final = 64 * 1024 * 1024
_SUMS: Final = "SHA256SUMS"


class State(enum.Enum):
    """How far a repair is."""

    PREPARED = "prepared"
    """The backup is whole; any number of the writes may have been done."""
    WRITTEN = "written"
    """All is written on this broker; that it serves was not looked at yet."""
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class ZnodeChange:
    """One write.

    Attributes:
        before: whole content of the znode, at ``version``.
        after: what is written over it.
    """

    topic: str
    path: str
    version: int
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Backup:
    """A repair on disk, in ``folder``: ``backup.json``, the znodes' bytes, and ``SHA256SUMS`` for ``sha256sum -c``.

    Attributes:
        cluster_id: ``None``: the cluster does not say.
        controller: the controller has to change after the writes.
        later: topics and partitions whose files are to be written after that, so they are not in sync before.
    """

    folder: Path
    cluster_id: str | None
    controller: bool
    changes: Sequence[ZnodeChange]
    state: State = State.PREPARED
    later: frozenset[tuple[str, int]] = frozenset()

    def at(self, state: State) -> Backup:
        """Note on disk how far the repair is.

        Raises:
            TopicIdRepairError: the folder cannot be written.
        """
        found = replace(self, state=state)
        note(self.folder, found.index())
        return found

    def write(self) -> None:
        """Make the folder, as one step: it is there with everything in it, or not at all.

        Raises:
            UsageError: there is something of this name already.
            TopicIdRepairError: it cannot be written.
        """

        def fill(folder: Path) -> dict[str, str]:
            for name, data in self._files():
                write_private_file(folder / name, data)
            return {name: checksum(data) for name, data in self._files()}

        make_folder(self.folder, fill, self.index)

    def _files(self) -> list[tuple[str, bytes]]:
        return [
            pair
            for number, one in enumerate(self.changes, 1)
            for pair in ((f"{number}.before", one.before), (f"{number}.after", one.after))
        ]

    def index(self) -> bytes:
        """Give ``backup.json``."""
        changes = [
            {
                "topic": one.topic,
                "path": one.path,
                "version": one.version,
                "before": f"{number}.before",
                "before_sha256": checksum(one.before),
                "after": f"{number}.after",
                "after_sha256": checksum(one.after),
            }
            for number, one in enumerate(self.changes, 1)
        ]
        members = {
            "format": _FORMAT,
            "state": self.state.value,
            "cluster_id": self.cluster_id,
            "change_controller": self.controller,
            "later": [list(one) for one in sorted(self.later)],
            "znodes": changes,
        }
        return (json.dumps(members, indent=1) + "\n").encode()


def note(folder: Path, index: bytes) -> None:
    """Write down in the folder of a backup how far its repair is.

    Raises:
        TopicIdRepairError: the folder cannot be written.
    """
    try:
        write_private_file(folder / INDEX, index)
    except OSError as exc:
        raise TopicIdRepairError(f"cannot note in {folder} how far the repair is: {exc.strerror}") from exc


def make_folder(folder: Path, fill: Callable[[Path], Mapping[str, str]], index: Callable[[], bytes]) -> None:
    """Make the folder of a backup: it is there with everything in it, or not at all.

    Args:
        folder: that must not be there yet.
        fill: puts files into the folder it is given; gives their checksums by name.
        index: gives ``backup.json``; is called after that.

    Raises:
        UsageError: there is something of this name already.
        TopicIdRepairError: it cannot be written.
    """
    if folder.exists():
        raise UsageError(f"{folder} is there already and is no backup of a repair; give another with --backup")
    temporary: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))  # mode 0700
        sums = fill(temporary)
        write_private_file(temporary / _SUMS, "".join(f"{one}  {name}\n" for name, one in sums.items()).encode())
        write_private_file(temporary / INDEX, index())
        temporary.rename(folder)
        sync_folder(folder.parent)
    except OSError as exc:
        raise TopicIdRepairError(f"the backup {folder} cannot be written: {exc.strerror}; nothing was changed") from exc
    finally:
        if temporary is not None and temporary.exists():
            shutil.rmtree(temporary, ignore_errors=True)


def read_index(folder: Path) -> Any:
    """Return ``backup.json`` as it is.

    Raises:
        OSError, ValueError, RecursionError: it cannot be read, is no JSON, or is larger than any that is written.
    """
    with (folder / INDEX).open("rb") as file:
        data = file.read(_INDEX_LIMIT + 1)
    if len(data) > _INDEX_LIMIT:
        raise ValueError
    return json.loads(data)


def find_backup(folder: Path) -> Backup | None:
    """Read a backup; ``None``: there is no such folder.

    Raises:
        UsageError: it is no backup, or its files are not those it was made with.
    """
    if not folder.exists():
        return None
    try:
        index = read_index(folder)
        if index["format"] != _FORMAT:
            raise UsageError(f"{folder} is a backup of format {index['format']}, this program knows {_FORMAT}")
        cluster_id = index["cluster_id"]
        return Backup(
            folder,
            None if cluster_id is None else str(cluster_id),
            index["change_controller"] is True,
            tuple(_change(folder, one) for one in index["znodes"]),
            State(index["state"]),
            frozenset((str(topic), int(number)) for topic, number in index.get("later", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise UsageError(f"{folder} is no backup of a repair, or is damaged; give another with --backup") from exc


def _change(folder: Path, found: dict[str, Any]) -> ZnodeChange:
    data = {}
    for name in ("before", "after"):
        data[name] = (folder / Path(str(found[name])).name).read_bytes()
        if checksum(data[name]) != found[f"{name}_sha256"]:
            raise UsageError(f"{folder / found[name]} has another checksum than backup.json says: it was changed")
    topic, path = str(found["topic"]), f"/brokers/topics/{found['topic']}"
    named = directory_names(f"{topic}-0")
    if found["path"] != path or named is None or named[0] != topic or topic in (".", ".."):
        raise UsageError(f"{folder}: backup.json names a znode that is no topic's")
    topic_id = json.loads(data["after"])["topic_id"]
    if id_bytes(topic_id) in (None, ZERO_ID) or with_id(data["before"].decode(), topic_id).encode() != data["after"]:
        raise UsageError(f"{folder}: more than the id of {topic} would be written: it was changed")
    return ZnodeChange(topic, path, int(found["version"]), data["before"], data["after"])


def checksum(data: bytes) -> str:
    """SHA-256, as ``sha256sum`` prints it."""
    return hashlib.sha256(data).hexdigest()
