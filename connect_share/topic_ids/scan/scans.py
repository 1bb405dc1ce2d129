"""Scans of brokers: the scanner's lines from files, or copies of log dirs read here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from connect_share.errors import UsageError
from connect_share.topic_ids.scan import scanner
from connect_share.topic_ids.scan.scanner import id_bytes

_BROKER_FOLDER: Final = re.compile(r"broker-([0-9]{1,9})")
_SIZES_FILE: Final = "files.json"
CURRENT: Final = "current"
STRAY: Final = "stray"
_STATES: Final = frozenset({CURRENT, "stray", "delete", "future"})
_METADATA: Final = frozenset({"ok", "missing", "unreadable", "zero", "inaccessible"})


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log dir of one broker.

    Attributes:
        path: as the broker has it in ``log.dirs``; below the broker's folder for a copy.
        status: ``ok``, ``missing`` or ``unreadable``.
        format: ``version`` of ``meta.properties``: 0 with ZooKeeper, 1 with KRaft.
    """

    broker: int
    path: str
    status: str = "ok"
    reason: str | None = None
    cluster_id: str | None = None
    directory_id: str | None = None
    format: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """One partition's folder on one broker.

    Attributes:
        state: ``current``, ``stray``, ``delete`` or ``future``.
        metadata: ``ok``, ``missing``, ``unreadable``, ``zero`` or ``inaccessible``: what ``partition.metadata`` is.
        epochs: newest pairs of leader epoch and its first offset.
        log_bytes: size of the log; ``None``: not known.
        batches: offset, leader epoch and CRC of some batches; replicas of one log have the same at the same offset.
    """

    broker: int
    log_dir: str
    name: str
    topic: str
    partition: int
    state: str
    metadata: str
    topic_id: bytes | None
    reason: str | None = None
    epochs: tuple[tuple[int, int], ...] = ()
    log_bytes: int | None = None
    batches: tuple[tuple[int, int, int], ...] = ()

    @property
    def path(self) -> str:
        """Where it is on the broker."""
        return f"{self.log_dir}/{self.name}"


@dataclass
class Scans:
    """All that was read of all brokers.

    Attributes:
        tiered_storage: a server's properties say that it is on.
        notes: what a reader should know.
        started: when the scan of a broker began, UTC, as the scanner writes it; none for copies, which may be old.
    """

    log_dirs: list[LogDir] = field(default_factory=list)
    directories: list[PartitionDirectory] = field(default_factory=list)
    tiered_storage: bool = False
    notes: list[str] = field(default_factory=list)
    started: dict[int, str] = field(default_factory=dict)

    @property
    def brokers(self) -> frozenset[int]:
        """Brokers of which at least one log dir is known."""
        return frozenset(log_dir.broker for log_dir in self.log_dirs)

    def add(self, other: Scans) -> None:
        """Join another scan; a log dir that is there already is replaced, and that is noted."""
        again = {(one.broker, one.path) for one in other.log_dirs} & {(one.broker, one.path) for one in self.log_dirs}
        for broker, path in sorted(again):
            self.notes.append(f"broker {broker}, {path}: scanned more than once, the scan given last counts")
        if again:
            self.log_dirs = [one for one in self.log_dirs if (one.broker, one.path) not in again]
            self.directories = [one for one in self.directories if (one.broker, one.log_dir) not in again]
        self.log_dirs += other.log_dirs
        self.directories += other.directories
        self.notes += other.notes
        self.tiered_storage |= other.tiered_storage
        for broker, started in other.started.items():
            self.started[broker] = min(started, self.started.get(broker, started))


def read_scan(path: Path) -> Scans:
    """Read what the scanner printed.

    Raises:
        UsageError: it cannot be read, is no scan, or does not tell which broker it is of.
    """
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as lines:
            return scans_of_records(_records(lines, path), str(path))
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}") from exc


def _records(lines: Iterable[str], path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("record"), str):
            raise UsageError(f"{path}: line {number} is no line of a scan; is it the scanner's whole output?")
        yield record


