"""The contenders of the benchmark. Each runs in a process of its own, so that its first start is a cold one.

==============  ======================================================================================================
python          our three stores
...-checkpoint  ``python-checkpoint``: the same, from a checkpoint that lacks 1 % of the records
java            Java's stores on a copy with plain keys, where all records are the worker's own, as today
java-jar        Java's stores with the sharing jar on the shared topics
java-foreign    an unmodified Java worker's stores on the shared topics: no record means anything to it
plain-client    confluent-kafka with default settings, one topic after another, records thrown away
librdkafka      our fetch settings, three topics side by side, nothing done to the records
kcat            the C program, one topic after another, its process included
==============  ======================================================================================================
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from connect_share.contents.cost_model import StartSize
from connect_share.files import Progress
from connect_share.jar import jar_path
from connect_share.model.records import TopicType
from connect_share.worker_config import WorkerConfig
from spark_jobs.startup.filling import Files
from spark_jobs.startup.result import Start, Starts, Warmth
from spark_jobs.startup.scenarios import CHECKPOINT, COLD_STARTS, Plan
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.java_program import time_java_stores

_PROBE_S: Final = 900
_WARM_UP: Final = 20
_KCAT: Final = ("-X", "fetch.wait.max.ms=10", "-X", "queued.min.messages=1000000")


def missing_contenders(*, is_secured: bool = False) -> dict[str, str]:
    """Return the contenders that cannot be measured here, and why."""
    if is_secured:
        return {"kcat": "it is not given the settings of a secured cluster"}
    return {} if shutil.which("kcat") else {"kcat": "kcat is not installed (a system package: apt install kcat)"}


def run_python(module: str, *arguments: object, timeout_s: float = _PROBE_S) -> list[str]:
    """Run a module in a new process; return the lines that it prints.

    Raises:
        EmbeddedError: it failed; has the end of its errors.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as exc:
        raise EmbeddedError(f"{module} {arguments[0]} did not end within {timeout_s:g} s") from exc
    if done.returncode != 0:
        raise EmbeddedError(f"the measurement {module} {arguments[0]} failed: {done.stderr[-1500:]}")
    return [line for line in done.stdout.splitlines() if line.startswith("{")]


def _probed(what: str, worker_file: Path, runs: int, *options: object) -> list[Start]:
    lines = run_python("spark_jobs.startup.probe", what, worker_file, runs, *options)
    return [Start.model_validate_json(line) for line in lines]


def size_of(worker_file: Path) -> StartSize:
    """Return what a start on these topics has to read."""
    return StartSize.model_validate_json(run_python("spark_jobs.startup.probe", "size", worker_file, 1)[0])


def _java(file_of: Callable[[Files], Path], jars: Sequence[Path] = ()) -> Callable[[Files, int], list[Start]]:
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


def _kcat(files: Files, _warm: int) -> list[Start]:
    worker = WorkerConfig.from_file(files.ours)
    topics = {}
    for topic_type in (TopicType.OFFSET, TopicType.STATUS, TopicType.CONFIG):
        isolation = f"isolation.level={worker.isolation(topic_type).value}"
        where = ("-b", worker.bootstrap_servers, "-t", worker.topic(topic_type), "-o", "beginning")
        began = time.perf_counter()
        command = ["kcat", "-C", "-q", "-e", *where, "-X", isolation, *_KCAT]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=_PROBE_S, check=False
        )
        topics[topic_type.value] = time.perf_counter() - began
        if done.returncode != 0:
            raise EmbeddedError(f"kcat ended with {done.returncode}: {done.stderr[-500:]}")
    return [Start(seconds=sum(topics.values()), topics=topics)]


_RUNS: Final[Mapping[str, Callable[[Files, int], list[Start]]]] = {
    "python": lambda files, warm: _probed("stores", files.ours, 1 + warm),
    CHECKPOINT: lambda files, warm: _probed("stores", files.ours, 1 + warm, "--checkpoint", files.checkpoint),
    "java": _java(lambda files: files.plain),
    "java-jar": _java(lambda files: files.jar, [jar_path()]),
    "java-foreign": _java(lambda files: files.foreign),
    "plain-client": lambda files, _warm: _probed("plain-client", files.ours, 2),
    "librdkafka": lambda files, warm: _probed("librdkafka", files.ours, 1 + warm),
    "kcat": _kcat,
}


def measure(plan: Plan, files: Files, contenders: Sequence[str], rounds: int, progress: Progress) -> list[Starts]:
    """Measure every contender once a round, in turn, so that a machine whose speed drifts harms all alike.

    The brokers serve a few reads before anything counts.

    Raises:
        EmbeddedError: one of them failed.
    """
    name = plan.scenario.name
    size = size_of(files.ours)
    progress.phase(f"{name}: warming the brokers up", 0)
    for worker_file in {files.ours, files.plain if "java" in contenders else files.ours}:
        # The first contender must not pay for a cold broker: a broker in use has served these reads before.
        _probed("librdkafka", worker_file, _WARM_UP)
    found: dict[tuple[str, Warmth], list[Start]] = {}
    progress.phase(f"{name}: measuring", rounds * len(contenders))
    for _ in range(rounds):
        for contender in contenders:
            for cold in range(COLD_STARTS.get(contender, 1)):
                starts = _RUNS[contender](files, plan.warm_starts if cold == 0 else 0)
                found.setdefault((contender, "cold"), []).append(starts[0])
                if starts[1:]:
                    found.setdefault((contender, "warm"), []).extend(starts[1:])
            progress.advance(1)
    return [_together(name, contender, warmth, starts, size) for (contender, warmth), starts in found.items()]


def _together(scenario: str, contender: str, warmth: Warmth, starts: Sequence[Start], size: StartSize) -> Starts:
    return Starts(
        scenario=scenario,
        contender=contender,
        warmth=warmth,
        seconds=[each.seconds for each in starts],
        phases={phase: [each.phases[phase] for each in starts] for phase in starts[0].phases},
        topics={topic: [each.topics[topic] for each in starts] for topic in starts[0].topics},
        cpu_seconds=[each.cpu_seconds for each in starts if each.cpu_seconds is not None],
        peak_bytes=[each.peak_bytes for each in starts if each.peak_bytes is not None],
        size=None if contender == CHECKPOINT else size,
    )
