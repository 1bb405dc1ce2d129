"""What a destination holds of everybody else before a plan writes there: counts and digests, never a key or a value.

Taken before the first write and again later over the same offsets, equal figures prove that every record of the others
is still there, unchanged and at its place. ``migrator.apply.bystander_check`` compares.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict

from connect_share.admin import Admin
from connect_share.client import Message, headers_of
from connect_share.keys import connector_of, split_key
from connect_share.log.ranges import read_batches
from connect_share.records import OffsetRange, TopicType
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import Isolation
from migrator.copy.barrier import BARRIER_RECORDS
from migrator.copy.copy_job import IDLE_TIMEOUT_S
from migrator.facts.inspection import ExistingTopic, client_id_of
from migrator.facts.live_keys import Wanted
from migrator.progress import Progress
from migrator.transform.rules import PLAIN_KEYS

ILLEGAL_KEYS: Final = "illegal keys"
"""How people are told of records whose key Connect does not write. No cluster group id has a blank."""
AT_ONCE: Final = 200_000
"""Offsets read together: memory grows with them, or with the largest partition; 40 bytes or so for each key."""
_MODULUS: Final = 2**64
_PLACE: Final = struct.Struct(">iqqI")


class GroupDigest(BaseModel):
    """The living records of one group in one topic.

    Attributes:
        keys: keys whose newest record has a value.
        digest: sum modulo 2**64 over those records of a hash of place, timestamp, key, value and headers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: int
    digest: str


