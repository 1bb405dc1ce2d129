"""Times starts in this process; run in a new process for a cold one. Prints one JSON object a start.

usage: python -m spark_jobs.startup.probe stores|plain-client|librdkafka|size WORKER_FILE RUNS [--checkpoint FILE]

A start knows how long it was taking own records in, but parses and folds them in one go: how that divides into ``parse``
and ``fold`` is measured once afterwards, on the same records. ``read`` is everything between the first record and the end
that is neither, so foreign records are in it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from connect_share.client import library_versions
from connect_share.connect_json import loads
from connect_share.errors import StoreError, ValueFormatError
from connect_share.records import Record, TopicType
from connect_share.state import replay_config, replay_offsets, replay_status
from connect_share.storage import ConnectStorage, StorageStartup
from connect_share.worker_config import WorkerConfig
from spark_jobs.startup.reads import librdkafka_read, own_records, plain_client_read, start_size
from spark_jobs.startup.result import Start

_PARSED: Final = (TopicType.CONFIG, TopicType.STATUS)
_STATUS: Final = Path("/proc/self/status")
_RESET_PEAK: Final = Path("/proc/self/clear_refs")


class Measurement:
    """Seconds, CPU time of all threads and memory of this process since the beginning of the measurement."""

    def __init__(self) -> None:
        gc.collect()
        self._memory = _memory("VmRSS") if _reset_peak() else None
        self._cpu = cpu_seconds()
        self._began = time.perf_counter()

    def end(self) -> Start:
        """Return what the process has used so far."""
        seconds, cpu = time.perf_counter() - self._began, cpu_seconds() - self._cpu
        peak = _memory("VmHWM")
        grown = None if self._memory is None or peak is None else max(0, peak - self._memory)
        return Start(seconds=seconds, cpu_seconds=cpu, peak_bytes=grown)


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
    first = min((store.first_record_seconds for store in stores if store.first_record_seconds > 0), default=0.0)
    phases = {
        "connect": startup.connect_seconds,
        "metadata": startup.admin_seconds,
        "first_record": first,
        "apply": sum(store.apply_seconds for store in stores),
    }
    return {**phases, "read": max(0.0, startup.seconds - sum(phases.values()))}


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


def _reset_peak() -> bool:
    try:
        _RESET_PEAK.write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def cpu_seconds() -> float:
    """Return the CPU time of this process so far, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _timed(read: Callable[[WorkerConfig], object], worker: WorkerConfig) -> Start:
    measurement = Measurement()
    read(worker)
    return measurement.end()


def main(argv: list[str]) -> int:
    """Print one JSON line a start; the first one is that of a new process."""
    arguments = argparse.ArgumentParser(prog="python -m spark_jobs.startup.probe")
    arguments.add_argument("what", choices=("stores", "plain-client", "librdkafka", "size"))
    arguments.add_argument("worker_file", type=Path)
    arguments.add_argument("runs", type=int)
    arguments.add_argument("--checkpoint", type=Path)
    options = arguments.parse_args(argv)
    worker = WorkerConfig.from_file(options.worker_file)
    library_versions()
    if options.what == "size":
        print(start_size(worker).model_dump_json())
        return 0
    start: Callable[[], Start] = {
        "stores": lambda: start_stores(worker, options.checkpoint),
        "plain-client": lambda: _timed(plain_client_read, worker),
        "librdkafka": lambda: _timed(librdkafka_read, worker),
    }[options.what]
    starts = [start() for _ in range(options.runs)]
    if options.what == "stores":
        parts = _parse_and_fold(own_records(worker), worker.cluster_group_id)
        starts = [_with_parts(each, parts) for each in starts]
    for each in starts:
        print(each.model_dump_json(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
