"""The note of what a command writes, gone when it has looked for what others wrote meanwhile.

A command that is killed before it looks says nothing. The note lies beside the worker file: whatever writes as the group next
ends that look first, and checks name it. Of a command that is killed while it writes the last second may be missing.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from connect_share.errors import CopyError
from connect_share.files import LARGEST_BYTES, read_bounded, write_private_file
from connect_share.model.records import TopicType
from connect_share.worker_config.worker import file_of


class DueTopic(NamedTuple):
    """One topic: its ends before the first write, and the offsets acknowledged since, by partition in runs, or marks.

    ``connector``: whose offsets alone were written.
    """

    topic: str
    topic_id: str | None
    ends: dict[int, NonNegativeInt]
    runs: dict[int, list[list[NonNegativeInt]]]
    marks: frozenset[str] = frozenset()
    connector: str | None = None


DueLook = dict[TopicType, DueTopic]
_FORM: Final = TypeAdapter(DueLook)


def mark_of(key: bytes, value: bytes | None) -> str:
    """Return a hash of key and value, which stands for a record whose offset is not known."""
    return blake2b(repr((key, value)).encode(), digest_size=16).hexdigest()


def due_path(worker_file: Path, group_id: str, *, own: bool = False) -> Path:
    """Return where the note of a group is, beside the worker file that a command was given.

    ``own``: that of offsets in a topic that one of its connectors has of its own.
    """
    name = blake2b(f"{worker_file.name}\n{group_id}".encode() + b"\n" * own, digest_size=8).hexdigest()
    return file_of(worker_file).with_name(f".{name}.look-due.json")


def load_due(path: Path) -> DueLook | None:
    """Read a note, ``None``: there is none; ``CopyError``: it cannot be used."""
    try:
        return _FORM.validate_json(read_bounded(path, LARGEST_BYTES, regular=True))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        raise CopyError(
            f"{path} cannot be read: it says what an earlier command wrote that was ended before it looked for what others "
            "wrote meanwhile. Compare the group with its newest backup (restore --dry-run), and remove this file"
        ) from None


def save_due(path: Path, due: DueLook) -> None:
    """Write a note."""
    write_private_file(path, _FORM.dump_json(due))
