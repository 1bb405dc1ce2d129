"""Resolves Maven artifacts and writes them, with checksums, into the lock of the embedded cluster, or another one."""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from spark_jobs import command_line
from tests.lab.embedded.artifacts import DEPENDENCY_PLUGIN, LOCK_FILE, Parts, locked_sets, run_maven


def lock_artifacts(name: str, roots: Sequence[str], lock_file: Path = LOCK_FILE, beside: Sequence[str] = ()) -> None:
    """Resolve roots with Maven, and write the set into the lock file.

    Args:
        name: of the set.
        roots: coordinates, with a classifier or without; with what they depend on, unless they end with ``!``.
        lock_file: where the set is written.
        beside: sets of ``LOCK_FILE`` that stand before this one in the class path, so what they have is left out.
    """
    dependencies: list[tuple[Parts, bool]] = []
    for root in roots:
        group, artifact, version, *rest = root.removesuffix("!").split(":")
        dependencies.append(((group, artifact, version, rest[0] if rest else ""), not root.endswith("!")))
    with tempfile.TemporaryDirectory() as temporary:
        pom, listing, jars = (Path(temporary) / each for each in ("pom.xml", "list.txt", "jars"))
        copy, show = f"{DEPENDENCY_PLUGIN}:copy-dependencies", f"{DEPENDENCY_PLUGIN}:list"
        run_maven(pom, dependencies, copy, "-DincludeScope=runtime", f"-DoutputDirectory={jars}")
        run_maven(pom, dependencies, show, "-DincludeScope=runtime", f"-DoutputFile={listing}", "-Dstyle.color=never")
        entries = sorted(_listed(listing.read_text(), jars), key=lambda entry: str(entry["coordinates"]))
    there = {_kind(jar.coordinates) for one in beside for jar in locked_sets()[one]}
    entries = [entry for entry in entries if _kind(str(entry["coordinates"])) not in there]
    data = json.loads(lock_file.read_text(encoding="utf-8"))
    data["sets"][name] = {"roots": list(roots), "artifacts": entries}
    lock_file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _kind(coordinates: str) -> tuple[str, ...]:
    """Return the coordinates without the version."""
    group, artifact, _, *rest = coordinates.split(":")
    return group, artifact, *rest


def _listed(listing: str, jars: Path) -> list[dict[str, str | int]]:
    entries: list[dict[str, str | int]] = []
    for line in listing.splitlines():
        parts = line.split()[0].split(":") if line.strip() else []
        if len(parts) not in (5, 6) or parts[2] != "jar":
            continue
        group, name, classifier, version = parts[0], parts[1], parts[3] if len(parts) == 6 else "", parts[-2]
        file = f"{name}-{version}-{classifier}.jar" if classifier else f"{name}-{version}.jar"
        data = (jars / file).read_bytes()
        coordinates = ":".join([group, name, version, *([classifier] if classifier else [])])
        entries.append(
            {
                "coordinates": coordinates,
                "file": file,
                "bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
        )
    return entries


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
