"""Sealed records for tests: keys that are nobody's, and records sealed one by one."""

from __future__ import annotations

import enum
import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from connect_share.model.keys import ClusterGroupId, prefix_key
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import removal_value
from connect_share.sealing import KEYS_PROPERTY, KeyRing, SealingMode, TopicSeals
from connect_share.sealing.cipher import Cipher
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig

VECTORS = Path(__file__).parents[1] / "vectors" / "sealed"
GROUP = ClusterGroupId("com.acme")


def key_text(*ids: int) -> str:
    """The keys of these ids, as a worker file has them."""
    return ",".join(f"{number}:{b64encode(bytes([number % 256]) * 32).decode()}" for number in ids)


KEYS = KeyRing.parse(key_text(7))


def sharing_worker(group: str = GROUP, keys: str | None = None, **more: str) -> WorkerConfig:
    """The worker of a group that shares topics, with these keys, if any."""
    lines = {"group.id": group, "bootstrap.servers": "localhost:9092", SHARING_PROPERTY: "enabled"}
    lines |= {f"{kind}.storage.topic": f"{kind}s" for kind in ("config", "offset", "status")}
    return WorkerConfig.from_properties({**lines, **({} if keys is None else {KEYS_PROPERTY: keys}), **more})


def keys_by_provider(folder: Path, keys: str = key_text(7)) -> dict[str, str]:
    """The lines of a worker file that get the keys by a config provider."""
    (folder / "keys.properties").write_text(f"keys={keys}\n")
    return {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        KEYS_PROPERTY: f"${{file:{folder}/keys.properties:keys}}",
    }


@dataclass(frozen=True)
class SealedVector:
    """A value and what is made of it with this key, IV and time."""

    keys: KeyRing
    topic_type: TopicType
    key: bytes
    value: bytes | None
    written_ms: int
    iv: bytes
    sealed: bytes


def sealed_vectors() -> list[SealedVector]:
    def read(entry: dict[str, Any]) -> SealedVector:
        return SealedVector(
            KeyRing.parse(entry["keys"]),
            TopicType(entry["kind"]),
            b64decode(entry["key"]),
            None if entry["value"] is None else b64decode(entry["value"]),
            entry["written_ms"],
            bytes.fromhex(entry["iv"]),
            bytes.fromhex(entry["sealed"]),
        )

    return [read(entry) for entry in json.loads((VECTORS / "vectors.json").read_text())]


def sealed(
    record: Record,
    topic_type: TopicType = TopicType.CONFIG,
    *,
    written_ms: int = 1_700_000_000_000,
    keys: KeyRing = KEYS,
) -> Record:
    """The record as the group has sealed it at this time."""
    return replace(record, value=Cipher(keys, topic_type).seal(record.key or b"", record.value, written_ms))


def all_sealed(records: Iterable[Record], topic_type: TopicType, group: ClusterGroupId = GROUP) -> list[Record]:
    """The same records as the group has sealed them when they were written; those of others as they are."""
    prefix, removal = group.prefix, removal_value(topic_type, group)
    newest = Counter[bytes]()

    def one(record: Record) -> Record:
        key = record.key or b""
        if not key.startswith(prefix):
            return record
        newest[key] = max(record.timestamp_ms, newest[key] + 1)
        plain = replace(record, value=removal if record.value is None else record.value)
        return sealed(plain, topic_type, written_ms=newest[key])

    return [one(record) for record in records]


def seals(
    topic_type: TopicType = TopicType.CONFIG, mode: SealingMode = SealingMode.REQUIRED, keys: KeyRing | None = KEYS
) -> TopicSeals:
    return TopicSeals(topic_type, GROUP, keys, mode)


Pair = tuple[bytes, bytes | None]
FLOOD: Final = 300
OLD: Final = {
    TopicType.CONFIG: b'{"properties":{"connector.class":"FileStreamSource","name":"old"}}',
    TopicType.STATUS: b'{"state":"UNASSIGNED","trace":null,"worker_id":"old:1","generation":0}',
    TopicType.OFFSET: b'{"position":0}',
}
"""What the group may have sealed years ago, and what others can write in plain at any time."""

_SAME_ID: Final = KeyRing.parse(f"7:{b64encode(bytes(32)).decode()}")
_OTHER: Final = KeyRing.parse(key_text(9))


class Late(enum.Enum):
    """What a reader without any memory has of the attacked record, when the cleaner has taken the good one under it."""

    KEPT = enum.auto()
    MISSING = enum.auto()
    OLD = enum.auto()


@dataclass(frozen=True)
class Attacked:
    """One key of the group on one topic.

    Attributes:
        stranger: key of the group that has never been written.
        good: its newest value.
        another: the newest value of another key.
    """

    topic_type: TopicType
    key: bytes
    stranger: bytes
    good: bytes
    another: bytes

    @property
    def old(self) -> bytes:
        return OLD[self.topic_type]

    def sealed(self, keys: KeyRing, key: bytes | None = None) -> bytes | None:
        """Return a value of years ago."""
        return sealed(Record("", 0, 0, 0, key or self.key, self.old), self.topic_type, keys=keys).value

    def flipped(self) -> bytes:
        return bytes([*self.good[:-1], self.good[-1] ^ 1])


def _both(make: Callable[[Attacked], bytes | None]) -> Callable[[Attacked], list[Pair]]:
    """Write the value over the good one, and under a key that has none."""
    return lambda at: [(at.key, make(at)), (at.stranger, make(at))]


def _flood(at: Attacked) -> list[Pair]:
    return [(at.stranger, at.old if number % 2 else None) for number in range(FLOOD)]


@dataclass(frozen=True)
class Attack:
    """A row of the table: what is written, and what is promised to a reader that begins later."""

    records: Callable[[Attacked], list[Pair]]
    late: Late = Late.MISSING


ATTACKS: Final[Mapping[str, Attack]] = {
    "forged": Attack(_both(lambda at: at.sealed(_SAME_ID))),
    "swapped": Attack(_both(lambda at: at.another)),
    "flipped": Attack(_both(Attacked.flipped)),
    "other-group": Attack(_both(lambda at: at.sealed(_OTHER, prefix_key("group-b", at.key.partition(b".")[2])))),
    "other-group-same-key": Attack(_both(lambda at: at.sealed(KEYS, prefix_key("group-b", at.key.partition(b".")[2])))),
    "plain": Attack(_both(lambda at: at.old)),
    "tombstone": Attack(_both(lambda _: None)),
    "garbage": Attack(_both(lambda _: b"\1garbage")),
    "replay": Attack(lambda at: [(at.key, at.sealed(KEYS))], Late.OLD),
    "flood": Attack(_flood, Late.KEPT),
}
