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

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from connect_share.embedded.errors import EmbeddedError
from connect_share.embedded.java_program import time_java_stores
from connect_share.records import TopicType
from connect_share.startup import StartSize
from connect_share.worker_config import WorkerConfig
from connect_share.worker_plugin import jar_path
from migrator.progress import Progress
from spark_jobs.startup.filling import Files
from spark_jobs.startup.result import Starts, Warmth
from spark_jobs.startup.scenarios import CHECKPOINT, COLD_STARTS, Plan

KCAT_MISSING: Final = "kcat is not installed (a system package: apt install kcat)"
_PROBE_S: Final = 900
_WARM_UP: Final = 20
_KCAT: Final = ("-X", "fetch.wait.max.ms=10", "-X", "queued.min.messages=1000000")


@dataclass(frozen=True, slots=True)
class Start:
    """One start, members as in :class:`spark_jobs.startup.result.Starts`."""

    seconds: float
    phases: Mapping[str, float] = field(default_factory=dict)
    topics: Mapping[str, float] = field(default_factory=dict)
    cpu_seconds: float | None = None
    peak_bytes: int | None = None


def missing_contenders() -> dict[str, str]:
    """Return the contenders that cannot be measured on this machine, and why."""
    return {} if shutil.which("kcat") else {"kcat": KCAT_MISSING}


def probe(what: str, worker_file: Path, runs: int, *more: str) -> list[dict[str, Any]]:
    """Run the probe in a new process; return the objects that it prints.

    Raises:
        EmbeddedError: it failed; has the end of its errors.
    """
    command = [sys.executable, "-m", "spark_jobs.startup.probe", what, str(worker_file), str(runs), *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_S, check=False)
    except subprocess.TimeoutExpired as exc:
        raise EmbeddedError(f"{what} did not end within {_PROBE_S} s") from exc
    if done.returncode != 0:
        raise EmbeddedError(f"the measurement of {what} failed: {done.stderr[-1500:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def size_of(worker_file: Path) -> StartSize:
    """Return what a start on these topics has to read."""
    return StartSize(**probe("size", worker_file, 1)[0])


def _probed(what: str, warm_starts: int | None = None) -> Callable[[Files, int], list[Start]]:
    def run(files: Files, warm: int) -> list[Start]:
        return [Start(**each) for each in probe(what, files.ours, 1 + (warm if warm_starts is None else warm_starts))]

    return run


def _checkpoint(files: Files, warm: int) -> list[Start]:
    found = probe("stores", files.ours, 1 + warm, "--checkpoint", str(files.checkpoint))
    return [Start(**each) for each in found]


def _java(file_of: Callable[[Files], Path], jars: Sequence[Path] = ()) -> Callable[[Files, int], list[Start]]:
    def run(files: Files, warm: int) -> list[Start]:
        return [
            Start(
                each.total_s,
                topics={"config": each.config_s, "status": each.status_s, "offset": each.offsets_s},
                cpu_seconds=each.cpu_s,
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
    return [Start(sum(topics.values()), topics=topics)]


_RUNS: Final[Mapping[str, Callable[[Files, int], list[Start]]]] = {
    "python": _probed("stores"),
    CHECKPOINT: _checkpoint,
    "java": _java(lambda files: files.plain),
    "java-jar": _java(lambda files: files.jar, [jar_path()]),
    "java-foreign": _java(lambda files: files.foreign),
    "plain-client": _probed("plain-client", 1),
    "librdkafka": _probed("librdkafka"),
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
        probe("librdkafka", worker_file, _WARM_UP)
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
