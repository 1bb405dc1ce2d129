"""Sealed records for tests: keys that are nobody's, and records sealed one by one."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import Record, TopicType
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
    """The same records as the group's store writes them; those of others as they are."""
    seals = TopicSeals(topic_type, group, KEYS)
    prefix = group.prefix

    def one(record: Record) -> Record:
        key = record.key or b""
        return replace(record, value=seals.seal(key, record.value)) if key.startswith(prefix) else record

    return [one(record) for record in records]


def seals(
    topic_type: TopicType = TopicType.CONFIG,
    mode: SealingMode = SealingMode.REQUIRED,
    keys: KeyRing | None = KEYS,
) -> TopicSeals:
    return TopicSeals(topic_type, GROUP, keys, mode)
