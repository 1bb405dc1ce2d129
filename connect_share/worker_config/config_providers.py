"""Config providers of worker files: ``${file:...}``, ``${directory:...}``, ``${env:...}`` and ``${command:...}``.

A command::

    config.providers=command
    config.providers.command.class=connect_share.CommandConfigProvider
    config.providers.command.param.keys=/usr/bin/vault kv get -field=keys secret/connect

Only what the worker file says is run, without a shell. Nothing of the command line or of what it prints is in an error.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from connect_share.errors import ConfigError, refusal
from connect_share.model.keys import is_integer, shown
from connect_share.worker_config.properties import load_properties, read_whole

COMMAND_PROVIDER_CLASS: Final = "connect_share.CommandConfigProvider"
_TIMEOUT_S: Final = 10.0
_LARGEST_BYTES: Final = 65_536


def command_line(text: str) -> list[str]:
    """Return the program and its arguments, parted and quoted as in a shell, which expands nothing."""
    try:
        found = shlex.split(text)
    except ValueError:
        raise ConfigError("the command line has a quotation or an escape that does not end") from None
    if not found:
        raise ConfigError("the command line is empty")
    return found


def _printed(arguments: list[str]) -> bytes:
    if not hasattr(os, "killpg"):
        raise ConfigError("commands run on Linux and macOS only; use another provider")
    deadline_s = time.monotonic() + _TIMEOUT_S
    try:
        # In a session of its own, so that what it starts can be ended with it.
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as exc:
        raise ConfigError(f"the command cannot be run: {exc.strerror}") from None
    except ValueError:
        raise ConfigError("the command line has a character that no argument can have") from None
    with process:
        try:
            printed = _read(process, deadline_s)
            code = process.wait(max(0.0, deadline_s - time.monotonic()))
        except BaseException as exc:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(exc, subprocess.TimeoutExpired):
                raise ConfigError(f"the command did not end within {_TIMEOUT_S:g} s") from None
            raise
    if code:
        raise ConfigError(f"the command failed with exit code {code}")
    return printed


def _read(process: subprocess.Popen[bytes], deadline_s: float) -> bytes:
    """Return all that is printed until no process can print any more; ``TimeoutExpired`` if that is too late."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    descriptor, printed = process.stdout.fileno(), b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while poll.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
        part = os.read(descriptor, _LARGEST_BYTES)
        if not part:
            return printed
        printed += part
        if len(printed) > _LARGEST_BYTES:
            raise ConfigError(f"the command printed more than {_LARGEST_BYTES:,} bytes")
    raise subprocess.TimeoutExpired([], _TIMEOUT_S)


PACKAGE: Final = "org.apache.kafka.common.config.provider."

# Whoever writes to a config topic decides what is looked up, and how often it is put in.
_MOST_PATHS: Final = 256
_MOST_KEYS: Final = 10_000
_MOST_CHARACTERS: Final = 16 << 20
_LONGEST_SHOWN: Final = 500


@dataclass(frozen=True, slots=True)
class ConfigData:
    """What a provider has under one path.

    Attributes:
        data: texts by key; a key it does not have is left out. Never shown.
        ttl_ms: after so many milliseconds it has to be asked again; ``None``: never.

    Source: ``ConfigData``.
    """

    data: Mapping[str, str] = field(repr=False)
    ttl_ms: int | None = None


class ConfigProvider(Protocol):
    """Knows what references stand for. Its methods may be called from any thread.

    Source: ``org.apache.kafka.common.config.provider.ConfigProvider``.
    """

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the parameters of the worker file: ``config.providers.<name>.param.*``, without that beginning."""

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        """Return what is under a path (``""`` where the reference has none), for these keys.

        What is raised ends the transformation; its text is shown only if it is a ``ConfigError``.
        """

    def close(self) -> None:
        """Let go of what is open."""


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


class _PathNotAllowedError(ConfigError):
    """A path is outside of ``allowed.paths``; Java leaves the reference as it is."""


class _Provider:
    """A provider that keeps its parameters and nothing else."""

    def __init__(self) -> None:
        self._parameters: Mapping[str, str] = {}

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the parameters."""
        self._parameters = dict(configs)

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        """Return what it has of the keys; nothing it has ends by itself."""
        return ConfigData(self._texts(path, keys))

    def close(self) -> None:
        """Nothing is open."""

    def _texts(self, path: str, keys: Set[str]) -> dict[str, str]:
        texts = ((key, self._text(path, key)) for key in keys)
        return {key: text for key, text in texts if text is not None}

    def _text(self, _path: str, _key: str) -> str | None:
        return None

    def _check_allowed(self, path: str) -> None:
        allowed = [part.strip() for part in self._parameters.get("allowed.paths", "").split(",") if part.strip()]
        if allowed:
            wanted = Path(os.path.normpath(Path(path).absolute()))
            if not any(wanted.is_relative_to(os.path.normpath(root)) for root in allowed):
                raise _PathNotAllowedError(f"{path} is outside the allowed.paths of the config provider")


