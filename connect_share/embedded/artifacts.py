"""Java programs from Maven artifacts, against a lock with exact versions and checksums.

No registry address is written down here: the files are fetched by Maven (if present) or by the Ivy that comes inside
PySpark, both with their own defaults and the user's settings. What arrives has to have the checksum of the lock.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from connect_share.cache import cache_folder, locked
from connect_share.embedded.errors import EmbeddedError
from connect_share.java_runtime import java_command

LOCK_FILE: Final = Path(__file__).with_name("artifacts.lock.json")
RESOLVER_VARIABLE: Final = "CONNECT_SHARE_RESOLVER"
_TIMEOUT_S: Final = 900
_TRIES: Final = 3
_PAUSE_S: Final = 2.0
"""Between tries: first this, then twice as long."""
_IVY_AT_ONCE: Final = 4  # Ivy fetches one file after another
_ALONE: Final = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One jar of the lock; ``coordinates`` are ``group:artifact:version[:classifier]``."""

    coordinates: str
    file: str
    bytes: int
    sha256: str

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """Group, artifact, version, classifier (empty if none)."""
        group, artifact, version, *rest = self.coordinates.split(":")
        return group, artifact, version, rest[0] if rest else ""


@cache
def locked_sets() -> dict[str, tuple[Artifact, ...]]:
    """Give the sets of the lock by name."""
    data = json.loads(LOCK_FILE.read_text(encoding="utf-8"))
    return {name: tuple(Artifact(**entry) for entry in found["artifacts"]) for name, found in data["sets"].items()}


def ensure_artifacts(name: str) -> Path:
    """Give the folder with all jars of a set, fetched once into the user's cache.

    Args:
        name: such as ``kafka-4.3.1``.

    Raises:
        EmbeddedError: unknown set, nothing could fetch it, or a file has another checksum than the lock.
    """
    artifacts = locked_sets().get(name)
    if artifacts is None:
        raise EmbeddedError(f"no set {name!r} in {LOCK_FILE.name}; there are {', '.join(sorted(locked_sets()))}")
    digest = hashlib.sha256("".join(a.sha256 for a in artifacts).encode()).hexdigest()[:12]
    folder = cache_folder() / "artifacts" / f"{name}-{digest}"
    if folder.is_dir():
        return folder
    with locked("artifacts"):
        if not folder.is_dir():
            _fetch_into(folder, name, artifacts)
    return folder


def class_path(folder: Path) -> str:
    """Give all jars of a folder as an explicit class path."""
    return os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")))


