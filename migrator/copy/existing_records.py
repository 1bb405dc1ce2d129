"""Records that an interrupted copy has left, read from the destination itself, not from a file.

A slice is written in order by one idempotent producer, so what is there, in each destination partition, is the
beginning of what the slice sends there. The last record of it that is found says how long that beginning is; earlier
ones may have been compacted away meanwhile and are not sent again, for they would come back as the newest of their key.

Where a record is missing that no compaction takes, a broker refused it and took those behind it: the beginning ends
there, and everything from there on is sent, again or not. What is there twice then ends as it should; and if that is
interrupted as well, older records lie behind newer ones, so the beginning ends at the one that lies last.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_share.model.murmur2 import partition_for
from connect_share.model.records import Record
from connect_share.transform.rules import KeyTransform
from connect_share.transform.sealed import Opener


def identity(record: Record, *, stamped: bool = False) -> bytes:
    """Return 16 bytes by which a written record is recognised again; ``stamped``: with the time of the write."""
    content = (record.key, record.value, 0 if stamped else record.timestamp_ms, record.headers)
    return hashlib.blake2b(repr(content).encode(), digest_size=16).digest()


@dataclass(slots=True)
class _Key:
    """The state of one key while the records of a slice are checked in order.

    Attributes:
        missing: place of its first record that is missing although nothing can have removed it.
        last_offset: highest offset at the destination of its records so far.
        last_place: place of the record that is there.
        overtaken: a later record of the slice lies before that one.
    """

    missing: int | None = None
    last_offset: int = -1
    last_place: int = 0
    overtaken: bool = False


@dataclass
class _Gaps:
    """Places in one partition, counted from 1, from which the destination is not what was sent there.

    Attributes:
        highest: offset at the destination of the records found so far.
    """

    highest: int = -1
    _keys: dict[bytes | None, _Key] = field(default_factory=dict)

    def found(self, record: Record, at: int, offset: int) -> None:
        """Note a record that is there: earlier ones of its key may have been compacted away, none behind it may be older."""
        self.highest = max(self.highest, offset)
        key = self._keys.setdefault(record.key, _Key())
        key.missing = None
        key.overtaken = offset < key.last_offset
        if not key.overtaken:
            key.last_offset, key.last_place = offset, at

    def missed(self, record: Record, at: int) -> None:
        """Note a record that is not there: the cleaner removes a tombstone some day, after everything it has removed."""
        key = self._keys.get(record.key)
        if record.value is not None or (key is not None and key.last_place):
            if key is None:
                key = self._keys[record.key] = _Key()
            if key.missing is None:
                key.missing = at
        elif key is not None:
            key.missing = None

    def intact_length(self, length: int) -> int:
        """Return how much of a beginning of this length may stay as it is."""
        for key in self._keys.values():
            if key.missing is not None:
                length = min(length, key.missing - 1)
            if key.overtaken:
                length = min(length, key.last_place)
        # Task configurations count only before their commit: the newest records have to lie in the slice's order, too.
        behind = _Key()
        for key in sorted(self._keys.values(), key=lambda key: key.last_place):
            if key.last_offset < behind.last_offset:
                length = min(length, behind.last_place)
            else:
                behind = key
        return length


@dataclass
class ResumePoint:
    """Where a slice continues: the beginning of what it sends to each destination partition is there already.

    Attributes:
        lengths: per destination partition how many records that beginning has.
        partitions: of the destination topic.
        found: per partition the first and last offset found there.
    """

    lengths: Mapping[int, int]
    partitions: int
    found: Mapping[int, tuple[int, int]]
    _passed: Counter[int] = field(default_factory=Counter)
    _left: int = field(init=False)

    def __post_init__(self) -> None:
        self._left = sum(self.lengths.values())

    def passes(self, record: Record) -> bool:
        """Return whether the slice's next record is at the destination already; call it once for each, in order."""
        if not self._left:
            return False
        number = partition_for(record.key or b"", self.partitions)
        self._passed[number] += 1
        passes = self._passed[number] <= self.lengths.get(number, 0)
        self._left -= passes
        return passes

    def spans(self, written: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """Return the first and last offset of each partition: of what was written and of what was there."""
        spans = dict(written)
        for number in self.lengths:
            first, last = self.found[number]
            again = spans.get(number, (first, last))
            spans[number] = (min(first, again[0]), max(last, again[1]))
        return spans


@dataclass
class ExistingRecords:
    """Records of one key space that were found at the destination.

    Attributes:
        found: per partition how often each identity is there.
        originals: the keys of all of them, without the prefix.
        offsets: per partition the last place of each.
        spans: per partition the first and last offset found.
        newest: when the newest sealed values were written, by whole key.
        stamped: the topic gives records the time of their write.
    """

    found: dict[int, Counter[bytes]] = field(default_factory=dict)
    originals: set[bytes] = field(default_factory=set, repr=False)
    offsets: dict[int, dict[bytes, int]] = field(default_factory=dict)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    newest: dict[bytes, int] = field(default_factory=dict, repr=False)
    stamped: bool = False

    @property
    def count(self) -> int:
        """How many records were found."""
        return sum(counts.total() for counts in self.found.values())

    @classmethod
    def read(cls, records: Iterable[Record], opener: Opener, *, stamped: bool = False) -> ExistingRecords:
        """Read the records of the destination space, which ``opener`` opens, until the end."""
        present = cls(stamped=stamped)
        for original, found in opener.transform.taken(records):
            record = opener.open(found)
            if record is None:
                continue
            known = identity(record, stamped=stamped)
            present.originals.add(original)
            present.found.setdefault(record.partition, Counter())[known] += 1
            present.offsets.setdefault(record.partition, {})[known] = record.offset
            first = present.spans.get(record.partition, (record.offset, 0))[0]
            present.spans[record.partition] = (first, record.offset)
        present.newest = opener.freshness.newest()
        return present

    def may_have_begun(self, transform: KeyTransform, keys: Iterable[bytes | None]) -> bool:
        """Return whether a record with one of these keys of the source may be here; ``False`` is sure."""
        originals, (beginnings, cut) = self.originals, transform.sure_beginnings
        if beginnings:
            return any(key is not None and key[cut:] in originals for key in keys)
        return any(transform.original_key(key) in originals for key in keys)

    def resume_point(self, sent: Iterable[Record], partitions: int) -> ResumePoint:
        """Return how many of the records a slice sends to each destination partition were written already.

        ``sent`` are all records of the slice with their new keys, in order; ``partitions`` those of the destination topic.
        """
        left = {number: Counter(counts) for number, counts in self.found.items()}
        at: Counter[int] = Counter()
        lengths: dict[int, int] = {}
        gaps: dict[int, _Gaps] = {}
        for record in sent:
            number = partition_for(record.key or b"", partitions)
            at[number] += 1
            counts = left.get(number)
            if not counts:
                if record.value is None and number in gaps:
                    gaps[number].missed(record, at[number])  # whether it was written or will be: what it removes may go
                continue
            missing = gaps.setdefault(number, _Gaps())
            known = identity(record, stamped=self.stamped)
            if known in counts:
                counts[known] -= 1
                if not counts[known]:
                    del counts[known]
                lengths[number] = at[number]
                missing.found(record, at[number], self.offsets[number][known])
            elif self.offsets[number].get(known) == missing.highest:
                # The cleaner has removed an identical record before this one; the one that is left was taken for that.
                missing.found(record, at[number], missing.highest)
            else:
                missing.missed(record, at[number])
        for number, missing in gaps.items():
            if number in lengths:
                lengths[number] = missing.intact_length(lengths[number])
        return ResumePoint(lengths, partitions, self.spans)
