"""Java programs from Maven artifacts, against a lock with exact versions and checksums.

No registry address is written down here. Maven, if it is installed, or the Ivy that comes inside PySpark fetches the files,
with its own defaults and the user's settings. Every file has to have the checksum of the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias
from xml.sax.saxutils import escape, quoteattr

from connect_share.errors import ConnectShareError
from connect_share.files import cache_folder
from connect_share.jar.java_runtime import java_command
from tests.lab.embedded.errors import EmbeddedError

LOCK_FILE: Final = Path(__file__).with_name("artifacts.lock.json")
_TIMEOUT_S: Final = 900
_TRIES: Final = 3
_PAUSE_S: Final = 2.0
"""Between tries: first this long, then twice as long."""
_IVY_AT_ONCE: Final = 4  # Ivy fetches one file after another
_ALONE: Final = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold a lock that other processes of this user respect."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


Parts: TypeAlias = tuple[str, str, str, str]
"""Group, artifact, version, classifier (empty if none)."""


def parts_of(coordinates: str) -> Parts:
    """Return coordinates, split."""
    group, artifact, version, *rest = coordinates.split(":")
    return group, artifact, version, rest[0] if rest else ""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One jar of the lock; ``coordinates`` are ``group:artifact:version[:classifier]``."""

    coordinates: str
    file: str
    bytes: int
    sha256: str

    @property
    def parts(self) -> Parts:
        """The coordinates, split."""
        return parts_of(self.coordinates)


@cache
def locked_sets(lock_file: Path | None = None) -> dict[str, tuple[Artifact, ...]]:
    """Return the sets of a lock by name; ``None`` is ``LOCK_FILE``."""
    data = json.loads((lock_file or LOCK_FILE).read_text(encoding="utf-8"))
    return {name: tuple(Artifact(**entry) for entry in found["artifacts"]) for name, found in data["sets"].items()}


def ensure_artifacts(name: str, lock_file: Path | None = None) -> Path:
    """Return the folder with all jars of a set, fetched once into the user's cache; ``None`` is ``LOCK_FILE``.

    Raise ``EmbeddedError`` for an unknown set, if nothing could fetch it, or for another checksum than the lock's.
    """
    sets = locked_sets(lock_file)
    artifacts = sets.get(name)
    if artifacts is None:
        raise EmbeddedError(f"no set {name!r} in {(lock_file or LOCK_FILE).name}; there are {', '.join(sorted(sets))}")
    digest = hashlib.sha256("".join(a.sha256 for a in artifacts).encode()).hexdigest()[:12]
    folder = cache_folder() / "artifacts" / f"{name}-{digest}"
    if folder.is_dir():
        return folder
    with locked("artifacts"):
        if not folder.is_dir():
            _fetch_into(folder, name, artifacts)
    return folder


def class_path(folder: Path) -> str:
    """Return all jars of a folder as a class path."""
    return os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")))


def _fetch_into(folder: Path, name: str, artifacts: Sequence[Artifact]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    total = sum(artifact.bytes for artifact in artifacts)
    print(f"fetching {len(artifacts)} jars of {name} ({total / 1e6:.0f} MB) once", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as temporary:
        jars = Path(temporary) / "jars"
        jars.mkdir()
        troubles = []
        for title, resolve in (("mvn", _with_maven), ("ivy", _with_ivy)):
            missing = [artifact for artifact in artifacts if not (jars / artifact.file).exists()]
            if not missing:
                break
            try:
                resolve(missing, jars)
            except (OSError, subprocess.SubprocessError, ConnectShareError) as exc:
                troubles.append(f"{title}: {exc}")
            for artifact in missing:
                _check(artifact, jars / artifact.file, title)
        missing = [artifact for artifact in artifacts if not (jars / artifact.file).exists()]
        if missing:
            raise EmbeddedError(
                f"{len(missing)} jars of {name} could not be fetched, such as {missing[0].coordinates}; "
                f"check the network or the Maven settings ({'; '.join(troubles)})"
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


def run_maven(pom: Path, dependencies: Iterable[tuple[Parts, bool]], *arguments: str) -> None:
    """Run Maven on dependencies, each with whether what it depends on belongs to it.

    Raise ``EmbeddedError`` if Maven is not installed, or failed.
    """
    program = shutil.which("mvn")
    if program is None:
        raise EmbeddedError("mvn is not installed")
    entries = []
    for (group, name, version, classifier), transitive in dependencies:
        extra = f"<classifier>{escape(classifier)}</classifier>" if classifier else ""
        entries.append(
            f"<dependency><groupId>{escape(group)}</groupId><artifactId>{escape(name)}</artifactId>"
            f"<version>{escape(version)}</version>{extra}{'' if transitive else _ALONE}</dependency>"
        )
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>connect-share</groupId><artifactId>artifacts</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{''.join(entries)}</dependencies></project>"
    )
    _run([program, "-q", "-B", "-f", str(pom), *arguments])


def _with_maven(artifacts: Sequence[Artifact], jars: Path) -> None:
    goal = f"{DEPENDENCY_PLUGIN}:copy-dependencies"
    run_maven(
        jars.parent / "pom.xml", [(artifact.parts, False) for artifact in artifacts], goal, f"-DoutputDirectory={jars}"
    )


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
    command = [str(java_command()), "-jar", str(ivy), "-warn", "-ivy", str(module), "-cache", str(work / "cache")]
    _run([*command, "-confs", "default", "-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]"])


def _run(command: Sequence[str]) -> None:
    """Run a program that fetches, again if it fails: it ends when one connection breaks off, and keeps what it has."""
    for number in range(_TRIES):
        time.sleep(number * _PAUSE_S)
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode == 0:
            return
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    raise EmbeddedError(f"{Path(command[0]).name} ended with {done.returncode}: {' / '.join(lines[-3:])[:500]}")


def main() -> int:
    """Fetch all sets, and print their folders."""
    try:
        for name in sorted(locked_sets()):
            print(ensure_artifacts(name))
    except ConnectShareError as exc:
        print(exc, file=sys.stderr)
        return exc.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
