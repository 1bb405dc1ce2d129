"""An export by Spark is the console's own, record for record."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from connect_share.backup.backup_file import BackupFiles
from connect_share.cli.__main__ import main as connect_share
from connect_share.files import Silent
from connect_share.model.records import Record, TopicType
from spark_jobs import export_groups
from tests.support.kafka import TestBroker
from tests.support.profiled_topics import write_profiled_topics


@pytest.mark.usefixtures("spark")
def test_spark_writes_what_the_console_writes(
    broker: TestBroker, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = str(write_profiled_topics(broker, unique, tmp_path).worker_file)
    here, there = tmp_path / "here.avro", tmp_path / "there.avro"
    assert connect_share(["export", "-w", worker, "--all-groups", "-o", str(here)]) == 0
    # Many slices, and more than one wave of tasks.
    monkeypatch.setattr(export_groups, "_SLICE", 40)
    capsys.readouterr()
    assert export_groups.main(["-w", worker, "--all-groups", "-o", str(there), "--output", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    first, second = read(here), read(there)
    assert sorted(first, key=repr) == sorted(second, key=repr) != []
    assert printed["records"] == len(first)
    for path in (here, there):
        last: dict[tuple[str, int], int] = {}
        for _, record in read(path):
            assert last.get((record.topic, record.partition), -1) < record.offset
            last[record.topic, record.partition] = record.offset
    assert connect_share(["restore", str(there), "-w", worker, "--dry-run"]) == 0
    for form in ("-o", "--folder"):
        assert export_groups.main(["-w", worker, form, str(there)]) == 1
        assert "is there already" in capsys.readouterr().err
    # A place that has its name in this process only.
    alone = f"/proc/self/fd/{os.open(tmp_path, os.O_RDONLY)}/alone"
    assert export_groups.main(["-w", worker, "--folder", alone]) == 1
    assert "is not the same to driver and executors" in capsys.readouterr().err
    assert not (tmp_path / "alone").exists()

    folder = tmp_path / "folder"
    assert export_groups.main(["-w", worker, "--all-groups", "--folder", str(folder), "--output", "json"]) == 0
    printed, parts = json.loads(capsys.readouterr().out), sorted(folder.iterdir())
    assert [oct(each.stat().st_mode)[-3:] for each in (folder, *parts)] == ["700", *["600"] * len(parts)]
    assert (
        printed["sha256"]
        == sha256("".join(sha256(each.read_bytes()).hexdigest() for each in parts).encode()).hexdigest()
    )
    assert read(folder) == second
    assert connect_share(["restore", str(folder), "-w", worker, "--yes"]) == 0
    assert connect_share(["describe", "backup", str(folder)]) == 0
    parts[1].unlink()
    for path in (folder, parts[0]):
        assert connect_share(["restore", str(path), "-w", worker, "--dry-run"]) == 1
        assert "is not whole: an export in parts is a folder" in capsys.readouterr().err


def read(path: Path) -> list[tuple[TopicType, Record]]:
    """Return the records of a backup, in its order, each partition's in theirs."""
    files = BackupFiles.at(path, None)
    files.check()
    return list(files.read(Silent()))
