"""``${provider:path:key}`` in worker files (KIP-297)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from connect_share.errors import ConfigError
from connect_share.worker_config.properties import load_properties

VARIABLE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_PACKAGE: Final = "org.apache.kafka.common.config.provider."

_Lookup = Callable[[str, str, Mapping[str, str]], str | None]


def _from_file(path: str, key: str, parameters: Mapping[str, str]) -> str | None:
    _check_allowed(path, parameters)
    return load_properties(path, encoding="utf-8").get(key)


def _from_directory(path: str, key: str, parameters: Mapping[str, str]) -> str | None:
    _check_allowed(path, parameters)
    file = Path(path) / key
    if file.name != key:  # Java lists the files of the directory: no key leads out of it
        return None
    try:
        return file.read_text(encoding="utf-8") if file.is_file() else None
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
    return os.environ.get(key)


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
}


def resolve_variables(properties: Mapping[str, str]) -> dict[str, str]:
    """Replace ``${provider:path:key}`` by what the provider declared in ``config.providers`` has.

    References to providers that are not declared stay as they are, as in Java. A key that the provider does not have
    is refused, where Java would go on with the reference itself as the value.

    Raises:
        ConfigError: names the property whose reference cannot be followed, or the provider class not known here.

    Source: ``AbstractConfig.resolveConfigVariables``, ``ConfigTransformer``.
    """
    names = [name.strip() for name in properties.get("config.providers", "").split(",") if name.strip()]
    classes = {name: properties.get(f"config.providers.{name}.class", "").strip() for name in names}

    def resolve(property_name: str, match: re.Match[str]) -> str:
        provider, path, key = match.group(1), match.group(2) or "", match.group(3)
        if provider not in classes:
            return match.group()
        lookup = _PROVIDERS.get(classes[provider])
        if lookup is None:
            raise ConfigError(
                f"{property_name}: config provider {provider!r} is of class {classes[provider] or '(none)'!r}, which "
                f"cannot be run here; use the file, directory or environment provider",
                property_name=property_name,
            )
        prefix = f"config.providers.{provider}.param."
        parameters = {name.removeprefix(prefix): text for name, text in properties.items() if name.startswith(prefix)}
        try:
            value = lookup(path, key, parameters)
        except ConfigError as exc:
            raise ConfigError(
                f"{property_name}: config provider {provider!r}: {exc}", property_name=property_name
            ) from exc
        if value is None:
            raise ConfigError(
                f"{property_name}: config provider {provider!r} has nothing under {key!r}"
                + (f" in {path}" if path else ""),
                property_name=property_name,
            )
        return value

    return {
        name: VARIABLE.sub(lambda match, name=name: resolve(name, match), value)  # type: ignore[misc]
        if not name.startswith("config.providers")
        else value
        for name, value in properties.items()
    }
