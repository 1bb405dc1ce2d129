"""What a start took, and what it met."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StoreStartup:
    """What the start of one store took, and what it met.

    Attributes:
        seconds: from the common start of all three until this store was ready.
        own_records: records under the group's prefix; without sharing, all records.
        foreign_records: records of others, recognised by their keys alone.
        first_record_seconds: from the begin of reading until its first record came; 0 if there was none.
        apply_seconds: in which the own records were parsed and folded.
    """

    topic: str
    partitions: int
    seconds: float
    own_records: int
    foreign_records: int
    first_record_seconds: float = 0.0
    apply_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class StorageStartup:
    """What the start of all three stores took.

    Attributes:
        seconds: from entering the context until everything was ready.
        admin_seconds: of which: finding the topics and their ends.
        connect_seconds: of which: making the clients that read.
        read_seconds: of which: waiting for the client's records.
        from_checkpoint: only what is new since a checkpoint was read.
        full_read_reason: why not, if a checkpoint file was named.
    """

    seconds: float
    admin_seconds: float
    config: StoreStartup
    status: StoreStartup
    offsets: StoreStartup
    connect_seconds: float = 0.0
    read_seconds: float = 0.0
    from_checkpoint: bool = False
    full_read_reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values, for JSON."""
        return asdict(self)
