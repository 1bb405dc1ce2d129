"""Examples of the documentation and of docstrings."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import connect_share

_DOCS = Path(__file__).parents[2] / "docs"
PAGES = [_DOCS.parent / "README.md", *sorted(_DOCS.rglob("*.md"))]
MARK = re.compile(r"<!-- example: (tests/[\w/]+\.py) runs the next block -->\n```python\n(.*?)```", re.DOTALL)
"""Before each Python code of a page stands the test that runs it."""


def marked(test: str) -> list[tuple[str, str]]:
    """Return the pages and the code on them that a test, by its own ``__file__``, has to run."""
    own = str(Path(test).relative_to(_DOCS.parent))
    return [(page.stem, code) for page in PAGES for by, code in MARK.findall(page.read_text("utf-8")) if by == own]


def write_examples(folder: Path) -> list[Path]:
    """Write the examples of all pages, a file each, for type checkers."""
    found = []
    for page in PAGES:
        for number, (_, code) in enumerate(MARK.findall(page.read_text("utf-8"))):
            found.append(folder / f"{page.stem.replace('-', '_')}_{number}.py")
            found[-1].write_text(code)
    return found


def example(page: str) -> str:
    """Return the first Python code of a page."""
    _, found, rest = (_DOCS / page).read_text("utf-8").partition("```python\n")
    assert found, f"{page} has no Python code"
    return rest.partition("```\n")[0]


PUBLIC_NAMES: list[str] = vars(connect_share)["__all__"]
"""What ``from connect_share import *`` brings; type checkers see the names, not the list."""
WORKER = "worker_config"
"""A name in examples that need a broker: the worker file of a group that shares its topics with others."""


@cache
def _all_examples() -> list[doctest.DocTest]:
    found: list[doctest.DocTest] = []
    for module in pkgutil.walk_packages(connect_share.__path__, "connect_share."):
        if ">>> " in inspect.getsource(imported := importlib.import_module(module.name)):
            found.extend(doctest.DocTestFinder(exclude_empty=True).find(imported, module.name))
    return [each for each in found if each.examples]


def examples(*, with_broker: bool) -> list[doctest.DocTest]:
    """Return the examples that need a broker, or the others."""
    return [each for each in _all_examples() if (WORKER in (each.docstring or "")) == with_broker]


def run(example: doctest.DocTest, names: dict[str, Any]) -> str:
    """Run an example; return what is wrong with it, nothing if it is right."""
    said: list[str] = []
    example.globs |= names
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    return "".join(said)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    write_examples(Path(sys.argv[1]))
