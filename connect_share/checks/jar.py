"""Checks of the jars that a worker can find: is there one, and has it this version? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share.checks.finding import Finding, Severity
from connect_share.checks.worker_file import INTERCEPTORS, worker_finding
from connect_share.errors import command_line
from connect_share.jar.jar_file import UNKNOWN_VERSION, JarFile

PLUGIN_PATH: Final = "plugin.path"
_REMEDY: Final = f"{command_line('connect-share', 'worker-jar', '--to', 'DIR')} puts it there"


@dataclass(frozen=True)
class JarSearch:
    """The jars that were found, and the places that were searched.

    Attributes:
        complete: the caller named the folders, so nothing else is on the worker's class path.
    """

    looked_in: tuple[str, ...]
    complete: bool
    class_path: tuple[JarFile, ...]
    plugin_path: tuple[JarFile, ...]


def check_jars(search: JarSearch, ours: JarFile) -> Iterator[Finding]:
    """Check the jars that were found against the jar of this installation."""
    found = search.class_path
    if not search.looked_in:
        text = (
            "the jar was not looked for: neither --libs, KAFKA_HOME nor CLASSPATH says what the worker's class path is"
        )
        yield worker_finding(Severity.WARNING, INTERCEPTORS, f"{text}; {_REMEDY}")
    elif not found:
        severity = Severity.ERROR if search.complete else Severity.WARNING
        text = f"no jar in {' and '.join(search.looked_in)} has the interceptor; {_REMEDY}"
        yield worker_finding(severity, INTERCEPTORS, text)
    elif len(found) > 1:
        text = f"{len(found)} jars on the class path have the interceptor, and one hides the others: {_paths(found)}"
        yield worker_finding(Severity.ERROR, INTERCEPTORS, f"{text}; keep one")
    for jar in found:
        if jar.sha256 != ours.sha256:
            text = f"{jar.path} is {compared(jar, ours)}; {_REMEDY}, for all workers of the group at once"
            yield worker_finding(Severity.WARNING, INTERCEPTORS, text)
    if search.plugin_path:
        text = (
            f"{PLUGIN_PATH} has the jar ({_paths(search.plugin_path)}), where a worker does not look for interceptors; "
            f"it belongs on the worker's own class path, such as the libs folder of Kafka"
        )
        yield worker_finding(Severity.WARNING, PLUGIN_PATH, text)


def _paths(jars: Sequence[JarFile]) -> str:
    return ", ".join(str(path) for path in sorted(Path(jar.path) for jar in jars))


def compared(jar: JarFile, ours: JarFile) -> str:
    """Return how another jar differs from the one of this installation."""
    if jar.version == ours.version:
        return f"another build of version {ours.version} than the one of this installation"
    kind = "another version"
    if UNKNOWN_VERSION not in (jar.version, ours.version):
        there, here = _numbers(jar.version), _numbers(ours.version)
        if there and here and there != here:
            kind = "an older version" if there < here else "a newer version"
    return f"{kind} ({jar.version}) than the one of this installation ({ours.version})"


def _numbers(version: str) -> tuple[int, ...]:
    """Numbers of a version, empty if it is not made of numbers alone."""
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() and part.isascii() for part in parts) else ()
