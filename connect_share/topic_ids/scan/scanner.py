"""Read what a Kafka broker keeps on disk about topic ids, and print it as JSON lines; nothing is ever written.

One file without dependencies, for Python 3.8 and later, so that it can be copied to a broker::

    python3 scanner.py --log-dirs /data1/kafka /data2/kafka > broker-1.scan
    python3 scanner.py --server-properties /etc/kafka/server.properties > broker-1.scan

``connect-share check topic-ids --scan FILE ...`` compares any number of such files with the ids the cluster has.

Each line of the output is one JSON object with a member ``record``, in this order:

``scan``
    first line: ``format`` (1), ``host``, ``started`` (UTC), ``broker`` (of ``--broker-id`` or the server's properties,
    else null), ``tiered_storage`` (null: not known), ``log_dirs`` (paths).
``log-dir``
    one for each: ``path``, ``status`` (``ok``, ``missing``, ``unreadable``) with ``reason``, and of ``meta.properties``
    ``meta`` (``ok``, ``missing``, ``unreadable``), ``broker``, ``cluster_id``, ``directory_id``, ``version``.
``directory``
    one for each partition directory: ``log_dir``, ``name``, ``topic``, ``partition``, ``state`` (``current``, ``stray``,
    ``delete``, ``future``), ``metadata`` (``ok``, ``missing``, ``unreadable``, ``zero``; ``inaccessible``: the broker may
    be able to read it, this scan was not) with ``topic_id`` and ``reason``,
    ``epochs`` (``ok``, ``missing``, ``unreadable``) with ``last_epochs`` (the newest pairs of epoch and first offset),
    ``log_bytes`` (size of all ``.log`` files; null: there are none, or they cannot be seen), ``batches`` (of the first
    batch in the oldest and the newest segment: offset, leader epoch, CRC; replicas of one log have the same).
``note``
    other things a reader should know: ``path`` and ``text``.
``end``
    last line: ``directories`` and ``notes``, how many there were. A file without it is cut off.

Names that are no UTF-8 have lone surrogates in the JSON, as Python's own ``os.fsdecode`` makes them.
Exit code 0: all log dirs were read; 1: one was not; 2: wrong usage. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import base64
import errno
import json
import os
import platform
import re
import stat
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator, Sequence  # noqa: UP035 - collections.abc has no [] before 3.9

FORMAT = 1
METADATA_FILE = "partition.metadata"
EPOCHS_FILE = "leader-epoch-checkpoint"
META_FILE = "meta.properties"

_METADATA_LIMIT = 4096
_EPOCHS_LIMIT = 256 * 1024
_PROPERTIES_LIMIT = 1024 * 1024
_CHUNK = 4096
_AT_ONCE = 4
_BATCH = 64
_EPOCHS_KEPT = 16
_PROGRESS_S = 1.0
_DEFAULT_LOG_DIR = "/tmp/kafka-logs"  # noqa: S108 - Kafka's own default
_BATCH_HEAD = struct.Struct(">qiibI")  # offset, length, leader epoch, magic, CRC
_NEWEST_MAGIC = 2

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PARTITION_DIRECTORY = re.compile(r"(.+)-([0-9]{1,10})")
_MARKED_DIRECTORY = re.compile(r"(.+)\.[^.]+-(stray|delete|future)", re.DOTALL)
_ID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
_SEPARATOR = re.compile(r":[ \t\n\x0b\f\r]+")
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
_LINE_END = re.compile(r"\r\n|\r|\n")
# A comment, or a property with its continued lines: an escaped line end does not end it.
_PROPERTY_LINE = re.compile(
    r"[ \t\f]*(?:[#!][^\r\n]*|((?:\\(?:\r\n|[\s\S])|[^\\\r\n])*))\\?(?:\r\n|\r|\n|\Z)", re.DOTALL
)
_CONTINUATION = re.compile(r"\\(?:\r\n|\r|\n)[ \t\f]*|(\\.)", re.DOTALL)


class Unreadable(Exception):  # noqa: N818 - a finding, not a failure
    """A file cannot be had; the text says why."""


def read_id(text: str) -> tuple[str | None, str | None]:
    """Return a topic id as Kafka prints it (``None``: Kafka does not accept the text), and what is wrong with it."""
    if _ID.fullmatch(text):
        raw = base64.urlsafe_b64decode(text[:22] + "==")
        return base64.urlsafe_b64encode(raw).decode("ascii")[:22], None if any(raw) else "the id is all zero"
    if re.fullmatch(r"[A-Za-z0-9+/_-]{22}(==)?", text):
        return None, "the id is in ordinary base64; Kafka writes - and _ where that has + and /"
    if re.fullmatch(r"[A-Za-z0-9+/_-]*=*", text):
        return None, f"the id has {len(text.rstrip('='))} characters instead of 22"
    return None, "the id has characters that no id has"


def parse_partition_metadata(data: bytes) -> tuple[str, str | None, str | None]:
    """Read ``partition.metadata`` by the rules of Kafka 2.8 to 4.3.

    Return the status (``ok``, ``zero``, ``unreadable``), the id as Kafka prints it, the reason if it is not ``ok``.
    """
    if not data:
        return "unreadable", None, "the file is empty"
    if len(data) > _METADATA_LIMIT:
        return "unreadable", None, f"the file is too large to be a {METADATA_FILE}"
    lines = _LINE_END.split(data.decode("utf-8", "replace"))
    members = []
    for number, name in enumerate(("version", "topic_id")):
        parts = _SEPARATOR.split(lines[number]) if number < len(lines) else []
        if len(parts) != 2 or parts[0] != name or not parts[1]:
            return "unreadable", None, f"line {number + 1} is not '{name}: ...'"
        members.append(parts[1])
    version, text = members
    if not _INTEGER.fullmatch(version) or not 0 <= int(version) < 2**31:
        return "unreadable", None, "the version is not a number Kafka takes"
    topic_id, reason = read_id(text)
    return "ok" if reason is None else "zero" if topic_id else "unreadable", topic_id, reason


def parse_epochs(data: bytes) -> list[tuple[int, int]] | None:
    """Read ``leader-epoch-checkpoint``: pairs of epoch and its first offset, oldest first; ``None`` if it is none."""
    lines = data.decode("utf-8", "replace").split("\n")
    if len(lines) < 2 or lines[0].strip() != "0" or not _INTEGER.fullmatch(lines[1].strip()):
        return None
    found = []
    for parts in filter(None, map(str.split, lines[2:])):
        if len(parts) != 2 or not all(re.fullmatch("[0-9]{1,19}", part) for part in parts):
            return None
        found.append((int(parts[0]), int(parts[1])))
    return found if len(found) == int(lines[1]) else None


def parse_properties(data: bytes) -> dict[str, str]:
    """Read Java properties: comments, the three separators, escapes and continued lines."""
    found = {}
    for line in _PROPERTY_LINE.findall(data.decode("latin-1")):
        joined = _CONTINUATION.sub(lambda match: match.group(1) or "", line)
        match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", joined, re.DOTALL)
        if joined and match:
            found[_unescaped(match.group(1))] = _unescaped(match.group(2))
    return found


def _unescaped(text: str) -> str:
    def put(match: re.Match[str]) -> str:
        found: str = match.group(1)
        if len(found) == 5:
            return chr(int(found[1:], 16))
        return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(found, found)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", put, text, flags=re.DOTALL)


def directory_names(name: str) -> tuple[str, int, str] | None:
    """Return topic, partition and state of the name of a partition directory; ``None``: it is another name.

    Kafka cuts the topic's name in ``-stray`` and ``-delete`` names that would be longer than 255 characters.
    """
    marked = _MARKED_DIRECTORY.fullmatch(name)
    name, state = marked.groups() if marked else (name, "current")
    match = _PARTITION_DIRECTORY.fullmatch(name)
    if not match or not _TOPIC.fullmatch(match.group(1)) or int(match.group(2)) >= 2**31:
        return None
    return match.group(1), int(match.group(2)), state


def read_limited(path: str, limit: int) -> bytes | None:
    """Read a small file; one byte more than ``limit`` if it is larger.

    Return ``None`` if the file, or the target of the link, does not exist; raise ``Unreadable`` if it cannot be read.
    """
    descriptor = -1
    try:
        # Without O_NONBLOCK a named pipe would block the scan for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable("not a regular file")
        # A read of a regular file returns all that is there, so one small read is enough for most files.
        data = os.read(descriptor, min(_CHUNK, limit + 1))
        return data if len(data) < _CHUNK else data + os.read(descriptor, limit + 1 - len(data))
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise Unreadable(exc.strerror or type(exc).__name__) from exc
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def scan(
    log_dirs: Sequence[str],
    broker: int | None = None,
    tiered_storage: bool | None = None,
    progress: Callable[[int, str], None] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the records of a scan.

    ``progress`` is called about once a second, with the number of directories so far and the log dir.
    """
    yield {
        "record": "scan",
        "format": FORMAT,
        "host": platform.node(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "broker": broker,
        "tiered_storage": tiered_storage,
        "log_dirs": list(log_dirs),
    }
    directories = notes = 0
    reported_s = time.monotonic()
    for log_dir in log_dirs:
        for record in _scan_log_dir(log_dir):
            directories += record["record"] == "directory"
            notes += record["record"] == "note"
            yield record
            if progress is not None and time.monotonic() - reported_s >= _PROGRESS_S:
                reported_s = time.monotonic()
                progress(directories, log_dir)
    yield {"record": "end", "directories": directories, "notes": notes}


def _scan_log_dir(path: str) -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {"record": "log-dir", "path": path, "status": "ok", "reason": None}
    partitions = []
    notes = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                parts = directory_names(entry.name)
                try:
                    # Links to folders count: the broker follows them too.
                    if entry.is_dir() and parts is not None:
                        partitions.append((entry.name, parts))
                    elif entry.is_dir() and entry.name != "remote-log-index-cache":
                        notes.append((entry.path, "is no partition's folder; a broker may refuse to start"))
                except OSError as exc:
                    notes.append((entry.path, exc.strerror or type(exc).__name__))
    except FileNotFoundError:
        found.update(status="missing", reason="there is no such folder")
    except OSError as exc:
        found.update(status="unreadable", reason=exc.strerror or type(exc).__name__)
    found.update(_read_meta(f"{path}/{META_FILE}"))
    yield found
    for place, text in sorted(notes):
        yield {"record": "note", "path": place, "text": text}
    partitions.sort()
    # A disk serves several requests at once faster than one after the other.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for start in range(0, len(partitions), _BATCH):
            batch = partitions[start : start + _BATCH]
            yield from pool.map(lambda one: _scan_directory(path, *one), batch)


def _read_meta(path: str) -> dict[str, Any]:
    found: dict[str, Any] = {"meta": "ok", "broker": None, "cluster_id": None, "directory_id": None, "version": None}
    try:
        data = read_limited(path, _PROPERTIES_LIMIT)
    except Unreadable:
        return {**found, "meta": "unreadable"}
    if data is None:
        return {**found, "meta": "missing"}
    properties = parse_properties(data[:_PROPERTIES_LIMIT])
    found["broker"] = _number(properties, "node.id", "broker.id")
    found["version"] = _number(properties, "version")
    found["cluster_id"] = properties.get("cluster.id") or None
    found["directory_id"] = properties.get("directory.id") or None
    if found["cluster_id"] is None and found["broker"] is None:
        found["meta"] = "unreadable"
    return found


def _number(properties: dict[str, str], *names: str) -> int | None:
    text = next((properties[name] for name in names if properties.get(name)), "").strip()
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def _scan_directory(log_dir: str, name: str, parts: tuple[str, int, str]) -> dict[str, Any]:
    topic, partition, state = parts
    path = f"{log_dir}/{name}"
    found: dict[str, Any] = {
        "record": "directory",
        "log_dir": log_dir,
        "name": name,
        "topic": topic,
        "partition": partition,
        "state": state,
        "metadata": "missing",
        "topic_id": None,
        "reason": None,
        "epochs": "missing",
        "last_epochs": [],
        "log_bytes": None,
        "batches": [],
    }
    segments = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    size = entry.stat().st_size
                    found["log_bytes"] = (found["log_bytes"] or 0) + size
                    if size >= _BATCH_HEAD.size and entry.is_file(follow_symlinks=False):
                        segments.append(entry.name)
    except OSError:
        found["log_bytes"] = None
    ends = sorted({min(segments), max(segments)}) if segments else []
    found["batches"] = [head for head in (_first_batch(f"{path}/{one}") for one in ends) if head is not None]
    try:
        data = read_limited(f"{path}/{METADATA_FILE}", _METADATA_LIMIT)
        if data is not None:
            found["metadata"], found["topic_id"], found["reason"] = parse_partition_metadata(data)
    except Unreadable as exc:
        found.update(metadata="inaccessible", reason=str(exc))
    try:
        data = read_limited(f"{path}/{EPOCHS_FILE}", _EPOCHS_LIMIT)
        if data is not None:
            epochs = parse_epochs(data) if len(data) <= _EPOCHS_LIMIT else None
            found["epochs"] = "unreadable" if epochs is None else "ok"
            found["last_epochs"] = (epochs or [])[-_EPOCHS_KEPT:]
    except Unreadable:
        found["epochs"] = "unreadable"
    return found


def _first_batch(path: str) -> tuple[int, int, int] | None:
    """Read offset, leader epoch and CRC of a segment's first batch; ``None``: it has an older format, or is unreadable."""
    try:
        offset, length, epoch, magic, crc = _BATCH_HEAD.unpack_from(read_limited(path, _BATCH_HEAD.size) or b"")
    except (Unreadable, struct.error):
        return None
    return (offset, epoch, crc) if magic == _NEWEST_MAGIC and length > 0 else None


def main(argv: Sequence[str] | None = None) -> int:
    """Scan log dirs and print the records."""
    parser = argparse.ArgumentParser(
        description="Read topic ids from a broker's log dirs and print them as JSON lines. Nothing is written.",
        epilog="Compare with: connect-share check topic-ids --scan FILE --zookeeper HOST:PORT (or -B HOST:PORT)",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--log-dirs", nargs="+", metavar="DIR", help="all log dirs of the broker; commas part them too")
    where.add_argument("--server-properties", metavar="FILE", help="the broker's file, of which log.dirs is read")
    parser.add_argument("--broker-id", type=int, metavar="N", help="id of the broker where meta.properties has none")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    arguments = parser.parse_args(argv)
    broker, log_dirs, tiered = None, _separate(arguments.log_dirs or ()), None
    if arguments.server_properties is not None:
        try:
            broker, log_dirs, tiered = server_settings(arguments.server_properties)
        except Unreadable as exc:
            parser.error(f"cannot read {arguments.server_properties}: {exc}")
    if not log_dirs:
        parser.error("no log dir is given")
    broker = broker if arguments.broker_id is None else arguments.broker_id
    code = 0
    for record in scan(log_dirs, broker, tiered, None if arguments.quiet else _show_progress):
        sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")
        if record["record"] == "log-dir" and record["status"] != "ok":
            sys.stderr.write(f"{ascii(record['path'])[1:-1]}: {record['reason']}\n")
            code = 1
    sys.stdout.flush()
    return code


def server_settings(path: str) -> tuple[int | None, list[str], bool | None]:
    """Read a broker's ``server.properties``: its id, its log dirs, whether tiered storage is on (``None``: not set).

    Raise ``Unreadable`` if the file cannot be read.
    """
    data = read_limited(path, _PROPERTIES_LIMIT)
    if data is None:
        raise Unreadable(os.strerror(errno.ENOENT))
    properties = parse_properties(data)
    tiered = properties.get("remote.log.storage.system.enable")
    return (
        _number(properties, "node.id", "broker.id"),
        _separate([properties.get("log.dirs") or properties.get("log.dir") or _DEFAULT_LOG_DIR]),
        None if tiered is None else tiered.strip().lower() == "true",
    )


def _separate(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(part.strip() for text in texts for part in text.split(",") if part.strip()))


def _show_progress(directories: int, log_dir: str) -> None:
    sys.stderr.write(f"{directories} partition directories read, now in {ascii(log_dir)[1:-1]}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
