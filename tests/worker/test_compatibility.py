"""One cell of the compatibility matrix on the tests' own broker; ``make compat`` has them all."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from connect_share.model.records import TopicType
from tests.lab.compatibility.__main__ import main
from tests.lab.compatibility.result import Outcome, load_results
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.waiting import await_that


@pytest.mark.skipif(not LONG, reason="one cell, and make compat has them all: make soak")
@pytest.mark.timeout(900)
def test_an_old_worker_shares_with_python_and_one_that_does_not_start_fails_its_cell(
    broker: TestBroker, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, report = tmp_path / "result.json", tmp_path / "page.md"
    words = ["-B", broker.bootstrap_servers, "--brokers", "ours", "--plugin", "plain", "--no-cost", "--foreign", "90"]
    words += ["--prefix", unique, "--result", str(result), "--report", str(report)]
    code = main([*words, "--workers", "3.9.2"])
    assert code == 0, capsys.readouterr()
    found = load_results(result)
    assert set(found) == {"ours/python", "ours/3.9.2-plain"}
    assert {len(cell.python) for cell in found.values()} == {2}
    (java,) = found["ours/3.9.2-plain"].java
    assert (java.starts, java.kills) == (2, 1)
    assert java.lines_arrived == java.lines_written > 0
    # What others wrote since it was counted may be logged, too; what is counted may be cleaned before it is logged.
    assert all(java.foreign[topic_type] >= 30 for topic_type in TopicType)
    assert all(java.about_foreign[topic_type] > 0 for topic_type in TopicType)
    assert "| 3.9.2 (Old) | shares |" in report.read_text("utf-8")
    with broker.admin() as admin:
        await_that(
            lambda: [name for name in admin.topic_names() if name.startswith(unique)],
            lambda left: not left,
            what="its topics removed",
        )

    # What was measured is kept; a Kafka of one's own that has no worker in it fails its cell, and the command.
    libraries = tmp_path / "libs"
    libraries.mkdir()
    with zipfile.ZipFile(libraries / "connect-runtime-9.9.jar", "w") as jar:
        jar.writestr("empty", "")
    capsys.readouterr()
    assert main([*words, "--workers", "9.9", "--libs", f"9.9={libraries}", "--output", "json"]) == 1
    captured = capsys.readouterr()
    assert "1 of 2 cells were measured before" in captured.err
    assert {name: cell["outcome"] for name, cell in json.loads(captured.out)["cells"].items()} == {
        "ours/python": "shares",
        "ours/9.9-plain": "fails",
    }
    assert load_results(result)["ours/9.9-plain"].outcome is Outcome.FAILS
    assert "| 9.9 (Old) | **fails** (1) |" in report.read_text("utf-8")
