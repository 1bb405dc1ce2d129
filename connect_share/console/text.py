"""Text that is safe to show, tables that fit the terminal, and stable JSON.

Everything that may come from a topic passes :func:`printable` (text) or is ASCII (JSON): a co-tenant wrote it, and a
terminal acts on control characters.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from connect_share.model.connect_json import dumps

ELLIPSIS: Final = "…"

_DEEPEST: Final = 8
"""Levels of results as JSON: two more than a result has, for each costs every line of it two blanks."""
_GAP: Final = "  "
_NARROWEST_COLUMN: Final = 12


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


def json_text(command: str, members: Mapping[str, Any], *, on_one_line: bool = False) -> str:
    """Write a result as JSON: sorted members, ASCII only, with ``_command`` and ``_version``."""
    result = {"_command": command, "_version": version("connect-share"), **members}
    return json.dumps(_finite(result), indent=None if on_one_line else 2, sort_keys=True, allow_nan=False)


def bare_json_text(members: Mapping[str, Any], *, on_one_line: bool = False) -> str:
    """Write JSON that another program takes as it is: its members alone, in their own order, ASCII only."""
    return json.dumps(_finite(members), indent=None if on_one_line else 2, allow_nan=False)


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
