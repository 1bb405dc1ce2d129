"""JSON exactly as Kafka Connect's ``JsonConverter`` (Jackson 2.16, ``schemas.enable=false``) writes and reads it."""

from __future__ import annotations

import base64
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from json import decoder
from typing import Any, Final

from pydantic_core import from_json

from connect_share.errors import ValueFormatError

JSON_NULL: Final = b"null"
"""JSON's null, four bytes: a value, not a tombstone."""

MAX_DEPTH: Final = 1000
"""Jackson's limit of nesting, in both directions."""

INT64: Final = range(-(1 << 63), 1 << 63)
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


def _double_text(value: float) -> str:
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


def _scalar_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if value not in INT64:
            raise ValueFormatError("an integer does not fit into 64 bits, which is all Connect has")
        return str(int(value))
    if isinstance(value, float):
        return _double_text(value)
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
            out.append(_scalar_text(value))
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


def member(value: Any, name: str, what: str = "the value") -> Any:
    """Return a member of what was read, ``None`` if it has none of this name; ``ValueFormatError``: it is no object."""
    if not isinstance(value, dict):
        raise ValueFormatError(f"{what} is not an object")
    return value.get(name)


_BOM: Final = b"\xef\xbb\xbf"
_SPACE: Final = " \t\r\n"
_SKIP: Final = re.compile(r"[ \t\r\n]*")
_SURE: Final = frozenset({str, bool, type(None)})
_MAX_NUMBER_DIGITS: Final = 1000
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_ZERO: Final = re.compile(r"[-.0]*[1-9]")
_LITERALS: Final[tuple[tuple[str, Any], ...]] = (("true", True), ("false", False), ("null", None))
_IDENTIFIER_CATEGORIES: Final = frozenset({"Pc", "Sc", "Mn", "Mc", "Nl", "Nd", "Cf"})


