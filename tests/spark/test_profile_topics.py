"""Topics profiled by Spark: the same result as the console's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connect_share.cli.__main__ import main as connect_share
from spark_jobs import profile_topics
from tests.support.kafka import TestBroker
from tests.support.profiled_topics import SECRET, write_profiled_topics


@pytest.mark.usefixtures("spark")
def test_spark_counts_what_the_console_counts(
    broker: TestBroker, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = write_profiled_topics(broker, unique, tmp_path)
    words = ["-w", str(topics.worker_file), "--model", str(topics.model_file)]
    result = tmp_path / "results" / "profile.json"
    capsys.readouterr()
    assert profile_topics.main([*words, "--result", str(result)]) == 0
    captured = capsys.readouterr()
    assert f"advice: {topics.topic('offsets')}: segment.ms" in captured.out
    assert SECRET not in captured.out + captured.err + result.read_text()
    told = json.loads(result.read_text())
    assert told.pop("_command") == "profile_topics"

    assert connect_share(["check", "startup", *words, "--output", "json"]) == 1
    console = json.loads(capsys.readouterr().out)
    assert console.pop("_command") == "check startup"
    assert told.pop("profiled_at_ms") <= console.pop("profiled_at_ms")
    assert told == console


@pytest.mark.usefixtures("spark")
def test_spark_gives_the_usage_that_the_console_gives(
    broker: TestBroker, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = write_profiled_topics(broker, unique, tmp_path)
    capsys.readouterr()
    assert profile_topics.main(["-w", str(topics.worker_file), "--usage"]) == 0
    spark = json.loads(capsys.readouterr().out)
    assert connect_share(["usage", "-w", str(topics.worker_file), "--output", "json"]) == 0
    console = json.loads(capsys.readouterr().out)
    assert (spark.pop("_command"), console.pop("_command")) == ("profile_topics", "usage")
    # What is written a second changes.
    names = ("group", "records", "bytes", "share", "superseded_records", "live_keys")
    rows = [[{name: row[name] for name in names} for row in told["groups"]] for told in (spark, console)]
    assert rows[0] == rows[1] != []
    assert spark.keys() == console.keys()
    assert (
        profile_topics.main(["-w", str(topics.worker_file), "--usage", "--result", str(long := tmp_path / ("r" * 250))])
        == 1
    )
    assert f"error: {long} cannot be written (File name too long): make room" in capsys.readouterr().err
