"""``sasl.jaas.config``: one login module with its options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from connect_share.errors import ConfigError

# Java's JAAS configuration grammar: words, or quoted texts with backslash escapes.
_TOKEN: Final = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([=;])|([^\s=;"']+))""", re.DOTALL)
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})


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

    Source: ``JaasConfig``.
    """
    tokens = _tokens(text, property_name)
    words = [word for _, word in tokens]
    if len(words) < 3 or words[1].lower() not in _FLAGS or words[-1] != ";" or tokens[-1][0]:
        raise _malformed(property_name)
    options: dict[str, str] = {}
    position, end = 2, len(words) - 1
    while position < end:
        if position + 3 > end or words[position + 1] != "=" or tokens[position + 1][0]:
            raise _malformed(property_name)
        options[words[position]] = words[position + 2]
        position += 3
    return LoginModule(words[0], options)


def _tokens(text: str, property_name: str) -> list[tuple[bool, str]]:
    """Return (quoted, word) pairs."""
    tokens: list[tuple[bool, str]] = []
    position, text = 0, text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _malformed(property_name)
        quoted = match.group(1) if match.group(1) is not None else match.group(2)
        if quoted is not None:
            tokens.append((True, re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)))
        else:
            tokens.append((False, match.group(3) or match.group(4)))
        position = match.end()
    return tokens


def _malformed(property_name: str) -> ConfigError:
    return ConfigError(
        f'{property_name} is not of the form: <login module class> required name="value" ... ;',
        property_name=property_name,
    )
