"""The values of a restore: opened with the keys of the worker file, and sealed with the first of them.

They are sealed anew, later than what the topic has: a value as it was would be an old one for readers, and refused.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from connect_share.keys import prefix_of
from connect_share.migration_errors import RestoreRejectedError
from connect_share.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY, SealingMode
from connect_share.sealing.cipher import is_sealed, key_id
from connect_share.transform.rules import KeyTransform
from connect_share.transform.sealed import Opening, Sealing
from connect_share.worker_config import WorkerConfig


@dataclass(frozen=True)
class RestoreSealing:
    """What opens and seals the values of a restore.

    Attributes:
        backup: of the records in the file.
        destination: of the worker file.
    """

    backup: Sealing
    destination: Sealing

    @classmethod
    def of(cls, worker: WorkerConfig, transform: KeyTransform, has_sealed: Callable[[], bool]) -> Self:
        """Decide what is opened and sealed.

        Without keys sealed values stay as they are, if their keys do. A group that believes sealed values only has plain
        ones in a backup from before it was sealed, or because another writer has written them: beside sealed ones they are
        not believed.

        Args:
            worker: where the records go.
            transform: of the restore, of any topic type.
            has_sealed: asked whether the file has sealed values.
        """
        sealing = Sealing.of(worker)
        if sealing.keys is None:
            same = replace(sealing, as_is=transform.source is not None and transform.source == transform.destination)
            return cls(same, same)
        plain = sealing.mode is SealingMode.REQUIRED and not has_sealed()
        return cls(replace(sealing, mode=SealingMode.ACCEPT) if plain else sealing, sealing)


@dataclass
class ValueCounts:
    """The records that are put back, or would be.

    Attributes:
        sealed: how many are sealed in the backup, by id of the key.
        plain: how many are not; counted if there are keys.
        refused: how many are left out, because their group does not believe them.
        refused_plain: how many of these are only plain.
    """

    sealed: Counter[int] = field(default_factory=Counter)
    plain: int = 0
    refused: int = 0
    refused_plain: int = 0

    def count(self, record: Record, *, is_believed: bool) -> None:
        """Count a record as it is in the file."""
        if not is_believed:
            self.refused += 1
            self.refused_plain += not is_sealed(record.value)
        elif is_sealed(record.value):
            self.sealed[key_id(record.value) or 0] += 1
        else:
            self.plain += 1


class BackedUpValues:
    """Opens the records of a backup, and counts them; one pass over the file.

    Attributes:
        counts: of what was read.
        as_they_are: hashes of the sealed values that are put back without having been opened.
    """

    def __init__(self, sealing: Sealing, transforms: Iterable[KeyTransform]) -> None:
        self.counts = ValueCounts()
        self.as_they_are: set[bytes] = set()
        self._as_is = sealing.as_is
        self._openings = {transform.topic_type: Opening(sealing, transform) for transform in transforms}

    def opened(self, records: Iterable[tuple[TopicType, Record]]) -> Iterator[tuple[TopicType, Record]]:
        """Yield the records, opened, without those that are refused; those that are not restored as they are.

        Raises:
            RestoreRejectedError: after the last one: a value is sealed with a key that is not there.
        """
        for topic_type, record in records:
            opening = self._openings[topic_type]
            wanted = opening.is_on or opening.unopened or is_sealed(record.value)
            if not wanted or not opening.transform.takes(record.key):
                yield topic_type, record
                continue
            opened = opening.take(record)
            self.counts.count(record, is_believed=opened is not None)
            if self._as_is and is_sealed(record.value):
                self.as_they_are.add(identity(record))
            if opened is not None:
                yield topic_type, opened
        missing = [number for opening in self._openings.values() for number in opening.unopened.values()]
        if missing:
            raise RestoreRejectedError(
                f"{len(missing):,} value(s) of the backup are sealed with key {', '.join(map(str, sorted(set(missing))))}, "
                f"which the worker file does not have: give it that key in {KEYS_PROPERTY}, behind those that are there; "
                "without it they cannot be read. Nothing was written"
            )


def identity(record: Record) -> bytes:
    """Return a hash of key and value."""
    key, value = record.key or b"", record.value or b""
    return hashlib.blake2b(len(key).to_bytes(8, "big") + key + value, digest_size=16).digest()


def require_none_newer(
    topic: str, found: Iterable[Record], transform: KeyTransform, backed_up: BackedUpValues
) -> Iterator[Record]:
    """Yield the records of a destination's topic.

    Raises:
        RestoreRejectedError: after the last one: a sealed value there may be newer than what is put back without keys.
    """
    newer = 0
    for record in found:
        taken = bool(backed_up.as_they_are) and is_sealed(record.value) and transform.takes(record.key)
        newer += taken and identity(record) not in backed_up.as_they_are
        yield record
    if newer:
        raise RestoreRejectedError(
            f"{topic} has {newer:,} sealed value(s) of {prefix_of(transform.source).decode()}* that are not in the backup "
            "and may be newer: readers would refuse what is put back as it is. Give the worker file the keys in "
            f"{KEYS_PROPERTY}. Nothing was written"
        )
