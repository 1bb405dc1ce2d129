"""The step between the wire and a fold: seals what a group writes to one topic, opens what it reads, refuses the rest.

Times and IVs of sealed values show old ones that are written again.
"""

from __future__ import annotations

import enum
import logging
import struct
import threading
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, permutations
from typing import Any, Final

from connect_share.errors import ConfigError, SealedGroupError
from connect_share.model.connect_json import JSON_NULL
from connect_share.model.keys import MARKER, ClusterGroupId, is_original_key, prefix_of
from connect_share.model.limited_log import LimitedLog
from connect_share.model.records import Record, TopicType, now_ms
from connect_share.model.removal import removal_value
from connect_share.sealing.cipher import LATEST_MS, Cipher, Opened, Refusal, is_sealed, iv_of, key_id
from connect_share.sealing.key_ring import KeyRing

_log = logging.getLogger(__name__)

SEALING_PROPERTY: Final = "connect.management.topic.sharing.encryption"
KEYS_PROPERTY: Final = f"{SEALING_PROPERTY}.keys"
# NIST SP 800-38D, 8.3: a key with random IVs seals 2^32 values at most.
ROTATE_AFTER: Final = 2**31
_STRANGER: Final = (
    "; if the group never had it, another writer's record keeps it from starting: write null under its key, and let the "
    "cleaner take it"
)
ANNOUNCED: Final = b"target-state- key-"
"""With two ids of keys: a sealed removal under it says that the group uses the first one, to who has the second one.

Connect takes it for the removal of a target state that is not there.
"""


class SealingMode(enum.Enum):
    """What a worker with keys accepts, and writes."""

    REQUIRED = "required"
    """Only sealed records of its own are accepted; everything is written sealed."""
    ACCEPT = "accept"
    """Plain records of its own are accepted, too; everything is written sealed."""
    OFF = "off"
    """As without keys: plain records only."""