class _SyntaxError(Exception):
    """Position of the first character that cannot be read."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def _shortened(text: str) -> str:
    """Return a long number without zeros before it; refuse more digits than Jackson reads (sign, dot, letter are none)."""
    digits = text.lstrip("-0")
    if not digits[:1].isdigit():
        digits = "0" + digits
    if sum(map(str.isdigit, digits)) > _MAX_NUMBER_DIGITS:
        raise _SyntaxError(0)
    return text[: text.startswith("-")] + digits


def _integer(text: str) -> int:
    number = int(text if len(text) <= _MAX_NUMBER_DIGITS else _shortened(text))
    # Java takes the low 64 bits of what does not fit.
    return ((number + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def _double(text: str) -> float:
    number = float(text if len(text) <= _MAX_NUMBER_DIGITS else _shortened(text))
    # Java's decimal numbers have no negative zero; what is only too small for a double keeps its sign.
    return number if number or _NOT_ZERO.match(text) else 0.0


def loads(data: bytes | None) -> Any:
    """Parse the first JSON value in ``data``; what follows it is ignored, as Jackson does.

    Returns:
        ``None`` for a tombstone, for empty or blank bytes and for ``null``; integers wrapped to 64 bits; numbers with a
        fraction or an exponent as ``float``; objects as ``dict`` (the last of duplicate members wins).

    Raises:
        ValueFormatError: not JSON. The message gives the position and never the text.

    Source: ``JsonDeserializer`` (leading zeros allowed), ``JsonConverter``.
    """
    if not data:
        return None
    if (usual := _usual(data)) is not None:
        return usual
    if data.startswith(_BOM):
        data = data[len(_BOM) :]
    try:
        text = data.decode("utf-8")
        broken = False
    except UnicodeDecodeError:
        # Bytes behind the first value do not matter; inside it they do, see below.
        text = data.decode("utf-8", "surrogateescape")
        broken = True
    try:
        value, end = _parse(text)
    except _SyntaxError as exc:
        raise ValueFormatError(
            f"not JSON as Connect reads it: unexpected input at character {exc.position} of {len(text)}"
        ) from None
    if broken and any("\udc80" <= character <= "\udcff" for character in text[:end]):
        raise ValueFormatError("not JSON as Connect reads it: the text is not UTF-8")
    return value


def _usual(data: bytes) -> Any:
    """Return an object or array of which every reader of JSON makes the same; ``None`` for all else.

    It takes about a tenth of the time of the other way, and what Connect writes is nearly always of this kind.
    """
    try:
        value = from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        return None
    if type(value) not in (dict, list):
        return None
    inside = [value]
    for each in inside:  # grows meanwhile
        kind = type(each)
        if kind is dict:
            inside += each.values()
        elif kind is list:
            inside += each
        elif kind not in _SURE and not (kind is int and each in INT64):
            return None
    if len(data) > _MAX_NUMBER_DIGITS:
        # A number of too many digits may have been in a member that a later one of the same name replaced. Every member has
        # two quotes at least; if there are more than those of the names and texts seen (or escaped ones), the others decide.
        texts = sum(len(each) if type(each) is dict else type(each) is str for each in inside)
        if data.count(b'"') != 2 * texts:
            return None
    return value


def _skip(text: str, position: int) -> int:
    match = _SKIP.match(text, position)
    return position if match is None else match.end()


def _scalar(text: str, position: int, *, root: bool) -> tuple[Any, int]:
    """Read a string, number or literal that begins at ``position``."""
    character = text[position : position + 1]
    if character == '"':
        try:
            return decoder.scanstring(text, position + 1, True)  # type: ignore[attr-defined, no-any-return]
        except ValueError as exc:
            raise _SyntaxError(position) from exc
    for word, value in _LITERALS:
        if text.startswith(word, position):
            end = position + len(word)
            if not _ends_literal(text[end : end + 1]):
                raise _SyntaxError(end)
            return value, end
    match = _NUMBER.match(text, position)
    if match is None:
        raise _SyntaxError(position)
    end = match.end()
    following = text[end : end + 1]
    # At the root only white space ends a number; inside, whatever may follow a value is checked by the caller.
    if following and (following in ".eE" or (root and following not in _SPACE)):
        raise _SyntaxError(end)
    number = match.group()
    return (_double if match.group(1) or match.group(2) else _integer)(number), end


def _ends_literal(character: str) -> bool:
    """Jackson lets a literal end before anything that cannot go on a Java identifier, and before a dot."""
    if not character or character < "0":
        return True
    if "\udc80" <= character <= "\udcff":
        return False  # a byte that is not UTF-8, which Jackson decodes to look at it
    return not (character.isalpha() or unicodedata.category(character) in _IDENTIFIER_CATEGORIES)


def _parse(text: str) -> tuple[Any, int]:
    """Read one value without recursion; return it, and where it ends."""
    position = _skip(text, 0)
    if position == len(text):
        return None, position
    if text[position] not in "[{":
        return _scalar(text, position, root=True)
    containers: list[Any] = []
    names: list[str] = []  # the member being read, one for each open object
    root: Any = None
    while True:
        # Here a value begins.
        character = text[position : position + 1]
        opened = False
        if character in ("[", "{"):
            value: Any = [] if character == "[" else {}
            position = _skip(text, position + 1)
            opened = text[position : position + 1] != ("]" if character == "[" else "}")
            if len(containers) >= MAX_DEPTH:
                raise _SyntaxError(position)
            if not opened:
                position += 1
        else:
            value, position = _scalar(text, position, root=False)
        if not containers:
            root = value
        elif isinstance(containers[-1], list):
            containers[-1].append(value)
        else:
            containers[-1][names[-1]] = value
        if opened:
            containers.append(value)
            if isinstance(value, dict):
                name, position = _member_name(text, position)
                names.append(name)
            continue
        # Here a value has ended.
        while True:
            if not containers:
                return root, position
            position = _skip(text, position)
            character = text[position : position + 1]
            inside_list = isinstance(containers[-1], list)
            if character == ",":
                position = _skip(text, position + 1)
                if not inside_list:
                    names[-1], position = _member_name(text, position)
                break
            if character != ("]" if inside_list else "}"):
                raise _SyntaxError(position)
            containers.pop()
            if not inside_list:
                names.pop()
            position += 1


def _member_name(text: str, position: int) -> tuple[str, int]:
    """Read ``"name" :`` and return the name and where its value begins."""
    if text[position : position + 1] != '"':
        raise _SyntaxError(position)
    name, position = _scalar(text, position, root=False)
    position = _skip(text, position)
    if text[position : position + 1] != ":":
        raise _SyntaxError(position)
    return name, _skip(text, position + 1)
