"""The jar as a file: which version it is, where copies of it are, and how it gets to a worker."""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share.errors import ConfigError, WorkerPluginError
from connect_share.files import open_regular, write_private_file
from connect_share.jar import INTERCEPTOR_CLASS, JAR_NAME, jar_path
from connect_share.worker_config import parse_properties

UNKNOWN_VERSION: Final = "unknown"

_CLASS_ENTRY: Final = INTERCEPTOR_CLASS.replace(".", "/") + ".class"
_VERSION_ENTRY: Final = "connectshare/version.properties"
# Far more than the file has; a damaged or hostile archive cannot fill the memory.
_LONGEST_VERSION: Final = 4_096
_MODE: Final = 0o644


@dataclass(frozen=True, slots=True)
class JarFile:
    """A jar that holds the interceptor; its version is ``unknown`` if the jar does not say."""

    path: Path
    sha256: str
    version: str


@dataclass(frozen=True, slots=True)
class HandedOut:
    """The result of :func:`hand_out`.

    Attributes:
        replaced: another build that was there before, ``None`` if there was none.
        written: ``False`` if the same file was there already.
    """

    jar: JarFile
    replaced: JarFile | None
    written: bool


def read_jar(path: Path) -> JarFile | None:
    """Look into a file; ``None`` if it is no jar, cannot be read, or does not hold the interceptor."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            if _CLASS_ENTRY not in archive.namelist():
                return None
            version = _version_in(archive)
            file.seek(0)
            return JarFile(path, hashlib.file_digest(file, "sha256").hexdigest(), version)
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return None  # what cannot be read is not our jar


def _version_in(archive: zipfile.ZipFile) -> str:
    try:
        with archive.open(_VERSION_ENTRY) as file:
            found = parse_properties(file.read(_LONGEST_VERSION).decode("latin-1"))
    except (KeyError, ConfigError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error):
        return UNKNOWN_VERSION
    return found.get("version", "").strip() or UNKNOWN_VERSION


def own_jar() -> JarFile:
    """Return the jar of this installation."""
    path = jar_path()
    found = read_jar(path)
    if found is None:
        raise WorkerPluginError(f"{path} is missing or damaged; install again what this program was installed from")
    return found


def find_jars(files: Iterable[Path]) -> tuple[JarFile, ...]:
    """Return the files that hold the interceptor, each once however many links lead to it."""
    found: dict[str, JarFile] = {}
    for path in files:
        real = os.path.realpath(path)  # Path.resolve raises for a link to itself
        if real not in found and (jar := read_jar(path)) is not None:
            found[real] = jar
    return tuple(found.values())


def class_path_files(class_path: str) -> tuple[Path, ...]:
    """Return the archives that a Java class path names: files, and all jars of a folder for ``folder/*``."""
    found: list[Path] = []
    for entry in filter(None, class_path.split(os.pathsep)):
        path = Path(entry)
        if path.name == "*":
            found += folder_jars(path.parent)
        elif os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises in a folder that may not be entered
            found.append(path)
    return tuple(found)


def folder_jars(folder: Path) -> tuple[Path, ...]:
    """Return the jars directly in a folder; none if it cannot be read."""
    names = next(os.walk(folder), ("", [], []))[2]
    return tuple(sorted(folder / name for name in names if name.lower().endswith(".jar")))


def plugin_path_jars(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the jars under ``plugin.path``: directly in its folders, and at any depth of the plugins' own folders there."""
    plugins = (folder / name for folder in folders for name in sorted(next(os.walk(folder), ("", [], []))[1]))
    places = (*folders, *(Path(place) for plugin in plugins for place, _, _ in os.walk(plugin)))
    return tuple(jar for place in places for jar in folder_jars(place))


def hand_out(folder: Path) -> HandedOut:
    """Copy the jar of this installation into a folder, readable by all, in one step."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; give one that is there, such as the libs folder of Kafka")
    ours, target = own_jar(), folder / JAR_NAME
    try:
        there = None
        if target.exists():  # an incomplete copy is no jar, but it is replaced like one
            with open_regular(target) as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            there = read_jar(target) or JarFile(target, sha256, UNKNOWN_VERSION)
        if there is not None and there.sha256 == ours.sha256:
            return HandedOut(there, None, written=False)
        # Its other name does not end in .jar: a worker that starts now must not load an incomplete file.
        write_private_file(target, ours.path.read_bytes(), mode=_MODE)
    except OSError as exc:
        raise WorkerPluginError(f"cannot write {target}: {exc.strerror or exc}; nothing was changed") from exc
    return HandedOut(JarFile(target, ours.sha256, ours.version), there, written=True)
