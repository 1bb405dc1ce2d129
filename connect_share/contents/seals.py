"""How the records of one group are sealed, counted while a topic is read."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from connect_share.model.records import Record
from connect_share.sealing.cipher import Refusal, is_sealed, key_id

MOST_IDS: Final = 16
"""A limit: any writer of a topic can make up four thousand million ids."""
_SHORT_IDS: Final = 3
KEY_BYTES: Final = 400
"""About what is kept of a key, beside its value."""
_MEMBER_BYTES: Final = 120


def kept_bytes(value: bytes | None) -> int:
    """Return about how much memory a value takes that is read: each member of JSON, if it is, is an object of its own."""
    return 0 if value is None else len(value) + _MEMBER_BYTES * value.count(b",")


class SealKind(enum.Enum):
    """How a record is written."""

    SEALED = "sealed"
    PLAIN = "plain"
    REFUSED = "refused"
    """It begins like a sealed one; but it is none, or the group's workers refuse it."""
    UNKNOWN = "unknown"
    """Refused for the key that it claims, which the group's workers do not have."""


class Newest(NamedTuple):
    """The newest record of a key, without its value; ``size`` is the value's, in bytes, ``kept`` as of :func:`kept_bytes`."""

    kind: SealKind
    partition: int
    offset: int
    timestamp_ms: int
    size: int
    kept: int = 0


@dataclass
class KeyIds:
    """Numbers of records by key id: of the ids that were known before, and of the first others."""

    counts: Counter[int] = field(default_factory=Counter)
    more: int = 0

    def add(self, number: int, known: Collection[int], records: int = 1) -> None:
        """Count records with this id; ``known`` are the ids for which there is room in any case."""
        if number in self.counts or number in known or len(self.counts) < MOST_IDS:
            self.counts[number] += records
        else:
            self.more += records

    def without(self, numbers: Collection[int]) -> KeyIds:
        """Return the counts of other ids."""
        left = {number: records for number, records in self.counts.items() if number not in numbers}
        return KeyIds(Counter(left), self.more)


@dataclass
class SealCount:
    """How the records of one group are sealed: counted by record, also those that newer ones have replaced.

    Without the keys of the group an id is a claim of whoever wrote the record; with them only what opens counts as sealed.

    Attributes:
        known: ids of the keys with which the group's workers open values, if that is known.
        sealed: records by key id; with keys those that open.
        refused_ids: what the others claim.
        reasons: for which records were refused, plain ones among them, if the worker file of the group is known.
        newest: the newest record of each key, as on the topic.
        living: about how many bytes the value of each key takes; 0: it is removed.
    """

    known: Collection[int] = ()
    reasons: Counter[Refusal] = field(default_factory=Counter)
    sealed: KeyIds = field(default_factory=KeyIds)
    refused_ids: KeyIds = field(default_factory=KeyIds)
    plain: int = 0
    refused: int = 0
    newest: dict[bytes, Newest] = field(default_factory=dict, repr=False)
    living: dict[bytes, int] = field(default_factory=dict, repr=False)

    def note_life(self, record: Record, key: bytes, *, accepted: bool, removal: bool) -> None:
        """Note whether a key lives after this record, which is not counted yet.

        What is refused takes no life. Nothing plain removes what is sealed, unless its workers are known to accept it.
        """
        before, life = self.newest.get(key), 0 if removal else kept_bytes(record.value) or 1
        if is_sealed(record.value) and self.known and not accepted:
            self.living.setdefault(key, life)
        elif is_sealed(record.value) or (accepted and (self.known or before is None or before.kind is SealKind.PLAIN)):
            self.living[key] = life

    def add(self, record: Record, key: bytes, *, accepted: bool) -> None:
        """Count the next record of the group; ``accepted`` by its workers, as far as that is known."""
        value = record.value
        if not is_sealed(value):
            kind = SealKind.PLAIN
            self.plain += 1
        elif (number := key_id(value)) is not None and accepted:
            kind = SealKind.SEALED
            self.sealed.add(number, self.known)
        else:
            kind = SealKind.REFUSED if number is None or number in self.known else SealKind.UNKNOWN
            self.refused += 1
            if number is not None:
                self.refused_ids.add(number, self.known)
        before = self.newest.get(key)
        other = None if accepted or before is None or before.partition == record.partition else before
        if other is not None and (value is None or other.kind is SealKind.SEALED):
            return  # in another partition it covers nothing
        place = (record.partition, record.offset, record.timestamp_ms)
        self.newest[key] = Newest(kind, *place, len(value or b""), kept_bytes(value))

    def further(self, record: Record, key: bytes) -> int:
        """Return about how many more bytes are kept with the next record, which is not counted yet."""
        before, size = self.newest.get(key), kept_bytes(record.value)
        kept = self.living.get(key) if before is None else before.kept
        return KEY_BYTES + len(key) + size if kept is None else size - kept

    def newest_of(self, kind: SealKind) -> list[Newest]:
        """Return the newest records of keys that are written so."""
        return [each for each in self.newest.values() if each.kind is kind]

    @property
    def records(self) -> int:
        """Return the number of all records."""
        return self.sealed.counts.total() + self.sealed.more + self.plain + self.refused

    @property
    def any_sealed(self) -> bool:
        """Return whether a value is sealed, or claims to be."""
        return bool(self.sealed.counts or self.refused)

    def short(self) -> str | None:
        """Return the ids of the keys for a table, most used first; ``None``: nothing is sealed."""
        if not self.any_sealed:
            return None
        ids = [str(number) for number, _ in self.sealed.counts.most_common(_SHORT_IDS)]
        more = ["more"] if len(self.sealed.counts) > _SHORT_IDS or self.sealed.more else []
        return ", ".join([*ids, *more, *(["plain"] if self.plain else []), *(["refused"] if self.refused else [])])

    def detail(self) -> str:
        """Return all counts, for people: ``7 (1,204), 3 (12), plain 4``."""
        parts = ids_text(self.sealed)
        parts += [f"plain {self.plain:,}"] if self.plain or not self.any_sealed else []
        return ", ".join([*parts, *([f"refused {self.refused:,}"] if self.refused else [])])

    def members(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        return {
            "sealed": {str(number): records for number, records in self.sealed.counts.items()},
            "sealed_more": self.sealed.more,
            "plain": self.plain,
            "refused": self.refused,
        }


def ids_text(ids: KeyIds) -> list[str]:
    """Return each id and its number of records, for people, most used first."""
    shown = [f"{number} ({records:,})" for number, records in ids.counts.most_common()]
    return [*shown, *([f"and more ({ids.more:,})"] if ids.more else [])]


def total(counts: Iterable[SealCount]) -> SealCount:
    """Return the counts of a group over several topics, without its keys."""
    counts = list(counts)
    found = SealCount({number for each in counts for number in each.known})
    for each in counts:
        for into, ids in ((found.sealed, each.sealed), (found.refused_ids, each.refused_ids)):
            for number, records in ids.counts.items():
                into.add(number, found.known, records)
            into.more += ids.more
        found.plain += each.plain
        found.refused += each.refused
    return found
