"""The output of a command: results go to stdout, everything else to stderr.

Text that is safe to show, tables that fit the terminal, and stable JSON: everything that may come from a topic passes
:func:`printable` (text) or is ASCII (JSON), for a co-tenant wrote it, and a terminal acts on control characters.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final, NamedTuple, TextIO

from connect_share.errors import ConnectShareError
from connect_share.model.connect_json import dumps

ELLIPSIS: Final = "…"

_DEEPEST: Final = 8
"""Levels of results as JSON: two more than a result has, for each costs every line of it two blanks."""
_GAP: Final = "  "
_NARROWEST_COLUMN: Final = 12
_BAR_WIDTH: Final = 24
_BAR_EVERY_S: Final = 0.1
_LINE_EVERY_S: Final = 2.0


def printable(text: str) -> str:
    r"""Escape what a terminal, or the reader's eye, could be led astray by: ``\x1b``, ``\u202e``, ``\n`` and the like."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def plural(number: int, thing: str) -> str:
    """Return a count for people: ``1 record``, ``2,000 records``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


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


def table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], width: int | None = None, spare: Sequence[str] = ()
) -> str:
    """Lay out rows under headers; cells are escaped here.

    If columns would become too narrow to read, ``spare`` ones are left out, the first of them first, until nothing has to be
    cut; if that is not enough, each row becomes a block of lines, one line for each column.

    ``None`` shows as a dash. The widest cells are cut to fit ``width`` columns; ``None``: nothing is cut.
    """
    cells = [["-" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    widths = [
        max([text_width(title), *(text_width(row[column]) for row in cells)]) for column, title in enumerate(headers)
    ]
    if width is not None and not _narrow(rooms := list(widths), width):
        kept = _kept(headers, widths, width, spare)
        if kept is None:
            return _as_list(headers, cells)
    else:
        kept = range(len(headers))
        widths = widths if width is None else rooms
    lines = []
    for row in [list(headers), *cells]:
        parts = []
        for column in kept:
            shown = truncated(row[column], widths[column])
            parts.append(shown + " " * (widths[column] - text_width(shown)))
        lines.append(_GAP.join(parts).rstrip())
    return "\n".join(lines)


def tab_separated(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows for scripts, a tab between two cells; ``None`` is empty, and control characters are escaped."""
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    return "\n".join("\t".join(row) for row in [list(headers), *cells])


def _kept(headers: Sequence[str], widths: Sequence[int], width: int, spare: Sequence[str]) -> Sequence[int] | None:
    """Return the columns that fit uncut, without some of the spare ones; ``None``: without all of them it is too wide."""
    kept = list(range(len(headers)))
    for title in spare:
        kept.remove(headers.index(title))
        if sum(widths[column] + len(_GAP) for column in kept) - len(_GAP) <= width:
            return kept
    return None


def _narrow(widths: list[int], width: int) -> bool:
    """Narrow the widest column first, in place; return whether all columns are still wide enough to be read."""
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


def json_text(command: str | None, members: Mapping[str, Any], *, on_one_line: bool = False) -> str:
    """Write a result as JSON, ASCII only: sorted members, with ``_command`` and ``_version``.

    Without a command it is what another program takes as it is: the members alone, in their own order.
    """
    origin = {} if command is None else {"_command": command, "_version": version("connect-share")}
    indent = None if on_one_line else 2
    return json.dumps(_finite({**origin, **members}), indent=indent, sort_keys=command is not None, allow_nan=False)


