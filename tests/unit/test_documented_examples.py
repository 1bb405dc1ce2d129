"""Examples in the documentation that need no broker run as they are written, and are typed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
MARK = f"<!-- example: tests/unit/{Path(__file__).name} runs the next block -->\n```python\n(.*?)```"
EXAMPLES = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in sorted(DOCS.glob("*.md"))
    for number, block in enumerate(re.findall(MARK, page.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_examples_are_typed(tmp_path: Path) -> None:
    """As an embedder's own ``mypy --strict`` sees them."""
    files = []
    for number, example in enumerate(EXAMPLES):
        files.append(tmp_path / f"example_{number}.py")
        files[-1].write_text(str(example.values[0]))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", *files],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
