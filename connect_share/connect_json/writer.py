"""Writer: the bytes of ``JsonConverter.fromConnectData`` (Jackson 2.16, ``schemas.enable=false``)."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

from connect_share.connect_json.numbers import java_double_text
from connect_share.errors import ValueFormatError

JSON_NULL: Final = b"null"
"""JSON's null, four bytes: a value, not a tombstone."""

_INT64: Final = range(-(1 << 63), 1 << 63)
_SHORT: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
# Jackson writes everything else as UTF-8, but characters above U+FFFF as two escapes, lone surrogates as one.
_ESCAPED: Final = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    short = _SHORT.get(character)
    if short is not None:
        return short
    code = ord(character)
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"
    return f"\\u{code:04X}"


def _string(text: str) -> str:
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _write(value: Any, out: list[str]) -> None:
    if value is None:
        out.append("null")
    elif isinstance(value, str):
        out.append(_string(value))
    elif isinstance(value, bool):
        out.append("true" if value else "false")
    elif isinstance(value, int):
        if value not in _INT64:
            raise ValueFormatError("an integer does not fit into 64 bits, which is all Connect has")
        out.append(str(int(value)))
    elif isinstance(value, float):
        text = java_double_text(value)
        out.append(text if text is not None else _not_finite(value))
    elif isinstance(value, Mapping):
        _write_map(value, out)
    elif isinstance(value, (list, tuple)):
        out.append("[")
        for index, item in enumerate(value):
            if index:
                out.append(",")
            _write(item, out)
        out.append("]")
    elif isinstance(value, (bytes, bytearray, memoryview)):
        out.append('"' + base64.b64encode(bytes(value)).decode("ascii") + '"')
    else:
        raise ValueFormatError(f"a value of type {type(value).__name__} has no form in Connect's JSON")


def _write_map(value: Mapping[Any, Any], out: list[str]) -> None:
    if not all(isinstance(name, str) for name in value):
        # A schemaless map with other keys becomes an array of pairs.
        _write([[name, item] for name, item in value.items()], out)
        return
    out.append("{")
    for index, (name, item) in enumerate(value.items()):
        out.append("," + _string(name) + ":" if index else _string(name) + ":")
        _write(item, out)
    out.append("}")


def _not_finite(value: float) -> str:
    if value != value:  # noqa: PLR0124 - NaN is the one number that differs from itself
        return '"NaN"'
    return '"Infinity"' if value > 0 else '"-Infinity"'


def dumps(value: Any) -> bytes:
    r"""Serialise a schemaless value, byte for byte as Connect does.

    Compact, UTF-8, members in the mapping's order; ``"\u001F"`` with upper-case hex, characters above U+FFFF as two
    escapes; doubles in Java's form (``1.0E7``), NaN and infinities as strings, bytes as base64, a map whose keys are
    not all strings as an array of pairs. ``None`` gives ``null``; a tombstone is the absence of a value.

    Raises:
        ValueFormatError: a type or an integer Connect does not know, or nesting too deep.

    Source: ``JsonConverter``, ``JsonSerializer``.
    """
    out: list[str] = []
    try:
        _write(value, out)
    except RecursionError as exc:
        raise ValueFormatError("a value is nested too deeply to be written as JSON") from exc
    return "".join(out).encode("utf-8")