class TopicSeals:
    """Seals and opens the records of one cluster group on one topic.

    Foreign records pass as they are. Own ones are refused by what they hold, so that all readers agree, and, for replays, by
    what was read before. The fold sees plain records only.

    Args:
        topic_type: what kind of records the topic holds.
        cluster_group_id: whose records; ``None``: those with plain keys, which are never sealed.
        keys: of the group; ``None``: nothing is sealed, and what is sealed is refused.
        mode: see there.
        says_sealing: the worker file says whether the group is sealed. Where it does not, :meth:`end_start` looks.

    Attributes:
        refuses: records may be refused; those with plain keys all pass as they are.
        refused: how many own records were refused, by reason.
        opens: any sealed value opened.
        freshness: when the values that were read were written.
        repeated: how many were the value that counts, written again.
        overtaken: whole keys and values that were sealed here, and are older than what was written before them: others could
            not read them, so whoever sealed them writes them again.

    Raises:
        ConfigError: there are keys, and the library ``cryptography`` is not installed.
    """

    def __init__(
        self,
        topic_type: TopicType,
        cluster_group_id: ClusterGroupId | None,
        keys: KeyRing | None = None,
        mode: SealingMode = SealingMode.REQUIRED,
        *,
        says_sealing: bool = True,
    ) -> None:
        self.refused: Counter[Refusal] = Counter()
        self.repeated: int = 0
        self.overtaken: list[tuple[bytes, bytes | None]] = []
        self._topic_type = topic_type
        self._group, self._prefix = cluster_group_id, prefix_of(cluster_group_id)
        # The same removal; and what was sealed cannot be cleaned away as a tombstone can.
        self._removal = removal_value(topic_type, cluster_group_id)
        self.refuses: bool = cluster_group_id is not None
        used = keys if self.refuses and mode is not SealingMode.OFF else None
        self._mode = mode
        self._cipher = None if used is None else Cipher(used, topic_type)
        self._ids: tuple[int, ...] = () if used is None else used.ids
        self._numbers = count(1)
        self.freshness: Freshness = Freshness()
        self._unknown: dict[Refusal, str] = {}  # where a value lies whose key is not here, or another one
        self.opens: bool = False
        # On the config topic: keys with a value under another key than the first one, and the ids that were announced.
        self._under_others: set[bytes] = set()
        self._announced: dict[bytes, tuple[int, str]] = {}
        # Where the newest living value of each key looks sealed, ``None``: it is plain. Not asked for otherwise, nor later.
        looks = topic_type is TopicType.CONFIG and keys is None and not says_sealing and self.refuses
        self._looks: dict[bytes, str | None] | None = {} if looks else None
        self._said = LimitedLog(_log)

    def seal(self, wire_key: bytes, value: bytes | None, *, is_sent: bool = False) -> bytes | None:
        """Return a value as it goes to the topic: without keys as it is, else sealed.

        A removal is sealed too. On the config topic it is JSON null, which is a value. ``is_sent`` as of
        :meth:`Freshness.next_ms`: of such a value it is noted if it is overtaken.
        """
        if self._cipher is None:
            return value
        if next(self._numbers) == ROTATE_AFTER:
            _log.warning(
                "%d values of the %s topic were sealed with key %d in this process alone: it is time for a new key",
                ROTATE_AFTER,
                self._topic_type.value,
                self._cipher.keys.sealing_id,
            )
        written_ms = self.freshness.next_ms(wire_key, is_sent=is_sent)
        return self._cipher.seal(wire_key, self._removal if value is None else value, written_ms)

    def open(self, record: Record) -> Record | None:
        """Return the record that the fold has to see in this one's place, ``None``: it is refused.

        To be called in log order per partition. Never raises for a record's content.
        """
        key, value = record.key, record.value
        if self._cipher is None and self._looks is None and not is_sealed(value):
            return record
        if key is None or not key.startswith(self._prefix):
            return record
        if not is_original_key(self._topic_type, key, len(self._prefix)):
            return record
        if self._looks is not None:
            self._look(record, key)
        if not is_sealed(value):
            if self._cipher is None:
                return record
            if self._mode is SealingMode.REQUIRED:
                self._refuse(record, Refusal.TOMBSTONE if value is None else Refusal.PLAIN)
                return None
            return record
        if not self.refuses:
            return record
        if self._cipher is None:
            self._refuse(record, Refusal.NO_KEYS)
            return None
        opened = self._cipher.open(key, value)
        if not isinstance(opened, Opened):  # of an enum's member it would take longer than all other questions here
            if opened is not Refusal.MALFORMED and opened not in self._unknown:
                unknown, other = opened is Refusal.UNKNOWN_KEY, "another one under this id: put that of the group there"
                self._unknown[opened] = (
                    f"{record.place} is sealed with key {key_id(value)}, and no value of the group opens, but "
                    f"{KEYS_PROPERTY} has {self._only() if unknown else other}"
                )
            self._refuse(record, opened)
            return None
        self.opens = True
        refusal = self.freshness.refusal(key, record.partition, opened.written_ms, iv_of(value))
        if refusal is not None:
            if refusal is Refusal.REPEATED:
                self.repeated += 1
            elif refusal is Refusal.OVERTAKEN:
                self.overtaken.append((key, self._removal if opened.value is None else opened.value))
            else:
                self._refuse(record, refusal)
            return self._in_place_of_replay(record)
        if self._topic_type is TopicType.CONFIG:
            self._note_key(record, key, opened)
        value = self._removal if opened.value is None else opened.value
        return self._with(record, key, value, opened.written_ms)

    def accepted(self, record: Record) -> Record | None:
        """Return the record, opened; ``None`` if it is refused, as a replayed one is, whatever takes its place."""
        opened = self.open(record)
        return opened if opened is not None and opened.key == record.key else None

    def open_all(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield what the fold has to see of these records."""
        sealing = self._cipher is not None or self._looks is not None
        for record in records:
            opened = self.open(record) if sealing or is_sealed(record.value) else record
            if opened is not None:
                yield opened

    def _note_key(self, record: Record, key: bytes, opened: Opened) -> None:
        """Note with which of the keys a value on the config topic is sealed, and which id it announces."""
        assert self._cipher is not None  # noqa: S101 - it was opened
        if key.startswith(self._prefix + ANNOUNCED):
            self._announced.pop(key, None)
            number = key[len(self._prefix + ANNOUNCED) :].partition(b"-")[0]
            if opened.value is None and number.isdigit():
                self._announced[key] = int(number), record.place
        elif key_id(record.value or b"") == self._cipher.keys.sealing_id:
            self._under_others.discard(key)
        else:
            self._under_others.add(key)

    def announcements(self) -> list[tuple[bytes, bytes]]:
        """Return what has to be written before anything else: whole keys and sealed values, usually none.

        While a group changes its key, its values are under two. A worker that has one of them only must not start with half
        of the state, and anybody can write a value under an id that the group has not. So each id is announced under each
        other key. Whoever writes all values again, as ``reseal`` does, writes JSON null there, which announces nothing.
        """
        if self._cipher is None or not self._under_others:
            return []
        found = []
        for number, under in permutations(self._cipher.keys.ids, 2):
            key = self._prefix + ANNOUNCED + b"%d-%d" % (number, under)
            if key not in self._announced:
                found.append((key, self._cipher.seal(key, None, self.freshness.next_ms(key), under)))
        return found

    @property
    def looks(self) -> tuple[int, int]:
        """How many living keys on the config topic have a value that looks sealed, and how many there are; without keys."""
        looks = self._looks or {}
        return sum(place is not None for place in looks.values()), len(looks)

    def missing_keys(self) -> list[str]:
        """Return where the group says that it uses keys which are not here."""
        missing = [(number, place) for number, place in self._announced.values() if number not in self._ids]
        return [f"{place} says that the group uses key {number}" for number, place in missing]

    def end_start(self, *, insists: bool = True, starts: bool = True) -> None:
        """Take note that the topic was read to its end for the first time.

        Args:
            insists: nothing else says that the keys are those of the group.
            starts: what nothing but forged records are of is not started; commands repair it.

        Raises:
            ConfigError: a key that the group uses is not here: the group would look as if it had no connectors, or half of
                them. That is known if nothing opens, or if the group has announced it.
            SealedGroupError: the worker file says nothing about sealing, and more of the group's configurations look sealed
                than plain.
        """
        looks, self._looks = self._looks or {}, None
        sealed = [place for place in looks.values() if place is not None]
        if 2 * len(sealed) > len(looks):
            raise SealedGroupError(
                f"{len(sealed):,} of {len(looks):,} values of group {self._group} on the config topic look sealed, such as "
                f"{sealed[-1]}, but its worker file has no line {KEYS_PROPERTY}: put it back. If this group was never "
                "sealed, somebody else may have written them to stop it: find out who, and set "
                f"{SEALING_PROPERTY}=off to start as a plain group"
            )
        if self.refused and sealed:
            _log.error(
                "Refused %d record(s), such as that at %s: %s", self.refused.total(), sealed[-1], Refusal.NO_KEYS.value
            )
        for missing in self.missing_keys():
            raise ConfigError(f"{missing}, but {KEYS_PROPERTY} has {self._only()}", property_name=KEYS_PROPERTY)
        for reason, text in self._unknown.items():
            if insists and not self.opens and (starts or reason is Refusal.UNKNOWN_KEY):
                raise ConfigError(f"{text}{_STRANGER}", property_name=KEYS_PROPERTY)

    def _only(self) -> str:
        return f"only {', '.join(map(str, self._ids))}: put the missing key behind those that are there"

    def _look(self, record: Record, key: bytes) -> None:
        assert self._looks is not None  # noqa: S101 - asked by the caller
        self._looks.pop(key, None)
        if record.value not in {None, JSON_NULL}:
            self._looks[key] = record.place if is_sealed(record.value) else None

    def restored(self, plain_keys: Iterable[bytes]) -> None:
        """Take note of keys, without the prefix, whose plain values a checkpoint has: they are not read again."""
        if self._looks is not None:
            self._looks |= dict.fromkeys(self._prefix + key for key in plain_keys)

    def _in_place_of_replay(self, record: Record) -> Record | None:
        """Return what moves the position and nothing else: a reader that remembers less applies the record, and moves."""
        if self._topic_type is not TopicType.CONFIG:
            return None
        # Not the marker itself, which lifts the fence of a group that was moved away.
        return self._with(record, self._prefix + MARKER[0] + b" ", JSON_NULL)

    @staticmethod
    def _with(record: Record, key: bytes, value: bytes | None, sealed_ms: int | None = None) -> Record:
        """Return the record with another key and value; ``dataclasses.replace`` takes as long as opening does."""
        place = (record.topic, record.partition, record.offset, record.timestamp_ms)
        return Record(*place, key, value, record.headers, sealed_ms)

    def _refuse(self, record: Record, reason: Refusal) -> None:
        self.refused[reason] += 1
        if self._looks is None:  # else :meth:`end_start` says more
            self._said.error("Refused the record at %s: %s", record.place, reason.value)

    def saved(self, state: Any) -> Any:
        """Return the state of a fold, with what has to be remembered beside it, as plain values for JSON."""
        if self._cipher is None:
            return state
        seen = [
            [partition, b64encode(key).decode(), b64encode(stamps).decode()]
            for partition, keys in self.freshness.seen.items()
            for key, stamps in keys.items()
        ]
        under_others = [b64encode(key).decode() for key in self._under_others]
        announced = [[b64encode(key).decode(), *said] for key, said in self._announced.items()]
        return {**self._made_with(), "seen": seen, "keys_in_use": [under_others, announced], "state": state}

    def restore(self, saved: Any) -> Any:
        """Remember what :meth:`saved` returned; return the state of the fold.

        Raises:
            ValueError: it was saved with other keys or in another mode, or something could not be opened: reading everything
                may give something else.
            KeyError, TypeError: it is something else.
        """
        made_with = self._made_with()
        if self._cipher is None:
            if isinstance(saved, dict) and made_with.keys() <= saved.keys():
                raise ValueError("it was saved by a worker with keys")
            return saved
        if not isinstance(saved, dict) or any(saved.get(name) != value for name, value in made_with.items()):
            raise ValueError("it was saved with other keys, in another mode, or before 0.4.0")
        seen: Seen = {}
        for partition, key, stamps in saved["seen"]:
            seen.setdefault(int(partition), {})[b64decode(key, validate=True)] = b64decode(stamps, validate=True)
        under_others, announced = saved["keys_in_use"]
        self._under_others = {b64decode(key, validate=True) for key in under_others}
        self._announced = {b64decode(key, validate=True): (int(number), str(place)) for key, number, place in announced}
        self.freshness.restore(seen)
        self.opens = bool(seen)
        return saved["state"]

    def _made_with(self) -> dict[str, str]:
        keys = None if self._cipher is None else self._cipher.keys
        made = "" if keys is None else f"{keys.sealing_id} {keys.fingerprint()}"  # which one is the first matters
        return {"sealing": self._mode.value, "keys": made}


_TIME: Final = struct.Struct(">q")
_IV_BYTES: Final = 12

Seen = dict[int, dict[bytes, bytes]]
"""Time and IV of the newest value, by partition and key; the IVs of all that have this time, in the order of the log."""


def refused_of(seals: Mapping[TopicType, TopicSeals]) -> dict[TopicType, int]:
    """Return how many records of the group were refused on each topic where any can be."""
    return {topic_type: each.refused.total() for topic_type, each in seals.items() if each.refuses}


class Freshness:
    """Time and IV of the newest sealed value of each key; whoever remembers them refuses older ones. Thread-safe.

    In each partition that value counts that was written last, and each counts once: so a value that is written again changes
    nothing. Values of one millisecond count in the order of the log. Between partitions
    :class:`~connect_share.model.places.KeyPlaces` decides, by the same time.

    Args:
        now_ms: the local clock.
    """

    def __init__(self, now_ms: Callable[[], int] = now_ms) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._seen: Seen = {}
        self._floor: dict[bytes, int] = {}
        self._sealed: dict[bytes, int] = {}
        self._sent: dict[bytes, int] = {}

    def next_ms(self, key: bytes, *, is_sent: bool = False) -> int:
        """Return when a value that is sealed now was written: later than all of its key that were read, or sealed here.

        ``is_sent``: it goes into the log for certain, and not into a transaction that may be aborted.
        """
        with self._lock:
            known_ms = max(self.newest_ms(key), self._sealed.get(key, -1))
            written_ms = self._sealed[key] = min(max(self._now_ms(), known_ms + 1), LATEST_MS)
            if is_sent:
                self._sent[key] = written_ms
            return written_ms

    def refusal(self, key: bytes, partition: int, written_ms: int, iv: bytes) -> Refusal | None:
        """Note a value that was read and opened; return why it does not count, ``None``: it does.

        What was sealed here and not yet read back does not count: it may never be written, and readers have to agree.
        To be called from one thread at a time, as records are read; so it takes no lock.
        """
        written, seen = _TIME.pack(written_ms), self._seen.get(partition)
        if seen is None:
            seen = self._seen[partition] = {}
        known = seen.get(key)
        if known is None and self._floor:
            known = _TIME.pack(self._floor.get(key, 0))
        refusal = None
        if known is None or written > known[: _TIME.size]:
            seen[key] = written + iv
        elif written < known[: _TIME.size]:
            refusal = Refusal.REPLAYED
        else:
            ivs = [known[at : at + _IV_BYTES] for at in range(_TIME.size, len(known), _IV_BYTES)]
            if iv not in ivs:
                seen[key] = known + iv
            else:
                refusal = Refusal.REPEATED if iv == ivs[-1] else Refusal.REPLAYED
        if self._sealed and self._sealed.get(key) == written_ms:
            del self._sealed[key]
        if self._sent and self._sent.get(key) == written_ms:
            del self._sent[key]  # read back: when it is written again, by whomever, it is an old one
            return Refusal.OVERTAKEN if refusal is Refusal.REPLAYED else refusal
        return refusal

    def newest_ms(self, key: bytes) -> int:
        """Return the time of the newest value of a key, -1: none was read."""
        found = [_ms_of(seen[key]) for seen in self._seen.copy().values() if key in seen]
        return max(found, default=self._floor.get(key, -1))

    def newest(self) -> dict[bytes, int]:
        """Return the time of the newest value of each key."""
        newest = dict(self._floor)
        for seen in self._seen.values():
            for key, stamp in seen.items():
                newest[key] = max(newest.get(key, -1), _ms_of(stamp))
        return newest

    def remember(self, newest: Mapping[bytes, int]) -> None:
        """Remember what :meth:`newest` returned: what is older counts in no partition."""
        self._floor = dict(newest)

    @property
    def seen(self) -> Seen:
        """What was read."""
        return {partition: dict(stamps) for partition, stamps in self._seen.items()}

    def restore(self, seen: Seen) -> None:
        """Replace what was read by what :attr:`seen` returned."""
        self._seen = {partition: dict(stamps) for partition, stamps in seen.items()}


def _ms_of(stamp: bytes) -> int:
    return int(_TIME.unpack_from(stamp)[0])
