"""Resolves Maven artifacts and writes them, with checksums, into the lock of the embedded cluster, or another one."""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from spark_jobs import command_line
from tests.lab.embedded.artifacts import DEPENDENCY_PLUGIN, LOCK_FILE, Artifact, locked_sets, parts_of, run_maven


def lock_artifacts(name: str, roots: Sequence[str], lock_file: Path = LOCK_FILE, beside: Sequence[str] = ()) -> None:
    """Resolve roots with Maven, and write the set into the lock file.

    Args:
        name: of the set.
        roots: coordinates, with a classifier or without; with what they depend on, unless they end with ``!``.
        lock_file: where the set is written.
        beside: sets of ``LOCK_FILE`` that stand before this one in the class path, so what they have is left out.
    """
    dependencies = [(parts_of(root.removesuffix("!")), not root.endswith("!")) for root in roots]
    with tempfile.TemporaryDirectory() as temporary:
        pom, listing, jars = (Path(temporary) / each for each in ("pom.xml", "list.txt", "jars"))
        copy, show = f"{DEPENDENCY_PLUGIN}:copy-dependencies", f"{DEPENDENCY_PLUGIN}:list"
        run_maven(pom, dependencies, copy, "-DincludeScope=runtime", f"-DoutputDirectory={jars}")
        run_maven(pom, dependencies, show, "-DincludeScope=runtime", f"-DoutputFile={listing}", "-Dstyle.color=never")
        found = sorted(_listed(listing.read_text(), jars), key=lambda jar: jar.coordinates)
    there = {_kind(jar) for one in beside for jar in locked_sets()[one]}
    entries = [asdict(jar) for jar in found if _kind(jar) not in there]
    data = json.loads(lock_file.read_text(encoding="utf-8"))
    data["sets"][name] = {"roots": list(roots), "artifacts": entries}
    lock_file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _kind(jar: Artifact) -> tuple[str, ...]:
    """Return the coordinates without the version."""
    group, artifact, _, classifier = jar.parts
    return group, artifact, classifier


def _listed(listing: str, jars: Path) -> Iterator[Artifact]:
    """Yield the jars of a list of Maven: ``group:artifact:jar[:classifier]:version:scope``."""
    for line in listing.splitlines():
        parts = line.split()[0].split(":") if line.strip() else []
        if len(parts) in (5, 6) and parts[2] == "jar":
            named = [parts[1], parts[-2], *parts[3:-2]]
            file = f"{'-'.join(named)}.jar"
            data = (jars / file).read_bytes()
            yield Artifact(":".join([parts[0], *named]), file, len(data), hashlib.sha256(data).hexdigest())


def main(argv: Sequence[str]) -> int:
    """Lock one set. 0 done, 1 failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.lock_artifacts", description=__doc__)
    parser.add_argument("name", help="of the set")
    parser.add_argument(
        "roots", nargs="+", help="group:artifact:version[:classifier], with ! at the end without what it depends on"
    )
    parser.add_argument("--lock-file", type=Path, default=LOCK_FILE, help="default: that of the embedded cluster")
    parser.add_argument("--beside", action="append", default=[], help="a set whose jars are left out; may be repeated")

    def body(options: argparse.Namespace) -> int:
        lock_artifacts(options.name, options.roots, options.lock_file, options.beside)
        return 0

    return command_line.run(parser.parse_args(argv), body)


if __name__ == "__main__":
    command_line.exit_with(main)
