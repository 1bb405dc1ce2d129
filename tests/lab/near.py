"""Run the tests near a change, in under a minute: ``python -m tests.lab.near [--since REVISION]``.

Near are tests that changed, and those that import what changed, directly or through a few modules. Unit tests come first, the
nearest first. Tests that need a broker are run only if they changed themselves. What is left out is named, and how to run it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final
from xml.etree import ElementTree

from tests.lab.house.modules import PRODUCT, imported_names, module_name, module_of, source

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "build" / "near"
SECONDS: Final = RESULTS / "seconds.json"
LEFT_OUT: Final = RESULTS / "left_out.txt"
REPORT: Final = RESULTS / "report.xml"
PYTEST: Final = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "-o", "junit_family=xunit1")  # which names the files
MOST_STEPS: Final = 3
# Of tests that were not run before; the other ones start brokers and workers.
UNIT_SECONDS_A_LINE: Final = 0.007
OTHER_SECONDS_A_LINE: Final = 0.1


def _importers(trees: Mapping[str, ast.Module], packages: Iterable[str]) -> dict[str, set[str]]:
    # Who imports a name that a package hands on depends on the module that it comes from, not on the whole package.
    handed_on = {
        f"{package}.{alias.asname or alias.name}": f"{node.module}.{alias.name}"
        for package in packages
        for node in ast.walk(trees[package])
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    importers: dict[str, set[str]] = defaultdict(set)
    for module, tree in trees.items():
        for imported in imported_names(tree):
            name = imported
            while name in handed_on and name not in trees:
                name = handed_on[name]
            importers[module_of(name, trees)].add(module)
    return importers


def _names(module: PurePath, text: str, data: PurePath) -> bool:
    """Tell whether a module names a file that is no module; of a test it is enough that it names the file's folder."""
    return data.name in text or (module.name.startswith("test_") and f'{data.parent.name or data.name}"' in text)


def import_graph(root: Path) -> tuple[dict[str, Path], dict[str, str], dict[str, set[str]]]:
    """Return the file and the text of every module, tests included, and who imports it."""
    paths = [path.relative_to(root) for top in (*PRODUCT, "tests") for path in sorted((root / top).rglob("*.py"))]
    modules = {module_name(path): path for path in paths}
    texts = {module: source(root / path) for module, path in modules.items()}
    trees = {module: ast.parse(text) for module, text in texts.items()}
    importers = _importers(trees, [module for module, path in modules.items() if path.name == "__init__.py"])
    return modules, texts, importers


def steps_to_tests(root: Path, changed: Collection[str]) -> dict[str, int]:
    """Return the test files near changed files, and over how many imports; 0: it changed itself."""
    modules, texts, importers = import_graph(root)
    files = {PurePath(path) for path in changed}
    last = {module for module, path in modules.items() if path in files}
    steps = dict.fromkeys(last, 0)
    # Who imports a package as a whole may look at all of it.
    packages = {package for package in PRODUCT if any(module.startswith(f"{package}.") for module in last)}
    data = [path for path in files if path.suffix != ".py"]
    # What is not imported: data that a module names, fixtures of a folder.
    near = {module for module, path in modules.items() if any(_names(path, texts[module], one) for one in data)}
    fixtures = {path.parent for path in files if path.name == "conftest.py"}
    near |= {module for module, path in modules.items() if fixtures.intersection(path.parents)}
    for step in range(1, MOST_STEPS + 1):
        near |= {importer for module in last | packages for importer in importers[module]}
        last, near, packages = near - steps.keys(), set(), set()
        steps |= dict.fromkeys(last, step)
    return {modules[module].as_posix(): at for module, at in steps.items() if modules[module].name.startswith("test_")}


def is_unit(test: str) -> bool:
    """Tell whether a test file is one of unit tests, by its folders."""
    return "unit" in PurePath(test).parts


def estimated(root: Path, tests: Iterable[str], measured: Mapping[str, float], processes: int) -> dict[str, float]:
    """Return how many seconds each test file takes of a run: unit tests run beside each other, the others do not."""
    found = {}
    for test in tests:
        unit = is_unit(test)
        lines = (root / test).read_bytes().count(b"\n")
        seconds = measured.get(test, lines * (UNIT_SECONDS_A_LINE if unit else OTHER_SECONDS_A_LINE))
        found[test] = seconds / processes if unit else seconds
    return found


def select(steps: Mapping[str, int], seconds: Mapping[str, float], limit_s: float) -> tuple[list[str], list[str]]:
    """Return what to run and what to leave out: unit tests before others, near before far, until the time is over."""
    chosen, left_out = [], []
    for test in sorted(steps, key=lambda test: (not is_unit(test), steps[test], seconds[test], test)):
        if (is_unit(test) or steps[test] == 0) and seconds[test] <= limit_s:
            limit_s -= seconds[test]
            chosen.append(test)
        else:
            left_out.append(test)
    return chosen, left_out


def changed_files(since: str) -> set[str]:
    """Return files that changed since the branch left a revision, committed or not, and new ones."""
    commands = [["diff", "--name-only", "--merge-base", since], ["ls-files", "--others", "--exclude-standard"]]
    try:
        answers = [subprocess.check_output(["git", *words], cwd=ROOT, text=True) for words in commands]
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"cannot compare with {since!r}: name a revision with --since") from error
    return {line for answer in answers for line in answer.splitlines()}


def run(tests: Sequence[str], measured: dict[str, float], processes: int) -> bool:
    """Run test files, each in one of so many processes; note how long each file took."""
    REPORT.unlink(missing_ok=True)
    options = (*PYTEST, "-n", str(processes), "--dist", "loadfile", f"--junit-xml={REPORT}")
    code = subprocess.run([sys.executable, "-m", "pytest", *options, *tests], cwd=ROOT, check=False).returncode
    if REPORT.exists():  # else it said why it ended at once
        spent: dict[str, float] = defaultdict(float)
        for case in ElementTree.parse(REPORT).iter("testcase"):
            spent[case.get("file", "")] += float(case.get("time", 0))
        measured.update(spent)
    return code in {0, 5}  # 5: all of its tests are slow ones


def main(argv: Sequence[str]) -> int:
    """Select, run, and say what was left out."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.near", description=__doc__)
    parser.add_argument("--since", default="main", metavar="REVISION", help="where the branch began (main)")
    parser.add_argument("--seconds", type=float, default=45, help="how long the tests may take (45)")
    options = parser.parse_args(argv)
    RESULTS.mkdir(parents=True, exist_ok=True)
    measured = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    steps = steps_to_tests(ROOT, changed_files(options.since))
    processes = min(os.cpu_count() or 1, 4)
    chosen, left_out = select(steps, estimated(ROOT, steps, measured, processes), options.seconds)
    units = [test for test in chosen if is_unit(test)]
    others = [test for test in chosen if not is_unit(test)]
    print(f"near the change: {len(units)} files of unit tests, {len(others)} others; {len(left_out)} are left out")
    held = not units or run(units, measured, processes)
    if held and others:
        held = run(others, measured, 0)
    elif others:
        print("not run, for a unit test failed:", *others, sep="\n  ")
    SECONDS.write_text(json.dumps(measured))
    if left_out:
        LEFT_OUT.write_text("".join(f"{test}\n" for test in left_out))
        print("left out, for they need a broker or more time:", *left_out[:5], sep="\n  ")
        print(f"  ... all {len(left_out)}: {sys.executable} -m pytest @{LEFT_OUT.relative_to(ROOT)}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
