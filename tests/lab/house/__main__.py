"""Compare revisions: ``python -m tests.lab.house [--walks] [REVISION ...]``; without one, the files as they are now."""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from connect_share.embedded.broker import LocalBroker
from connect_share.embedded.worker import worker_properties, write_properties
from tests.lab.house.size import HouseSize, measure

ROOT = Path(__file__).parents[3]


def unpack(revision: str, folder: Path) -> Path:
    """Put the files of a revision into a folder."""
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def measure_starts(result: Path) -> None:
    """Measure a few starts, for a report of them."""
    words = ["--embedded", "--scenarios", "tiny", "--contenders", "python,librdkafka", "--rounds", "1"]
    command = [sys.executable, "-m", "spark_jobs.benchmark_startup", *words, "--no-storm", "--no-latency"]
    subprocess.run([*command, "--result", str(result)], cwd=ROOT, stdout=sys.stderr, check=True)


def walks(root: Path, result: Path) -> Mapping[str, Mapping[str, int]]:
    """Walk through a tree on a broker of its own; give the counts of each walk."""
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old = worker_properties(broker.bootstrap_servers, "orders", "own")
        new = {
            **worker_properties(broker.bootstrap_servers, "orders", "shared"),
            "connect.management.topic.sharing.support": "enabled",
            "interceptor.classes": "connectshare.TopicSharingInterceptor",
        }
        shutil.copy(result, folder / "result.json")
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
    lines = [f"| | {' | '.join(sizes)} |", f"| --- |{' --- |' * len(sizes)}"]
    for part in next(iter(sizes.values())).parts:
        cells = [f"{size.parts[part].lines:,} lines, {size.parts[part].files} files" for size in sizes.values()]
        lines.append(f"| {part} | {' | '.join(cells)} |")
    longest = [f"{lines_} {place}" for lines_, place in (size.longest_functions[0] for size in sizes.values())]
    lines.append(f"| longest function | {' | '.join(longest)} |")
    lines.append(f"| files over 400 lines | {' | '.join(str(len(size.long_files)) for size in sizes.values())} |")
    small = [str(len(size.single_importer_modules)) for size in sizes.values()]
    lines.append(f"| modules under 40 lines with one importer | {' | '.join(small)} |")
    return lines


def walk_lines(found: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[str]:
    """Lines of the same table for the walks."""
    lines = []
    for walk in next(iter(found.values())):
        cells = [", ".join(f"{count} {what}" for what, count in tree[walk].items()) for tree in found.values()]
        lines.append(f"| {walk} | {' | '.join(cells)} |")
    return lines


def main(argv: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.house", description=__doc__)
    parser.add_argument("revisions", nargs="*", metavar="REVISION")
    parser.add_argument("--walks", action="store_true", help="walk through each, on a local broker")
    parser.add_argument("--details", action="store_true", help="name the long files, functions and small modules")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        trees = {revision: unpack(revision, Path(name) / str(at)) for at, revision in enumerate(options.revisions)}
        trees = trees or {"now": ROOT}
        sizes = {revision: measure(tree) for revision, tree in trees.items()}
        print("\n".join(size_lines(sizes)))
        if options.walks:
            result = Path(name) / "result.json"
            measure_starts(result)
            print("\n".join(walk_lines({revision: walks(tree, result) for revision, tree in trees.items()})))
        if options.details:
            for revision, size in sizes.items():
                print(
                    f"\n{revision}", *size.long_files, *size.longest_functions, *size.single_importer_modules, sep="\n"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