class TopicBaseline(BaseModel):
    """One destination topic before the first write.

    Attributes:
        ends: per partition the end of what was looked at: that of committed records, exclusive.
        groups: by group; :data:`ILLEGAL_KEYS` and plain keys count as one each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ends: dict[int, int]
    groups: dict[str, GroupDigest]


class KeyOwners:
    """Tells whose a key is, seen from a plan that writes to ``wanted``."""

    def __init__(self, topic_type: TopicType, wanted: Wanted) -> None:
        self._topic_type = topic_type
        self._wanted = wanted
        self._own_mark = BARRIER_RECORDS[topic_type][0]

    def owner(self, key: bytes | None) -> str | None:
        """Name the group of a key; ``None`` for what the plan itself writes."""
        parts = None if key is None else split_key(self._topic_type, key)
        if parts is None:
            return ILLEGAL_KEYS
        space = None if parts[0] is None else str(parts[0])
        if space in self._wanted:
            connectors = self._wanted[space]
            if (
                connectors is None
                or parts[1] == self._own_mark
                or connector_of(self._topic_type, parts[1]) in connectors
            ):
                return None
        return PLAIN_KEYS if space is None else space

    def is_marker(self, key: bytes | None) -> bool:
        """Tell the marker of a group, and what a resume settles with, apart from the records that were moved."""
        return key is not None and key.endswith(self._own_mark)


@dataclass
class DigestSums:
    """Running figures by group, memory bounded by the keys of the partitions that are read together."""

    keys: Counter[str] = field(default_factory=Counter)
    digests: Counter[str] = field(default_factory=Counter)
    _newest: dict[int, int] = field(default_factory=dict)

    def forget_keys(self) -> Iterable[int]:
        """Go on with other partitions, for a key lives in one; gives the living keys so far, as ``place_of``."""
        living, self._newest = self._newest, {}
        return living.keys()

    def add(self, owner: str, message: Message) -> None:
        """Take the next record of a partition, in order of offsets."""
        key, value = message.key() or b"", message.value()
        place = place_of(message)
        known = self._newest.pop(place, None)
        if known is not None:
            self.digests[owner] -= known
            self.keys[owner] -= 1
        if value is not None:
            told = self._newest[place] = _told(message, key, value)
            self.digests[owner] += told
            self.keys[owner] += 1

    def groups(self) -> dict[str, GroupDigest]:
        """Give the figures by group; groups of which nothing lives are left out."""
        return {
            owner: GroupDigest(keys=count, digest=f"{self.digests[owner] % _MODULUS:016x}")
            for owner, count in sorted(self.keys.items())
            if count
        }


def place_of(message: Message) -> int:
    """Stand for partition and key, in this process only: nobody outside can make two that collide."""
    return hash((message.partition(), message.key() or b""))


def _told(message: Message, key: bytes, value: bytes) -> int:
    offset, timestamp_ms = message.offset() or 0, message.timestamp()[1]
    hashed = hashlib.blake2b(_PLACE.pack(message.partition() or 0, offset, timestamp_ms, len(key)), digest_size=8)
    hashed.update(key)
    hashed.update(value)
    headers = headers_of(message)
    if headers != ():  # what cannot be read is one and the same here
        hashed.update(repr(headers and [*headers]).encode())
    return int.from_bytes(hashed.digest(), "big")


def portions(ranges: Sequence[OffsetRange], at_once: int = AT_ONCE) -> Iterator[list[OffsetRange]]:
    """Put partitions together that are read by one client; a partition is never split."""
    taken: list[OffsetRange] = []
    room = at_once
    for part in ranges:
        size = part.end - part.start
        if taken and size > room:
            yield taken
            taken, room = [], at_once
        taken.append(part)
        room -= size
    if taken:
        yield taken


def digest_of(
    worker: WorkerConfig,
    others: KeyOwners,
    ranges: Sequence[OffsetRange],
    on_progress: Callable[[int], None],
    *,
    newer: dict[int, str] | None = None,
) -> dict[str, GroupDigest]:
    """Read committed records and give the figures of everybody but the plan itself.

    Args:
        worker: of the destination.
        others: tells whose a key is.
        ranges: what is looked at.
        on_progress: called with the number of records read since the last call.
        newer: keys, as ``place_of``; those that live in the ranges are taken out of it.

    Raises:
        BrokerError: reading was refused.
        ReadToEndTimeoutError: an end was not reached.
    """
    sums = DigestSums()
    for portion in portions([part for part in ranges if part.end > part.start]):
        for batch in read_as(worker, portion, Isolation.READ_COMMITTED):
            for message in batch:
                owner = others.owner(message.key())
                if owner is not None:
                    sums.add(owner, message)
            on_progress(len(batch))
        for place in sums.forget_keys():
            if newer:
                newer.pop(place, None)
    return sums.groups()


def read_as(worker: WorkerConfig, ranges: Sequence[OffsetRange], isolation: Isolation) -> Iterable[list[Message]]:
    """Read ranges with a worker's settings.

    Raises:
        BrokerError, ReadToEndTimeoutError: as :func:`connect_share.log.read_batches`.
    """
    return read_batches(
        worker.consumer_settings(),
        ranges,
        isolation=isolation,
        client_id=client_id_of(worker),
        idle_timeout_s=IDLE_TIMEOUT_S,
    )


def take_baseline(
    worker: WorkerConfig, opened: Mapping[TopicType, ExistingTopic], wanted: Wanted, progress: Progress
) -> dict[TopicType, TopicBaseline]:
    """Look at the destination's topics before anything is written; empty ones are not read.

    Args:
        worker: of the destination.
        opened: the topics, with the ends up to which they are looked at.
        wanted: what the plan is going to write.
        progress: told how far it is.

    Raises:
        BrokerError: the cluster refused.
    """
    baseline = {}
    with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
        for topic_type, facts in opened.items():
            partitions = [(facts.topic, number) for number in facts.ends]
            # What others have written in transactions that are open now belongs to nobody yet.
            stable = admin.end_offsets(partitions, Isolation.READ_COMMITTED)
            ends = {number: min(end, stable[facts.topic, number]) for number, end in facts.ends.items()}
            ranges = [OffsetRange(facts.topic, number, facts.starts[number], end) for number, end in ends.items()]
            total = sum(max(part.end - part.start, 0) for part in ranges)
            groups = {}
            if total:
                progress.phase(f"noting what {facts.topic} holds of others", total)
                groups = digest_of(worker, KeyOwners(topic_type, wanted), ranges, progress.advance)
            baseline[topic_type] = TopicBaseline(ends=ends, groups=groups)
    return baseline
