"""Files of a migration: readable by their owner only, and never half-written."""

from __future__ import annotations

from pathlib import Path

from connect_share import private_file
from migrator.errors import PlanFileError


def write_plan_file(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` as one step, mode 0600: a reader sees the old file or the new one.

    Raises:
        PlanFileError: it cannot be written; what was there before is untouched.
    """
    try:
        private_file.write_private_file(path, text.encode())
    except OSError as error:
        raise PlanFileError(
            f"{path} cannot be written ({error.strerror}): make room or choose another place"
        ) from error


def read_plan_file(path: Path, what: str) -> str:
    """Return the text of a plan or manifest.

    Raises:
        PlanFileError: missing, unreadable or not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8")  # no newline is translated: a plan is hashed
    except FileNotFoundError:
        raise PlanFileError(f"{what} {path} does not exist") from None
    except OSError as error:
        raise PlanFileError(f"{what} {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlanFileError(f"{what} {path} is no UTF-8 text") from error
