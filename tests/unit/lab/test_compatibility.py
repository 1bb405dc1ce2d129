"""The compatibility matrix without its brokers: cells, logs, outcomes, the result file, the page, the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connect_share.errors import ConfigError
from connect_share.model.records import TopicType
from tests.lab.compatibility import __main__ as command
from tests.lab.compatibility.cells import Cell, JavaKind, Plugin, planned
from tests.lab.compatibility.page import page
from tests.lab.compatibility.result import (
    CellResult,
    JavaEvidence,
    Machine,
    Outcome,
    PythonEvidence,
    Start,
    decide,
    document,
    load_results,
    save_document,
)
from tests.lab.compatibility.worker_log import read_log, topics_read, why_it_cannot
from tests.lab.embedded.artifacts import locked_sets
from tests.lab.embedded.broker import DEFAULT_VERSION

OLD = JavaKind(version="2.8.2", plugin=Plugin.PLAIN)
NEW = JavaKind(version="4.3.1", plugin=Plugin.JAR)
MACHINE = Machine(processors=2, memory_gb=8, system="Linux 6", python="3.11.7", java=17)


def start(log_lines: int, warnings: int, cpu_seconds: float | None = 2.0) -> Start:
    return Start(seconds=3, cpu_seconds=cpu_seconds, log_lines=log_lines, log_bytes=90_000, warnings=warnings, errors=1)


def evidence(kind: JavaKind, *, alone: Start | None, arrived: int = 20, missing: int = 0) -> JavaEvidence:
    said = dict.fromkeys(TopicType, 7 if kind.plugin is Plugin.PLAIN else 0)
    return JavaEvidence(
        kind=kind,
        connectors=3,
        starts=3,
        kills=1,
        lines_written=20,
        lines_arrived=arrived,
        missing_statuses=missing,
        alone=alone,
        beside=start(4_000, 21),
        foreign=dict.fromkeys(TopicType, 7),
        about_foreign=said,
        other_about_foreign=0,
    )


def shared(cell: Cell, *java: JavaEvidence) -> CellResult:
    python = PythonEvidence(connectors=3, statuses=4, offsets=2, starts=3, start_seconds=0.1)
    return CellResult.of(cell, decide(None), MACHINE, java=java, python=[python, python], load=1.5)


def test_every_broker_has_python_alone_each_worker_both_ways_and_old_beside_new() -> None:
    cells = planned(["3.9.2", "4.3.1"], ["2.8.2", "3.9.2", "4.3.1"], [Plugin.PLAIN, Plugin.JAR])
    rows = [cell.row for cell in cells if cell.broker == "4.3.1"]
    assert len(cells) == 20
    assert len({cell.name for cell in cells}) == 20
    assert rows == [
        "python",
        *(f"{version}-{plugin}" for version in ("2.8.2", "3.9.2", "4.3.1") for plugin in ("plain", "jar")),
        "2.8.2-plain+4.3.1-jar",
        "3.9.2-plain+3.9.2-jar",
        "4.3.1-plain+2.8.2-jar",
    ]
    assert [cell.row for cell in planned(["4.3.1"], ["2.8.2"], [Plugin.JAR])] == ["python", "2.8.2-jar"]


def test_there_is_a_worker_and_a_broker_of_every_version_of_the_matrix() -> None:
    assert command.broker_versions() == ("3.9.2", "4.1.2", "4.3.1", "4.4.0")
    assert command.worker_versions() == ("2.8.2", "3.9.2", "4.3.1")
    for version in set(command.broker_versions()) - {DEFAULT_VERSION}:
        assert any(jar.parts[1] == "kafka_2.13" for jar in locked_sets()[f"kafka-broker-{version}"])


LOG = """[2026-01-02 03:04:05,678] INFO Kafka Connect worker initializing ... (org.apache.kafka.connect.cli)
[2026-01-02 03:04:06,000] WARN The configuration 'x' was supplied but isn't a known config. (o.a.k.AdminClientConfig)
[2026-01-02 03:04:06,001] ERROR Discarding config update record with invalid key: t.com.acme.connector-a (o.a.k)
[2026-01-02 03:04:06,002] WARN Discarding record with invalid key t.com.acme.status-task-a-0 (o.a.k)
[2026-01-02 03:04:06,003] WARN Ignoring offset partition key with unknown serialization. Expected json. (o.a.k)
org.apache.kafka.connect.errors.DataException: Converting byte[] to Kafka Connect data failed
	at org.apache.kafka.connect.json.JsonConverter.toConnectData(JsonConverter.java:1) WARN
