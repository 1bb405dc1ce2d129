"""Puts into our running stores until they can be read back, or writes as other groups do meanwhile; a process of its own.

usage: python -m spark_jobs.startup.latency_probe puts WORKER_FILE PUTS UNCOUNTED
       python -m spark_jobs.startup.latency_probe writers WORKER_FILE GROUPS   (until its standard input is closed)
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from connect_share.client import producer
from connect_share.keys import ClusterGroupId, prefix_key
from connect_share.records import ConnectorTaskId, TopicType
from connect_share.state import (
    ConnectorStatus,
    State,
    TaskStatus,
    connector_config_record,
    offset_key,
    offset_value,
    task_status_record,
)
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig

WRITES_A_SECOND: Final = 10
"""Of each other group, to each topic: far more than a group writes that is not just being started."""

_LOOK_EVERY_S: Final = 50e-6
_NAME: Final = "latency"


def puts(worker: WorkerConfig, count: int, uncounted: int) -> dict[str, list[float]]:
    """Return the seconds of each put by store."""
    found: dict[str, list[float]] = {"config": [], "offset": [], "status": []}
    with ConnectStorage(worker, allow_live_members=True, allow_empty=True) as storage:
        kinds: dict[str, Callable[[ConnectStorage, int], None]] = {
            "config": _put_config,
            "offset": _put_offset,
            "status": _put_status,
        }
        for number in range(-uncounted, count):
            for store, put in kinds.items():
                began = time.perf_counter()
                put(storage, number)
                if number >= 0:
                    found[store].append(time.perf_counter() - began)
    return found


def _put_config(storage: ConnectStorage, number: int) -> None:
    storage.config.put_connector_config(_NAME, {"name": _NAME, "number": str(number)})
    while (storage.config.snapshot().connector_config(_NAME) or {}).get("number") != str(number):
        time.sleep(_LOOK_EVERY_S)


def _put_offset(storage: ConnectStorage, number: int) -> None:
    key = offset_key(_NAME, {"file": "a"})
    if storage.cluster_group_id is not None:
        key = prefix_key(storage.cluster_group_id, key)
    value = offset_value({"position": number})
    storage.offsets.set({key: value}).result(60)
    while storage.offsets.get([key]).result(60)[key] != value:
        pass


def _put_status(storage: ConnectStorage, number: int) -> None:
    generation = number + 1_000_000
    storage.status.put(ConnectorStatus(_NAME, State.RUNNING, "127.0.0.1:8083", generation))
    while (now := storage.status.get(_NAME)) is None or now.generation != generation:
        time.sleep(_LOOK_EVERY_S)


def write_as_groups(worker: WorkerConfig, groups: int, ended: threading.Event) -> None:
    """Write to all three topics as so many groups do, evenly spread, until the event is set."""
    sender = producer(worker.producer_settings(), client_id="other-groups", overrides={"linger.ms": "0"})
    pause_s = 1.0 / WRITES_A_SECOND / groups
    due_s = time.monotonic()
    for group, number in _turns(groups):
        for topic_type, (key, value) in _records(number).items():
            sender.produce(worker.topic(topic_type), key=prefix_key(group, key), value=value)
        sender.poll(0)
        due_s = max(due_s + pause_s, time.monotonic() - 1.0)  # what was missed long ago is not made up for
        if ended.wait(max(0.0, due_s - time.monotonic())):
            break
    sender.flush(30)


def _turns(groups: int) -> Iterator[tuple[ClusterGroupId, int]]:
    names = [ClusterGroupId(f"other-{number:03d}") for number in range(groups)]
    number = 0
    while True:
        for name in names:
            yield name, number
        number += 1


def _records(number: int) -> dict[TopicType, tuple[bytes, bytes | None]]:
    task = ConnectorTaskId("busy", number % 4)
    return {
        TopicType.CONFIG: connector_config_record("busy", {"name": "busy", "number": str(number), "notes": "x" * 500}),
        TopicType.OFFSET: (offset_key("busy", {"file": str(number % 4)}), offset_value({"position": number})),
        TopicType.STATUS: task_status_record(TaskStatus(task, State.RUNNING, "127.0.0.1:8083", number)),
    }


def main(argv: list[str]) -> int:
    """Print one JSON object of puts, or write until standard input ends."""
    what, worker = argv[0], WorkerConfig.from_file(Path(argv[1]))
    if what == "puts":
        print(json.dumps(puts(worker, int(argv[2]), int(argv[3]))), flush=True)
        return 0
    ended = threading.Event()

    def await_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    print("writing", flush=True)
    write_as_groups(worker, int(argv[2]), ended)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
