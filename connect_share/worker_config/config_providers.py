"""``${provider:path:key}`` in worker files (KIP-297)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from connect_share.errors import ConfigError
from connect_share.worker_config.client_settings import refusal
from connect_share.worker_config.command_provider import COMMAND_PROVIDER_CLASS, from_command
from connect_share.worker_config.properties import load_properties, read_whole

_PACKAGE: Final = "org.apache.kafka.common.config.provider."

_Lookup = Callable[[str, str, Mapping[str, str]], str | None]


class Reference(NamedTuple):
    """One ``${provider:key}`` or ``${provider:path:key}`` in a text, from ``start`` to before ``end``."""

    start: int
    end: int
    provider: str
    path: str
    key: str


def references(text: str) -> Iterator[Reference]:
    """Yield the references that Java finds in a text, in order.

    Read once from left to right: Java's own expression takes cubic time for texts that any writer may put into a topic.

    Source: ``ConfigTransformer.DEFAULT_PATTERN``.
    """
    start = text.find("${")
    while start >= 0 and (end := text.find("}", start)) >= 0:
        provider, *rest = text[start + 2 : end].split(":", 2)
        if rest:
            yield Reference(start, end + 1, provider, rest[0] if len(rest) == 2 else "", rest[-1])
        # A reference that begins inside this text has no colon either.
        start = text.find("${", end + 1)


def has_reference(text: str) -> bool:
    """Return whether a text has a reference to a config provider."""
    return next(references(text), None) is not None


def is_reference(text: str) -> bool:
    """Return whether a text is one reference and nothing else."""
    first = next(references(text), None)
    return first is not None and (first.start, first.end) == (0, len(text))


def _from_file(path: str, key: str, parameters: Mapping[str, str]) -> str | None:
    _check_allowed(path, parameters)
    return load_properties(path, encoding="utf-8").get(key)


def _from_directory(path: str, key: str, parameters: Mapping[str, str]) -> str | None:
    _check_allowed(path, parameters)
    file = Path(path) / key
    if file.name != key:  # Java lists the files of the directory: no key leads out of it
        return None
    try:
        return read_whole(file).decode("utf-8") if file.is_file() else None
    except OSError as exc:
        raise ConfigError(f"cannot read {file}: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{file} is not UTF-8 text at byte {exc.start}") from None


def _from_environment(_path: str, key: str, parameters: Mapping[str, str]) -> str | None:
    pattern = parameters.get("allowlist.pattern", "").strip()
    if pattern:
        try:
            allowed = re.fullmatch(pattern, key) is not None
        except re.error as exc:
            raise ConfigError(f"allowlist.pattern is not a regular expression: {exc}") from exc
        if not allowed:
            return None
    try:
        return os.environ.get(key)
    except UnicodeEncodeError:  # no variable can have such a name
        return None


def _check_allowed(path: str, parameters: Mapping[str, str]) -> None:
    allowed = [part.strip() for part in parameters.get("allowed.paths", "").split(",") if part.strip()]
    if allowed:
        wanted = Path(os.path.normpath(Path(path).absolute()))
        if not any(wanted.is_relative_to(os.path.normpath(root)) for root in allowed):
            raise ConfigError(f"{path} is outside the allowed.paths of the config provider")


_PROVIDERS: Final[Mapping[str, _Lookup]] = {
    _PACKAGE + "FileConfigProvider": _from_file,
    _PACKAGE + "DirectoryConfigProvider": _from_directory,
    _PACKAGE + "EnvVarConfigProvider": _from_environment,
    COMMAND_PROVIDER_CLASS: from_command,
}

DECLARED_PROVIDERS: Final[Mapping[str, str]] = {
    "config.providers": "file,directory,env",
    "config.providers.file.class": _PACKAGE + "FileConfigProvider",
    "config.providers.directory.class": _PACKAGE + "DirectoryConfigProvider",
    "config.providers.env.class": _PACKAGE + "EnvVarConfigProvider",
}
"""The lines of a worker file that declare Kafka's providers under their usual names."""


def resolve_variables(properties: Mapping[str, str]) -> dict[str, str]:
    """Replace ``${provider:path:key}`` by what the provider declared in ``config.providers`` has.

    References to providers that are not declared stay as they are, as in Java. A key that the provider does not have
    is refused; Java would use the reference itself as the value.

    Raises:
        ConfigError: names the property whose reference cannot be followed, or the provider class not known here.

    Source: ``AbstractConfig.resolveConfigVariables``, ``ConfigTransformer``.
    """
    names = [name.strip() for name in properties.get("config.providers", "").split(",") if name.strip()]
    classes = {name: properties.get(f"config.providers.{name}.class", "").strip() for name in names}

    def resolve(property_name: str, provider: str, path: str, key: str) -> str:
        lookup = _PROVIDERS.get(classes[provider])
        if lookup is None:
            raise refusal(
                property_name,
                f": config provider {provider!r} is of class {classes[provider] or '(none)'!r}, which "
                f"cannot be run here; use the file, directory, environment or command provider",
            )
        prefix = f"config.providers.{provider}.param."
        parameters = {name.removeprefix(prefix): text for name, text in properties.items() if name.startswith(prefix)}
        try:
            value = lookup(path, key, parameters)
        except ConfigError as exc:
            raise refusal(property_name, f": config provider {provider!r}: {exc}") from exc
        if value is None:
            raise ConfigError(
                f"{property_name}: config provider {provider!r} has nothing under {key!r}"
                + (f" in {path}" if path else ""),
                property_name=property_name,
            )
        return value

    def replaced(property_name: str, text: str) -> str:
        parts, done = [], 0
        for one in references(text):
            if one.provider in classes:
                parts += [text[done : one.start], resolve(property_name, one.provider, one.path, one.key)]
                done = one.end
        return "".join([*parts, text[done:]])

    return {
        name: value if name.startswith("config.providers") else replaced(name, value)
        for name, value in properties.items()
    }
