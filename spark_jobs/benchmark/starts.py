"""Times starts in this process; run in a new process for a cold one. Prints one JSON object a start.

usage: python -m spark_jobs.benchmark.starts stores|librdkafka|librdkafka-json WORKER_FILE RUNS [--checkpoint FILE]

A start knows how long it was taking own records in, but parses and folds them in one go: how that divides into ``parse``
and ``fold`` is measured once afterwards, on the same records. ``read`` is the time in which the client is asked for records;
what is done to foreign ones is in ``other``.

Contenders:
    python: our three stores.
    python-checkpoint: the same, from a checkpoint that lacks 1 % of the records.
    python-dedicated: our three stores, on topics of the group alone.
    librdkafka: our fetch settings, three topics side by side, nothing done to the records.
    librdkafka-dedicated: the same, and ``json.loads`` of each record: there all of them are the group's own.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from connect_share.errors import ConnectShareError, ReadToEndTimeoutError, StoreError, ValueFormatError
from connect_share.files import Progress
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Consumer, TopicPartition, library_versions
from connect_share.kafka.facts import gather_facts
from connect_share.kafka.read import Reader
from connect_share.log.first_read import catch_up_consumer
from connect_share.model.connect_json import loads
from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_config, replay_offsets, replay_status
from connect_share.storage import ConnectStorage, StorageStartup
from connect_share.worker_config import WorkerConfig
from spark_jobs.benchmark.results import Start, Starts, Warmth
from spark_jobs.benchmark.topics import CHECKPOINT, DEDICATED, Files, Plan, own_records, start_size, worker_of

SLOWER: Final = "CONNECT_SHARE_BENCHMARK_SLOWER"
"""Environment variable: the share by which every start of ours takes longer, to see that a comparison finds it."""

_PARSED: Final = (TopicType.CONFIG, TopicType.STATUS)
_STATUS: Final = Path("/proc/self/status")
_RESET_PEAK: Final = Path("/proc/self/clear_refs")

_BATCH: Final = 2_000
_IDLE_S: Final = 0.005
_GIVE_UP_S: Final = 300.0


class Measurement:
    """Seconds, CPU time of all threads and memory of this process since the beginning of the measurement."""

    def __init__(self) -> None:
        gc.collect()
        self._memory: int | None = None
        with contextlib.suppress(OSError):
            _RESET_PEAK.write_text("5", encoding="ascii")
            self._memory = _memory("VmRSS")
        self._cpu = time.process_time()
        self._began = time.perf_counter()

    def end(self) -> Start:
        """Return what the process has used so far, after a pause by which a start is to be slower."""
        time.sleep((time.perf_counter() - self._began) * float(os.environ.get(SLOWER, "0")))
        seconds, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu
        peak = _memory("VmHWM")
        grown = None if self._memory is None or peak is None else max(0, peak - self._memory)
        return Start(seconds=seconds, ready_at=time.monotonic(), cpu_seconds=cpu, peak_bytes=grown)


def start_stores(worker: WorkerConfig, checkpoint: Path | None = None) -> Start:
    """Start and stop the stores once, from a copy of the checkpoint where one is given: they write their own over it.

    Raises:
        StoreError: the checkpoint was not used.
    """
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
        copy = None if checkpoint is None else Path(shutil.copy(checkpoint, folder))
        measurement = Measurement()
        with ConnectStorage(worker, allow_live_members=True, checkpoint=copy) as storage:
            start = measurement.end()
            startup = storage.startup
            if copy is not None and not startup.from_checkpoint:
                raise StoreError(f"the checkpoint was not used: {startup.full_read_reason}")
            topics = {
                "config": startup.config.seconds,
                "status": startup.status.seconds,
                "offset": startup.offsets.seconds,
            }
            return start.model_copy(update={"topics": topics, "phases": _phases(startup)})


def _phases(startup: StorageStartup) -> dict[str, float]:
    """Return the parts of a start, which add up to the whole; ``apply`` is split by :func:`_with_parts`."""
    stores = (startup.config, startup.status, startup.offsets)
    first = min((store.first_record_seconds for store in stores if store.first_record_seconds), default=0.0)
    phases = {
        "connect": startup.connect_seconds or 0.0,
        "metadata": startup.admin_seconds or 0.0,
        "first_record": first,
        "read": max(0.0, (startup.read_seconds or 0.0) - first),
        "apply": sum(store.apply_seconds or 0.0 for store in stores),
    }
    return {**phases, "other": max(0.0, startup.seconds - sum(phases.values()))}


def _parse_and_fold(own: Mapping[TopicType, list[Record]], group: str | None) -> dict[str, float]:
    """Parse the group's own records alone, then replay them."""
    prefix = 0 if group is None else len(group) + 1
    began = time.perf_counter()
    # An offset's value is kept as it came; its key is what has to be understood, once.
    texts = {record.key[prefix:] for record in own[TopicType.OFFSET] if record.key is not None}
    values = (record.value for topic_type in _PARSED for record in own[topic_type])
    for text in (*texts, *values):
        if text is not None:
            with contextlib.suppress(ValueFormatError):
                loads(text)
    parse = time.perf_counter() - began
    began = time.perf_counter()
    replay_config(own[TopicType.CONFIG], group)
    replay_status(own[TopicType.STATUS], group)
    replay_offsets(own[TopicType.OFFSET], group)
    return {"parse": parse, "fold": max(0.0, time.perf_counter() - began - parse)}