def scans_of_records(
    records: Iterable[Mapping[str, Any]],
    source: str,
    *,
    broker: int | None = None,
    shown: Callable[[str], str] = str,
) -> Scans:
    """Understand the records of one scan.

    Args:
        records: the scanner's.
        source: where they are from.
        broker: its id, which wins over what the log dirs say.
        shown: gives the name of a log dir for its path.

    Raises:
        UsageError: they are no scan, of another format, or do not tell which broker they are of.
    """
    found = Scans()
    own: int | None = broker
    broken = f"{source} is no scan of format {scanner.FORMAT}; is the scanner as new as this program?"
    waiting: list[Mapping[str, Any]] = []
    ended = started = False
    began: str | None = None
    for record in records:
        try:
            kind = record["record"]
            if kind == "scan":
                if record["format"] != scanner.FORMAT:
                    raise UsageError(broken)
                started = True
                own = broker if broker is not None else _integer(record["broker"])
                began = _text(record.get("started"))
                found.tiered_storage |= record["tiered_storage"] is True
            elif not started:
                raise UsageError(broken)
            elif kind == "log-dir":
                waiting.append(record)
            elif kind == "directory":
                found.directories.append(_directory(record, shown))
            elif kind == "note":
                found.notes.append(f"{source}: {record['path']}: {record['text']}")
            elif kind == "end":
                ended = True
        except (KeyError, TypeError, ValueError) as exc:
            raise UsageError(broken) from exc
    if not started:
        raise UsageError(broken)
    if not ended:
        found.notes.append(f"{source}: the scan is cut off, so missing directories are not told")
    told = {number for record in waiting if (number := _integer(record.get("broker"))) is not None}
    if own is None and len(told) == 1:
        own = min(told)
    if own is None:
        raise UsageError(
            f"{source} does not tell which broker it is of: meta.properties "
            f"{'differ' if told else 'have no id'}; scan with --broker-id N"
        )
    for number in sorted(told - {own}):
        found.notes.append(f"{source}: is taken as broker {own}, but a meta.properties in it says broker {number}")
    if began is not None:
        found.started[own] = began
    for record in waiting:
        log_dir = _log_dir(record, own, shown)
        if not ended and log_dir.status == "ok":
            log_dir = LogDir(own, log_dir.path, "unreadable", "the scan is cut off", log_dir.cluster_id)
        if log_dir.status != "ok":
            found.notes.append(f"broker {own}, {log_dir.path}: not read: {log_dir.reason}")
        found.log_dirs.append(log_dir)
    found.directories = [replace(one, broker=own) for one in found.directories]
    return found


def read_brokers_dir(folder: Path, progress: Callable[[int, str], None] | None = None) -> Scans:
    """Read copies of log dirs: ``folder/broker-<id>/<log dir>/<topic>-<partition>/``.

    A file ``files.json`` beside them may give the sizes of the files that were not copied: path below ``folder`` -> bytes.

    Raises:
        UsageError: there is no such folder, or nothing in it has this form.
    """
    try:
        brokers = sorted(
            (int(match.group(1)), one)
            for one in folder.iterdir()
            if (match := _BROKER_FOLDER.fullmatch(one.name)) and one.is_dir()
        )
    except OSError as exc:
        raise UsageError(f"cannot read {folder}: {exc.strerror}") from exc
    if not brokers:
        raise UsageError(
            f"{folder} has no folder broker-<id>; --brokers-dir wants broker-<id>/<log dir>/<topic>-<partition>"
        )
    sizes = _sizes(folder / _SIZES_FILE)
    found = Scans()
    for broker, home in brokers:
        try:
            log_dirs = sorted(str(one) for one in home.iterdir() if one.is_dir())
        except OSError as exc:
            raise UsageError(f"cannot read {home}: {exc.strerror}") from exc
        records = scanner.scan(log_dirs, broker, progress=progress)
        scan = scans_of_records(records, str(home), broker=broker, shown=lambda path: Path(path).name)
        scan.started.clear()  # when a copy was read says nothing about when it was made
        if sizes is not None:
            scan.directories = [
                replace(one, log_bytes=sizes.get(f"{home.name}/{one.log_dir}/{one.name}")) for one in scan.directories
            ]
        found.add(scan)
    return found


def _sizes(path: Path) -> dict[str, int] | None:
    """Sum up what ``files.json`` says of logs, by directory; ``None`` without such a file."""
    try:
        files = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(files, dict):
        return None
    found: dict[str, int] = {}
    for name, size in files.items():
        folder, _, file = name.rpartition("/")
        if folder and isinstance(size, int):
            found[folder] = found.get(folder, 0) + (size if file.endswith(".log") else 0)
    return found


def _log_dir(record: Mapping[str, Any], broker: int, shown: Callable[[str], str]) -> LogDir:
    return LogDir(
        broker,
        shown(str(record.get("path"))),
        str(record.get("status")),
        _text(record.get("reason")),
        _text(record.get("cluster_id")),
        _text(record.get("directory_id")),
        _integer(record.get("version")),
    )


def _directory(record: Mapping[str, Any], shown: Callable[[str], str]) -> PartitionDirectory:
    topic_id = record["topic_id"]
    raw = id_bytes(topic_id) if isinstance(topic_id, str) else None
    if (
        record["state"] not in _STATES
        or record["metadata"] not in _METADATA
        or (record["metadata"] == "ok") > bool(raw)
    ):
        raise ValueError(record["name"])
    return PartitionDirectory(
        -1,
        shown(str(record["log_dir"])),
        str(record["name"]),
        str(record["topic"]),
        int(record["partition"]),
        str(record["state"]),
        str(record["metadata"]),
        raw,
        _text(record["reason"]),
        tuple((int(epoch), int(offset)) for epoch, offset in record["last_epochs"]),
        _integer(record["log_bytes"]),
        tuple((int(offset), int(epoch), int(crc)) for offset, epoch, crc in record.get("batches") or ()),
    )


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
