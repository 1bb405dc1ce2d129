"""What commands print: tables that fit the terminal, stable JSON, errors, exit codes.

Everything that may come from a topic passes :func:`printable` (text) or is ASCII (JSON): a co-tenant wrote it, and a
terminal acts on control characters. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, TextIO

from connect_share.connect_json import dumps
from connect_share.errors import ConnectShareError

ELLIPSIS: Final = "…"
HIDDEN: Final = "[hidden]"
PLAIN: Final = "(plain)"
"""Stands for the cluster with plain keys; no cluster group id can be written like this."""

_DEEPEST: Final = 8
"""Levels of results as JSON: two more than a result has, for each costs every line of it two blanks."""
_GAP: Final = "  "
_NARROWEST_COLUMN: Final = 12


def unwritable(error: OSError) -> ConnectShareError:
    """Give the error for a result that cannot be written to where it was sent, such as a file on a full disk."""
    return ConnectShareError(f"the result cannot be written: {error.strerror}")


def printable(text: str) -> str:
    r"""Escape what a terminal, or the reader's eye, could be led astray by: ``\x1b``, ``\u202e``, ``\n`` and the like."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def text_width(text: str) -> int:
    """Number of terminal columns that printable text takes."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def truncated(text: str, width: int) -> str:
    """Cut printable text to ``width`` columns; what was cut shows as an ellipsis."""
    if text_width(text) <= width:
        return text
    taken, used = [], 0
    for character in text:
        used += _character_width(character)
        if used > width - 1:
            break
        taken.append(character)
    return "".join(taken) + ELLIPSIS


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], width: int | None = None) -> str:
    """Lay out rows under headers; cells are escaped here.

    Where columns would be cut to stumps each row becomes lines of its own, one for each column, whole.

    Args:
        headers: titles of the columns.
        rows: cells; ``None`` shows as a dash.
        width: columns of the terminal, the widest cells are cut to fit; ``None``: nothing is cut.
    """
    cells = [["-" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    widths = [
        max([text_width(title), *(text_width(row[column]) for row in cells)]) for column, title in enumerate(headers)
    ]
    if width is not None and not _narrow(widths, width):
        return _as_list(headers, cells)
    lines = []
    for row in [list(headers), *cells]:
        parts = []
        for cell, room in zip(row, widths, strict=True):
            shown = truncated(cell, room)
            parts.append(shown + " " * (room - text_width(shown)))
        lines.append(_GAP.join(parts).rstrip())
    return "\n".join(lines)


def _narrow(widths: list[int], width: int) -> bool:
    """Take from the widest column first, in place; tells whether the rest is wide enough to be read."""
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= _NARROWEST_COLUMN:
            return False
        others = max([room for column, room in enumerate(widths) if column != widest] or [_NARROWEST_COLUMN])
        take = min(excess, max(1, widths[widest] - max(others, _NARROWEST_COLUMN)))
        widths[widest] -= take
        excess -= take
    return True


def _as_list(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    room = max(map(text_width, headers))
    blocks = [
        "\n".join(f"{title:<{room}}{_GAP}{cell}" for title, cell in zip(headers, row, strict=True)) for row in rows
    ]
    return "\n\n".join(blocks) or _GAP.join(headers)


def json_text(command: str, members: Mapping[str, Any]) -> str:
    """Write a result as JSON: sorted members, ASCII only, with ``_command`` and ``_version``."""
    told = {"_command": command, "_version": version("connect-share"), **members}
    return json.dumps(_finite(told), indent=2, sort_keys=True, allow_nan=False)


def _finite(value: Any, depth: int = 0) -> Any:
    """Return numbers that JSON does not have as texts, and as the text of its JSON what a stranger has nested deeper."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (Mapping, list, tuple)) and depth == _DEEPEST:
        return dumps(value).decode("utf-8", "surrogatepass")
    if isinstance(value, Mapping):
        return {str(name): _finite(item, depth + 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item, depth + 1) for item in value]
    return value


class Output:
    """Where one command puts its result, its notes and its error.

    Args:
        command: its words, such as ``get connectors``.
        form: ``text`` or ``json``.
        program: goes before notes and errors.
        stdout, stderr: the process's own by default.
        width: columns of the terminal; by default asked for when stdout is one, else nothing is cut.
    """

    def __init__(
        self,
        command: str,
        form: str = "text",
        *,
        program: str = "connect-share",
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        width: int | None = None,
    ) -> None:
        self.command = command
        self.form = form
        self._program = program
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr
        self.width = width
        if width is None and self._stdout.isatty():
            self.width = shutil.get_terminal_size().columns

    @property
    def is_json(self) -> bool:
        """Results are wanted as JSON."""
        return self.form == "json"

    def json(self, members: Mapping[str, Any]) -> None:
        """Print a result as JSON."""
        self._print(json_text(self.command, members), self._stdout)

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a result as a table."""
        self._print(table(headers, rows, self.width), self._stdout)

    def lines(self, *lines: str) -> None:
        """Print result lines; they are escaped here, and not cut: what is described is wanted whole."""
        for line in lines:
            self._print(printable(line), self._stdout)

    def note(self, text: str) -> None:
        """Tell something that is not the result."""
        self._print(f"{self._program}: {printable(text)}", self._stderr)

    def error(self, error: ConnectShareError) -> int:
        """Tell an error, in the form asked for; gives the exit code."""
        if self.is_json:
            told: dict[str, Any] = {"type": type(error).__name__, "message": str(error), "retriable": error.retriable}
            for name in ("property_name", "topic", "partition", "offset", "name", "code"):
                value = getattr(error, name, None)
                if value is not None:
                    told[name] = value
            self._print(json_text(self.command, {"error": told}), self._stderr)
        else:
            self.note(f"error: {error}")
        return error.exit_code

    def _print(self, text: str, stream: TextIO) -> None:
        encoding = getattr(stream, "encoding", None) or "utf-8"
        # A terminal that cannot show a letter gets its escape, not an exception.
        shown = text.encode(encoding, "backslashreplace").decode(encoding)
        try:
            print(shown, file=stream, flush=True)
        except OSError as error:
            if stream is self._stderr:
                return  # there is nowhere left to say so
            if isinstance(error, BrokenPipeError):
                raise
            raise unwritable(error) from error
