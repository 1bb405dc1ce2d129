"""Sizes and rooms of a small tree, and what is said above a ceiling."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.lab.house.ceilings import CEILINGS, Ceiling, excesses
from tests.lab.house.size import measure

FILES = {
    "connect_share/__init__.py": "",
    "connect_share/__init__.pyi": "from connect_share.keys import Key as Key\n",
    "connect_share/keys.py": "class Key: ...\n",
    "connect_share/java/Key.java": "class Key {\n}\n",
    "connect_share/runtime/__init__.py": "class Key: ...\n",  # a part
    "migrator/plan.py": "from connect_share import Key\n",
    "tests/unit/test_keys.py": "\n" * 8,
    "tests/lab/house.py": "\n\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_is_above_its_ceiling_is_named_with_a_remedy(tree: Path) -> None:
    ceilings = {
        **CEILINGS,
        "lines of the core": Ceiling(2),
        "lines of a file": Ceiling(4, "Divide it."),
        "class names used twice": Ceiling(0, "Rename one."),
    }
    assert excesses(measure(tree), ceilings) == [
        "lines of the core: 5 are 3 above the ceiling of 2. Take away what is said twice, or use what is there.",
        "lines of a file: 8 are 4 above the ceiling of 4 (tests/unit/test_keys.py). Divide it.",
        "class names used twice: 1 are 1 above the ceiling of 0 (Key). Rename one.",
    ]
    assert len(excesses(measure(tree), dict.fromkeys(CEILINGS, Ceiling(-1)))) == len(CEILINGS)


def test_what_starts_a_module_is_its_last_statement() -> None:
    """Else it runs before the rest is defined, which no test sees that imports the module."""
    root = Path(__file__).parents[2]
    tops = ("connect_share", "migrator", "spark_jobs", "tests")
    texts = {path: path.read_text("utf-8") for top in tops for path in (root / top).rglob("*.py")}
    for path, text in texts.items():
        body = ast.parse(text).body if "\nif __name__" in text else []
        starts = [
            at for at, node in enumerate(body) if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
        ]
        assert starts in ([], [len(body) - 1]), path