[2026-01-02 03:04:06,004] ERROR Failed to do something with t.com.acme.commit-a (o.a.k)
[2026-01-02 03:04:06,005] WARN [Worker clientId=1, groupId=t.com.acme.orders] left (o.a.k)
[2026-01-02 03:04:06,006] ERROR Failed to do something with t.com.acme.orders.commit-a (o.a.k)
[2026-01-02 03:04:07,890] INFO Started KafkaConfigBackingStore (o.a.k.KafkaConfigBackingStore)
[2026-01-02 03:04:08,000] INFO [Worker clientId=1] Herder started (o.a.k.DistributedHerder)
"""


def test_a_log_is_counted_by_what_it_says_of_others() -> None:
    at, end = topics_read(LOG) or ("", 0)
    assert at == "2026-01-02 03:04:07,890"
    reading = read_log(LOG[:end], ["t.com.acme", "t.team-7.my.conn"])
    assert reading.about_foreign == {TopicType.CONFIG: 1, TopicType.STATUS: 1, TopicType.OFFSET: 1}
    # Neither its own group id, which begins like the other's, nor its own keys.
    assert reading.other_about_foreign == 1
    assert (reading.lines, reading.warnings, reading.errors) == (10, 4, 3)
    assert reading.bytes == len(LOG[:end].encode())
    assert read_log(LOG, []).other_about_foreign == 0
    assert topics_read("[2026-01-02 03:04:05,678] INFO Starting KafkaConfigBackingStore (x)\n") is None


def test_only_a_known_reason_explains_and_only_trouble_is_explained() -> None:
    assert decide(None) == (Outcome.SHARES, "")
    assert decide(None, cannot="too old") == (Outcome.SHARES, "")
    assert decide("x\n y " + "z" * 900) == (Outcome.FAILS, ("x y " + "z" * 900)[:400])
    reason = why_it_cannot("Caused by: org.apache.kafka.common.errors.UnsupportedVersionException: The node does not")
    assert reason is not None
    assert decide("the worker ended", cannot=reason) == (Outcome.EXPLAINED, reason)
    assert why_it_cannot(LOG) is None


def test_a_result_file_is_gone_on_with(tmp_path: Path) -> None:
    cells = planned(["4.3.1"], ["2.8.2"], [Plugin.PLAIN, Plugin.JAR])
    path = tmp_path / "new" / "result.json"
    assert load_results(path) == {}
    results = {
        cells[1].name: shared(cells[1], evidence(OLD, alone=start(1_000, 0))),
        cells[2].name: CellResult.of(cells[2], decide("it broke"), MACHINE),
    }
    save_document(path, document(results))
    again = load_results(path)
    assert again == results
    assert json.loads(path.read_text())["_command"] == "compatibility"
    assert [cell.name for cell in command.still_to_do(cells, again, again=False)] == [
        cells[0].name,
        cells[2].name,
        cells[3].name,
    ]
    assert command.still_to_do(cells, again, again=True) == cells


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2, "cells": {}}', '{"format": 1, "cells": {"x": {}}}'])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"result\.json"):
        load_results(path)


def test_the_page_says_what_was_found_and_nothing_becomes_markup() -> None:
    alone, pair, broken = Cell("4.1.2", (OLD,)), Cell("4.1.2", (OLD, NEW)), Cell("4.3.1", (NEW,))
    results = {
        cell.name: result
        for cell, result in (
            (broken, CellResult.of(broken, decide("a|b <script> `x`"), MACHINE)),
            (pair, shared(pair, evidence(OLD, alone=None, missing=1), evidence(NEW, alone=None))),
            (alone, shared(alone, evidence(OLD, alone=start(1_000, 5, None)))),
        )
    }
    text = page(results)
    assert "**3 cells: 2 share, 0 cannot for a reason that is explained, 1 fail.** A worker was killed" in text
    assert "and restarted 3 times. 60 of 60 lines arrived." in text
    assert "1 task statuses were missing" in text
    assert "| beside two Python groups | broker 4.1.2 | broker 4.3.1 |" in text
    assert "| 2.8.2 (Old) | shares | not tried |" in text
    assert "| 4.3.1 with the jar (New) | not tried | **fails** (1) |" in text
    assert "1. a\\|b &lt;script> 'x'\n" in text
    assert (
        "| 4.1.2 | 2.8.2 (Old) beside 4.3.1 with the jar (New) | 3 and 3 | 3, 1 and 3, 1 | 20, 20 and 20, 20 |" in text
    )
    assert "| 4.1.2 | 2.8.2 (Old) | 7 / 7 | 7 / 7 | 7 / 7 | 0 | 6 → 22 |" in text
    assert "| 4.1.2 | 4.3.1 with the jar (New), beside 2.8.2 (Old) | 0 / 7 | 0 / 7 | 0 / 7 | 0 | 22 |" in text
    assert "| 1,000 → 4,000 (x 4.0) | 0.09 → 0.09 (x 1.0) | not known here | 3.0 → 3.0 (x 1.0) |" in text
    assert "3.0 → 3.0" not in page({"busy": results[alone.name].model_copy(update={"load": 3.5})})
    assert "$" not in text
    assert text.endswith("\n")


def test_the_command_line_has_the_whole_matrix_as_default() -> None:
    options = command.parse([])
    assert (options.brokers, options.workers) == (command.broker_versions(), command.worker_versions())
    assert options.plugin == tuple(Plugin)


def test_a_broker_of_ones_own_has_one_name_and_workers_may_be_ones_own(tmp_path: Path) -> None:
    (tmp_path / "connect-runtime-3.6.1.jar").write_bytes(b"")
    words = ["-B", "host:1", "--brokers", "3.7", "--workers", "3.6.1", "--libs", f"3.6.1={tmp_path}", "--plugin", "jar"]
    options = command.parse(words)
    assert (options.brokers, options.workers, options.plugin) == (("3.7",), ("3.6.1",), (Plugin.JAR,))
    assert options.libraries == {"3.6.1": tmp_path}
    assert command.parse(["-B", "host:1"]).brokers == ("given",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--brokers", "3.9.2,0.8"], "--brokers 0.8: there are 3.9.2, 4.1.2, 4.3.1, 4.4.0; or give your own broker"),
        (["--workers", "3.6.1"], "or give the jars of your own: --libs"),
        (["--plugin", "both"], "there are plain, jar"),
        (["--bootstrap", "host:1", "--brokers", "3.9.2,4.1.2"], "one broker"),
        (["--client-properties", "x"], "give --bootstrap, too"),
        (["--libs", "3.6.1=/does/not/exist"], "folder with Kafka's jars"),
        (["--libs", "ours=/does/not/exist"], "has to be VERSION=FOLDER, Kafka's version"),
        (["--prefix", "connector-x"], "which is how keys of Connect begin"),
        (["--foreign", "-1"], "--foreign has to be 0 or more"),
    ],
)
def test_contradictions_are_usage_errors(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


def test_cells_that_were_measured_are_kept_without_a_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = planned(["4.3.1"], ["4.3.1"], [Plugin.JAR])
    result, report = tmp_path / "result.json", tmp_path / "page.md"
    results = {
        cell.name: shared(cell, *(evidence(kind, alone=start(1_000, 0)) for kind in cell.java)) for cell in cells
    }
    save_document(result, document(results))
    words = ["--brokers", "4.3.1", "--workers", "4.3.1", "--plugin", "jar", "--result", str(result)]
    assert command.main([*words, "--report", str(report), "--output", "json"]) == 0
    captured = capsys.readouterr()
    assert "2 of 2 cells were measured before" in captured.err
    found = json.loads(captured.out)
    assert found["_version"]
    assert set(found["cells"]) == set(results)
    assert report.read_text("utf-8") == page(results)
