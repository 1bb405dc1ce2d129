"""A rule of the house that no linter has."""

from __future__ import annotations

import ast
from pathlib import Path


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