class FileConfigProvider(_Provider):
    """Properties in files. Source: ``FileConfigProvider``."""

    def _texts(self, path: str, keys: Set[str]) -> dict[str, str]:
        if not path:
            return {}
        self._check_allowed(path)
        with suppress(OSError, ValueError):  # what is wrong with it is said below
            if Path(path).is_fifo() or Path(path).is_char_device():  # it may never end
                raise ConfigError(f"{path} is not a file")
        found = load_properties(path, encoding="utf-8")
        return {key: found[key] for key in keys if key in found}


class DirectoryConfigProvider(_Provider):
    """Files of a directory: the key is the name, the text is the value. Source: ``DirectoryConfigProvider``."""

    def _text(self, path: str, key: str) -> str | None:
        if not path:
            return None
        self._check_allowed(path)
        file = Path(path) / key
        if file.name != key:  # Java lists the files of the directory: no key leads out of it
            return None
        try:
            return read_whole(file).decode("utf-8") if file.is_file() else None
        except OSError as exc:
            raise ConfigError(f"cannot read {file}: {exc.strerror or exc}") from exc
        except UnicodeDecodeError as exc:
            raise ConfigError(f"{file} is not UTF-8 text at byte {exc.start}") from None


class EnvVarConfigProvider(_Provider):
    """Environment variables that ``allowlist.pattern`` allows. Source: ``EnvVarConfigProvider``."""

    def _text(self, path: str, key: str) -> str | None:
        if path:
            raise ConfigError("environment variables have no path: write ${<provider>:<variable>}")
        try:
            allowed = re.compile(self._parameters.get("allowlist.pattern", "").strip() or ".*")
        except re.error as exc:
            raise ConfigError(f"allowlist.pattern is not a regular expression: {exc}") from exc
        with suppress(UnicodeEncodeError):  # no variable can have such a name
            return os.environ.get(key) if allowed.fullmatch(key) else None
        return None


class CommandConfigProvider(_Provider):
    """What commands print; the worker file names them. See :mod:`connect_share.worker_config.config_providers`."""

    def _text(self, path: str, key: str) -> str | None:
        """Return what the command under the parameter of that name prints, without one newline at its end."""
        text = self._parameters.get(key)
        if path or text is None:
            return None
        try:
            printed = _printed(command_line(text)).decode()
        except ConfigError as exc:
            raise ConfigError(f"{key}: {exc}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{key}: what the command printed is not UTF-8 text") from None
        printed = printed.removesuffix("\n")
        if not printed:  # without keys a worker would write plain values
            raise ConfigError(f"{key}: the command printed nothing")
        return printed


class _UnknownProvider(_Provider):
    """One whose class is Java's alone: refused where a reference needs it."""

    def __init__(self, class_name: str) -> None:
        super().__init__()
        self.class_name = class_name


_CLASSES: Final[Mapping[str, Callable[[], ConfigProvider]]] = {
    PACKAGE + "FileConfigProvider": FileConfigProvider,
    PACKAGE + "DirectoryConfigProvider": DirectoryConfigProvider,
    PACKAGE + "EnvVarConfigProvider": EnvVarConfigProvider,
    COMMAND_PROVIDER_CLASS: CommandConfigProvider,
}

DECLARED_PROVIDERS: Final[Mapping[str, str]] = {
    "config.providers": "file,directory,env",
    "config.providers.file.class": PACKAGE + "FileConfigProvider",
    "config.providers.directory.class": PACKAGE + "DirectoryConfigProvider",
    "config.providers.env.class": PACKAGE + "EnvVarConfigProvider",
}
"""The lines of a worker file that declare Kafka's providers under their usual names."""

_PREFIX: Final = "config.providers"


def declared_providers(
    properties: Mapping[str, str], own: Mapping[str, ConfigProvider] | None = None
) -> dict[str, ConfigProvider]:
    """Make and configure the providers that a worker file declares, by name.

    Those of ``own`` take the place of what the file says of their class, or are further ones.
    """
    names = [name.strip() for name in properties.get(_PREFIX, "").split(",") if name.strip()]
    providers: dict[str, ConfigProvider] = {}
    for name in dict.fromkeys([*names, *(own or {})]):
        class_name = properties.get(f"{_PREFIX}.{name}.class", "").strip()
        if own is not None and name in own:
            provider = own[name]
        else:
            provider = _CLASSES.get(class_name, lambda missing=class_name: _UnknownProvider(missing))()
        start = f"{_PREFIX}.{name}.param."
        provider.configure(
            {each.removeprefix(start): text for each, text in properties.items() if each.startswith(start)}
        )
        providers[name] = provider
    return providers


