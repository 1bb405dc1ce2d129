"""MirrorMaker 2 with a transform that prefixes keys: the peer of the migration benchmark."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from connect_share.cache import cache_folder, locked, run_folder
from connect_share.embedded.artifacts import class_path, ensure_artifacts
from connect_share.embedded.java_program import compile_java
from connect_share.embedded.jvm import STEADY, java_arguments, write_log_settings
from connect_share.embedded.processes import ChildProcess
from connect_share.embedded.worker import write_properties

VERSION: Final = "4.3.1"
_MAIN: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
_TRANSFORM: Final = "KeyPrefix"
_SOURCE: Final = Path(__file__).parent / "java" / f"{_TRANSFORM}.java"
DESTINATION: Final = "B"


def jars() -> Path:
    """Give the folder with MirrorMaker's jars, fetched once.

    Raises:
        EmbeddedError: they cannot be fetched.
    """
    return ensure_artifacts(f"mirror-maker-{VERSION}")


def transform_classes() -> Path:
    """Give the folder with the compiled transform.

    Raises:
        EmbeddedError: it does not compile; has the compiler's words.
    """
    digest = hashlib.sha256(_SOURCE.read_bytes() + VERSION.encode()).hexdigest()[:12]
    folder = cache_folder() / "classes" / f"{_TRANSFORM}-{digest}"
    with locked("classes"):
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".compile-", dir=folder.parent) as temporary:
                out = Path(temporary) / "out"
                compile_java([_SOURCE], out, class_path(jars()), options=["-nowarn"])
                shutil.move(str(out), folder)
    return folder


def mirror_properties(
    source: str, source_servers: str, destination_servers: str, topics: Sequence[str], prefix: str
) -> dict[str, str]:
    """Give the lines of ``mm2.properties``: the tuned settings of a bulk copy.

    Args:
        source: alias of the source; a new one starts anew, for what was done before is kept under the alias.
        source_servers: ``host:port``.
        destination_servers: likewise.
        topics: names at the source.
        prefix: put before every key.
    """
    flow = f"{source}->{DESTINATION}"
    return {
        "clusters": f"{source},{DESTINATION}",
        f"{source}.bootstrap.servers": source_servers,
        f"{DESTINATION}.bootstrap.servers": destination_servers,
        f"{flow}.enabled": "true",
        f"{DESTINATION}->{source}.enabled": "false",
        f"{flow}.topics": ",".join(topics),
        f"{flow}.tasks.max": "2",
        # No name but this one may begin with "offset-syncs." then: the connector would refuse to start.
        f"{flow}.emit.offset-syncs.enabled": "false",
        f"{flow}.emit.heartbeats.enabled": "false",
        f"{flow}.emit.checkpoints.enabled": "false",
        f"{flow}.sync.topic.acls.enabled": "false",
        f"{flow}.transforms": "prefix",
        f"{flow}.transforms.prefix.type": _TRANSFORM,
        f"{flow}.transforms.prefix.prefix": prefix,
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        f"{DESTINATION}.offset.flush.interval.ms": "1000",
        f"{source}.consumer.max.poll.records": "5000",
        f"{source}.consumer.fetch.max.bytes": "33554432",
        f"{source}.consumer.max.partition.fetch.bytes": "8388608",
        f"{DESTINATION}.producer.batch.size": "524288",
        f"{DESTINATION}.producer.linger.ms": "20",
        f"{DESTINATION}.producer.buffer.memory": "134217728",
    }


def internal_topics(source: str) -> list[str]:
    """Name the topics in which MirrorMaker keeps its own state at the destination."""
    return [f"mm2-{kind}.{source}.internal" for kind in ("configs", "offsets", "status")]


class MirrorMaker:
    """One run in a JVM of its own, ended with the ``with`` block; it never ends by itself.

    Args:
        properties: of :func:`mirror_properties`.
        heap: of the JVM.
    """

    def __init__(self, properties: dict[str, str], *, heap: str = "1g") -> None:
        self._properties = properties
        self._heap = heap
        self._libraries, self._classes = jars(), transform_classes()
        self._folder: Path | None = None
        self._process: ChildProcess | None = None

    def __enter__(self) -> Self:
        self._folder = run_folder("mirror-maker")
        command = java_arguments(
            self._libraries,
            _MAIN,
            [str(write_properties(self._folder / "mm2.properties", self._properties)), "--clusters", DESTINATION],
            options=(*STEADY, f"-Xms{self._heap}", f"-Xmx{self._heap}"),
            log_settings=write_log_settings(self._folder, "warn"),
        )
        at = command.index("-cp") + 1
        command[at] = os.pathsep.join([str(self._classes), command[at]])
        self._process = ChildProcess(command, log_path=self._folder / "mirror-maker.log", cwd=self._folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()  # nothing of it is needed any more
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Of the JVM."""
        return 0 if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        """Tell whether it is still there."""
        return self._process is not None and self._process.running

    def log_tail(self) -> str:
        """Give the end of its log."""
        return "" if self._process is None else self._process.log_tail()
