"""The page in the docs is of the whole matrix, and of the result that lies beside it."""

from __future__ import annotations

from pathlib import Path

from tests.lab.compatibility.__main__ import broker_versions, worker_versions
from tests.lab.compatibility.cells import Plugin, planned
from tests.lab.compatibility.page import page
from tests.lab.compatibility.result import Outcome, load_results

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_in_the_docs_is_that_of_the_result_beside_it_and_the_whole_matrix_is_green() -> None:
    results = load_results(DOCS / "compatibility.json")
    assert page(results) == (DOCS / "compatibility.md").read_text("utf-8")
    whole = planned(broker_versions(), worker_versions(), tuple(Plugin))
    assert {cell.name for cell in whole} == set(results)
    assert all(results[cell.name].outcome is not Outcome.FAILS for cell in whole)
    for cell in whole:
        assert [one.kind for one in results[cell.name].java] == list(cell.java)
