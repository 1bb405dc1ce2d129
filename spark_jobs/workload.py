"""Records of made-up Connect clusters: real kinds, real order, any size, and no session key. Pure and seeded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from connect_share.model.config import (
    connector_config_record,
    target_state_record,
    task_commit_record,
    task_config_record,
)
from connect_share.model.config_state import TargetState
from connect_share.model.keys import ClusterGroupId, prefix_key
from connect_share.model.offsets import offset_key, offset_value
from connect_share.model.records import ConnectorTaskId, TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus, TopicStatus, status_record

Written = tuple[bytes, bytes | None]

_LETTERS: Final = bytes(b"abcdefghijklmnopqrstuvwxyz0123456789 "[byte % 37] for byte in range(256))


@dataclass(frozen=True, slots=True)
class WorkloadSize:
    """The size of a workload; the defaults are KIP-1173's benchmark: 20 clusters of 5 sink jobs.

    Attributes:
        config_records, status_records, offset_records: in each topic, of all groups together.
        config_bytes, status_bytes: keys and values together; records are padded to get there.
        prefixed: keys carry the group (shared topics); otherwise the connectors' names differ by group.
        source_partitions: of each connector: how many keys it has on the offset topic.
    """

    groups: int = 20
    jobs: int = 5
    config_records: int = 8_000
    status_records: int = 8_000
    offset_records: int = 8_000
    config_bytes: int = 32_000_000
    status_bytes: int = 3_000_000
    seed: int = 1173
    prefixed: bool = True
    source_partitions: int = 4

    def group_id(self, group: int) -> ClusterGroupId:
        """Return the id of a group: ``team-003``."""
        return ClusterGroupId(f"team-{group:03d}")

    def connector(self, group: int, job: int) -> str:
        """Return the name of a job, unique over all groups so that a plain copy of all is possible."""
        return f"{self.group_id(group)}.sink-{job}"

    def share(self, total: int, group: int) -> int:
        """Return the records of one group when ``total`` are spread over all."""
        return total // self.groups + (1 if group < total % self.groups else 0)


def group_records(size: WorkloadSize, group: int, topic_type: TopicType) -> Iterator[Written]:
    """Yield the records of one group in one topic, in the order in which workers would have written them."""
    make, total = {
        TopicType.CONFIG: (_config, size.config_records),
        TopicType.STATUS: (_status, size.status_records),
        TopicType.OFFSET: (_offsets, size.offset_records),
    }[topic_type]
    chance = random.Random(f"{size.seed}/{group}/{topic_type.value}")  # noqa: S311 - a workload, not a secret
    records = make(size, group, chance)
    for _ in range(size.share(total, group)):
        key, value = next(records)
        yield (prefix_key(size.group_id(group), key) if size.prefixed else key), value


def _padding(chance: random.Random, length: int) -> str:
    return chance.randbytes(max(0, length)).translate(_LETTERS).decode("ascii")


def _config(size: WorkloadSize, group: int, chance: random.Random) -> Iterator[Written]:
    left = size.share(size.config_records, group)
    # A reconfiguration is a connector config, a task config and a small commit: two of three records carry the bytes.
    length = size.config_bytes * 3 // 2 // max(1, size.config_records) - 260
    generation = 0
    while True:
        for job in range(size.jobs):
            name = size.connector(group, job)
            config: dict[str, str | None] = {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
                "tasks.max": "1",
                "topics": f"orders.{job}",
                "name": name,
                "generation": str(generation),
                "notes": _padding(chance, length),
            }
            written = [
                connector_config_record(name, config),
                task_config_record(ConnectorTaskId(name, 0), {**config, "task.class": "FileStreamSinkTask"}),
                task_commit_record(name, 1),
            ]
            target_state = target_state_record(name, TargetState.STARTED)
            if generation == 0:
                written.insert(1, target_state)
            left -= len(written)
            # Half a reconfiguration at the end would make readers lose the tasks once the one before is compacted away.
            yield from written if left >= 0 else repeat(target_state)
        generation += 1


def _status(size: WorkloadSize, group: int, chance: random.Random) -> Iterator[Written]:
    worker = f"10.0.{group % 250}.7:8083"
    length = size.status_bytes // max(1, size.status_records) - 150
    generation = 0
    while True:
        generation += 1
        for job in range(size.jobs):
            name = size.connector(group, job)
            task = ConnectorTaskId(name, 0)
            trace = _padding(chance, length) if length > 0 else None
            yield status_record(ConnectorStatus(name, State.RUNNING, worker, generation, None, "4.3.1"))
            yield status_record(TaskStatus(task, State.FAILED, worker, generation, trace, "4.3.1"))
            yield status_record(TaskStatus(task, State.RUNNING, worker, generation, None, "4.3.1"))
            yield status_record(TopicStatus(f"orders.{job}", name, 0, 1_700_000_000_000 + generation))


def _offsets(size: WorkloadSize, group: int, chance: random.Random) -> Iterator[Written]:
    position = 0
    while True:
        for job in range(size.jobs):
            name = size.connector(group, job)
            for partition in range(size.source_partitions):
                position += chance.randint(1, 1_000)
                key = offset_key(name, {"filename": f"/data/in.{job}/part-{partition}.csv"})
                yield key, offset_value({"position": position})
