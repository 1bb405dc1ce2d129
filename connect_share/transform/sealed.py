"""Sealed values of a move: opened as soon as they are read, sealed as late as they are written.

Everything between sees opened records: the transform, the fold, the comparison, and a resume that looks for what is there.

A copy is sealed with the time of its original. So what was an old value at the source is one at the destination: written
again by others it is refused there, too.

Pure.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from connect_share.model.places import dated
from connect_share.model.records import Record, now_ms
from connect_share.model.removal import removal_value
from connect_share.sealing import KeyRing, SealingMode, TopicSeals
from connect_share.sealing.cipher import LATEST_MS, Cipher, is_sealed
from connect_share.sealing.seals import Seen
from connect_share.transform.rules import KeyTransform, SkipReason
from connect_share.worker_config import WorkerConfig

_SALT: Final = b"connect-share/evidence/1"


@dataclass(frozen=True)
class Sealing:
    """What opens and seals the values of a worker's group, also in another process. Holds keys.

    Attributes:
        keys: of the worker file; ``None``: nothing is opened or sealed.
        as_is: sealed values are carried without being opened.
    """

    keys: KeyRing | None = None
    mode: SealingMode = SealingMode.OFF
    as_is: bool = False

    @classmethod
    def of(cls, worker: WorkerConfig, *, as_is: bool = False) -> Self:
        """Return that of a worker file."""
        return cls(worker.keys_in_use, worker.sealing_mode, as_is)

    @property
    def salt(self) -> bytes:
        """What a hash of opened values begins with, so that values cannot be tried without the keys; empty without keys."""
        keys = () if self.keys is None else sorted(self.keys.items())
        return b"".join(hmac.digest(key, _SALT, "sha256") for _, key in keys)


NO_SEALING: Final = Sealing()


@dataclass
class SealTimes:
    """When the newest sealed values were written, by whole key.

    Attributes:
        source: what was read of the source.
        destination: of what is there.
    """

    source: Seen = field(default_factory=dict, repr=False)
    destination: dict[bytes, int] = field(default_factory=dict, repr=False)


class Opener:
    """Opens the values that a transform takes, and refuses what the workers of their group refuse.

    Args:
        sealing: of the group whose keys the transform takes.
        transform: of the records; values under plain keys are never sealed.
        newest: times of values that were read before.
        seen: what was read before.

    Attributes:
        seals: what opens; values under plain keys, and those that are carried as they are, pass.
        freshness: the times of what was read; plain values have none.
    """

    def __init__(
        self,
        sealing: Sealing,
        transform: KeyTransform,
        newest: Mapping[bytes, int] | None = None,
        seen: Seen | None = None,
    ) -> None:
        self.transform = transform
        self.is_on = sealing.keys is not None
        group = None if sealing.as_is else transform.source
        self.seals: TopicSeals = TopicSeals(transform.topic_type, group, sealing.keys, sealing.mode)
        self.freshness = self.seals.freshness
        self.freshness.remember(newest or {})
        self.freshness.restore(seen or {})

    def open(self, record: Record) -> Record | None:
        """Return a record of the group with its value opened; ``None``: it is refused. In log order per partition."""
        return self.seals.accepted(record)

    def open_all(self, records: Iterable[Record], skipped: Counter[SkipReason] | None = None) -> Iterator[Record]:
        """Yield the records that are not refused: those of the transform opened, others as they are."""
        for record in records:
            wanted = self.is_on or is_sealed(record.value)  # without keys plain values pass
            opened = self.open(record) if wanted and self.transform.takes(record.key) else record
            if opened is not None:
                yield opened
            elif skipped is not None:
                skipped[SkipReason.REFUSED] += 1


class Sealer:
    """Seals what is written to a destination whose worker file has keys.

    Args:
        sealing: of the destination; values under plain keys are never sealed.
        newest: times of what is at the destination, by whole key; a copy is later than those.

    Attributes:
        newest: the same, with what was sealed here.
    """

    def __init__(self, sealing: Sealing, transform: KeyTransform, newest: Mapping[bytes, int] | None = None) -> None:
        self.newest = dict(newest or {})
        self.prefix = transform.prefix
        self._cipher: Cipher | None = None
        self._removal: bytes | None = None
        if sealing.keys is not None and transform.destination is not None:
            self._cipher = Cipher(sealing.keys, transform.topic_type)
            self._removal = removal_value(transform.topic_type, transform.destination)

    @property
    def is_on(self) -> bool:
        """Whether anything is sealed."""
        return self._cipher is not None

    def before_sealing(self, record: Record) -> Record:
        """Return a record as it will be opened: on a sealed config topic JSON null removes, and no tombstone does."""
        if not self.is_on:
            return record if record.sealed_ms is None else dated(record)
        return record if record.value is not None or self._removal is None else replace(record, value=self._removal)

    def sealed(self, key: bytes, value: bytes | None, written_ms: int) -> bytes | None:
        """Return a value, or the removal for ``None``, as it is written under this whole key."""
        if self._cipher is None:
            return value
        at_ms = self.newest[key] = min(max(written_ms, self.newest.get(key, -1) + 1), LATEST_MS)
        return self._cipher.seal(key, value, at_ms)


class Resealer:
    """Opens the values of one slice when they are read, and seals them when they are written."""

    def __init__(self, transform: KeyTransform, source: Sealing, destination: Sealing, times: SealTimes) -> None:
        self.opener = Opener(source, transform, seen=times.source)
        self.sealer = Sealer(destination, transform, times.destination)

    def sealed(self, record: Record) -> Record:
        """Return a record as it is written, with the time of its original; one that was not sealed may lie in the future."""
        if not self.sealer.is_on:
            return record
        written_ms = min(max(record.timestamp_ms, 0), now_ms()) if record.sealed_ms is None else record.sealed_ms
        return replace(record, value=self.sealer.sealed(record.key or b"", record.value, written_ms))

    def add_times_to(self, times: SealTimes) -> None:
        """Add when what was opened and sealed was written."""
        times.source.update(self.opener.freshness.seen)
        times.destination.update(self.sealer.newest)
