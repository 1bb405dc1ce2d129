"""Compare revisions: ``python -m tests.lab.house [--walks] [REVISION ...]``; without one, the files as they are now.

``--ceilings`` compares the files as they are now with what they may be at most, and fails where they are more.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.house.ceilings import CEILINGS, excesses, figures
from tests.lab.house.size import AREAS, HouseSize, measure

ROOT = Path(__file__).parents[3]


def unpack(revision: str, folder: Path) -> Path:
    """Put the files of a revision into a folder."""
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def walks(root: Path) -> Mapping[str, Mapping[str, int]]:
    """Walk through a tree on a broker of its own; give the counts of each walk."""
    from tests.lab.embedded.broker import LocalBroker  # here, for the ceilings need no Kafka
    from tests.lab.embedded.worker import worker_properties, write_properties

    with LocalBroker() as broker, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old = worker_properties(broker.bootstrap_servers, "orders", "own")
        new = worker_properties(broker.bootstrap_servers, "orders", "shared", sharing="java")
        write_properties(folder / "old.properties", old)
        write_properties(folder / "new.properties", new)
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("walk.py")), str(folder)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout))


def size_lines(sizes: Mapping[str, HouseSize]) -> list[str]:
    """Lines of a Markdown table, one column for each tree."""
    found = list(sizes.values())
    rows = {
        area: [f"{size.areas[area].lines:,} lines, {size.areas[area].files} files" for size in found] for area in AREAS
    }
    rows["entries of connect_share"] = [str(len(size.entries)) for size in found]
    rows["longest file"] = ["{} {}".format(*size.longest_files[0]) for size in found]
    rows["longest function"] = ["{} {}".format(*size.longest_functions[0]) for size in found]
    rows["class names used twice"] = [str(len(size.repeated_classes)) for size in found]
    head = [f"| | {' | '.join(sizes)} |", f"| --- |{' --- |' * len(sizes)}"]
    return [*head, *(f"| {row} | {' | '.join(cells)} |" for row, cells in rows.items())]


def walk_lines(found: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[str]:
    """Lines of the same table for the walks."""
    lines = []
    for walk in next(iter(found.values())):
        cells = [", ".join(f"{count} {what}" for what, count in tree[walk].items()) for tree in found.values()]
        lines.append(f"| {walk} | {' | '.join(cells)} |")
    return lines


def check_ceilings() -> int:
    """Print the figures of the files as they are now, and what is above its ceiling."""
    size = measure(ROOT)
    for name, figure in figures(size).items():
        print(f"{name:<26}{figure:>7,}, at most {CEILINGS[name].most:,}")
    above = excesses(size)
    for sentence in above:
        print(sentence, file=sys.stderr)
    return 1 if above else 0


def main(argv: Sequence[str]) -> int:
    """Print the table, or compare with the ceilings."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.house", description=__doc__)
    parser.add_argument("revisions", nargs="*", metavar="REVISION")
    parser.add_argument("--walks", action="store_true", help="walk through each, on a local broker")
    parser.add_argument("--ceilings", action="store_true", help="fail if the files as they are now are above a ceiling")
    options = parser.parse_args(argv)
    if options.ceilings:
        return check_ceilings()
    with tempfile.TemporaryDirectory() as name:
        trees = {revision: unpack(revision, Path(name) / str(at)) for at, revision in enumerate(options.revisions)}
        trees = trees or {"now": ROOT}
        sizes = {revision: measure(tree) for revision, tree in trees.items()}
        print("\n".join(size_lines(sizes)))
        if options.walks:
            print("\n".join(walk_lines({revision: walks(tree) for revision, tree in trees.items()})))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
