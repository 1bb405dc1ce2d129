"""Times starts in this process; run in a new process for a cold one. Prints one JSON object a start.

usage: python -m spark_jobs.startup.probe stores|plain-client|librdkafka|size WORKER_FILE RUNS [--checkpoint FILE]

A start knows how long it was taking own records in, but parses and folds them in one go: how that divides into ``parse``
and ``fold`` is measured once afterwards, on the same records. ``read`` is the time in which the client is asked for records;
what is done to foreign ones is in ``other``.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from connect_share.contents.cost_model import StartSize
from connect_share.errors import ReadToEndTimeoutError, StoreError, ValueFormatError
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Consumer, Message, TopicPartition, consumer, library_versions, to_record
from connect_share.kafka.facts import gather_facts
from connect_share.kafka.read import read_batches
from connect_share.log.first_read import catch_up_consumer
from connect_share.model.connect_json import loads
from connect_share.model.keys import prefix_key
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.replay import replay_config, replay_offsets, replay_status
from connect_share.storage import ConnectStorage, StorageStartup
from connect_share.worker_config import WorkerConfig
from spark_jobs.startup.result import Start

_PARSED: Final = (TopicType.CONFIG, TopicType.STATUS)
_STATUS: Final = Path("/proc/self/status")
_RESET_PEAK: Final = Path("/proc/self/clear_refs")

_BATCH: Final = 2_000
_IDLE_S: Final = 0.005
_GIVE_UP_S: Final = 300.0
_WORKER_ORDER: Final = (TopicType.OFFSET, TopicType.STATUS, TopicType.CONFIG)


class Measurement:
    """Seconds, CPU time of all threads and memory of this process since the beginning of the measurement."""

    def __init__(self) -> None:
        gc.collect()
        self._memory = _memory("VmRSS") if _reset_peak() else None
        self._cpu = time.process_time()
        self._began = time.perf_counter()

    def end(self) -> Start:
        """Return what the process has used so far."""
        seconds, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu
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


def _reset_peak() -> bool:
    try:
        _RESET_PEAK.write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def plain_client_read(worker: WorkerConfig) -> int:
    """Read the topics one after another with default settings until the client says "end"; return the number of records."""
    records = 0
    for topic_type in _WORKER_ORDER:
        topic = worker.topic(topic_type)
        reader = consumer(
            worker.client_settings(),
            client_id="plain",
            isolation=worker.isolation(topic_type),
            overrides={"enable.partition.eof": "true"},
        )
        partitions = set(reader.list_topics(topic, timeout=30).topics[topic].partitions)
        reader.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while partitions:
            message = reader.poll(1.0)
            if message is None:
                continue
            if message.error() is None:
                records += 1
            else:
                partitions.discard(message.partition() or 0)
        reader.close()
    return records


def librdkafka_read(worker: WorkerConfig) -> dict[str, float]:
    """Fetch the three topics as our stores do, with the same settings through one client, and look at no record.

    This is the limit of what a store in Python can reach: the client hands out one object a record, and that is all.

    Returns:
        Seconds of its parts, as those of a start.

    Raises:
        ReadToEndTimeoutError: an end was not reached.
    """
    began_s = time.perf_counter()
    with Admin(worker.admin_settings(), client_id="bare-admin") as admin:
        found = gather_facts(admin, [worker.topic(topic_type) for topic_type in TopicType])
        asked_s = time.perf_counter()
        isolation = worker.isolation(TopicType.CONFIG)
        reader = catch_up_consumer(worker.consumer_settings(), client_id="bare", isolation=isolation)
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
            )
            read_s = time.perf_counter() - made_s - first_s
        finally:
            # Closing is no part of a start: our stores do it in a thread of its own.
            threading.Thread(target=reader.close).start()
    return {"connect": made_s - asked_s, "metadata": asked_s - began_s, "first_record": first_s, "read": read_s}


def _throw_away(reader: Consumer, ends: dict[tuple[str, int], int]) -> float:
    """Read to the ends; return the seconds until the first record came."""
    began_s, first_s = time.perf_counter(), 0.0
    reader.assign([TopicPartition(topic, partition, 0) for topic, partition in sorted(ends)])
    left, deadline_s = sum(ends.values()), time.monotonic() + _GIVE_UP_S
    while ends:
        wanted = max(1, min(_BATCH, left))
        taken = len(reader.consume(wanted, _IDLE_S))
        left -= taken
        if taken and not first_s:
            first_s = time.perf_counter() - began_s
        if taken == wanted and left > 0:
            continue
        for at in reader.position([TopicPartition(topic, partition) for topic, partition in ends]):
            if at.offset >= ends[at.topic, at.partition]:
                del ends[at.topic, at.partition]
        if ends and time.monotonic() > deadline_s:
            topic, partition = min(ends)
            raise ReadToEndTimeoutError(f"{topic}[{partition}] was not read to its end within {_GIVE_UP_S:g} s")
    return first_s


def own_records(worker: WorkerConfig) -> dict[TopicType, list[Record]]:
    """Read the records of the worker's group; without sharing all."""
    found: dict[TopicType, list[Record]] = {topic_type: [] for topic_type in TopicType}
    for topic_type, message, own in _everything(worker):
        if own:
            found[topic_type].append(to_record(message))
    return found


def start_size(worker: WorkerConfig) -> StartSize:
    """Return what a start has to read."""
    records = size = own_records = 0
    for _, message, own in _everything(worker):
        records += 1
        size += len(message.key() or b"") + len(message.value() or b"")
        own_records += own
    return StartSize(records=records, bytes=size, own_records=own_records)


def _everything(worker: WorkerConfig) -> Iterator[tuple[TopicType, Message, bool]]:
    """Yield all records, and whether each is one of the worker's group."""
    prefix = b"" if worker.cluster_group_id is None else prefix_key(worker.cluster_group_id, b"")
    with Admin(worker.admin_settings(), client_id="count-admin") as admin:
        found = gather_facts(admin, [worker.topic(topic_type) for topic_type in TopicType])
    for topic_type in TopicType:
        topic = worker.topic(topic_type)
        ranges = [OffsetRange(topic, partition, 0, end) for partition, end in found[topic].ends.items()]
        isolation = worker.isolation(topic_type)
        for batch in read_batches(worker.client_settings(), ranges, isolation=isolation, client_id="count"):
            for message in batch:
                yield topic_type, message, (message.key() or b"").startswith(prefix)


def _timed(read: Callable[[WorkerConfig], object], worker: WorkerConfig) -> Start:
    measurement = Measurement()
    found = read(worker)
    start = measurement.end()
    return start.model_copy(update={"phases": found}) if isinstance(found, dict) else start


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
