"""``sasl.jaas.config``: one login module with its options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from connect_share.worker_config.client_settings import refusal

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
# Anything that java.io.StreamTokenizer does not accept in an unquoted word is accepted here: more than in Java, not less.
_TOKEN: Final = re.compile(
    r"""[ \t\n\r\f]+ | //[^\r\n]* | /\*.*?(?:\*/|\Z)
    | "(?P<double>(?:[^"\\\r\n]|\\.)*)"
    | '(?P<single>(?:[^'\\\r\n]|\\.)*)'
    | (?P<sign>[=;])
    | (?P<word>[^ \t\n\r\f=;"']+)
    """,
    re.DOTALL | re.VERBOSE,
)
_EQUALS: Final = (False, "=")
_END: Final = (False, ";")


@dataclass(frozen=True)
class LoginModule:
    """A login module; its options are secrets."""

    class_name: str
    options: dict[str, str] = field(repr=False)

    @property
    def short_name(self) -> str:
        """Class name without its package."""
        return self.class_name.rpartition(".")[2]


def parse_jaas(text: str) -> LoginModule:
    """Parse ``sasl.jaas.config``: ``<class> <flag> name="value" ... ;``.

    Raises:
        ConfigError: not of that form; the text is never shown.

    Source: ``JaasConfig``, which reads with ``java.io.StreamTokenizer``.
    """
    malformed = refusal("sasl.jaas.config", 'is not of the form: <login module class> required name="value" ... ;')
    tokens = _tokens(text)
    if tokens is None or len(tokens) < 3 or len(tokens) % 3 or tokens[-1] != _END or tokens[1][1].lower() not in _FLAGS:
        raise malformed
    options: dict[str, str] = {}
    for name, equals, value in zip(tokens[2:-1:3], tokens[3:-1:3], tokens[4:-1:3], strict=True):
        if equals != _EQUALS or {name, value} & {_EQUALS, _END}:
            raise malformed
        options[name[1]] = value[1]
    return LoginModule(tokens[0][1], options)


def _tokens(text: str) -> list[tuple[bool, str]] | None:
    """Return (quoted, word) pairs; ``=`` and ``;`` are words of their own; ``None``: a quote is not closed in its line."""
    tokens: list[tuple[bool, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        position = match.end()
        if match.lastgroup in ("single", "double"):
            tokens.append((True, _ESCAPE.sub(_unescaped, match[match.lastgroup])))
        elif match.lastgroup is not None:
            tokens.append((False, match[0]))
    return tokens


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)
