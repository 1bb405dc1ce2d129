"""The output of a command: results go to stdout, everything else to stderr."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from connect_share.console.text import ELLIPSIS, bare_json_text, json_text, printable, table, truncated
from connect_share.errors import ConnectShareError


def unwritable(error: OSError) -> ConnectShareError:
    """Return the error for a result that cannot be written, for example to a file on a full disk."""
    return ConnectShareError(f"the result cannot be written: {error.strerror}")


class Output:
    """The streams on which one command prints its result, its notes and its error.

    Tables are cut to the terminal's width if stdout is one, else nothing is cut.
    """

    def __init__(
        self,
        command: str,
        form: str = "text",
        *,
        program: str = "connect-share",
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.command = command
        self.form = form
        self._program = program
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr
        self.width = shutil.get_terminal_size().columns if self._stdout.isatty() else None

    @property
    def is_json(self) -> bool:
        """Return whether results are to be JSON."""
        return self.form == "json"

    def json(self, members: Mapping[str, Any], *, bare: bool = False, on_one_line: bool = False) -> None:
        """Print a result as JSON; ``bare``: as another program takes it, see :func:`bare_json_text`."""
        if bare:
            text = bare_json_text(members, on_one_line=on_one_line)
        else:
            text = json_text(self.command, members, on_one_line=on_one_line)
        self._print(text, self._stdout)

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]], spare: Sequence[str] = ()) -> None:
        """Print a result as a table; a narrow terminal may do without ``spare`` columns."""
        self._print(table(headers, rows, self.width, spare), self._stdout)

    def redraw(
        self, title: str, headers: Sequence[str], rows: Sequence[Sequence[object]], spare: Sequence[str] = ()
    ) -> None:
        """Print a table in place of the one before, as much of it as a terminal holds; behind it if stdout is none."""
        if not self._stdout.isatty():
            self._print(f"{printable(title)}\n{table(headers, rows)}\n", self._stdout)
            return
        width, height = shutil.get_terminal_size()
        lines = [truncated(printable(title), width), *table(headers, rows[:height], width, spare).split("\n")]
        if len(lines) >= height or len(rows) > height:
            lines = [*lines[: max(1, height - 2)], ELLIPSIS]
        self._print("\x1b[H\x1b[2J" + "\n".join(lines), self._stdout)

    def lines(self, *lines: str) -> None:
        """Print result lines; they are escaped here and never cut."""
        for line in lines:
            self._print(printable(line), self._stdout)

    def note(self, text: str) -> None:
        """Print something that is not the result."""
        self._print(f"{self._program}: {printable(text)}", self._stderr)

    def error(self, error: ConnectShareError) -> int:
        """Print an error in the form asked for; return the exit code."""
        if self.is_json:
            members: dict[str, Any] = {
                "type": type(error).__name__,
                "message": str(error),
                "retriable": error.retriable,
            }
            for name in ("property_name", "topic", "partition", "offset", "name", "code"):
                value = getattr(error, name, None)
                if value is not None:
                    members[name] = value
            self._print(json_text(self.command, {"error": members}), self._stderr)
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
                return  # there is no other place to report it
            if isinstance(error, BrokenPipeError):
                raise
            raise unwritable(error) from error
