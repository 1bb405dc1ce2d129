"""``sasl.jaas.config``: one login module with its options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from connect_share.errors import ConfigError

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL: Final = "01234567"
_LINE_END: Final = re.compile(r"[\r\n]")
# java.io.StreamTokenizer ends an unquoted word at these; everything else is more than Java would take, not less.
_ENDS_WORD: Final = frozenset(" \t\n\r\f=;\"'")


@dataclass(frozen=True)
class LoginModule:
    """A login module; its options are secrets."""

    class_name: str
    options: dict[str, str] = field(repr=False)

    @property
    def short_name(self) -> str:
        """Class name without its package."""
        return self.class_name.rpartition(".")[2]


def parse_jaas(text: str, property_name: str = "sasl.jaas.config") -> LoginModule:
    """Parse ``<class> <flag> name="value" ... ;``.

    Raises:
        ConfigError: not of that form; the text is never shown.

    Source: ``JaasConfig``, which reads with ``java.io.StreamTokenizer``.
    """
    tokens = _tokens(text, property_name)
    words = [word for _, word in tokens]
    if len(words) < 3 or words[1].lower() not in _FLAGS or words[-1] != ";" or tokens[-1][0]:
        raise _malformed(property_name)
    options: dict[str, str] = {}
    position, end = 2, len(words) - 1
    while position < end:
        if position + 3 > end or tokens[position + 1] != (False, "="):
            raise _malformed(property_name)
        if (False, words[position]) == tokens[position] and words[position] in ("=", ";"):
            raise _malformed(property_name)
        if tokens[position + 2] in ((False, "="), (False, ";")):
            raise _malformed(property_name)
        options[words[position]] = words[position + 2]
        position += 3
    return LoginModule(words[0], options)


def _tokens(text: str, property_name: str) -> list[tuple[bool, str]]:
    """Return (quoted, word) pairs; ``=`` and ``;`` are words of their own."""
    tokens: list[tuple[bool, str]] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character in " \t\n\r\f":
            position += 1
        elif text.startswith("//", position):
            end_of_line = _LINE_END.search(text, position)
            position = len(text) if end_of_line is None else end_of_line.start()
        elif text.startswith("/*", position):
            end = text.find("*/", position + 2)
            position = len(text) if end < 0 else end + 2
        elif character in "\"'":
            word, position = _quoted(text, position, property_name)
            tokens.append((True, word))
        elif character in "=;":
            tokens.append((False, character))
            position += 1
        else:
            start = position
            while position < len(text) and text[position] not in _ENDS_WORD:
                position += 1
            tokens.append((False, text[start:position]))
    return tokens


def _quoted(text: str, start: int, property_name: str) -> tuple[str, int]:
    r"""Read a quoted word: ``\n`` and the like, up to three octal digits, otherwise the character itself."""
    quote, position = text[start], start + 1
    out: list[str] = []
    while position < len(text):
        character = text[position]
        position += 1
        if character == quote:
            return "".join(out), position
        if character in "\r\n":
            break
        if character != "\\":
            out.append(character)
            continue
        if position == len(text):
            break
        character = text[position]
        position += 1
        if character not in _OCTAL:
            out.append(_ESCAPES.get(character, character))
            continue
        limit = position + (2 if character <= "3" else 1)
        digits = character
        while position < min(limit, len(text)) and text[position] in _OCTAL:
            digits += text[position]
            position += 1
        out.append(chr(int(digits, 8)))
    raise _malformed(property_name)


def _malformed(property_name: str) -> ConfigError:
    return ConfigError(
        f'{property_name} is not of the form: <login module class> required name="value" ... ;',
        property_name=property_name,
    )
