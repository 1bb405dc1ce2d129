"""The topics as the cluster has them: ids, replicas, leaders."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_share.topic_ids.scan import scanner
from connect_share.topic_ids.scan.scans import integer

CLUSTER_METADATA = "__cluster_metadata"
"""KRaft's own log: its id is reserved, and it is no topic of the cluster."""
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
"""Repaired by a write to the znode only: a change of their files was never tested."""
NO_ID = "there is no id"
REMOTE_LOG_METADATA = "__remote_log_metadata"
"""Exists when tiered storage is in use, at least with Kafka's own implementation."""


class MetadataMode(enum.StrEnum):
    """Where the cluster stores the ids."""

    ZOOKEEPER = "zookeeper"
    KRAFT = "kraft"


@dataclass(frozen=True, slots=True)
class AuthorityPartition:
    """One partition; broker ids.

    Attributes:
        leader: ``None``: there is none, or it is not known.
        directories: ids of the log dirs, in the order of ``replicas``; empty: not known.
    """

    replicas: tuple[int, ...] = ()
    leader: int | None = None
    isr: tuple[int, ...] = ()
    directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuthorityTopic:
    """One topic.

    Attributes:
        topic_id: as Kafka prints it; ``None``: there is none that Kafka can use.
        problem: the reason for that.
        moving: a reassignment is in progress.
        remote_storage: tiered storage is on for this topic; ``None``: not known.
        version: of the znode, for conditional writes; ``None``: not known.
        text: of the znode.
    """

    name: str
    topic_id: str | None
    partitions: Mapping[int, AuthorityPartition] = field(default_factory=dict)
    problem: str | None = None
    moving: bool = False
    remote_storage: bool | None = None
    version: int | None = None
    text: str | None = None

    def brokers(self) -> frozenset[int]:
        """Return the brokers with a replica."""
        return frozenset(broker for one in self.partitions.values() for broker in one.replicas)


@dataclass(frozen=True, slots=True)
class Authority:
    """The topics that scans are compared with.

    Attributes:
        source: names it in messages.
        cluster_id: ``None``: not known.
        removed: ids of deleted topics, with their names (KRaft's log only).
        deleting: topics whose deletion is in progress.
        controller: broker (ZooKeeper only); ``None``: none, or not known.
        live: brokers that are up; ``None``: not known.
        log_dirs: ids of the registered log dirs of each broker (KRaft's log only).
        addresses: host and port of brokers for clients, as far as known.
        tiered_storage: something shows that it is in use.
        from_memory: the answers are from the brokers' memory, not from what is stored.
        notes: for the reader of a report.
    """

    mode: MetadataMode
    source: str
    topics: Mapping[str, AuthorityTopic]
    cluster_id: str | None = None
    removed: Mapping[str, str] = field(default_factory=dict)
    deleting: frozenset[str] = frozenset()
    controller: int | None = None
    live: frozenset[int] | None = None
    log_dirs: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    addresses: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    tiered_storage: bool = False
    from_memory: bool = False
    notes: Sequence[str] = ()

    def brokers(self) -> frozenset[int]:
        """Return the brokers with a replica of any topic."""
        return frozenset(broker for topic in self.topics.values() for broker in topic.brokers())

    def duplicates(self) -> dict[str, tuple[str, ...]]:
        """Return the ids that several topics have, with the names of these in order."""
        by_id = defaultdict(list)
        for topic in self.topics.values():
            if topic.topic_id is not None:
                by_id[topic.topic_id].append(topic.name)
        return {topic_id: tuple(sorted(names)) for topic_id, names in by_id.items() if len(names) > 1}


def read_id(value: object) -> tuple[str | None, str | None]:
    """Return a topic id of JSON as Kafka prints it, so that equal texts are equal ids, or ``None`` and the reason."""
    if value is None:
        return None, NO_ID
    if not isinstance(value, str):
        return None, "the id is not a text"
    topic_id, problem = scanner.read_id(value)
    return None if problem else topic_id, problem


def integers(value: object) -> tuple[int, ...]:
    """Return the integers of a JSON list; nothing for any other value."""
    if not isinstance(value, list):
        return ()
    return tuple(item for item in value if integer(item) is not None)


def leader_of(value: object) -> int | None:
    """Return the leader of a JSON value; Kafka writes -1 for none."""
    leader = integer(value)
    return leader if leader is not None and leader >= 0 else None


def partition_of(data: Mapping[str, Any]) -> AuthorityPartition:
    """Return a partition by its JSON members; those that are not as Kafka writes them are not known."""
    directories = data.get("directories")
    return AuthorityPartition(
        integers(data.get("replicas")),
        leader_of(data.get("leader")),
        integers(data.get("isr")),
        tuple(map(str, directories)) if isinstance(directories, list) else (),
    )
