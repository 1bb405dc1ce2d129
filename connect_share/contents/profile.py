"""The contents of the internal topics in numbers: records, bytes and what is superseded, by cluster group and kind of key.

A partition is counted record by record, in offset order, by one :class:`PartitionCounter`; partitions counted anywhere are
put together by :meth:`TopicProfile.of`. Counts are exact but for one thing: keys are compared by a digest of eight bytes,
so that of a million keys two are taken for one with a chance of one in forty million.

Memory: about 130 bytes for each distinct key that is compared, whatever keys and values hold, a fixed number of chunks along
each partition, and counts of as many groups as there is room for. Of others than the caller's groups :data:`MOST_KEYS` are
compared: then the largest of them is given up, and what it supersedes from then on is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from hashlib import blake2b
from heapq import merge
from itertools import groupby
from struct import iter_unpack
from typing import Any, Final

from connect_share.console.options import Group, shown_group
from connect_share.contents.group_room import GroupRoom
from connect_share.model.connect_json import JSON_NULL
from connect_share.model.keys import ClusterGroupId, parse, split_key
from connect_share.model.records import TopicType
from connect_share.sealing.cipher import removes

MOST_KEYS: Final = 2_000_000
MOST_CHUNKS: Final = 512
_CHUNK_BYTES: Final = 65_536
_DIGEST_BYTES: Final = 8

_VALUE, _TOMBSTONE, _NULL = 0, 1, 2
# The newest record of a key is kept as its size, with one of these kinds in the lowest bits.
_KIND_BITS: Final = 2
_KIND_MASK: Final = 3
_SIZE_BITS: Final = 32


def kind_of(topic_type: TopicType, original: bytes) -> str:
    """Name the kind of an original key: ``connector``, ``task``, ``session-key``, ``status-topic``, ``offset``, ..."""
    key = parse(topic_type, original)
    return "" if key is None else key.kind.label


@dataclass(slots=True)
class Count:
    """Records of one kind; bytes are those of keys and values.

    Attributes:
        superseded_records, superseded_bytes: a later record of the same key lies in the same partition.
        tombstones, tombstone_bytes: without a value; those superseded included.
        json_nulls: whose value is JSON null, how removals on shared config topics are written; those superseded included.
    """

    records: int = 0
    bytes: int = 0
    superseded_records: int = 0
    superseded_bytes: int = 0
    tombstones: int = 0
    tombstone_bytes: int = 0
    superseded_tombstones: int = 0
    superseded_tombstone_bytes: int = 0
    json_nulls: int = 0
    superseded_json_nulls: int = 0
    largest_key_bytes: int = 0
    largest_record_bytes: int = 0
    largest_record_at: tuple[int, int] | None = None
    oldest_ms: int | None = None
    newest_ms: int | None = None

    @property
    def live_tombstones(self) -> int:
        """Tombstones that are the newest record of their key."""
        return self.tombstones - self.superseded_tombstones

    @property
    def live_json_nulls(self) -> int:
        """JSON nulls that are the newest record of their key."""
        return self.json_nulls - self.superseded_json_nulls

    @property
    def live_keys(self) -> int:
        """Keys whose newest record has a value other than JSON null; one in several partitions counts in each."""
        return self.records - self.superseded_records - self.live_tombstones - self.live_json_nulls

    @property
    def largest_place(self) -> str | None:
        """Where the largest record lies: ``partition@offset``."""
        return None if self.largest_record_at is None else "{}@{}".format(*self.largest_record_at)

    def merge(self, other: Count) -> None:
        """Add the figures of other partitions, or of other kinds."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.largest_key_bytes = max(self.largest_key_bytes, other.largest_key_bytes)
        mine, theirs = self.largest_record_bytes, other.largest_record_bytes
        places = [count.largest_record_at for count in (self, other) if count.largest_record_bytes == max(mine, theirs)]
        self.largest_record_at = min((place for place in places if place is not None), default=None)
        self.largest_record_bytes = max(mine, theirs)
        self.oldest_ms = min((ms for ms in (self.oldest_ms, other.oldest_ms) if ms is not None), default=None)
        self.newest_ms = max((ms for ms in (self.newest_ms, other.newest_ms) if ms is not None), default=None)

    def members(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return {
            **asdict(self),
            "live_keys": self.live_keys,
            "live_tombstones": self.live_tombstones,
            "live_json_nulls": self.live_json_nulls,
            "largest_record_at": self.largest_place,
        }


# The figures that are added up; the others have merge rules of their own.
_SUMS: Final = [
    each.name for each in fields(Count) if each.default is not None and not each.name.startswith("largest_")
]


def total(counts: Iterable[Count]) -> Count:
    """Add counts up."""
    added = Count()
    for count in counts:
        added.merge(count)
    return added


class Chunk(Count):
    """Consecutive records of a partition; the cleaner cannot take those near its end.

    Attributes:
        superseded_records, superseded_bytes: of earlier records whose *next* record of the same key is in this chunk:
            the cleaner can remove them once it may read this chunk.
        tombstones, tombstone_bytes: live ones.
        newest_ms: ``None`` if no record has a timestamp.
    """

    __slots__ = ()


@dataclass
class PartitionProfile:
    """One partition, counted; small but for its keys, and made to be sent between processes.

    Attributes:
        bytes_before_superseding: of the records before the first one that supersedes another; ``None`` if none does.
            The cleaned part of the log ends there at the latest.
        ends_in_tombstone: groups whose newest record here is a tombstone.
        digests: eight bytes for each distinct key that is compared and lives here, sorted.
        given_up: groups with too many keys to be compared, for people.
    """

    topic_type: TopicType
    partition: int
    counts: dict[tuple[Group, str], Count] = field(default_factory=dict)
    unrecognized: Count = field(default_factory=Count)
    chunks: list[Chunk] = field(default_factory=list)
    bytes_before_superseding: int | None = None
    ends_in_tombstone: frozenset[Group] = frozenset()
    digests: bytes = b""
    given_up: frozenset[str] = frozenset()

    def total(self) -> Count:
        """All records of the partition."""
        return total([*self.counts.values(), self.unrecognized])


FURTHER: Final = str.__new__(ClusterGroupId, "(further groups)")
"""Those for which there is no room, counted as one group; no group has such an id. Their keys are not compared."""
_UNRECOGNIZED: Final = str.__new__(ClusterGroupId, "(no key of Connect)")


class PartitionCounter:
    """Counts one partition of those that are counted ``beside`` each other; groups without room are :data:`FURTHER`."""

    def __init__(self, topic_type: TopicType, partition: int, room: GroupRoom | None = None, beside: int = 1) -> None:
        self._room, self._most_keys = room or GroupRoom(), MOST_KEYS // beside
        self._profile = PartitionProfile(topic_type, partition)
        self._newest: dict[Group, dict[bytes, int]] = {_UNRECOGNIZED: {}}
        self._kept = 0  # of others
        self._tombstones: dict[bytes, int] = {}  # byte position and size of each that is the newest record of its key
        self._last_is_tombstone: dict[Group, bool] = {}
        self._bytes = 0
        self._chunk_bytes = _CHUNK_BYTES
        self._chunk = Chunk()

    def add(self, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> None:
        """Count the next record; offsets only rise."""
        profile, chunk = self._profile, self._chunk
        owner = split_key(profile.topic_type, key)
        group: Group = _UNRECOGNIZED
        if owner is None:
            count = profile.unrecognized
        else:
            group, original = owner
            if group not in self._last_is_tombstone:
                if self._room.admits(group):
                    self._newest[group] = {}
                else:
                    group = FURTHER
            where = (group, kind_of(profile.topic_type, original))
            found = profile.counts.get(where)
            count = profile.counts.setdefault(where, Count()) if found is None else found
            self._last_is_tombstone[group] = value is None
        key_size = 0 if key is None else len(key)
        size = key_size + (0 if value is None else len(value))
        count.records += 1
        count.bytes += size
        count.largest_key_bytes = max(count.largest_key_bytes, key_size)
        if size > count.largest_record_bytes or count.largest_record_at is None:
            count.largest_record_bytes, count.largest_record_at = size, (profile.partition, offset)
        if timestamp_ms >= 0:
            if count.oldest_ms is None or timestamp_ms < count.oldest_ms:
                count.oldest_ms = timestamp_ms
            if count.newest_ms is None or timestamp_ms > count.newest_ms:
                count.newest_ms = timestamp_ms
            if chunk.newest_ms is None or timestamp_ms > chunk.newest_ms:
                chunk.newest_ms = timestamp_ms
        kind = _VALUE
        if value is None:
            kind = _TOMBSTONE
            count.tombstones += 1
            count.tombstone_bytes += size
        elif value == JSON_NULL or removes(profile.topic_type, value):
            kind = _NULL
            count.json_nulls += 1
        if key is not None and group in self._newest:  # one without a key is never superseded
            self._supersede(count, group, key, kind, size)
        self._bytes += size
        chunk.records += 1
        chunk.bytes += size
        if chunk.bytes >= self._chunk_bytes:
            self._end_chunk()

    def _supersede(self, count: Count, group: Group, key: bytes, kind: int, size: int) -> None:
        digest, newest = key_digest(key), self._newest[group]
        before = newest.get(digest)
        newest[digest] = size << _KIND_BITS | kind
        if before is not None:
            self._count_superseded(count, digest, before & _KIND_MASK, before >> _KIND_BITS)
        if kind == _TOMBSTONE:
            self._tombstones[digest] = self._bytes << _SIZE_BITS | size
        if before is None and group not in self._room.own:
            self._kept += 1
            if self._kept > self._most_keys:
                self._give_up()

    def _give_up(self) -> None:
        largest = max(self._newest, key=lambda each: -1 if each in self._room.own else len(self._newest[each]))
        self._profile.given_up |= {shown_group(largest)}
        for digest in (gone := self._newest.pop(largest)):
            self._tombstones.pop(digest, None)
        self._kept -= len(gone)

    def _count_superseded(self, count: Count, digest: bytes, kind_before: int, size_before: int) -> None:
        count.superseded_records += 1
        count.superseded_bytes += size_before
        self._chunk.superseded_records += 1
        self._chunk.superseded_bytes += size_before
        if kind_before == _TOMBSTONE:
            del self._tombstones[digest]
            count.superseded_tombstones += 1
            count.superseded_tombstone_bytes += size_before
        elif kind_before == _NULL:
            count.superseded_json_nulls += 1
        if self._profile.bytes_before_superseding is None:
            self._profile.bytes_before_superseding = self._bytes

    def _end_chunk(self) -> None:
        chunks = self._profile.chunks
        chunks.append(self._chunk)
        self._chunk = Chunk()
        if len(chunks) == MOST_CHUNKS:
            for first, second in zip(chunks[::2], chunks[1::2], strict=True):
                first.merge(second)
            del chunks[1::2]
            self._chunk_bytes *= 2

    def finish(self) -> PartitionProfile:
        """Return the profile; the counter cannot be used again."""
        profile = self._profile
        if self._chunk.records:
            profile.chunks.append(self._chunk)
            self._chunk = Chunk()
        self._place_tombstones()
        profile.ends_in_tombstone = frozenset(
            group for group, ended in self._last_is_tombstone.items() if ended and group is not FURTHER
        )
        newest = (each for of_group in self._newest.values() for each in of_group.items())
        profile.digests = b"".join(sorted(digest for digest, kept in newest if kept & _KIND_MASK == _VALUE))
        self._newest.clear()
        self._tombstones.clear()
        return profile

    def _place_tombstones(self) -> None:
        chunks = iter(self._profile.chunks)
        chunk, end = None, 0
        for begin, size in (divmod(each, 1 << _SIZE_BITS) for each in sorted(self._tombstones.values())):
            # Records without any bytes have no position of their own: they count for the last chunk.
            while chunk is None or begin >= end:
                following = next(chunks, None)
                if following is None:
                    break
                chunk, end = following, end + following.bytes
            if chunk is not None:
                chunk.tombstones += 1
                chunk.tombstone_bytes += size


@dataclass
class TopicProfile:
    """One topic, all partitions together.

    Attributes:
        keys_in_several_partitions: distinct keys that live in more than one partition: records were placed with another
            partitioner than Java's, and what lies in the wrong partition is never superseded. Removals, such as a repair
            or a resumed move writes to every partition, do not count: the cleaner takes them.
        configs: its effective settings, ``None`` if they could not be read.
    """

    topic: str
    topic_type: TopicType
    partitions: list[PartitionProfile]
    keys_in_several_partitions: int = 0
    configs: Mapping[str, str] | None = None

    @classmethod
    def of(
        cls,
        topic: str,
        topic_type: TopicType,
        partitions: Sequence[PartitionProfile],
        configs: Mapping[str, str] | None = None,
    ) -> TopicProfile:
        """Put partitions together, in whatever order they were counted; their digests are given up."""
        ordered = sorted(partitions, key=lambda profile: profile.partition)
        keys = merge(*(iter_unpack(f"{_DIGEST_BYTES}s", profile.digests) for profile in ordered))
        several = sum(len([*same]) > 1 for _, same in groupby(keys))
        for profile in ordered:
            profile.digests = b""
        return cls(topic, topic_type, ordered, several, configs)

    def counts(self) -> dict[tuple[Group, str], Count]:
        """Figures by group and kind."""
        merged: dict[tuple[Group, str], Count] = {}
        for profile in self.partitions:
            for where, count in profile.counts.items():
                merged.setdefault(where, Count()).merge(count)
        return merged

    def unrecognized(self) -> Count:
        """Records whose key is no key of Connect."""
        return total(profile.unrecognized for profile in self.partitions)

    def total(self) -> Count:
        """All records of the topic."""
        return total(profile.total() for profile in self.partitions)

    def ends_in_tombstone(self) -> list[ClusterGroupId]:
        """Groups with prefixed keys whose newest record is a tombstone."""
        return sorted(
            {group for profile in self.partitions for group in profile.ends_in_tombstone if group is not None}
        )


def key_digest(key: bytes) -> bytes:
    """Return the eight bytes by which keys are compared."""
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
