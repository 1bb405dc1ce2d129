"""MirrorMaker 2 with a transform that prefixes keys: the peer of the migration benchmark.

A run is measured from the start of its JVM until the destination ends where the source does.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share.errors import BrokerError
from connect_share.files import run_folder
from connect_share.kafka.admin import Admin
from connect_share.worker_config import ClientSettings
from tests.lab.benchmarks.process_cost import Cost, watched
from tests.lab.embedded.artifacts import class_path, ensure_artifacts
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.java_program import compiled
from tests.lab.embedded.jvm import STEADY, java_arguments, write_log_settings
from tests.lab.embedded.processes import ChildProcess
from tests.lab.embedded.worker import write_properties

VERSION: Final = "4.3.1"
_MAIN: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
_TRANSFORM: Final = "KeyPrefix"
_DESTINATION: Final = "B"
_HEAP: Final = "1g"
_LOOK_EVERY_S: Final = 0.05


def programs() -> tuple[Path, Path]:
    """Return the folders with MirrorMaker's jars and with the compiled transform; the first call fetches and compiles."""
    jars = ensure_artifacts(f"mirror-maker-{VERSION}")
    return jars, compiled([Path(__file__).parent / "java" / f"{_TRANSFORM}.java"], class_path(jars))


def _properties(
    source: str, source_servers: str, destination_servers: str, topics: Sequence[str], prefix: str
) -> dict[str, str]:
    """Return the properties of a MirrorMaker that is tuned for a bulk copy.

    Args:
        source: alias of the source; a new one starts anew, because MirrorMaker keeps its progress under the alias.
        source_servers: ``host:port``.
        destination_servers: likewise.
        topics: names at the source.
        prefix: put before every key.
    """
    flow = f"{source}->{_DESTINATION}"
    return {
        "clusters": f"{source},{_DESTINATION}",
        f"{source}.bootstrap.servers": source_servers,
        f"{_DESTINATION}.bootstrap.servers": destination_servers,
        f"{flow}.enabled": "true",
        f"{_DESTINATION}->{source}.enabled": "false",
        f"{flow}.topics": ",".join(topics),
        f"{flow}.tasks.max": "2",
        # No other name may begin with "offset-syncs." then: the connector would refuse to start.
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
        f"{_DESTINATION}.offset.flush.interval.ms": "1000",
        f"{source}.consumer.max.poll.records": "5000",
        f"{source}.consumer.fetch.max.bytes": "33554432",
        f"{source}.consumer.max.partition.fetch.bytes": "8388608",
        f"{_DESTINATION}.producer.batch.size": "524288",
        f"{_DESTINATION}.producer.linger.ms": "20",
        f"{_DESTINATION}.producer.buffer.memory": "134217728",
    }


@contextmanager
def _running(properties: Mapping[str, str]) -> Iterator[ChildProcess]:
    """Run MirrorMaker in a JVM of its own; it never ends by itself."""
    jars, transform = programs()
    folder = run_folder("mirror-maker")
    try:
        command = java_arguments(
            jars,
            _MAIN,
            [str(write_properties(folder / "mm2.properties", properties)), "--clusters", _DESTINATION],
            options=(*STEADY, f"-Xms{_HEAP}", f"-Xmx{_HEAP}"),
            log_settings=write_log_settings(folder, "warn"),
            more_classes=[transform],
        )
        process = ChildProcess(command, log_path=folder / "mirror-maker.log", cwd=folder)
        try:
            yield process
        finally:
            process.kill()  # nothing of it is needed any more
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class MirrorRun:
    """The cost of a run.

    Attributes:
        cost: of the JVM, until the last record arrived.
        copy_s: from the first record seen at the destination to the last.
        topics: names at the destination by those at the source.
    """

    cost: Cost
    copy_s: float
    topics: Mapping[str, str]


def ends_of(admin: Admin, topics: Sequence[str]) -> dict[tuple[str, int], int]:
    """Return the ends of the partitions of those topics that exist."""
    described = admin.describe_topics(topics)
    return admin.end_offsets((name, part.id) for name, found in described.items() for part in found.partitions)


@contextmanager
def mirrored(
    alias: str, source: str, destination: str, topics: Sequence[str], prefix: str, *, give_up_s: float
) -> Iterator[MirrorRun]:
    """Mirror topics to their end; when the block ends the copies and MirrorMaker's own topics are deleted.

    Args:
        alias: of the source, a new one each time.
        source: ``host:port``.
        destination: likewise.
        topics: names at the source; nobody may write to them.
        prefix: put before every key.
        give_up_s: seconds after which it counts as failed.
    """
    names = {topic: f"{alias}.{topic}" for topic in topics}
    new = [*names.values(), *(f"mm2-{kind}.{alias}.internal" for kind in ("configs", "offsets", "status"))]
    with (
        Admin(ClientSettings({"bootstrap.servers": source}), client_id="benchmark") as there,
        Admin(ClientSettings({"bootstrap.servers": destination}), client_id="benchmark") as here,
        ExitStack() as stack,
    ):
        stack.callback(here.delete_topics, new)
        wanted = {(names[topic], number): end for (topic, number), end in ends_of(there, topics).items()}
        properties = _properties(alias, source, destination, topics, prefix)
        began_s, first_s = time.perf_counter(), 0.0
        with _running(properties) as maker, watched(maker.pid) as family:
            while True:
                found = _ends(here, list(names.values()))
                now_s = time.perf_counter()
                if any(found.values()) and not first_s:
                    first_s = now_s
                if found == wanted:
                    break
                if not maker.running or now_s - began_s > give_up_s:
                    raise EmbeddedError(f"MirrorMaker 2 did not copy everything in time: {maker.log_tail()}")
                time.sleep(_LOOK_EVERY_S)
            cpu_s = family.look()
        yield MirrorRun(Cost(now_s - began_s, cpu_s, family.peak_bytes), now_s - first_s, names)


def _ends(admin: Admin, topics: Sequence[str]) -> dict[tuple[str, int], int]:
    try:
        return ends_of(admin, topics)
    except BrokerError:
        return {}  # while topics are being made their leaders are not known everywhere