def _finite(value: Any, depth: int = 0) -> Any:
    """Return the value with texts for numbers that JSON does not have, and for what is nested too deeply."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (Mapping, list, tuple)) and depth == _DEEPEST:
        return dumps(value).decode("utf-8", "surrogatepass")
    if isinstance(value, Mapping):
        return {str(name): _finite(item, depth + 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item, depth + 1) for item in value]
    return value


class Table(NamedTuple):
    """A table among the lines of a result; a narrow terminal may do without ``spare`` columns, the first of them first."""

    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    spare: Sequence[str] = ()


@dataclass(frozen=True)
class Result:
    """What a command has found or done.

    Attributes:
        members: of the JSON object.
        lines: the same for people; they are not asked for if JSON is printed.
        bare: the JSON is what another program takes, without members that say where it comes from.
        title: how much there is, for people.
        notes: what else is to be said on stderr.
    """

    members: Mapping[str, Any] = field(repr=False)
    lines: Iterable[str | Table] = field(default=(), repr=False)
    code: int = 0
    bare: bool = False
    title: str | None = None
    notes: Sequence[str] = ()


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
        self.is_json = form == "json"
        self.is_tsv = False
        self._program = program
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr
        self.width = shutil.get_terminal_size().columns if self._stdout.isatty() else None

    def json(self, members: Mapping[str, Any], *, bare: bool = False, on_one_line: bool = False) -> None:
        """Print a result as JSON; ``bare``: as another program takes it, see :func:`json_text`."""
        self._print(json_text(None if bare else self.command, members, on_one_line=on_one_line), self._stdout)

    def show(self, result: Result) -> int:
        """Print a result in the form asked for; return the exit code."""
        if self.is_json:
            self.json(result.members, bare=result.bare)
        else:
            for line in result.lines:
                if isinstance(line, Table) and self.is_tsv:
                    self._print(tab_separated(line.headers, line.rows), self._stdout)
                elif isinstance(line, Table):
                    self._print(table(line.headers, line.rows, self.width, line.spare), self._stdout)
                else:
                    self.lines(line)
            if result.title is not None:
                self.note(result.title)
        self.note(*result.notes)
        return result.code

    def show_again(self, result: Result) -> None:
        """Print a list in place of the one before, as much of it as a terminal holds; behind it if stdout is none."""
        if self.is_json:
            self.json(result.members, bare=result.bare, on_one_line=True)
        else:
            self._redraw(result.title or "", *(line for line in result.lines if isinstance(line, Table)))
        self.note(*result.notes)

    def _redraw(self, title: str, found: Table) -> None:
        headers, rows, spare = found
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

    def note(self, *texts: str) -> None:
        """Print what is not the result, in the place of a bar that may stand on a terminal."""
        bar = "\r\x1b[K" if self._stderr.isatty() else ""
        for text in texts:
            self._print(f"{bar}{self._program}: {printable(text)}", self._stderr)

    def error(self, error: ConnectShareError) -> int:
        """Print an error in the form asked for; return the exit code."""
        if self.is_json:
            members = {"type": type(error).__name__, "message": str(error), "retriable": error.retriable}
            names = ("property_name", "topic", "partition", "offset", "name", "code")
            more = {name: value for name in names if (value := getattr(error, name, None)) is not None}
            self._print(json_text(self.command, {"error": members | more}), self._stderr)
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


@dataclass
class ProgressLine(AbstractContextManager["ProgressLine"]):
    """The progress of phases on stderr, with rate and time left: a bar on a terminal, JSON lines otherwise.

    A context manager: its end closes the last phase.
    """

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    _what: str = ""
    _total: int = 0
    _done: int = 0
    _started_s: float = 0.0
    _shown_s: float = 0.0
    _follows: bool = False

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._what and kind is None:
            self._show(ended=True)
        elif (self._what or self._follows) and self.stream.isatty():
            self._print("\n")  # an error leaves the bar where it was

    def phase(self, what: str, total: int) -> None:
        """Begin a phase of ``total`` offsets; fewer records may come."""
        if self._what:
            self._show(ended=True)
        self._what, self._total, self._done = what, total, 0
        self._started_s = self._shown_s = time.monotonic()
        self._show(ended=False)

    def advance(self, records: int) -> None:
        """Report further records."""
        self._done += records
        if self._is_due():
            self._show(ended=False)

    def follow(self, text: str, members: Mapping[str, object]) -> None:
        """Show where a step without an end is: the text on a terminal, else the members."""
        if self._what:
            self._show(ended=True)
        if self._is_due() or not self._follows:
            self._print(f"\r\x1b[K{text}" if self.stream.isatty() else f"{json.dumps(members)}\n")
        self._what, self._follows = "", True

    def _is_due(self) -> bool:
        now_s = time.monotonic()
        is_due = now_s - self._shown_s >= (_BAR_EVERY_S if self.stream.isatty() else _LINE_EVERY_S)
        self._shown_s = now_s if is_due else self._shown_s
        return is_due

    def _show(self, *, ended: bool) -> None:
        elapsed_s = max(time.monotonic() - self._started_s, 1e-6)
        rate = self._done / elapsed_s
        if not self.stream.isatty():
            line = {
                "phase": self._what,
                "records": self._done,
                "of_at_most": self._total,
                "elapsed_s": round(elapsed_s, 3),
                "ended": ended,
            }
            self._print(f"{json.dumps(line)}\n")
            return
        end = "\n" if ended else ""
        if not self._total:
            self._print(f"\r\x1b[K{self._what}{end}")
            return
        share = 1.0 if ended else min(self._done / self._total, 1.0)
        filled = round(share * _BAR_WIDTH)
        left = "" if ended or not rate else f", {max(self._total - self._done, 0) / rate:.0f} s left"
        bar = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {self._done:,} records, {rate:,.0f}/s{left}"
        self._print(f"\r\x1b[K{self._what} {bar}{end}")

    def _print(self, text: str) -> None:
        with suppress(OSError):  # a closed stderr must not end the work
            print(text, end="", file=self.stream, flush=True)
