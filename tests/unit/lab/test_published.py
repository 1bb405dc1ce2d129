"""What the docs publish is drawn from the results that lie beside it, and these results hold."""

from __future__ import annotations

from itertools import combinations

from spark_jobs.benchmark.results import read
from tests.lab.benchmarks.figures import ROOT, TABLES, drawings, with_figures
from tests.lab.benchmarks.startup.comparison import compare
from tests.lab.compatibility.__main__ import broker_versions, worker_versions
from tests.lab.compatibility.cells import Plugin, planned
from tests.lab.compatibility.page import page as compatibility_page
from tests.lab.compatibility.result import Matrix, Outcome
from tests.lab.peers.page import page as peers_page
from tests.lab.peers.result import Mode, Result
from tests.support.html_page import PageReader, check_self_contained

DOCS = ROOT / "docs"


def test_figures_and_pages_are_those_of_the_benchmarks_results() -> None:
    drawn = drawings(ROOT)
    assert {ROOT / "README.md", *(DOCS / page for page in TABLES)} < drawn.keys()
    for path, text in drawn.items():
        assert path.read_text("utf-8") == text, path
    readme = drawn[ROOT / "README.md"]
    assert with_figures(readme, "figures", "") != readme
    assert len(readme.splitlines()) <= 120
    page = drawn[DOCS / "benchmarks" / "startup.html"]
    PageReader(page)
    check_self_contained(page)
    committed = read(DOCS / "benchmarks" / "startup.json")
    rounds = {
        each.name: min(len(one.seconds) for one in committed.starts if one.scenario == each.name)
        for each in committed.scenarios
    }
    assert (rounds.pop("kip"), rounds.pop("workers-20")) == (24, 24)
    assert {each.startswith("workers"): number for each, number in rounds.items()} == {True: 8, False: 6}
    said = (
        "The KIP's workload has 24 rounds, with whole workers, too; whole workers beside other groups, with a delay or on "
        "three brokers have 8, the other scenarios 6."
    )
    assert said in (DOCS / "startup-benchmark.md").read_text("utf-8")


def test_three_runs_are_the_same() -> None:
    runs = [read(DOCS / "benchmarks" / f"{name}.json") for name in ("startup", "startup-2", "startup-3")]
    for before, after in combinations(runs, 2):
        found = compare(before, after)
        assert sum(row.verdict == "same" for row in found.rows) == 11
        assert not found.differs
    assert runs[2].measured_at_ms - runs[1].measured_at_ms > 3_600_000


def test_the_whole_compatibility_matrix_is_green() -> None:
    results = Matrix.load(DOCS / "compatibility.json").cells
    assert compatibility_page(results) == (DOCS / "compatibility.md").read_text("utf-8")
    whole = planned(broker_versions(), worker_versions(), tuple(Plugin))
    assert {cell.name for cell in whole} == set(results)
    assert all(results[cell.name].outcome is Outcome.SHARES for cell in whole)
    for cell in whole:
        assert [one.kind for one in results[cell.name].java] == list(cell.java)


def test_all_of_kafkas_own_tests_hold() -> None:
    result = Result.load(DOCS / "kafka-tests.json")
    assert peers_page(result) == (DOCS / "kafka-tests.md").read_text("utf-8")
    assert [trouble for one in result.runs for trouble in one.troubles] == []
    for kafka in result.classes:
        plain, mutant = result.of(kafka, Mode.PLAIN), result.of(kafka, Mode.MUTANT)
        assert mutant
        for mode in (Mode.SHARED, Mode.SEALED):
            for name, one in result.of(kafka, mode).items():
                beside = plain.get(name, one)  # a page of a part may have no plain run of a class yet
                assert {test.name for test in one.found.tests} == {test.name for test in beside.found.tests}
