"""Makes class-data archives, with which the broker and the worker of tests start in half of the time.

``make test`` runs it; an archive is made once for each set of artifacts and each Java. Where none can be made the JVMs start
slower, and nothing else changes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

from connect_share.errors import ConnectShareError
from connect_share.files import cache_folder
from connect_share.jar.java_runtime import java_command
from tests.lab.embedded.artifacts import class_path, ensure_artifacts, locked
from tests.lab.embedded.broker import DEFAULT_VERSION, LocalBroker
from tests.lab.embedded.jvm import ARCHIVES_VARIABLE, class_archive
from tests.lab.embedded.worker import ConnectWorker, worker_properties

_VERSIONS: Final = ("2.8.2", "3.9.2", DEFAULT_VERSION)
_BROKER: Final = "kafka.Kafka"
_WORKER: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_JAVA_OPTIONS: Final = "JDK_JAVA_OPTIONS"
"""The launcher of Java adds its words to every command line."""

_CHECK_S: Final = 60


def use_class_archives() -> None:
    """Have every JVM that this process and its children start use its archive, if there is one.

    It spares the JVM most of loading and checking classes. Each folder of jars has one with the classes of a broker, and one
    with those of a worker, which serves all other programs too.
    """
    java = java_command().resolve()
    release = java.parent.parent / "release"
    build = release.read_bytes() if release.exists() else str(java).encode()
    folder = cache_folder() / "class-archives" / hashlib.sha256(build).hexdigest()[:12]
    os.environ.setdefault(ARCHIVES_VARIABLE, str(folder))


def make_class_archives() -> None:
    """Start and stop a broker, and a worker of each version, in JVMs that leave their archives."""
    with locked("class-archives"):
        _make(DEFAULT_VERSION, _BROKER, LocalBroker)
        missing = [
            version
            for version in _VERSIONS
            if not class_archive(ensure_artifacts(f"kafka-{version}"), _WORKER).exists()
        ]
        if missing:
            with LocalBroker() as broker:
                for version in missing:
                    properties = worker_properties(broker.bootstrap_servers, f"class-archive-{version}")
                    _make(version, _WORKER, partial(ConnectWorker, properties, version=version))


def _make(
    version: str, main_class: str, start: Callable[[], AbstractContextManager[LocalBroker | ConnectWorker]]
) -> None:
    jars = ensure_artifacts(f"kafka-{version}")
    archive = class_archive(jars, main_class)
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(".new")
    os.environ[_JAVA_OPTIONS] = f"-XX:ArchiveClassesAtExit={fresh}"
    try:
        with start() as program:
            fresh.unlink(missing_ok=True)  # the broker's storage was formatted by another program
            program.stop()
    finally:
        del os.environ[_JAVA_OPTIONS]
    if _is_whole(fresh, class_path(jars)):
        fresh.replace(archive)
    else:
        fresh.unlink(missing_ok=True)
        print(
            f"this Java makes no class-data archive of {main_class} {version}: it starts without one", file=sys.stderr
        )


def _is_whole(archive: Path, jars: str) -> bool:
    """Return whether a JVM starts with the archive: one that was killed while it wrote leaves half of it."""
    options = ["-Xshare:on", "-XX:+VerifySharedSpaces", f"-XX:SharedArchiveFile={archive}"]
    command = [str(java_command()), *options, "-cp", jars, "-version"]
    return subprocess.run(command, capture_output=True, timeout=_CHECK_S, check=False).returncode == 0


def main() -> int:
    """Make the archives that are missing; 0 also if that fails, because they only save time."""
    use_class_archives()
    try:
        make_class_archives()
    except ConnectShareError as exc:
        print(f"no class-data archives, brokers and workers of tests start slower: {exc}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
