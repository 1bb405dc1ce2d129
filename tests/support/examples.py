"""Examples of the documentation, which tests run."""

from __future__ import annotations

from pathlib import Path

_DOCS = Path(__file__).parents[2] / "docs"


def example(page: str, heading: str) -> str:
    """Return the Python code below a heading of a page."""
    _, found, section = (_DOCS / page).read_text("utf-8").partition(f"## {heading}\n")
    assert found, f"{page} has no section {heading}"
    return section.partition("\n## ")[0].partition("```python\n")[2].partition("```")[0]
