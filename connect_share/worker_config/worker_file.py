"""Worker files from where people have them: a properties file, a Strimzi resource, a folder of many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from connect_share.errors import ConfigError
from connect_share.worker_config.properties import load_properties
from connect_share.worker_config.strimzi import load_kafka_connect

_YAML: Final = (".yaml", ".yml")
_SUFFIXES: Final = (".properties", *_YAML)
_MOST_FILES: Final = 1_000
_SHOWN: Final = 20
_NEEDED: Final = ("group.id", "config.storage.topic")
_SERVERS: Final = "bootstrap.servers"

_connection: dict[str, str] = {}
"""Connection settings of this command. They win over those of worker files, but never lead a file to other brokers."""


@contextmanager
def connecting_with(properties: Mapping[str, str]) -> Iterator[None]:
    """Let connection settings win over those of every worker file that is read in this block, but for its brokers.

    For a command line, which reads worker files in many places; a library that embeds the stores gives settings itself.
    """
    before = dict(_connection)
    _connection.update(properties)
    try:
        yield
    finally:
        _connection.clear()
        _connection.update(before)


def connection_settings() -> dict[str, str]:
    """Return the connection settings of this command; none unless a profile was named."""
    return dict(_connection)


def load_worker_file(path: str | Path) -> dict[str, str]:
    """Return a worker's properties: of a properties file, or of a Strimzi ``KafkaConnect`` resource (``.yaml``, ``.yml``).

    Raises:
        ConfigError: the file cannot be read, or is something else.
    """
    found = load_kafka_connect(path) if Path(path).suffix.lower() in _YAML else load_properties(path)
    # Two files of one command may be of two clusters.
    return found | {name: value for name, value in _connection.items() if name != _SERVERS or name not in found}


def worker_files_in(folder: Path) -> dict[Path, dict[str, str]]:
    """Return the worker files of a folder with their properties, by name; files of connectors are not among them.

    Raises:
        ConfigError: the folder cannot be read, has no worker file, or more than 1,000 files.
    """
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES and path.is_file())
    except OSError as error:
        raise ConfigError(f"cannot read folder {folder}: {error.strerror or error}") from error
    if len(files) > _MOST_FILES:
        raise ConfigError(f"folder {folder} has more than {_MOST_FILES:,} files; give the worker file that is meant")
    found = {path: properties for path in files if (properties := _worker_properties(path)) is not None}
    if not found:
        raise ConfigError(
            f"folder {folder} has no worker file: none of its {len(files)} files ({', '.join(_SUFFIXES)}) has "
            f"{' and '.join(_NEEDED)}"
        )
    return found


def _worker_properties(path: Path) -> dict[str, str] | None:
    """Return the properties of a worker file, ``None`` of any other file."""
    if path.suffix.lower() in _YAML:
        try:
            return load_worker_file(path)
        except ConfigError:
            return None  # most resources of a folder are of other kinds
    properties = load_worker_file(path)
    return properties if all(name in properties for name in _NEEDED) else None


def choose_worker_file(folder: Path, group: str | None, *, any_of_one_set: bool) -> Path:
    """Return the worker file that is meant in a folder.

    Args:
        folder: with worker files.
        group: ``group.id`` of the one that is meant, if a command says it.
        any_of_one_set: any file will do if all name the same topics on the same brokers.

    Raises:
        ConfigError: it is not clear; the message lists the files and their groups.
    """
    found = worker_files_in(folder)
    wanted = [path for path, properties in found.items() if properties.get("group.id", "").strip() == group]
    if group is not None and len(wanted) == 1:
        return wanted[0]
    if len(found) == 1 and group is None:
        return next(iter(found))
    if any_of_one_set and not wanted and len({_topics(properties) for properties in found.values()}) == 1:
        return next(iter(found))
    listed = [f"{path.name} ({properties.get('group.id', '').strip()})" for path, properties in found.items()]
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    raise ConfigError(
        f"folder {folder} has {len(found)} worker files: {', '.join(listed[:_SHOWN])}{more}; give one of them"
    )


def files_in_folders(sources: Sequence[Path], destinations: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return worker files of a move; a folder of sources stands for its files, one of destinations for those of their groups.

    Raises:
        ConfigError: a folder cannot be read, or has no file, or several, for the group of a source.
    """
    files = [each for path in sources for each in (worker_files_in(path) if path.is_dir() else [path])]
    if len(destinations) != 1 or not destinations[0].is_dir():
        return files, list(destinations)
    groups = [load_worker_file(path).get("group.id", "").strip() for path in files]
    return files, [choose_worker_file(destinations[0], group, any_of_one_set=False) for group in groups]


def _topics(properties: Mapping[str, str]) -> tuple[str, ...]:
    names = (_SERVERS, "config.storage.topic", "offset.storage.topic", "status.storage.topic")
    return tuple(properties.get(name, "").strip() for name in names)
