"""One rule for a key with records in several partitions of a topic, as after partitions were added.

Connect writes each key into one partition, and has no rule: what a worker reads last counts. Kafka orders the records of a
partition only, and its cleaner keeps the newest of each key there. So of each partition the newest record of the key counts,
and of these the one with the newest time; of equal times the one where murmur2 places the key now. On sealed topics the time
is that of the sealing: a record's own time is a claim of whoever wrote it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from connect_share.model.murmur2 import partition_for
from connect_share.model.records import Record

_BITS: Final = 20
_PARTITION: Final = (1 << _BITS) - 1
_SEVERAL: Final = -1
_MOST_REMOVED: Final = 500_000
"""Removed keys of which the place is remembered: names come and go."""


def decisive_ms(record: Record) -> int:
    """Return the time that decides between partitions."""
    return record.timestamp_ms if record.sealed_ms is None else record.sealed_ms


def dated(record: Record) -> Record:
    """Return an opened record as it is written without a seal: with the time that has decided, so it decides again."""
    return replace(record, timestamp_ms=decisive_ms(record))


def counting(records: Collection[Record], partitions: int) -> Record:
    """Return the record that counts of the newest records of one key in each partition; 0 partitions: not known how many."""
    placed = partition_for(next(iter(records)).key or b"", partitions) if partitions else None
    return max(records, key=lambda each: (decisive_ms(each), each.partition == placed, -each.partition))


@dataclass(eq=False, repr=False)
class KeyPlaces:
    """Where the keys of one group have records, fed with records in log order per partition.

    A key that was met in one partition costs one integer; records are kept of keys that were met in several.

    Attributes:
        partitions: returns how many partitions the topic has now, 0: not known.
    """

    partitions: Callable[[], int] = lambda: 0
    _places: dict[bytes, int] = field(default_factory=dict)
    _removed: OrderedDict[bytes, int] = field(default_factory=OrderedDict)
    _several: dict[bytes, dict[int, Record]] = field(default_factory=dict)

    def take(
        self,
        key: bytes,
        record: Record,
        value_of: Callable[[bytes], bytes | None] = lambda _: b"",
        kept_as: Callable[[Record], Record] = lambda record: record,
    ) -> Record:
        """Note the next record of an original key; return the record that counts now, usually the same.

        ``value_of`` returns the value that counted before, if the key has one; ``kept_as`` what is kept of a record whose
        key was met in several partitions, and returned if that one counts.
        """
        places, partition = self._places, record.partition
        time_ms = decisive_ms(record)
        before = places.get(key)
        if before is None and self._removed:
            before = self._removed.pop(key, None)
        if before is None or before & _PARTITION == partition:
            if record.value is not None:
                places[key] = time_ms << _BITS | partition
            else:
                places.pop(key, None)
                self._removed[key] = time_ms << _BITS | partition
                if len(self._removed) > _MOST_REMOVED:
                    self._removed.popitem(last=False)
            return record
        found = self._several.get(key)
        if found is None:
            at, first_ms = before & _PARTITION, before >> _BITS
            first = Record(record.topic, at, -1, first_ms, record.key, value_of(key) if key in places else None)
            found = self._several[key] = {at: first}
            places[key] = _SEVERAL
        found[partition] = kept_as(record)
        return counting(found.values(), self.partitions())

    def kept(self, key: bytes, partition: int) -> Record | None:
        """Return what is kept of an original key in a partition; ``None``: it was not met in several."""
        return self._several.get(key, {}).get(partition)

    def living(self, key: bytes) -> set[int]:
        """Return the partitions in which an original key has a living record."""
        if key in self._several:
            return {at for at, each in self._several[key].items() if each.value is not None}
        place = self._places.get(key)
        return set() if place is None else {place & _PARTITION}

    def placed(self, key: bytes, wire_key: bytes) -> int | None:
        """Return where murmur2 places a whole key now; ``None``: the key was not met, or no partition is known."""
        partitions = self.partitions() if key in self._places or key in self._removed else 0
        return partition_for(wire_key, partitions) if partitions else None

    def others(self, key: bytes, placed: int | None, now_ms: int | None = None) -> set[int]:
        """Return where else a record of an original key has to be written than where murmur2 places it now.

        These are the partitions with a living record and, with ``now_ms``, those with a removal that is dated later: what
        is written now elsewhere would not count beside it.
        """
        places = self.living(key)
        if now_ms is not None:
            removed = [each for each in self._several.get(key, {}).values() if each.value is None]
            places |= {each.partition for each in removed if decisive_ms(each) > now_ms}
            if self._removed.get(key, -1) >> _BITS > now_ms:
                places.add(self._removed[key] & _PARTITION)
        return places - {placed}

    def newest_ms_of_others(self, key: bytes, placed: int | None) -> int:
        """Return the time of the newest record of an original key elsewhere than where murmur2 places it; -1: none."""
        place = self._places.get(key, self._removed.get(key))
        several = [(each.partition, decisive_ms(each)) for each in self._several.get(key, {}).values()]
        known = several or ([] if place is None else [(place & _PARTITION, place >> _BITS)])
        return max((at_ms for at, at_ms in known if at != placed), default=-1)

    def is_replaced(self, key: bytes, record: Record) -> bool:
        """Return whether a record lies in another partition than the record of its original key that counts."""
        found = self._several.get(key)
        return found is not None and counting(found.values(), self.partitions()).partition != record.partition

    def replaced(self) -> dict[int, frozenset[bytes]]:
        """Return for each partition the original keys whose record that counts lies in another one."""
        found: dict[int, set[bytes]] = {}
        for key, each in self._several.items():
            for at in each.keys() - {counting(each.values(), self.partitions()).partition}:
                found.setdefault(at, set()).add(key)
        return {at: frozenset(keys) for at, keys in found.items()}

    def in_several(self) -> list[bytes]:
        """Return the original keys that have living records in several partitions."""
        return [key for key in self._several if len(self.living(key)) > 1]

    def saved(self) -> dict[str, Any]:
        """Return all places as plain values for JSON."""
        return {
            "living": [[_text(key), place] for key, place in self._places.items() if place != _SEVERAL],
            "removed": [[_text(key), place] for key, place in self._removed.items()],
            "several": [
                [_text(key), each.topic, each.partition, decisive_ms(each), _text(each.key), _text(each.value)]
                for key, found in self._several.items()
                for each in found.values()
            ],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Replace all places by what :meth:`saved` returned; empty: not known, as 0.3.0 saved none."""
        self._places = {_bytes(key) or b"": int(place) for key, place in saved.get("living", ())}
        self._removed = OrderedDict((_bytes(key) or b"", int(place)) for key, place in saved.get("removed", ()))
        self._several = {}
        for key, topic, partition, time_ms, wire_key, value in saved.get("several", ()):
            name, record = _bytes(key) or b"", Record(topic, partition, -1, time_ms, _bytes(wire_key), _bytes(value))
            self._several.setdefault(name, {})[partition] = record
            self._places[name] = _SEVERAL


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)
