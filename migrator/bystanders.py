"""The records of other groups at a destination, as counts and digests; never a key or a value.

The figures are taken before the first write, and later again over the same offsets. If they are equal, every record of
the other groups is still there, unchanged and at its offset. ``migrator.bystander_check`` compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict

from connect_share.backup.rewrite import NewestDigests
from connect_share.files import Progress
from connect_share.kafka.client import Message, headers_of
from connect_share.kafka.facts import TopicFacts, admin_of, read_messages
from connect_share.model.keys import connector_of, split_key
from connect_share.model.records import OffsetRange, TopicType
from connect_share.transform.rules import PLAIN_KEYS
from connect_share.worker_config import Isolation, WorkerConfig
from migrator.copy.existing_records import BARRIER_RECORDS
from migrator.plan import Wanted

ILLEGAL_KEYS: Final = "illegal keys"
"""The name for records whose key Connect does not write. No cluster group id has a blank."""
AT_ONCE: Final = 200_000
"""Offsets read together. Memory grows with them, or with the largest partition: about 40 bytes for each key."""
_MODULUS: Final = 2**64


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
        ends: per partition the end of what was read, that of committed records, exclusive.
        groups: by group; illegal keys and plain keys count as one group each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ends: dict[int, int]
    groups: dict[str, GroupDigest]


class KeyOwners:
    """The owners of keys at the destination of a plan that writes to ``wanted``."""

    def __init__(self, topic_type: TopicType, wanted: Wanted) -> None:
        self._topic_type = topic_type
        self._wanted = wanted
        self._own_mark = BARRIER_RECORDS[topic_type][0]

    def owner(self, key: bytes | None) -> str | None:
        """Return the group of a key; ``None`` for what the plan itself writes."""
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
        """Return whether a key is the marker of a group or a barrier of a resume, not that of a moved record."""
        return key is not None and key.endswith(self._own_mark)


@dataclass
class _DigestSums:
    """Running figures by group. Memory is bounded by the keys of the partitions that are read together."""

    keys: Counter[str] = field(default_factory=Counter)
    digests: Counter[str] = field(default_factory=Counter)
    newest: NewestDigests = field(default_factory=NewestDigests)

    def add(self, owner: str, message: Message) -> None:
        place = (message.partition() or 0, message.offset() or 0, message.timestamp()[1])
        before, digest = self.newest.add(*place, message.key(), message.value(), headers_of(message))
        self.digests[owner] += (digest or 0) - (before or 0)
        self.keys[owner] += (digest is not None) - (before is not None)

    def groups(self) -> dict[str, GroupDigest]:
        return {
            owner: GroupDigest(keys=count, digest=f"{self.digests[owner] % _MODULUS:016x}")
            for owner, count in sorted(self.keys.items())
            if count
        }


def portions(ranges: Sequence[OffsetRange], at_once: int = AT_ONCE) -> Iterator[list[OffsetRange]]:
    """Yield the partitions that one client reads together; a partition is never split."""
    portion: list[OffsetRange] = []
    room = at_once
    for part in ranges:
        size = part.end - part.start
        if portion and size > room:
            yield portion
            portion, room = [], at_once
        portion.append(part)
        room -= size
    if portion:
        yield portion


def digests_of(
    worker: WorkerConfig,
    owners: KeyOwners,
    ranges: Sequence[OffsetRange],
    on_progress: Callable[[int], None],
    newer: dict[int, str],
) -> dict[str, GroupDigest]:
    """Read committed records and return the figures of every group but that of the plan.

    Args:
        worker: of the destination.
        owners: of the keys, seen from the plan.
        ranges: the offsets that are read.
        on_progress: called with the number of records read since the last call.
        newer: keys, as ``key_hash``; those that live in the ranges are removed from it.

    Raises:
        BrokerError: reading was refused.
        ReadToEndTimeoutError: an end was not reached.
    """
    sums = _DigestSums()
    for portion in portions([part for part in ranges if part.end > part.start]):
        for batch in read_messages(worker, portion, Isolation.READ_COMMITTED):
            for message in batch:
                owner = owners.owner(message.key())
                if owner is not None:
                    sums.add(owner, message)
            on_progress(len(batch))
        for key in sums.newest.by_key:
            newer.pop(key, None)
        sums.newest.by_key.clear()  # a key lives in one partition
    return sums.groups()


def take_baseline(
    worker: WorkerConfig, opened: Mapping[TopicType, TopicFacts], wanted: Wanted, progress: Progress
) -> dict[TopicType, TopicBaseline]:
    """Read the destination's topics before anything is written.

    Args:
        worker: of the destination.
        opened: the topics, with the ends up to which they are read.
        wanted: the keys that the plan will write.
        progress: reports how far it is.

    Raises:
        BrokerError: the cluster refused.
    """
    baseline = {}
    with admin_of(worker) as admin:
        for topic_type, facts in opened.items():
            partitions = [(facts.topic, number) for number in facts.ends]
            # Records of transactions that are open now belong to nobody yet.
            stable = admin.end_offsets(partitions, Isolation.READ_COMMITTED)
            ends = {number: min(end, stable[facts.topic, number]) for number, end in facts.ends.items()}
            ranges = [OffsetRange(facts.topic, number, facts.starts[number], end) for number, end in ends.items()]
            total = sum(max(part.end - part.start, 0) for part in ranges)
            groups = {}
            if total:
                progress.phase(f"noting what {facts.topic} holds of others", total)
                groups = digests_of(worker, KeyOwners(topic_type, wanted), ranges, progress.advance, {})
            baseline[topic_type] = TopicBaseline(ends=ends, groups=groups)
    return baseline