def _with_parts(start: Start, parts: Mapping[str, float]) -> Start:
    """Split the time in which own records were taken as it was split when that was done alone."""
    phases = dict(start.phases)
    taken, alone = phases.pop("apply"), sum(parts.values())
    phases |= {phase: taken * seconds / alone if alone else 0.0 for phase, seconds in parts.items()}
    return start.model_copy(update={"phases": phases})


def _memory(name: str) -> int | None:
    """Return the bytes of ``VmRSS`` (now) or ``VmHWM`` (highest since the reset); ``None`` if they are unknown."""
    try:
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def librdkafka_read(worker: WorkerConfig, parsed: bool = False) -> dict[str, float]:
    """Fetch the three topics as our stores do, with the same settings through one client, and look at no record.

    This is the limit of what a store in Python can reach: the client hands out one object a record, and that is all.

    Args:
        worker: names the topics.
        parsed: pass the text of each record, an offset's key and the value of others, to ``json.loads``.

    Returns:
        Seconds of its parts, as those of a start.
    """
    began_s = time.perf_counter()
    with Admin(worker.admin_settings(), client_id="bare-admin") as admin:
        found = gather_facts(admin, [worker.topic(topic_type) for topic_type in TopicType])
        asked_s = time.perf_counter()
        how = Reader(worker.consumer_settings(), "bare", worker.isolation(TopicType.CONFIG))
        reader = catch_up_consumer(how)
        made_s = time.perf_counter()
        try:
            first_s = _throw_away(
                reader,
                {
                    (topic, partition): end
                    for topic, facts in found.items()
                    for partition, end in facts.ends.items()
                    if end > 0
                },
                worker.topic(TopicType.OFFSET) if parsed else None,
            )
            read_s = time.perf_counter() - made_s - first_s
        finally:
            # Closing is no part of a start: our stores do it in a thread of its own.
            threading.Thread(target=reader.close).start()
    return {"connect": made_s - asked_s, "metadata": asked_s - began_s, "first_record": first_s, "read": read_s}


def _throw_away(reader: Consumer, ends: dict[tuple[str, int], int], offset_topic: str | None) -> float:
    """Read to the ends, and parse if the topic of offsets is named; return the seconds until the first record came."""
    began_s, first_s = time.perf_counter(), 0.0
    reader.assign([TopicPartition(topic, partition, 0) for topic, partition in sorted(ends)])
    left, deadline_s = sum(ends.values()), time.monotonic() + _GIVE_UP_S
    while ends:
        wanted = max(1, min(_BATCH, left))
        records = [each for each in reader.consume(wanted, _IDLE_S) if each.error() is None]  # else no record
        taken = len(records)
        left -= taken
        if taken and not first_s:
            first_s = time.perf_counter() - began_s
        if offset_topic is not None:
            for record in records:
                text = record.key() if record.topic() == offset_topic else record.value()
                if text is not None:
                    json.loads(text)
        if taken == wanted and left > 0:
            continue
        for at in reader.position([TopicPartition(topic, partition) for topic, partition in ends]):
            if at.offset >= ends[at.topic, at.partition]:
                del ends[at.topic, at.partition]
        if ends and time.monotonic() > deadline_s:
            topic, partition = min(ends)
            raise ReadToEndTimeoutError(f"{topic}[{partition}] was not read to its end within {_GIVE_UP_S:g} s")
    return first_s


def _timed(read: Callable[[WorkerConfig], dict[str, float]], worker: WorkerConfig) -> Start:
    measurement = Measurement()
    phases = read(worker)
    return measurement.end().model_copy(update={"phases": phases})


def main(argv: list[str]) -> int:
    """Print one JSON line a start; the first one is that of a new process."""
    arguments = argparse.ArgumentParser(prog="python -m spark_jobs.benchmark.starts")
    arguments.add_argument("what", choices=("stores", "librdkafka", "librdkafka-json"))
    arguments.add_argument("worker_file", type=Path)
    arguments.add_argument("runs", type=int)
    arguments.add_argument("--checkpoint", type=Path)
    options = arguments.parse_args(argv)
    worker = worker_of(options.worker_file)
    library_versions()
    start: Callable[[], Start] = {
        "stores": lambda: start_stores(worker, options.checkpoint),
        "librdkafka": lambda: _timed(librdkafka_read, worker),
        "librdkafka-json": lambda: _timed(partial(librdkafka_read, parsed=True), worker),
    }[options.what]
    starts = [start() for _ in range(options.runs)]
    if options.what == "stores":
        parts = _parse_and_fold(own_records(worker), worker.cluster_group_id)
        starts = [_with_parts(each, parts) for each in starts]
    for each in starts:
        print(each.model_dump_json(), flush=True)
    return 0


