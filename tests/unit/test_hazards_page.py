"""docs/hazards.md: each hazard has a test on a real broker, and every test it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "hazards.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ON_A_BROKER = ("tests/broker/", "tests/worker/")


def test_every_row_is_complete_and_has_a_test_on_a_broker() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| **")]
    assert len(rows) >= 9
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 5, row
        assert all(cells), row
        assert any(path.startswith(ON_A_BROKER) for path, _ in NAMED.findall(cells[4])), row


def test_every_test_named_is_there() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) == PAGE.count("::test_")
    for path, name in named:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\(", source, re.MULTILINE), f"{path}::{name}"


def test_every_test_of_a_hazard_is_named() -> None:
    folder = ROOT / "tests" / "broker" / "hazards"
    there = {
        (str(path.relative_to(ROOT)), name)
        for path in folder.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert there <= set(NAMED.findall(PAGE))
