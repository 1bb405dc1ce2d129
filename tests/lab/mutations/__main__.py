"""Change the pure core in many places, one at a time, and look whether the unit tests near it notice: ``make mutate``.

Nothing is changed in the working tree: every process has a copy of it. The same seed gives the same changes.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests.lab.mutations.mutants import Mutant, mutants, replacement
from tests.lab.near import ROOT, import_graph, is_unit

CHANGES: Final = tomllib.loads((Path(__file__).with_name("changes.toml")).read_text())
_TESTS: Final = {each["name"]: [tuple(map(Path, each["tests"]))] for each in CHANGES["named"] if "tests" in each}
EQUAL: Final = {(each["module"], each["old"], each["new"]) for each in CHANGES["equal"]}
_LONGEST_S: Final = 300.0
"""Seconds after which a change counts as noticed: the tests hang."""
_PYTEST: Final = ("pytest", "-q", "-x", "--no-header", "-p", "no:randomly", "-p", "no:cacheprovider", "-m", "not slow")


_graph = cache(import_graph)  # not when this is imported: it reads and parses every file


def modules_of(names: tuple[str, ...]) -> list[str]:
    """Return the modules with these names, and those in packages with these names."""
    files = _graph(ROOT)[0]
    found = (module for module in files if f"{module}.".startswith(tuple(f"{name}." for name in names)))
    return [module for module in found if files[module].name != "__init__.py"]


@cache
def near(module: str) -> list[tuple[Path, ...]]:
    """Return the unit tests of a module: those near it, then those near what imports it; in each the quickest first.

    Raises:
        LookupError: there is none.
    """
    files, texts, importers = _graph(ROOT)
    seen, last, levels = {module}, {module}, []
    while last:
        last = {importer for each in last for importer in importers.get(each, ())} - seen
        seen |= last
        tests = [each for each in last if is_unit(files[each].as_posix()) and ".test_" in each]
        if tests:
            # Property tests take longer than others.
            tests.sort(key=lambda test: ("hypothesis" in texts[test], test))
            levels.append(tuple(files[each] for each in tests))
    if not levels:
        raise LookupError(f"no unit test is near {module}")
    return levels


@cache
def source(module: str) -> bytes:
    """Return the text of a module in the working tree, also if that changes meanwhile."""
    return ROOT.joinpath(*module.split(".")).with_suffix(".py").read_bytes()


def named_mutants() -> list[Mutant]:
    """Return the changes that were written by hand."""
    named = ((each, source(each["module"])) for each in CHANGES["named"])
    return [replacement(each["module"], text, each["old"], each["new"], each["name"]) for each, text in named]


def chosen(modules: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Choose changes at random, without those that are known to change nothing."""
    found = [(each, each.lines(source(module))) for module in modules for each in mutants(module, source(module))]
    every = [each for each, lines in found if (each.module, *lines) not in EQUAL]
    return random.Random(seed).sample(every, min(count, len(every)))


@contextmanager
def copies(count: int) -> Iterator[list[Path]]:
    """Copy the working tree as often as is asked for."""
    left = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", ".*_cache", ".hypothesis")
    with tempfile.TemporaryDirectory(prefix="connect-share-mutants-") as folder:
        yield [Path(shutil.copytree(ROOT, Path(folder) / str(number), ignore=left)) for number in range(count)]


def passes(copy: Path, tests: Sequence[Path], limit_s: float = _LONGEST_S) -> bool:
    """Run tests in a copy until the first one fails."""
    with (copy / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *_PYTEST, *map(str, tests)],
            cwd=copy,
            env={**os.environ, "CI": "1"},  # property tests try the same examples every time
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def survives(copy: Path, mutant: Mutant) -> bool:
    """Return whether no test near the change notices it."""
    path = copy / _graph(ROOT)[0][mutant.module]
    whole, at_s = path.read_bytes(), int(path.stat().st_mtime) + 2
    try:
        path.write_bytes(mutant.applied(whole))
        # Another time as well: the compiled module of the change before must not be taken for that of this one.
        os.utime(path, (at_s, at_s))
        return all(passes(copy, tests) for tests in _TESTS.get(mutant.name) or near(mutant.module))
    finally:
        path.write_bytes(whole)
        os.utime(path, (at_s + 2, at_s + 2))


def run(wanted: Sequence[Mutant], processes: int) -> list[str]:
    """Try all changes; return those that nothing notices."""
    survivors: list[str] = []
    with copies(processes) as made, ThreadPoolExecutor(processes) as threads:
        if not passes(made[0], sorted({test for mutant in wanted for test in near(mutant.module)[0]}), 3600.0):
            sys.exit(f"the tests fail without a change:\n{(made[0] / 'output.txt').read_text()}")
        free: SimpleQueue[Path] = SimpleQueue()
        for copy in made:
            free.put(copy)

        def attempt(mutant: Mutant) -> None:
            copy, began_s = free.get(), time.monotonic()
            survived = survives(copy, mutant)
            free.put(copy)
            before, after = mutant.lines(source(mutant.module))
            what = f"{mutant.module} {mutant.name}\n  - {before}\n  + {after}"
            print(f"{'SURVIVED' if survived else 'killed'} {time.monotonic() - began_s:.1f} s: {what}", flush=True)
            if survived:
                survivors.append(what)

        list(threads.map(attempt, wanted))
    return survivors


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 1 if a change survives that is not known to change nothing."""
    parser = argparse.ArgumentParser(prog="tests.lab.mutations", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="changes at random beside those written by hand")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("modules", nargs="*", help="modules or packages instead of the core and the changes by hand")
    options = parser.parse_args(argv)
    modules = modules_of(tuple(options.modules or CHANGES["core"]))
    wanted = [*([] if options.modules else named_mutants()), *chosen(modules, options.count, options.seed)]
    survivors = run(wanted, options.processes)
    print(f"\n{len(wanted)} changes, {len(survivors)} noticed by no test near them:", *survivors, sep="\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