_PROBE_S: Final = 900
_WARM_UP: Final = 20
AS_INSTALLED: Final = {"PYTHONDONTWRITEBYTECODE": ""}
"""Environment of what is timed from exec: with bytecode, whatever is set for this process."""


def run_python(module: str, *arguments: object, timeout_s: float = _PROBE_S) -> list[str]:
    """Run a module in a new process; return the lines that it prints, or raise the end of its errors."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    try:
        env = {**os.environ, **AS_INSTALLED}
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, env=env)
    except subprocess.TimeoutExpired as exc:
        raise ConnectShareError(f"{module} {arguments[0]} did not end within {timeout_s:g} s") from exc
    if done.returncode != 0:
        raise ConnectShareError(f"the measurement {module} {arguments[0]} failed: {done.stderr[-1500:]}")
    return [line for line in done.stdout.splitlines() if line.startswith("{")]


def _probed(what: str, worker_file: Path, runs: int, *options: object) -> list[Start]:
    began = time.monotonic()
    lines = run_python("spark_jobs.benchmark.starts", what, worker_file, runs, *options)
    return since_exec(began, [Start.model_validate_json(line) for line in lines])


def since_exec(began: float, starts: list[Start]) -> list[Start]:
    """Return the starts of a process, which began then; the first one's ``ready_at`` becomes the seconds since then."""
    ready_at = starts[0].ready_at
    return [starts[0].model_copy(update={"ready_at": None if ready_at is None else ready_at - began}), *starts[1:]]


Run = Callable[[Files, int], list[Start]]
"""Starts a contender in a new process, and so many times again in the same one."""

RUNS: Final[Mapping[str, Run]] = {
    "python": lambda files, warm: _probed("stores", files.ours, 1 + warm),
    CHECKPOINT: lambda files, warm: _probed("stores", files.ours, 1 + warm, "--checkpoint", files.checkpoint),
    "librdkafka": lambda files, warm: _probed("librdkafka", files.ours, 1 + warm),
    f"python{DEDICATED}": lambda files, warm: _probed("stores", files.dedicated, 1 + warm),
    f"librdkafka{DEDICATED}": lambda files, warm: _probed("librdkafka-json", files.dedicated, 1 + warm),
}
"""The contenders that can be measured on any cluster."""


def measure(plan: Plan, files: Files, runs: Mapping[str, Run], rounds: int, progress: Progress) -> list[Starts]:
    """Measure a new process of every contender once a round, in turn, every other round the other way round.

    A machine whose speed drifts harms all alike. The brokers serve a few reads before anything counts.
    """
    name = plan.scenario.name
    place = {contender: files.dedicated if contender.endswith(DEDICATED) else files.ours for contender in runs}
    sizes = {}
    progress.phase(f"{name}: warming the brokers up", 0)
    for worker_file in dict.fromkeys(place.values()):
        sizes[worker_file] = start_size(worker_of(worker_file))
        # The first contender must not pay for a cold broker: a broker in use has served these reads before.
        _probed("librdkafka", worker_file, _WARM_UP)
    found: dict[tuple[str, Warmth], list[Start]] = {}
    progress.phase(f"{name}: measuring", rounds * len(runs))
    for number in range(rounds):
        for contender, run in list(runs.items())[:: -1 if number % 2 else 1]:
            first, *later = run(files, plan.warm_starts)
            found.setdefault((contender, "cold"), []).append(first)
            found.setdefault((contender, "warm"), []).extend(later)
            if first.ready_at is not None:
                found.setdefault((contender, "exec"), []).append(Start(seconds=first.ready_at))
            progress.advance(1)
    return [
        Starts(
            scenario=name,
            contender=contender,
            warmth=warmth,
            seconds=[each.seconds for each in starts],
            phases={phase: [each.phases[phase] for each in starts] for phase in starts[0].phases},
            topics={topic: [each.topics[topic] for each in starts] for topic in starts[0].topics},
            cpu_seconds=[each.cpu_seconds for each in starts if each.cpu_seconds is not None],
            peak_bytes=[each.peak_bytes for each in starts if each.peak_bytes is not None],
            size=None if contender == CHECKPOINT else sizes[place[contender]],
        )
        for (contender, warmth), starts in found.items()
        if starts
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
