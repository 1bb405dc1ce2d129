"""The contenders that are not in Python: Java's stores, from a process of their own.

==================  ==================================================================================================
java-jar            Java's stores with the sharing jar on the shared topics
java-dedicated      Java's stores without it on dedicated topics, where the group has the same records
==================  ==================================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from connect_share.checks.worker_file import worker_lines
from connect_share.jar import jar_path
from spark_jobs.benchmark.results import Start
from spark_jobs.benchmark.starts import RUNS, Run, since_exec
from spark_jobs.benchmark.topics import DEDICATED, SERVERS, Files, worker_of
from tests.lab.embedded.java_program import time_java_stores
from tests.lab.embedded.worker import worker_properties, write_properties


def java_file(file: Path, **changed: str) -> Path:
    """Return the worker file for Java, with changed properties, beside a file of ours."""
    properties = json.loads(file.read_bytes())
    defaults = worker_properties(properties[SERVERS], properties["group.id"])
    return write_properties(file.with_suffix(".properties"), {**defaults, **properties, **changed})


def _java(file_of: Callable[[Files], Path], jars: Sequence[Path] = ()) -> Run:
    def run(files: Files, warm: int) -> list[Start]:
        began, found = time_java_stores([file_of(files), 1 + warm], jars)
        starts = [
            Start(
                seconds=each["total_s"],
                ready_at=each["ready_at_s"],
                topics={"config": each["config_s"], "status": each["status_s"], "offset": each["offsets_s"]},
                cpu_seconds=each["cpu_s"],
            )
            for each in found
        ]
        return since_exec(began, starts)

    return run


def with_jar(files: Files) -> Path:
    """Return the worker file of the shared topics for Java, with the lines that the jar needs."""
    exactly_once = worker_of(files.ours).uses_transactional_leader
    lines = dict(line.split("=", 1) for line in worker_lines(exactly_once=exactly_once))
    return java_file(files.ours, **lines)


ALL_RUNS: Final[Mapping[str, Run]] = {
    **RUNS,
    "java-jar": _java(with_jar, [jar_path()]),
    f"java{DEDICATED}": _java(lambda files: java_file(files.dedicated)),
}
