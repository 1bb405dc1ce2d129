"""Writer: the bytes of ``JsonConverter.fromConnectData`` (Jackson 2.16, ``schemas.enable=false``)."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from connect_share.errors import ValueFormatError

JSON_NULL: Final = b"null"
"""JSON's null, four bytes: a value, not a tombstone."""

MAX_DEPTH: Final = 1000
"""Jackson's limit of nesting, in both directions."""

_INT64: Final = range(-(1 << 63), 1 << 63)
_USUAL: Final = frozenset({str, int, float, bool, type(None), list})  # asking for an abstract class takes its time
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


def _double(value: float) -> str:
    """Return what ``Double.toString`` prints; NaN and infinities are strings.

    Positional from 1e-3 (inclusive) to 1e7 (exclusive), else ``d.dddE[-]n``; always a fraction digit.
    """
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    magnitude = abs(value)
    if magnitude == 0.0:
        return sign + "0.0"
    text = repr(float(magnitude))
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or "0") + len(whole) - 1
    if whole == "0":
        power = int(exponent or "0") - (len(fraction) - len(fraction.lstrip("0")) + 1)
    digits = digits.rstrip("0")
    if len(digits) == 1:
        # Java prints two digits at least and takes the closest two: 4.9E-324, where Python says 5e-324.
        mantissa, _, exponent = f"{magnitude:.1e}".partition("e")
        digits, power = mantissa.replace(".", "").rstrip("0") or "0", int(exponent)
    if 1e-3 <= magnitude < 1e7:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        padded = digits.ljust(power + 1, "0")
        return f"{sign}{padded[: power + 1]}.{padded[power + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if value not in _INT64:
            raise ValueFormatError("an integer does not fit into 64 bits, which is all Connect has")
        return str(int(value))
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return '"' + base64.b64encode(bytes(value)).decode("ascii") + '"'
    raise ValueFormatError(f"a value of type {type(value).__name__} has no form in Connect's JSON")


def _write(value: Any, *, in_order_of_names: bool) -> list[str]:
    """Return the pieces of the text; without recursion, because a value from a topic may be nested to any depth."""
    out: list[str] = []
    open_ones: list[tuple[Iterator[tuple[int, Any]], str]] = []
    while True:
        is_map = type(value) is dict or (type(value) not in _USUAL and isinstance(value, Mapping))
        if is_map and not all(isinstance(name, str) for name in value):
            # A schemaless map with other keys becomes an array of pairs.
            value, is_map = [[name, item] for name, item in value.items()], False
        if is_map or isinstance(value, (list, tuple)):
            if len(open_ones) == MAX_DEPTH:
                raise ValueFormatError(f"a value is nested more than {MAX_DEPTH} deep, which Connect does not write")
            inside = value
            if is_map:
                inside = sorted(value.items()) if in_order_of_names else value.items()
            opening, closing = "{}" if is_map else "[]"
            out.append(opening)
            open_ones.append((enumerate(inside), closing))
        else:
            out.append(_scalar(value))
        while open_ones:
            rest, closing = open_ones[-1]
            following = next(rest, None)
            if following is not None:
                number, value = following
                if number:
                    out.append(",")
                if closing == "}":
                    name, value = value
                    out.append(_string(name) + ":")
                break
            out.append(closing)
            open_ones.pop()
        else:
            return out


def same(one: Any, other: Any) -> bool:
    """Return whether two values that were read are equal, also where they are nested too deeply for ``==``."""
    try:
        return bool(one == other)
    except RecursionError:
        return dumps(one) == dumps(other)


def dumps(value: Any, *, in_order_of_names: bool = False) -> bytes:
    r"""Serialise a schemaless value, byte for byte as Connect does.

    Compact, UTF-8, members in the mapping's order; ``"\u001F"`` with upper-case hex, characters above U+FFFF as two
    escapes; doubles in Java's form (``1.0E7``), NaN and infinities as strings, bytes as base64, a map whose keys are
    not all strings as an array of pairs. ``None`` gives ``null``; a tombstone is the absence of a value.

    ``in_order_of_names`` sorts the members of maps, which Connect does not do, for what is to be compared.

    Raises:
        ValueFormatError: a type or an integer Connect does not know, or nesting deeper than Connect writes (1,000).

    Source: ``JsonConverter``, ``JsonSerializer``.
    """
    return "".join(_write(value, in_order_of_names=in_order_of_names)).encode("utf-8")