def _fetch_into(folder: Path, name: str, artifacts: Sequence[Artifact]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    total = sum(artifact.bytes for artifact in artifacts)
    print(f"fetching {len(artifacts)} jars of {name} ({total / 1e6:.0f} MB) once", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as temporary:
        jars = Path(temporary) / "jars"
        jars.mkdir()
        troubles = []
        for title, resolve in _resolvers():
            missing = [artifact for artifact in artifacts if not (jars / artifact.file).exists()]
            if not missing:
                break
            try:
                resolve(missing, jars)
            except (OSError, subprocess.SubprocessError, EmbeddedError) as exc:
                troubles.append(f"{title}: {exc}")
            for artifact in missing:
                _check(artifact, jars / artifact.file, title)
        missing = [artifact for artifact in artifacts if not (jars / artifact.file).exists()]
        if missing:
            raise EmbeddedError(
                f"{len(missing)} jars of {name} could not be fetched, such as {missing[0].coordinates}; "
                f"check the network or the Maven settings ({'; '.join(troubles) or 'no resolver found'})"
            )
        for path in jars.iterdir():
            if path.name not in {artifact.file for artifact in artifacts}:
                path.unlink()
        jars.replace(folder)


def _check(artifact: Artifact, path: Path, source: str) -> None:
    if not path.exists():
        return
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != artifact.sha256:
        raise EmbeddedError(
            f"{artifact.coordinates} from {source} has checksum {found}, the lock says {artifact.sha256}; "
            f"remove it from the local repository, and do not trust its source"
        )


def _resolvers() -> list[tuple[str, Callable[[Sequence[Artifact], Path], None]]]:
    every: dict[str, Callable[[Sequence[Artifact], Path], None]] = {
        "local repository": _from_local_repository,
        "mvn": _with_maven,
        "ivy": _with_ivy,
    }
    chosen = os.environ.get(RESOLVER_VARIABLE, "").strip()
    if not chosen:
        return list(every.items())
    if chosen not in every:
        raise EmbeddedError(f"{RESOLVER_VARIABLE} has to be one of {', '.join(every)}")
    return [(chosen, every[chosen])]


def _from_local_repository(artifacts: Sequence[Artifact], jars: Path) -> None:
    """Take what Maven has fetched before; only files with the right checksum."""
    for artifact in artifacts:
        group, name, version, _ = artifact.parts
        path = Path.home() / ".m2" / "repository" / group.replace(".", "/") / name / version / artifact.file
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == artifact.sha256:
            shutil.copyfile(path, jars / artifact.file)


def _with_maven(artifacts: Sequence[Artifact], jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise EmbeddedError("mvn is not installed")
    entries = []
    for artifact in artifacts:
        group, name, version, classifier = artifact.parts
        extra = f"<classifier>{escape(classifier)}</classifier>" if classifier else ""
        entries.append(
            f"<dependency><groupId>{escape(group)}</groupId><artifactId>{escape(name)}</artifactId>"
            f"<version>{escape(version)}</version>{extra}{_ALONE}</dependency>"
        )
    pom = jars.parent / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>connect-share</groupId><artifactId>artifacts</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{''.join(entries)}</dependencies></project>"
    )
    _run([maven, "-q", "-B", "-f", str(pom), f"{_DEPENDENCY_PLUGIN}:copy-dependencies", f"-DoutputDirectory={jars}"])


def _with_ivy(artifacts: Sequence[Artifact], jars: Path) -> None:
    spec = importlib.util.find_spec("pyspark")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise EmbeddedError("PySpark, whose Ivy could fetch them, is not installed")
    chunks = [artifacts[start::_IVY_AT_ONCE] for start in range(_IVY_AT_ONCE)]
    with ThreadPoolExecutor(_IVY_AT_ONCE) as threads:
        futures = [
            threads.submit(_run_ivy, found[-1], chunk, jars, jars.parent / f"ivy-{number}")
            for number, chunk in enumerate(chunks)
            if chunk
        ]
        for future in futures:
            future.result()


def _run_ivy(ivy: Path, artifacts: Sequence[Artifact], jars: Path, work: Path) -> None:
    work.mkdir()
    dependencies = "".join(
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} transitive='false' "
        f"conf='default-&gt;master'/>"
        for group, name, version, _ in (artifact.parts for artifact in artifacts)
    )
    module = work / "ivy.xml"
    module.write_text(
        "<ivy-module version='2.0'><info organisation='connect-share' module='artifacts'/>"
        f"<configurations><conf name='default'/></configurations><dependencies>{dependencies}</dependencies></ivy-module>"
    )
    _run(
        [
            str(java_command()),
            "-jar",
            str(ivy),
            "-warn",
            "-ivy",
            str(module),
            "-cache",
            str(work / "cache"),
            "-confs",
            "default",
            "-retrieve",
            f"{jars}/[artifact]-[revision](-[classifier]).[ext]",
        ]
    )


def _run(command: Sequence[str]) -> None:
    """Run what fetches, and again when it fails: one connection that breaks off ends it, and what has come is kept."""
    for number in range(_TRIES):
        time.sleep(number * _PAUSE_S)
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode == 0:
            return
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    raise EmbeddedError(f"{Path(command[0]).name} ended with {done.returncode}: {' / '.join(lines[-3:])[:500]}")


def relock(name: str, roots: Sequence[str]) -> None:
    """Resolve roots with Maven, and write the set into the lock file.

    Args:
        name: of the set.
        roots: coordinates; with what they depend on, unless they end with ``!``.

    Raises:
        EmbeddedError: Maven is not there or cannot resolve them.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise EmbeddedError("making a lock needs mvn")
    with tempfile.TemporaryDirectory() as temporary:
        pom, listing = Path(temporary) / "pom.xml", Path(temporary) / "list.txt"
        dependencies = "".join(
            "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>".format(
                *root.removesuffix("!").split(":")[:3], _ALONE if root.endswith("!") else ""
            )
            for root in roots
        )
        pom.write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>connect-share</groupId><artifactId>lock</artifactId>"
            f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
        )
        jars = Path(temporary) / "jars"
        common = [maven, "-q", "-B", "-f", str(pom), "-DincludeScope=runtime"]
        _run([*common, f"{_DEPENDENCY_PLUGIN}:copy-dependencies", f"-DoutputDirectory={jars}"])
        _run([*common, f"{_DEPENDENCY_PLUGIN}:list", f"-DoutputFile={listing}", "-Dstyle.color=never"])
        entries = sorted(_listed(listing.read_text(), jars), key=lambda entry: str(entry["coordinates"]))
    data = json.loads(LOCK_FILE.read_text(encoding="utf-8"))
    data["sets"][name] = {"roots": list(roots), "artifacts": entries}
    LOCK_FILE.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


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


def main(argv: list[str]) -> int:
    """Fetch sets, or make the lock anew (``--relock NAME ROOT...``)."""
    parser = argparse.ArgumentParser(prog="python -m connect_share.embedded.artifacts", description=__doc__)
    parser.add_argument("names", nargs="*", help="sets to fetch; all by default")
    parser.add_argument("--relock", nargs="+", metavar="WORD", help="NAME ROOT...: resolve roots and lock them as NAME")
    options = parser.parse_args(argv)
    try:
        if options.relock:
            relock(options.relock[0], options.relock[1:])
        else:
            for name in options.names or sorted(locked_sets()):
                print(ensure_artifacts(name))
    except EmbeddedError as exc:
        print(exc, file=sys.stderr)
        return exc.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
