"""Files of a migration: readable by their owner only, and never half-written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from migrator.errors import PlanFileError


def write_private_file(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` as one step, mode 0600: a reader sees the old file or the new one.

    Raises:
        PlanFileError: it cannot be written; what was there before is untouched.
    """
    data = text.encode()
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        raise PlanFileError(
            f"{path} cannot be written ({error.strerror}): make room or choose another place"
        ) from error


def _sync_folder(folder: Path) -> None:
    """Make the rename itself survive a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_private_file(path: Path, what: str) -> str:
    """Return the text of a plan or manifest.

    Raises:
        PlanFileError: missing, unreadable or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PlanFileError(f"{what} {path} does not exist") from None
    except OSError as error:
        raise PlanFileError(f"{what} {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlanFileError(f"{what} {path} is no UTF-8 text") from error
