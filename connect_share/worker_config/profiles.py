"""Profiles: named connection settings in a TOML file, for command lines.

.. code-block:: toml

    [production]
    bootstrap.servers = "kafka-1.example.com:9094"
    security.protocol = "SASL_SSL"
    sasl.mechanism = "SCRAM-SHA-512"
    sasl.jaas.config = "${file:/home/me/kafka.secrets:jaas}"

The config providers ``file``, ``directory`` and ``env`` are declared.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from connect_share.errors import ConfigError
from connect_share.worker_config.client_settings import refusal
from connect_share.worker_config.client_translation import is_java_client_property
from connect_share.worker_config.config_providers import DECLARED_PROVIDERS, resolve_variables
from connect_share.worker_config.properties import read_whole
from connect_share.worker_config.secret_values import clear_text_secrets
from connect_share.worker_config.worker import connecting_with

PROFILE_VARIABLE: Final = "CONNECT_SHARE_PROFILE"
FILE_VARIABLE: Final = "CONNECT_SHARE_PROFILES"
_MOST_BYTES: Final = 1 << 20
_DEEPEST: Final = 20
_OTHERS_READ: Final = 0o044


def profiles_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the profiles are: ``$CONNECT_SHARE_PROFILES``, or ``~/.config/connect-share/profiles.toml``."""
    if named := environment.get(FILE_VARIABLE):
        return Path(named)
    home = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return Path(home) / "connect-share" / "profiles.toml"


@contextmanager
def profile_in_use(name: str | None) -> Iterator[None]:
    """Let the settings of a profile hold for a command; ``None``: of the one in ``$CONNECT_SHARE_PROFILE``, if any.

    Raises:
        ConfigError: as :func:`load_profile`.
    """
    name = name or os.environ.get(PROFILE_VARIABLE)
    with connecting_with(load_profile(name, profiles_file()) if name else {}):
        yield


def load_profile(name: str, path: Path) -> dict[str, str]:
    """Return the connection settings of a profile, in Java's names; references to config providers are resolved.

    Raises:
        ConfigError: the file cannot be read, has no such profile, says what is no connection setting, or others may read a
            secret in it.
    """
    profiles = _tables(path)
    profile = profiles.get(name)
    if not isinstance(profile, dict):
        raise ConfigError(f"{path} has no profile {name!r}; it has: {', '.join(sorted(profiles)) or 'none'}")
    given = dict(_flat(profile))
    secrets = clear_text_secrets(given)
    if secrets and path.stat().st_mode & _OTHERS_READ:
        raise ConfigError(f"{path} holds a secret ({secrets[0]}) that others can read; run: chmod 600 {path}")
    for setting in given:
        if not _is_connection(setting):
            raise ConfigError(
                f"{path}, profile {name}: {setting} is no connection setting; what a worker does belongs in its file",
                property_name=setting,
            )
    try:
        resolved = resolve_variables({**given, **DECLARED_PROVIDERS})
    except ConfigError as error:
        raise ConfigError(f"{path}, profile {name}: {error}", property_name=error.property_name) from None
    return {setting: resolved[setting] for setting in given}


def _is_connection(setting: str) -> bool:
    return setting == "bootstrap.servers" or is_java_client_property(setting)


def _tables(path: Path) -> dict[str, Any]:
    data = read_whole(path, f"; write a table for each profile there, or name another file in ${FILE_VARIABLE}")
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"cannot read {path}: it is longer than {_MOST_BYTES >> 20} MiB")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # a line of it may be a secret: only the place is shown
        place = str(error).rpartition("(")[2].rstrip(")") if isinstance(error, tomllib.TOMLDecodeError) else "not UTF-8"
        raise ConfigError(f"{path} is not TOML ({place})") from None


def _flat(table: Mapping[str, Any], before: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield settings by their whole names: TOML takes ``a.b = 1`` for a table in a table."""
    if depth > _DEEPEST:
        raise ConfigError("a profile is nested too deeply; no setting has such a name")
    for key, value in table.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.", depth + 1)
        elif isinstance(value, bool):
            yield name, str(value).lower()
        elif isinstance(value, (str, int)):
            yield name, str(value)
        else:
            raise refusal(name, "has to be a text, a whole number, true or false")
