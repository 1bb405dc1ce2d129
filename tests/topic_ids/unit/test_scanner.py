"""The scanner as a file of its own: what it takes, what it survives, and that it changes nothing."""

from __future__ import annotations

import ast
import base64
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connect_share.errors import UsageError
from connect_share.topic_ids.scan import scanner
from connect_share.topic_ids.scan.scans import read_scan, scans_of_records

SCANNER = Path(scanner.__file__)
ID = "VFikBPGgTFa4tSj3PZTVgw"
names = st.text("abcXYZ019._-", min_size=1, max_size=30)
number = st.integers(0, 2**31 - 1)


def scan(*words: str | Path, code: int = 0) -> tuple[list[dict[str, Any]], str]:
    done = subprocess.run([sys.executable, "-I", SCANNER, *words], capture_output=True, check=False)
    assert done.returncode == code, done.stderr
    assert done.stdout.isascii()
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def directories(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {record["name"]: record for record in records if record["record"] == "directory"}


def make(folder: Path, name: str, metadata: bytes | None = f"version: 0\ntopic_id: {ID}".encode()) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    if metadata is not None:
        (path / "partition.metadata").write_bytes(metadata)
    return path


def test_it_needs_nothing_but_python_3_8() -> None:
    module = ast.parse(SCANNER.read_text("utf-8"), feature_version=(3, 8))
    imported = {
        ((node.module or "") if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in ast.walk(module)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert imported <= sys.stdlib_module_names
    calls = {
        node.func.id for node in ast.walk(module) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {
        "open",
        "exec",
        "eval",
    }  # nothing is ever opened for writing: files go through os.open(O_RDONLY)


def test_unusual_trees_are_reported_and_never_fatal(tmp_path: Path) -> None:
    dirs = tmp_path / "d1"
    make(dirs, "orders-0")
    (dirs / "orders-0/00000000000000000000.log").write_bytes(b"12345")
    (dirs / "orders-0/00000000000000000007.log").write_bytes(b"123")
    (dirs / "orders-0/leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 7\n")
    make(dirs, "orders-1.00ef6bfc14a54b1da530402ecd269582-stray", b"")
    make(dirs, "a.b-c-2.x-delete", None)
    make(dirs, "orders-3.y-future", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
    make(dirs, "huge-0", b"version: 0\n" + b"x" * 100_000)
    make(dirs, "folder-0", None).joinpath("partition.metadata").mkdir()
    os.mkfifo(make(dirs, "pipe-0", None) / "partition.metadata")
    (make(dirs, "dangling-0", None) / "partition.metadata").symlink_to("nowhere")
    (make(dirs, "link-0", None) / "partition.metadata").symlink_to(dirs / "orders-0/partition.metadata")
    (make(dirs, "loop-0", None) / "partition.metadata").symlink_to("partition.metadata")
    (dirs / "linked-5").symlink_to(dirs / "orders-0")
    (dirs / "orders-7").write_text("a file, which no broker looks at")
    (dirs / "lost+found").mkdir()
    (dirs / "orders-99999999999").mkdir()
    (dirs / os.fsdecode(b"\xff\xfe-0")).mkdir()
    (dirs / "meta.properties").write_bytes(b"#\xff\nnode.id=7\nversion=1\ncluster.id=\\\n  abc\ndirectory.id : xyz\n")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    records, err = scan("--quiet", "--log-dirs", f"{dirs},{tmp_path / 'missing'}", dirs / "orders-7", code=1)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    assert "missing: there is no such folder" in err
    assert [record["record"] for record in (records[0], records[-1])] == ["scan", "end"]
    found = directories(records)
    assert found["orders-0"] | {"log_dir": ""} == {
        "record": "directory", "log_dir": "", "name": "orders-0", "topic": "orders", "partition": 0, "state": "current",
        "metadata": "ok", "topic_id": ID, "reason": None, "epochs": "ok", "last_epochs": [[0, 0], [3, 7]], "log_bytes": 8,
        "batches": [],
    }  # fmt: skip
    assert {name: (one["metadata"], one["state"]) for name, one in found.items()} == {
        "orders-0": ("ok", "current"),
        "orders-1.00ef6bfc14a54b1da530402ecd269582-stray": ("unreadable", "stray"),
        "a.b-c-2.x-delete": ("missing", "delete"),
        "orders-3.y-future": ("zero", "future"),
        "huge-0": ("unreadable", "current"),
        "folder-0": ("inaccessible", "current"),
        "pipe-0": ("inaccessible", "current"),
        "dangling-0": ("missing", "current"),
        "link-0": ("ok", "current"),
        "loop-0": ("inaccessible", "current"),
        "linked-5": ("ok", "current"),
    }
    assert (found["a.b-c-2.x-delete"]["topic"], found["a.b-c-2.x-delete"]["partition"]) == ("a.b-c", 2)
    log_dirs = [record for record in records if record["record"] == "log-dir"]
    assert [(one["status"], one["broker"], one["cluster_id"]) for one in log_dirs] == [
        ("ok", 7, "abc"),
        ("missing", None, None),
        ("unreadable", None, None),
    ]
    notes = {Path(record["path"]).name for record in records if record["record"] == "note"}
    assert notes == {"lost+found", "orders-99999999999", "\udcff\udcfe-0"}
    saved = tmp_path / "saved"
    saved.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert len(read_scan(saved).directories) == len(found)
    directory = next(record for record in records if record["record"] == "directory")
    for wrong in ({**directory, "partition": math.inf}, {**records[0], "started": "yesterday"}):
        with pytest.raises(UsageError, match="is no scan of format 1"):
            scans_of_records([wrong if each["record"] == wrong["record"] else each for each in records], "x")


def test_server_properties(tmp_path: Path) -> None:
    make(tmp_path / "a b", "x-0")
    make(tmp_path / "c", "y-0")
    file = tmp_path / "server.properties"
    file.write_text(
        f"# log.dirs=/no\nlog.dirs = {tmp_path}/a b, \\\n   {tmp_path}/c\nnode.id:4\n"
        "remote.log.storage.system.enable=true\nssl.key.password=hunter2\n"
    )
    records, err = scan("--server-properties", file)
    assert (records[0]["broker"], records[0]["tiered_storage"], sorted(directories(records))) == (
        4,
        True,
        ["x-0", "y-0"],
    )
    assert "hunter2" not in json.dumps(records) + err
    records, _ = scan("--server-properties", file, "--broker-id", "9")
    assert records[0]["broker"] == 9
    scan("--server-properties", tmp_path / "none", code=2)
    scan("--log-dirs", " , ", code=2)
    scan(code=2)


def test_records_come_one_by_one(tmp_path: Path) -> None:
    """Two thousand directories; only their names are ever held."""
    count = 2_000
    for partition in range(count):
        make(tmp_path, f"a-topic-with-a-name-{partition}")
    tracemalloc.start()
    try:
        seen = sum(record["record"] == "directory" for record in scanner.scan([str(tmp_path)]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen == count
    assert peak < 1_200_000  # all records at once would be half a megabyte more


@given(st.binary(max_size=200))
@example(b"version: 0\ntopic_id: " + b"A" * 22)
@example(b"version: 0\n")
@example("version: ٣\ntopic_id: x".encode())
def test_random_bytes_are_no_metadata_and_no_crash(data: bytes) -> None:
    status, topic_id, reason = scanner.parse_partition_metadata(data)
    assert (status == "ok") == (topic_id is not None and topic_id != "A" * 22) == (reason is None)
    scanner.parse_epochs(data)
    scanner.parse_properties(data)


@given(st.binary(min_size=16, max_size=16), st.integers(0, 9), st.sampled_from(["", "\n", "\r\n", "==", "\nmore"]))
@example(bytes.fromhex("fbffbffbffbffbffbffbffbffbffbffb"), 0, "")
def test_what_kafka_writes_comes_back(raw: bytes, version: int, end: str) -> None:
    text = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    status, found, _ = scanner.parse_partition_metadata(f"version: {version}\ntopic_id: {text}{end}".encode())
    assert (status, found) == ("ok" if any(raw) else "zero", text)
    ordinary = base64.b64encode(raw).decode().rstrip("=")
    assert scanner.read_id(ordinary)[0] == (text if ordinary == text else None)
    assert scanner.read_id(text[:-1])[0] is None


@given(
    names, number, st.sampled_from(["stray", "delete", "future"]), st.text("0123456789abcdef", min_size=32, max_size=32)
)
def test_names_of_directories(topic: str, partition: int, state: str, unique: str) -> None:
    assert scanner.directory_names(f"{topic}-{partition}") == (topic, partition, "current")
    assert scanner.directory_names(f"{topic}-{partition}.{unique}-{state}") == (topic, partition, state)


record_names = st.sampled_from(["record", "format", "log_dir", "name", "topic_id", "state"])
record_values = st.none() | st.integers() | st.sampled_from(["", "scan", "end", "directory", "log-dir", "note"])


@given(st.lists(st.dictionaries(record_names, record_values), max_size=4))
def test_records_of_no_scan_are_refused(records: list[dict[str, Any]]) -> None:
    start = {"record": "scan", "format": 1, "broker": 1, "tiered_storage": None}
    for given_records in ([start, *records], records):
        try:
            found = scans_of_records([{"record": "x", **one} for one in given_records], "x")
        except UsageError:
            continue
        assert found.directories == []


@given(
    st.binary(max_size=40),
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(-128, 127),
)
@example(b"", 7, 3, 4711, 2)
def test_first_batches(rest: bytes, offset: int, epoch: int, crc: int, magic: int) -> None:
    """Of a segment only a head of the newest format is used; everything else is skipped."""
    with tempfile.TemporaryDirectory() as folder:
        directory = make(Path(folder), "t-0")
        (directory / "00000000000000000000.log").write_bytes(rest)
        (directory / "00000000000000000009.log").write_bytes(
            struct.pack(">qiibI", offset, 49 + len(rest), epoch, magic, crc) + rest
        )
        [found] = directories(list(scanner.scan([folder]))).values()
    assert ([offset, epoch, crc] in [list(one) for one in found["batches"]]) == (magic == 2)
    assert len(found["batches"]) <= 2
