"""What the cluster itself says about its topics: ids, replicas, leaders; whoever was asked for it."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect_share.topic_ids.scan.scanner import ZERO_ID, id_bytes, id_text, why_no_id

CLUSTER_METADATA = "__cluster_metadata"
"""KRaft's own log: it has an id reserved for it, and no authority but itself."""
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
"""Repaired by a write to the znode only: nobody tried more with them."""
NO_ID = "there is no id"
REMOTE_LOG_METADATA = "__remote_log_metadata"
"""Is there when tiered storage is in use, with Kafka's own implementation at least."""


class Mode(enum.Enum):
    """Who keeps the ids."""

    ZOOKEEPER = "zookeeper"
    KRAFT = "kraft"


@dataclass(frozen=True, slots=True)
class AuthorityPartition:
    """One partition; broker ids.

    Attributes:
        leader: ``None`` while there is none, or if it is not known.
        directories: ids of the log dirs, in the order of ``replicas``; empty where the authority does not keep them.
    """

    replicas: tuple[int, ...] = ()
    leader: int | None = None
    isr: tuple[int, ...] = ()
    directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuthorityTopic:
    """One topic.

    Attributes:
        topic_id: 16 bytes; ``None`` if the authority has none that Kafka could use.
        problem: why there is none.
        moving: a reassignment is under way.
        remote_storage: tiered storage is on for this topic; ``None``: not known.
        version: of the znode, for a write that must not go over somebody else's; ``None``: not known.
        text: of the znode.
    """

    name: str
    topic_id: bytes | None
    partitions: Mapping[int, AuthorityPartition] = field(default_factory=dict)
    problem: str | None = None
    moving: bool = False
    remote_storage: bool | None = None
    version: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Authority:
    """The truth that scans are compared with.

    Attributes:
        source: where it is from, for messages.
        topics: by name.
        cluster_id: ``None`` if the authority does not say.
        removed: ids of topics that were deleted, with their names (KRaft's log only).
        deleting: topics whose deletion is under way.
        controller: broker that is controller (ZooKeeper only); ``None``: none, or not known.
        live: brokers that are up; ``None``: not known.
        log_dirs: ids of the log dirs each broker has registered (KRaft's log only).
        addresses: host and port of brokers, as clients reach them, where they are known.
        tiered_storage: a sign of it was seen.
        from_memory: the brokers were asked, and they tell what the controller remembers, not what is stored.
        notes: what a reader should know.
    """

    mode: Mode
    source: str
    topics: Mapping[str, AuthorityTopic]
    cluster_id: str | None = None
    removed: Mapping[bytes, str] = field(default_factory=dict)
    deleting: frozenset[str] = frozenset()
    controller: int | None = None
    live: frozenset[int] | None = None
    log_dirs: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    addresses: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    tiered_storage: bool = False
    from_memory: bool = False
    notes: Sequence[str] = ()

    def duplicates(self) -> dict[bytes, tuple[str, ...]]:
        """Ids that several topics have, with their names in order."""
        by_id = defaultdict(list)
        for topic in self.topics.values():
            if topic.topic_id is not None:
                by_id[topic.topic_id].append(topic.name)
        return {raw: tuple(sorted(names)) for raw, names in by_id.items() if len(names) > 1}


def read_id(value: object) -> tuple[bytes | None, str | None]:
    """Understand an id as the authority has it.

    Returns:
        The id, or ``None`` and why there is none.
    """
    if value is None:
        return None, NO_ID
    if not isinstance(value, str):
        return None, "the id is not a text"
    raw = id_bytes(value)
    if raw is None:
        return None, why_no_id(value)
    if raw == ZERO_ID:
        return None, "the id is all zero"
    return raw, None


def shown_id(raw: bytes | None) -> str | None:
    """Write an id as Kafka does; ``None`` stays."""
    return None if raw is None else id_text(raw)


def integers(value: object) -> tuple[int, ...]:
    """Take a list of numbers out of JSON; anything else is left out."""
    if not isinstance(value, list):
        return ()
    return tuple(item for item in value if isinstance(item, int) and not isinstance(item, bool))


def leader_of(value: object) -> int | None:
    """Take a leader out of JSON; Kafka writes -1 for none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
