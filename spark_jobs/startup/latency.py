"""The time from a put to its read-back in running stores: ours and Java's in turn, alone and while other groups write."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from connect_share.admin import Admin
from connect_share.embedded.errors import EmbeddedError
from connect_share.embedded.java_program import time_java_puts
from connect_share.embedded.worker import worker_properties, write_properties
from connect_share.records import TopicType
from connect_share.topics import ensure_topic, topic_spec
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from connect_share.worker_plugin import INTERCEPTOR_CLASS, jar_path
from migrator.progress import Progress
from spark_jobs.startup.contenders import run_python
from spark_jobs.startup.result import Latency

PUTS: Final = 200
"""Into each store, of each contender, beside each number of groups."""

GROUPS: Final = (1, 20)
CONTENDERS: Final = ("python", "java")
_BLOCKS: Final = 2
_UNCOUNTED: Final = 100
_PUTS_S: Final = 600
_STORES: Final[tuple[Literal["config", "status", "offset"], ...]] = ("config", "status", "offset")


def measure_latency(
    folder: Path, bootstrap_servers: str, prefix: str, *, puts: int, contenders: Sequence[str], progress: Progress
) -> list[Latency]:
    """Measure in blocks that alternate; Java's stores have the sharing jar, so both write and read the same topics.

    Args:
        folder: for the worker files.
        bootstrap_servers: of the cluster.
        prefix: of the topics, which are made and deleted.
        puts: into each store, of each contender, beside each number of groups.
        contenders: of ``python`` and ``java``.
        progress: reports how far it is.

    Raises:
        ConnectShareError: a topic could not be made, or a process failed.
    """
    files = {
        "python": _worker_file(folder, bootstrap_servers, prefix, "python"),
        "java": _worker_file(folder, bootstrap_servers, prefix, "java"),
    }
    worker = WorkerConfig.from_file(files["python"])
    found: dict[tuple[str, str, int], list[float]] = {}
    blocks = min(_BLOCKS, puts)
    progress.phase("latency: measuring", blocks * len(GROUPS) * len(contenders))
    with _topics(worker):
        for block in range(blocks):
            count = puts // blocks + (1 if block < puts % blocks else 0)
            for groups in GROUPS:
                with _others(files["python"], groups - 1):
                    for contender in contenders:
                        measure = _python_puts if contender == "python" else _java_puts
                        for store, seconds in measure(files[contender], count, min(_UNCOUNTED, count)).items():
                            found.setdefault((contender, store, groups), []).extend(seconds)
                        progress.advance(1)
    return [
        Latency(contender=contender, store=store, groups=groups, seconds=found[contender, store, groups])
        for contender in contenders
        for store in _STORES
        for groups in GROUPS
    ]


def _worker_file(folder: Path, bootstrap_servers: str, prefix: str, contender: str) -> Path:
    properties = {
        **worker_properties(bootstrap_servers, f"latency-{contender}", prefix),
        "offset.storage.partitions": "25",
        SHARING_PROPERTY: "enabled",
        **({"interceptor.classes": INTERCEPTOR_CLASS} if contender == "java" else {}),
    }
    return write_properties(folder / f"{prefix}-{contender}.properties", properties)


@contextmanager
def _topics(worker: WorkerConfig) -> Iterator[None]:
    topics = [worker.topic(topic_type) for topic_type in TopicType]
    with Admin(worker.admin_settings(), client_id="benchmark") as admin:
        try:
            for topic_type in TopicType:
                ensure_topic(admin, topic_spec(worker, topic_type))
            yield
        finally:
            admin.delete_topics(topics)


@contextmanager
def _others(worker_file: Path, groups: int) -> Iterator[None]:
    """Run writers of other groups in the meantime."""
    if groups == 0:
        yield
        return
    command = [sys.executable, "-m", "spark_jobs.startup.latency_probe", "writers", str(worker_file), str(groups)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writers:
        try:
            if writers.stdout is None or writers.stdout.readline().strip() != "writing":
                raise EmbeddedError("the other groups' writers did not start, see above")
            yield
            if writers.poll() is not None:
                raise EmbeddedError("the other groups' writers ended early, see above")
        finally:
            # It ends by itself when its standard input is closed, which leaving this block does; or at once:
            writers.terminate()


def _python_puts(worker_file: Path, count: int, uncounted: int) -> dict[str, list[float]]:
    lines = run_python("spark_jobs.startup.latency_probe", "puts", worker_file, count, uncounted, timeout_s=_PUTS_S)
    found: dict[str, list[float]] = json.loads(lines[-1])
    return found


def _java_puts(worker_file: Path, count: int, uncounted: int) -> dict[str, list[float]]:
    return time_java_puts(worker_file, count, uncounted, jars=[jar_path()])
