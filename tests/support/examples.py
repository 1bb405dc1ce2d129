"""Examples of the documentation, which tests run."""

from __future__ import annotations

from pathlib import Path

_DOCS = Path(__file__).parents[2] / "docs"


def example(page: str) -> str:
    """Return the first Python code of a page."""
    _, found, rest = (_DOCS / page).read_text("utf-8").partition("```python\n")
    assert found, f"{page} has no Python code"
    return rest.partition("```\n")[0]
