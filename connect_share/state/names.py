"""Names as messages show them, and integers as Java counts them."""

from __future__ import annotations

from typing import Final, TypeGuard

_LONGEST_SHOWN: Final = 200
_ISO_CONTROL: Final = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0))))


def has_control_character(text: str) -> bool:
    """Return whether Java's ``Character.isISOControl`` holds for a character; Connect refuses such names."""
    return not _ISO_CONTROL.isdisjoint(text)


def shown(text: str) -> str:
    """Return a name that comes from a topic or a caller as messages show it: quoted, escaped and cut."""
    quoted = repr(text[:_LONGEST_SHOWN])
    whole = len(text) <= _LONGEST_SHOWN and len(quoted) <= _LONGEST_SHOWN + 2
    return quoted if whole else f"{quoted[: _LONGEST_SHOWN + 1]}... ({len(text)} characters)"


def to_int32(number: int) -> int:
    """Return the low 32 bits, as Java's ``intValue`` does."""
    return ((number + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether a parsed JSON value is an integer in Connect's sense (``1.0`` and ``true`` are not)."""
    return isinstance(value, int) and not isinstance(value, bool)
