"""The figures of the README and the docs, drawn from results of the benchmarks."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from connect_share.contents.cost_model import load_model
from connect_share.errors import ConfigError
from spark_jobs.benchmark.results import StartupResult
from tests.lab.benchmarks.figures import BEGIN, END, ROOT, TABLES, main, moves, readme_figures, stale, with_figures
from tests.lab.benchmarks.frame import hand_out
from tests.lab.benchmarks.migration_report import migration_report, size_report
from tests.support.startup_results import a_result


def without(scenario: str) -> StartupResult:
    whole = a_result()
    return whole.model_copy(update={"starts": [each for each in whole.starts if each.scenario != scenario]})


def test_the_readme_shows_machine_medians_and_goals() -> None:
    text = readme_figures(a_result())
    assert "on 2026-11-21, in one run on one machine with 2 processors and 25 GB" in text
    assert "Kafka 4.3.1, librdkafka 2.16.0; 5 rounds" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count(" | ") for line in table} == {3}
    assert "20 groups of 5 jobs, 8,000 records a topic, configs 32 MB | 1,000 groups, 1,300,000 records |" in table[0]
    warm = next(
        each for each in a_result().starts if (each.scenario, each.contender, each.warmth) == ("kip", "python", "warm")
    )
    median = f"**{sorted(warm.seconds)[7] * 1e3:.0f}** ("
    assert table[2].startswith(f"| **Python stores**, shared topics, warm | {median}")
    assert next(line for line in table if "from a checkpoint" in line).startswith(
        "| the same, from a checkpoint with 1 % new"
    )
    assert len(table) == 2 + 9
    assert "100 starts, 2 at once, take 0.60 times as long" in text
    assert "goals](docs/benchmarks/startup.md) are met" in text


def test_what_was_not_measured_has_no_row() -> None:
    whole = a_result()
    few = whole.model_copy(
        update={
            "starts": [each for each in whole.starts if each.contender == "python"],
            "storms": [],
            "latencies": [],
        }
    )
    text = readme_figures(few)
    assert "kcat" not in text.split("are met")[0]
    assert "A put" not in text
    assert "100 starts, " not in text


def test_a_part_of_the_scenarios_makes_no_table() -> None:
    with pytest.raises(ConfigError, match="groups-1000 is not in the result: run make bench"):
        readme_figures(without("groups-1000"))


def test_the_marks_have_to_be_there() -> None:
    one, other = BEGIN.format("one"), BEGIN.format("other")
    page = f"a\n{one}\nold\n{END}\nb\n{other}\nkept\n{END}\n"
    assert with_figures(page, "one", "new") == page.replace("old", "\nnew\n")
    for wrong in ("", f"{one}\n", f"{END}\n{one}\n", f"{one}\n{END}\n{one}\n", f"{other}\n{END}\n"):
        with pytest.raises(ConfigError, match="once and, further down"):
            with_figures(wrong, "one", "new")


def test_the_readme_compares_moves() -> None:
    def size(ours: float, theirs: float) -> dict[str, Any]:
        runs = {"mirror_maker": (theirs, 33), "local_apply": (ours, 7), "local_verify": (1, 2)}
        rounds = {name: [{"wall_s": wall_s, "cpu_s": cpu_s, "peak_bytes": 1}] for name, (wall_s, cpu_s) in runs.items()}
        return size_report(10, 10, rounds, {"mirror_maker": {"misplaced": 976_320}})

    text = moves(migration_report({"kip": size(1.5, 9), "1000000": size(8, 22.4)}, 1))
    assert (
        "takes 1.5 s as a whole process, and 9.0 s with MirrorMaker 2 and a key transform: 6.00 times as long" in text
    )
    assert "take 8.0 s (7.0 CPU seconds), 9.0 s (9.0 CPU seconds) with verification, and 22.4 s (33.0 CPU" in text
    assert "2.80 times as long. It leaves 976,320 of them" in text


def test_results_are_taken_over_drawn_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench, docs = tmp_path / "bench", tmp_path / "docs" / "benchmarks"
    (bench / "startup").mkdir(parents=True)
    (tmp_path / "README.md").write_text(f"before\n{BEGIN.format('starts')}\n{END}\nafter\n")
    result = bench / "startup" / "result.json"
    assert main([str(bench)], tmp_path) == 2
    result.write_text(without("kip").model_dump_json())
    assert main([str(bench)], tmp_path) == 2
    assert not docs.exists()
    capsys.readouterr()
    result.write_text(a_result().model_dump_json())
    (bench / "console.json").write_text("{}")
    (bench / "console.txt").write_text("a table\n")
    page = tmp_path / "docs" / "console.md"
    docs.parent.mkdir()
    page.write_text(f"{BEGIN.format('console')}\n{END}\n")
    model = tmp_path / "connect_share" / "contents" / "model.json"
    model.parent.mkdir(parents=True)
    assert main([str(bench)], tmp_path) == 0
    assert "\n\n```text\na table\n```\n\n" in page.read_text("utf-8")
    assert {each.name for each in docs.iterdir()} == {
        *("startup.json", "startup.html", "startup.md", "console.json", "console.txt")
    }
    assert readme_figures(a_result()) in (tmp_path / "README.md").read_text("utf-8")
    assert load_model(model).model == a_result().model
    assert main(["--check"], tmp_path) == 0
    (docs / "startup.md").write_text("edited")
    assert main(["--check"], tmp_path) == 1
    assert "startup.md is not what" in capsys.readouterr().err
    assert main([], tmp_path) == 0
    assert stale(tmp_path) == []


def test_other_benchmarks_say_versions_and_leave_their_table_beside_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = Namespace(result=tmp_path / "new" / "console.json", output="text")
    hand_out(options, "benchmark_console", {"seconds": 1}, ["a table"])
    report = json.loads(options.result.read_text("utf-8"))
    assert report["seconds"] == 1
    assert {"librdkafka", "connect_share"} <= report["versions"].keys()
    text = options.result.with_suffix(".txt").read_text("utf-8")
    assert text.startswith("a table\n\nprocessors ")
    assert f"connect_share {report['versions']['connect_share']}" in text
    assert capsys.readouterr().out == "a table\n"


def test_the_pages_of_this_tree_are_those_of_the_committed_results() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert with_figures(with_figures(readme, "starts", ""), "moves", "") != readme
    for page, benchmarks in TABLES.items():
        text = (ROOT / "docs" / page).read_text("utf-8")
        assert all(with_figures(text, each, "") for each in benchmarks)
    if (ROOT / "docs" / "benchmarks" / "startup.json").exists():
        assert stale(ROOT) == []
