"""The proof that records of others are untouched: the newest record of each key before and after, as numbers.

A command keeps them from before its writing until after it (``delete group``), or a sum of them in a file (the migrator).
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import Final

from connect_share.model.records import Headers

_PLACE: Final = struct.Struct(">iqqI")


def key_hash(partition: int | None, key: bytes | None) -> int:
    """Return a number for partition and key. It is salted per process, so that nobody can write keys that collide."""
    return hash((partition, key or b""))


@dataclass
class NewestDigests:
    """The newest records that have a value: a hash of place, timestamp, key, value and headers, by ``key_hash``."""

    by_key: dict[int, int] = field(default_factory=dict, repr=False)

    def add(  # noqa: PLR0917 - the fields of a record in their order
        self,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
    ) -> tuple[int | None, int | None]:
        """Add the next record, those of one key in order. Returns the hash before it and its own; ``None``: no value."""
        at, key = key_hash(partition, key), key or b""
        before = self.by_key.pop(at, None)
        if value is None:
            return before, None
        hashed = hashlib.blake2b(_PLACE.pack(partition, offset, timestamp_ms, len(key)), digest_size=8)
        hashed.update(key)
        hashed.update(value)
        if headers != ():  # headers that cannot be read all count as equal
            hashed.update(repr(headers and [*headers]).encode())
        self.by_key[at] = digest = int.from_bytes(hashed.digest(), "big")
        return before, digest
