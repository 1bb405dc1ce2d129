"""The contenders that are not in Python; each start is one of a process of its own.

==============  ======================================================================================================
java            Java's stores on a copy with plain keys, where all records are the worker's own, as today
java-jar        Java's stores with the sharing jar on the shared topics
java-foreign    an unmodified Java worker's stores on the shared topics: no record means anything to it
kcat            the C program, one topic after another, its process included
==============  ======================================================================================================
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from connect_share.checks.worker_file import worker_lines
from connect_share.jar import jar_path
from connect_share.model.records import TopicType
from connect_share.worker_config import SHARING_PROPERTY
from spark_jobs.benchmark.results import Start
from spark_jobs.benchmark.starts import RUNS, Run
from spark_jobs.benchmark.topics import SERVERS, Files, worker_of
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.java_program import time_java_stores
from tests.lab.embedded.worker import worker_properties, write_properties

_KCAT_S: Final = 900
_KCAT: Final = ("-X", "fetch.wait.max.ms=10", "-X", "queued.min.messages=1000000")


def missing_contenders(*, is_secured: bool = False) -> dict[str, str]:
    """Return the contenders that cannot be measured here, and why."""
    if is_secured:
        return {"kcat": "it is not given the settings of a secured cluster"}
    return {} if shutil.which("kcat") else {"kcat": "kcat is not installed (a system package: apt install kcat)"}


def java_file(file: Path, **changed: str) -> Path:
    """Return the worker file for Java, with changed properties, beside a file of ours."""
    properties = json.loads(file.read_bytes())
    defaults = worker_properties(properties[SERVERS], properties["group.id"])
    return write_properties(file.with_suffix(".properties"), {**defaults, **properties, **changed})


def _java(file_of: Callable[[Files], Path], jars: Sequence[Path] = ()) -> Run:
    def run(files: Files, warm: int) -> list[Start]:
        return [
            Start(
                seconds=each["total_s"],
                topics={"config": each["config_s"], "status": each["status_s"], "offset": each["offsets_s"]},
                cpu_seconds=each["cpu_s"],
            )
            for each in time_java_stores(file_of(files), 1 + warm, jars=jars)
        ]

    return run


def _with_jar(files: Files) -> Path:
    exactly_once = worker_of(files.ours).uses_transactional_leader
    lines = dict(line.split("=", 1) for line in worker_lines(exactly_once=exactly_once))
    return java_file(files.ours, **lines)


def _kcat(files: Files, _warm: int) -> list[Start]:
    worker = worker_of(files.ours)
    topics = {}
    for topic_type in (TopicType.OFFSET, TopicType.STATUS, TopicType.CONFIG):
        isolation = f"isolation.level={worker.isolation(topic_type).value}"
        where = ("-b", worker.bootstrap_servers, "-t", worker.topic(topic_type), "-o", "beginning")
        began = time.perf_counter()
        command = ["kcat", "-C", "-q", "-e", *where, "-X", isolation, *_KCAT]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=_KCAT_S, check=False
        )
        topics[topic_type.value] = time.perf_counter() - began
        if done.returncode != 0:
            raise EmbeddedError(f"kcat ended with {done.returncode}: {done.stderr[-500:]}")
    return [Start(seconds=sum(topics.values()), topics=topics)]


ALL_RUNS: Final[Mapping[str, Run]] = {
    **RUNS,
    "java": _java(lambda files: java_file(files.plain)),
    "java-jar": _java(_with_jar, [jar_path()]),
    "java-foreign": _java(lambda files: java_file(files.ours, **{SHARING_PROPERTY: "disabled"})),
    "kcat": _kcat,
}
