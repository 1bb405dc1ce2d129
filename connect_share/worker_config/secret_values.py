"""Properties of a connector that look like secrets in clear text. Pure; returns names, never values.

Judged by the name, as Connect itself has no schema here, and by what a value looks like: too many rather than too few. A
value that refers to a config provider (``${file:...}``) is what it should be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from connect_share.worker_config.config_providers import has_reference, is_reference

_WORDS: Final = ("password", "passwd", "passphrase", "secret", "token", "credential", "jaas", "private")
SECRET_WORDS: Final = (
    *_WORDS,
    "key.pem",
    "keystore.key",
    "access.key",
    "api.key",
    "user.info",
    "sasl.username",
    "oauthbearer.config",
    "oauthbearer.extensions",
    "encryption.keys",
)


def is_secret_property(name: str) -> bool:
    """Return whether the value of a property must never be shown."""
    lowered = name.lower()
    return any(word in lowered for word in SECRET_WORDS)


_KEY_AT_END: Final = re.compile(
    r"(?:^|[._-])(?:api|access|account|shared|auth|encryption|master|license|pem)?[._-]?key$"
)
# Names that end with "key" and mean a field, a converter or a partitioning rule.
_HARMLESS_KEYS: Final = frozenset(
    {"record", "message", "partition", "routing", "primary", "sort", "foreign", "hash", "range", "document", "unique"}
)
# Endings of names that contain one of the words but hold a place or a kind, not a secret.
_HARMLESS_ENDINGS: Final = (".type", ".class", ".provider", ".location", ".path", ".file", ".filename", ".url", ".uri")
HIDDEN: Final = "[hidden]"
_HARMLESS_VALUES: Final = frozenset({"", "true", "false", "null", "none", HIDDEN})
_IN_A_VALUE: Final = re.compile(
    r"://[^/\s:@?]*:[^/\s@]+@"  # user:password@
    r"|[:/][^/\s:@]+/[^/\s@]+@"  # Oracle's user/password@
    r"|(?:password|passwd|pwd|secret|token|api_?key|access_?key|sig(?:nature)?)[\"']?[=:]"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY",
    re.IGNORECASE,
)

_PASSWORD_IN_URL: Final = re.compile(r"(://[^/\s:@?]*:)[^/\s@]+@")


def clear_text_secrets(config: Mapping[str, object]) -> list[str]:
    """Name the properties whose value is a secret that every reader of the topic can read."""
    return sorted(
        name
        for name, value in config.items()
        if isinstance(value, str) and not has_reference(value) and is_to_be_hidden(name, value)
    )


def is_to_be_hidden(name: str, value: object) -> bool:
    """Return whether a value has to be hidden on a screen.

    More than :func:`clear_text_secrets` names: what is beside a reference may be a secret too, and of lists and objects
    nothing is known.
    """
    if not isinstance(value, str):
        return isinstance(value, (dict, list))
    if value.strip().lower() in _HARMLESS_VALUES or is_reference(value):
        return False
    return _names_a_secret(name.lower()) or _IN_A_VALUE.search(value) is not None


def without_secrets(text: str, configs: Iterable[Mapping[str, Any] | None]) -> str:
    """Return a text such as a trace in which values are hidden that are to be hidden in these configurations."""
    values = [value for config in configs for name, value in (config or {}).items() if is_to_be_hidden(name, value)]
    secrets = {each for each in _texts_in(values) if each.strip().lower() not in _HARMLESS_VALUES}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _PASSWORD_IN_URL.sub(rf"\1{HIDDEN}@", text)


def _texts_in(values: list[Any]) -> Iterator[str]:
    """Yield texts, those in lists and objects, too: workers write none of these, and others can."""
    while values:
        value = values.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, (dict, list)):
            values += value.values() if isinstance(value, dict) else value


def _names_a_secret(name: str) -> bool:
    if name.endswith(_HARMLESS_ENDINGS):
        return False
    if any(word in name for word in _WORDS):
        return True
    if not _KEY_AT_END.search(name):
        return False
    before = re.split(r"[._-]", name.removesuffix("key").rstrip("._-"))[-1]
    return before not in _HARMLESS_KEYS