def _legible(text: str) -> str:
    """Return a text of whoever writes to a topic as messages show it."""
    return text if text.isprintable() and len(text) <= _LONGEST_SHOWN else shown(text)


def _refused(name: str, text: str) -> ConfigError:
    return refusal(_legible(name), text)


class Replacements:
    """What the references in some properties stand for; each provider is asked once for each path.

    Raises (on construction):
        ConfigError: a provider cannot answer, or there are more references than anybody means; names a property.

    Source: ``ConfigTransformer.transform``.
    """

    def __init__(self, properties: Mapping[str, Any], providers: Mapping[str, ConfigProvider], *, strict: bool) -> None:
        self._strict = strict
        self._left = _MOST_CHARACTERS
        self.found: dict[tuple[str, str], ConfigData] = {}
        wanted: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        count = 0
        for name, text in properties.items():
            for one in references(text) if isinstance(text, str) else ():
                if one.provider in providers:
                    keys = wanted[one.provider, one.path]
                    count += one.key not in keys
                    keys.setdefault(one.key, name)
                    if count > _MOST_KEYS or len(wanted) > _MOST_PATHS:
                        raise _refused(
                            name,
                            f": more than {_MOST_PATHS} paths or {_MOST_KEYS} keys of config providers are used",
                        )
        for (provider, path), keys in wanted.items():
            name = next(iter(keys.values()))
            self.found[provider, path] = self._asked(name, provider, providers[provider], path, keys.keys())

    def _asked(self, name: str, provider_name: str, provider: ConfigProvider, path: str, keys: Set[str]) -> ConfigData:
        who = f": config provider {shown(provider_name)}"
        if isinstance(provider, _UnknownProvider):
            raise _refused(
                name,
                f"{who} is of class {provider.class_name or '(none)'!r}, which cannot be run here; use the file, directory, "
                "environment or command provider",
            )
        try:
            found = provider.get(path, keys)
            data = {key: found.data[key] for key in keys if key in found.data}
            ttl_ms = found.ttl_ms
        except ConfigError as exc:
            if isinstance(exc, _PathNotAllowedError) and not self._strict:
                return ConfigData({})
            raise _refused(name, f"{who}: {_legible(str(exc))}") from exc
        except Exception as exc:  # noqa: BLE001 - it may have any fault, and the secret in its text
            raise _refused(name, f"{who} failed with {type(exc).__name__}") from None
        if not all(isinstance(text, str) for text in data.values()) or not (ttl_ms is None or is_integer(ttl_ms)):
            raise _refused(name, f"{who} has to answer with texts, and with an integer or None as ttl_ms")
        return ConfigData(data, ttl_ms)

    def applied(self, name: str, text: str) -> str:
        """Return the text of a property with its references replaced, those without an answer left as they are.

        Raises:
            ConfigError: all texts together become longer than 16 MiB; or, if strict, a key is unknown.
        """
        parts, done = [], 0
        for one in references(text):
            data = self.found.get((one.provider, one.path))
            value = None if data is None else data.data.get(one.key)
            if value is not None:
                parts += [text[done : one.start], value]
                done = one.end
                self._left -= len(value)
                if self._left < 0:
                    raise _refused(
                        name, f": with its references replaced it is longer than {_MOST_CHARACTERS >> 20} MiB"
                    )
            elif data is not None and self._strict:
                where = f" in {_legible(one.path)}" if one.path else ""
                raise _refused(
                    name, f": config provider {shown(one.provider)} has nothing under {shown(one.key)}{where}"
                )
        return "".join([*parts, text[done:]])

    def values(self) -> set[str]:
        """Return all that references were replaced by: secrets."""
        return {value for data in self.found.values() for value in data.data.values()}


def resolve_variables(
    properties: Mapping[str, str], providers: Mapping[str, ConfigProvider] | None = None
) -> dict[str, str]:
    """Replace ``${provider:path:key}`` by what the provider declared in ``config.providers`` has.

    References to providers that are not declared stay as they are, as in Java. A key that the provider does not have
    is refused; Java would use the reference itself as the value. ``providers`` as in :func:`declared_providers`.

    Raises:
        ConfigError: names the property whose reference cannot be followed, or the provider class not known here.

    Source: ``AbstractConfig.resolveConfigVariables``, ``ConfigTransformer``.
    """
    given = {name: text for name, text in properties.items() if not name.startswith(_PREFIX)}
    found = Replacements(given, declared_providers(properties, providers), strict=True)
    return {name: found.applied(name, text) if name in given else text for name, text in properties.items()}
