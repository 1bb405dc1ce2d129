"""What brokers say of topics, partitions and themselves, without the client library's types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_share.errors import GroupProtocolError
from connect_share.kafka.connect_protocol import (
    NOTHING,
    ConnectorsAndTasks,
    ExtendedAssignment,
    ExtendedWorkerState,
    decode_assignment,
    decode_worker_state,
    worker_url,
)

_Decoded = TypeVar("_Decoded")


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition; broker ids. ``leader`` is ``None`` while there is none."""

    id: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Brokers whose replica is not in sync."""
        return tuple(broker for broker in self.replicas if broker not in self.isr)


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """One broker that is up; ``rack`` is ``None`` if ``broker.rack`` is not set, ``address`` is host and port."""

    id: int
    rack: str | None = None
    address: tuple[str, int] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic.

    Attributes:
        topic_id: as Kafka prints it (unpadded url-safe base64, 22 characters); ``None`` if the broker gives none.
    """

    name: str
    topic_id: str | None
    partitions: tuple[PartitionDescription, ...]

    @property
    def fewest_replicas(self) -> int:
        """Replicas of the partition with the fewest."""
        return min((len(partition.replicas) for partition in self.partitions), default=0)


@dataclass(frozen=True, slots=True)
class HeldRights:
    """What the principal may do with one topic or group.

    Attributes:
        names: of operations, such as ``DESCRIBE_CONFIGS``.
        complete: no further ones are allowed; if not, Kafka does not tell.
        exists: false if it is known that it does not exist.
    """

    names: frozenset[str] = frozenset()
    complete: bool = True
    exists: bool = True

    @classmethod
    def of(cls, operations: Iterable[Any] | None) -> HeldRights:
        """Return those of a description; a broker before 2.3 does not say."""
        return cls(frozenset(each.name for each in operations or ()), complete=operations is not None)

    def lacking(self, wanted: Iterable[str]) -> list[str]:
        """Return which of these are not allowed, as far as that is known; who sees nothing lacks DESCRIBE, too.

        CREATE is wanted only where the topic does not exist, and what else is allowed there is not known.
        """
        if not self.exists:
            return [right for right in wanted if right == "CREATE" and right not in self.names]
        missing = [right for right in wanted if right not in self.names and right != "CREATE"]
        return [] if not self.complete else missing if self.names else [*dict.fromkeys(["DESCRIBE", *missing])]


@dataclass(frozen=True, slots=True)
class LogEnd:
    """End of a partition: next offset, and the epoch of the leader that says so (-1 if it does not say)."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class NewTopicRequest:
    """A topic to be created; -1 means the broker's default."""

    topic: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A live member of a Connect group.

    Attributes:
        worker_id: ``host:port`` as in statuses; ``None`` where its metadata do not have it.
        protocol: name of the group protocol, such as ``sessioned``; empty while the group rebalances.
        host: the address that it connects from.
        group_state: of its group; brokers give metadata and assignments only while that is ``Stable``.
    """

    member_id: str
    client_id: str
    worker_id: str | None
    protocol: str
    host: str = ""
    group_state: str = ""
    metadata: bytes = field(default=b"", repr=False)
    assigned: bytes = field(default=b"", repr=False)

    @property
    def state(self) -> ExtendedWorkerState | None:
        """What it said when it joined last; ``None``: not known now."""
        return _decoded(decode_worker_state, self.metadata)

    @property
    def assignment(self) -> ExtendedAssignment | None:
        """What the leader gave it last; ``None``: not known now."""
        return _decoded(decode_assignment, self.assigned)

    @property
    def running(self) -> ConnectorsAndTasks | None:
        """What it runs by its last assignment; ``None``: not known now."""
        state, given = self.state, self.assignment
        if state is None or given is None:
            return None
        before = NOTHING if state.assignment is None else state.assignment.assigned
        return (before - given.revoked) | given.assigned


def _decoded(decode: Callable[[bytes], _Decoded], data: bytes) -> _Decoded | None:
    try:
        return decode(data)
    except GroupProtocolError:
        return None


def worker_id_of(metadata: bytes | None) -> str | None:
    """Return the id of a Connect worker, ``host:port``, from what it says to its group; ``None`` if it is not there."""
    url = _decoded(worker_url, metadata or b"")
    return None if url is None else url.partition("://")[2].partition("/")[0] or None
