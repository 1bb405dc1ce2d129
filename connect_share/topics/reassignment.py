"""A plan of replicas for Kafka's own ``kafka-reassign-partitions``. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connect_share.admin import BrokerDescription

_FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """Brokers that hold, or should hold, one partition; the first one leads when it can."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


def one_rack(replicas: Sequence[int], racks: Mapping[int, str | None]) -> str | None:
    """Return the rack in which all replicas are; ``None`` if there are several, or one is not known, or one replica only."""
    found = {racks.get(broker) for broker in replicas}
    return found.pop() if len(replicas) > 1 and len(found) == 1 else None


def reassigned(
    partitions: Sequence[PartitionReplicas],
    wanted: Mapping[str, int],
    brokers: Sequence[BrokerDescription],
) -> tuple[PartitionReplicas, ...]:
    """Plan the partitions that have too few replicas, or all of them in one rack.

    Existing replicas stay, and stay first, so the leader does not move; the last one is given up only where all are in one
    rack. New ones go to the rack that has fewest of the partition, there to the broker with fewest replicas, then to the
    lowest id: the same input always gives the same plan. A partition that cannot have all replicas wanted is left out.

    Only ``brokers``, which are up, get new replicas. Return the partitions that change, by topic and partition.
    """
    racks = {broker.id: broker.rack for broker in brokers}
    busy = Counter(broker for partition in partitions for broker in partition.replicas)
    planned = []
    for partition in sorted(partitions, key=lambda partition: (partition.topic, partition.partition)):
        replicas = _placed(partition.replicas, wanted.get(partition.topic, 0), racks, busy)
        if replicas != partition.replicas:
            busy.subtract(partition.replicas)
            busy.update(replicas)
            planned.append(PartitionReplicas(partition.topic, partition.partition, replicas))
    return tuple(planned)


def _placed(
    existing: tuple[int, ...], wanted: int, racks: Mapping[int, str | None], busy: Mapping[int, int]
) -> tuple[int, ...]:
    kept = list(existing)
    several_racks = len({rack for rack in racks.values() if rack is not None}) > 1
    if several_racks and len(kept) >= wanted and one_rack(kept, racks) is not None:
        kept.pop()
    target = max(wanted, len(existing))
    while len(kept) < target:
        used = Counter(racks.get(broker) for broker in kept)
        free = [broker for broker in racks if broker not in kept]
        if not free:
            return existing
        kept.append(min(free, key=lambda broker: (used[racks[broker]], busy.get(broker, 0), broker)))
    return tuple(kept)


def reassignment_json(planned: Sequence[PartitionReplicas]) -> dict[str, Any]:
    """Return the plan in the form that ``kafka-reassign-partitions --reassignment-json-file`` reads."""
    return {
        "version": _FORMAT_VERSION,
        "partitions": [
            {"topic": partition.topic, "partition": partition.partition, "replicas": list(partition.replicas)}
            for partition in planned
        ],
    }
