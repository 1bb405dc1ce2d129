"""Scans of brokers: the scanner's lines from files, or copies of log dirs read here."""

from __future__ import annotations

import json
import re
import time
from calendar import timegm
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, TypeAdapter

from connect_share.errors import UsageError
from connect_share.files import LARGEST_BYTES
from connect_share.topic_ids.scan import scanner
from connect_share.worker_config.properties import read_whole

_BROKER_FOLDER: Final = re.compile(r"broker-([0-9]{1,9})")
_SIZES_FILE: Final = "files.json"
_LONGEST_LINE: Final = 16 << 20
CURRENT: Final = "current"
STRAY: Final = "stray"


def _printed_id(value: object) -> str | None:
    """Return a topic id as Kafka prints it; ``None`` for what is no id."""
    return scanner.read_id(value)[0] if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log dir of one broker; names are those of its record in a scan.

    Attributes:
        path: as in the broker's ``log.dirs``; of a copy, its name only.
        version: of ``meta.properties``: 0 with ZooKeeper, 1 with KRaft.
    """

    broker: int
    path: str
    status: Literal["ok", "missing", "unreadable"] = "ok"
    reason: str | None = None
    cluster_id: str | None = None
    directory_id: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """The directory of one partition on one broker; names are those of its record in a scan.

    Attributes:
        metadata: state of ``partition.metadata``.
        topic_id: as Kafka prints it.
        last_epochs: newest pairs of leader epoch and its first offset.
        log_bytes: size of the log; ``None``: not known.
        batches: offset, leader epoch and CRC of some batches; replicas of one log have the same at the same offset.
    """

    broker: int
    log_dir: str
    name: str
    topic: str
    partition: int
    state: Literal["current", "stray", "delete", "future"]
    metadata: Literal["ok", "missing", "unreadable", "zero", "inaccessible"]
    topic_id: Annotated[str | None, BeforeValidator(_printed_id)]
    reason: str | None = None
    last_epochs: tuple[tuple[int, int], ...] = ()
    log_bytes: int | None = None
    batches: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        if self.metadata == "ok" and self.topic_id is None:
            raise ValueError(self.name)

    @property
    def path(self) -> str:
        """The path on the broker."""
        return f"{self.log_dir}/{self.name}"


_LOG_DIR: Final = TypeAdapter(LogDir)
_DIRECTORY: Final = TypeAdapter(PartitionDirectory)
_NO_BROKER: Final = {"broker": -1}
"""In records until it is known whose they are."""


@dataclass
class Scans:
    """The scans of all brokers.

    Attributes:
        tiered_storage: it is on in the ``server.properties`` of a broker.
        notes: for the reader of a report.
        started: when the scan of a broker began, in seconds since the epoch; none for copies, which may be old.
    """

    log_dirs: list[LogDir] = field(default_factory=list)
    directories: list[PartitionDirectory] = field(default_factory=list)
    tiered_storage: bool = False
    notes: list[str] = field(default_factory=list)
    started: dict[int, int] = field(default_factory=dict)

    @property
    def brokers(self) -> frozenset[int]:
        """Brokers with at least one log dir here."""
        return frozenset(log_dir.broker for log_dir in self.log_dirs)

    def add(self, other: Scans) -> None:
        """Add another scan; a log dir that was scanned before is replaced, and that is noted."""
        again = {(one.broker, one.path) for one in other.log_dirs} & {(one.broker, one.path) for one in self.log_dirs}
        for broker, path in sorted(again):
            self.notes.append(f"broker {broker}, {path}: scanned more than once, the scan given last counts")
        self.log_dirs = [one for one in self.log_dirs if (one.broker, one.path) not in again] + other.log_dirs
        self.directories = [one for one in self.directories if (one.broker, one.log_dir) not in again]
        self.directories += other.directories
        self.notes += other.notes
        self.tiered_storage |= other.tiered_storage
        for broker, started in other.started.items():
            self.started[broker] = min(started, self.started.get(broker, started))

    def drop(self, broker: int) -> None:
        """Remove the scans of one broker."""
        self.log_dirs = [one for one in self.log_dirs if one.broker != broker]
        self.directories = [one for one in self.directories if one.broker != broker]
        self.started.pop(broker, None)


def read_scan(path: Path) -> Scans:
    """Read the output of the scanner; raise ``UsageError`` if it is no scan, or does not name its broker."""
    return scans_of_records(_records(lines_of(path, errors="surrogateescape"), path), str(path))


def lines_of(path: Path, errors: str) -> Iterator[str]:
    """Yield the lines of a file; raise ``UsageError`` if it cannot be read, or is no text in lines."""
    try:
        with path.open(encoding="utf-8", errors=errors) as file:
            while line := file.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE:
                    raise UsageError(f"{path} has a line of {_LONGEST_LINE >> 20} MiB; give what the tool has printed")
                yield line
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}") from exc


def _records(lines: Iterable[str], path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        record = json_object(line)
        if not isinstance(record.get("record"), str):
            raise UsageError(f"{path}: line {number} is no line of a scan; is it the scanner's whole output?")
        yield record


def scans_of_records(records: Iterable[Mapping[str, Any]], source: str, *, broker: int | None = None) -> Scans:
    """Parse the records of one scan; the id of a broker overrides that of its log dirs.

    Raise ``UsageError`` if they are no scan, of another format, or do not name their broker.
    """
    scans = Scans()
    by_kind: dict[str, list[Mapping[str, Any]]] = {"scan": [], "log-dir": [], "end": []}
    try:
        for record in records:
            kind = record["record"]
            if not by_kind["scan"] and (kind != "scan" or record["format"] != scanner.FORMAT):
                break
            if kind == "directory":
                scans.directories.append(_DIRECTORY.validate_python({**record, **_NO_BROKER}))
            elif kind == "note":
                scans.notes.append(f"{source}: {record['path']}: {record['text']}")
            elif kind in by_kind:
                by_kind[kind].append(record)
        head = by_kind["scan"][0]
        scans.tiered_storage = head["tiered_storage"] is True
        given = broker if broker is not None else integer(head["broker"])
        started = head.get("started") and timegm(time.strptime(head["started"], "%Y-%m-%dT%H:%M:%SZ"))
        log_dirs = [_LOG_DIR.validate_python({**record, **_NO_BROKER}) for record in by_kind["log-dir"]]
    except (IndexError, KeyError, TypeError, ValueError, OverflowError) as exc:
        raise UsageError(
            f"{source} is no scan of format {scanner.FORMAT}; is the scanner as new as this program?"
        ) from exc
    if not by_kind["end"]:
        scans.notes.append(f"{source}: the scan is cut off, so missing directories are not reported")
        log_dirs = [
            replace(one, status="unreadable", reason="the scan is cut off") if one.status == "ok" else one
            for one in log_dirs
        ]
    own = _broker_of(by_kind["log-dir"], given, source, scans.notes)
    if started:
        scans.started[own] = started
    scans.notes += [f"broker {own}, {one.path}: not read: {one.reason}" for one in log_dirs if one.status != "ok"]
    scans.log_dirs = [replace(one, broker=own) for one in log_dirs]
    scans.directories = [replace(one, broker=own) for one in scans.directories]
    return scans


def _broker_of(log_dirs: Iterable[Mapping[str, Any]], given: int | None, source: str, notes: list[str]) -> int:
    found = {number for record in log_dirs if (number := integer(record.get("broker"))) is not None}
    if given is None and len(found) != 1:
        raise UsageError(
            f"{source} does not name its broker: meta.properties "
            f"{'differ' if found else 'have no id'}; scan with --broker-id N"
        )
    own = min(found) if given is None else given
    notes += [
        f"{source}: is taken as broker {own}, but a meta.properties in it says broker {number}"
        for number in sorted(found - {own})
    ]
    return own


def read_brokers_dir(folder: Path, progress: Callable[[int, str], None] | None = None) -> Scans:
    """Read copies of log dirs: ``folder/broker-<id>/<log dir>/<topic>-<partition>/``; raise ``UsageError`` for others.

    A file ``files.json`` in ``folder`` may have the sizes of files that were not copied: path below ``folder`` -> bytes.
    """
    homes = {
        int(match.group(1)): one
        for one in _folders(folder)
        if (match := _BROKER_FOLDER.fullmatch(one.name)) is not None
    }
    if not homes:
        raise UsageError(
            f"{folder} has no folder broker-<id>; --brokers-dir wants broker-<id>/<log dir>/<topic>-<partition>"
        )
    sizes = _sizes(folder / _SIZES_FILE)
    scans = Scans()
    for broker, home in sorted(homes.items()):
        records = scanner.scan([str(one) for one in _folders(home)], broker, progress=progress)
        scan = scans_of_records(records, str(home), broker=broker)
        scan.log_dirs = [replace(one, path=Path(one.path).name) for one in scan.log_dirs]
        scan.directories = [replace(one, log_dir=Path(one.log_dir).name) for one in scan.directories]
        scan.started.clear()  # the age of a copy is not known
        if sizes is not None:
            scan.directories = [
                replace(one, log_bytes=sizes.get(f"{home.name}/{one.path}")) for one in scan.directories
            ]
        scans.add(scan)
    return scans


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(one for one in folder.iterdir() if one.is_dir())
    except OSError as exc:
        raise UsageError(f"cannot read {folder}: {exc.strerror}") from exc


def _sizes(path: Path) -> dict[str, int] | None:
    """Return the bytes of the logs by directory, of ``files.json``; ``None`` without such a file."""
    if not path.exists():
        return None
    found: dict[str, int] = {}
    for name, size in json_object(read_whole(path, most_bytes=LARGEST_BYTES)).items():
        folder, _, file = name.rpartition("/")
        if folder and isinstance(size, int):
            found[folder] = found.get(folder, 0) + (size if file.endswith(".log") else 0)
    return found


def json_object(text: str | bytes) -> dict[str, Any]:
    """Return a JSON object; an empty one for any other text, whose members are reported as missing where it matters."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def integer(value: object) -> int | None:
    """Return a JSON value that is an integer; ``None`` for any other."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
