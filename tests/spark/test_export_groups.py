"""An export by Spark is the console's own, record for record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connect_share.backup.record_file import RecordFile
from connect_share.cli.__main__ import main as connect_share
from spark_jobs import export_groups
from tests.support.kafka import TestBroker
from tests.support.profiled_topics import write_profiled_topics


@pytest.mark.usefixtures("spark")
def test_spark_writes_what_the_console_writes(
    broker: TestBroker,
    unique: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = str(write_profiled_topics(broker, unique, tmp_path).worker_file)
    here, there = tmp_path / "here.avro", tmp_path / "there.avro"
    assert connect_share(["export", "-w", worker, "--all-groups", "-o", str(here)]) == 0
    # Many slices, and more than one wave of tasks.
    monkeypatch.setattr(export_groups, "_SLICE", 40)
    capsys.readouterr()
    assert export_groups.main(["-w", worker, "--all-groups", "-o", str(there), "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    files = [RecordFile(path) for path in (here, there)]
    for file in files:
        file.check()
    first, second = (sorted(file.read_sections(), key=repr) for file in files)
    assert first == second != []
    assert told["records"] == len(first)
    # Records of one partition stay in their order.
    for file in files:
        last: dict[tuple[str, int], int] = {}
        for _, record in file.read_sections():
            assert last.get((record.topic, record.partition), -1) < record.offset
            last[record.topic, record.partition] = record.offset
    assert connect_share(["restore", str(there), "-w", worker, "--dry-run"]) == 0
    assert export_groups.main(["-w", worker, "-o", str(there)]) == 1
    assert "is there already" in capsys.readouterr().err
