"""What a restore would change: the newest value of each key on both sides, as hashes, by connector."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Final

from connect_share.model.keys import StatusKey, connector_of
from connect_share.model.places import KeyPlaces, decisive_ms
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import is_removal

_REMOVED: Final = bytes(8)
"""Stands for the hash of a value that removes."""


@dataclass
class ConnectorChanges:
    """Keys of one connector on one topic.

    Attributes:
        connector: ``None`` for keys that belong to none.
        added: in the backup, not at the destination.
        changed: in both, with another value.
        same: in both.
        removed: at the destination, and removed in the backup.
        remaining: only at the destination; they are kept.
    """

    topic_type: TopicType
    connector: str | None
    added: int = 0
    changed: int = 0
    same: int = 0
    removed: int = 0
    remaining: int = 0


class NewestValues:
    """The newest value of each key, as hashes; the records of one key have to come in order.

    ``partitions``: of the topic. ``like``: what was read before and has most of these keys, with their connectors.
    """

    def __init__(self, topic_type: TopicType, partitions: int, like: NewestValues | None = None) -> None:
        self.topic_type = topic_type
        self.values: dict[bytes, tuple[str | None, bytes]] = {}
        """Connector and hash of the value, by hash of the key."""
        self.removed_ms: dict[str | None, int] = {}
        """When the statuses of connectors were removed last: readers drop statuses of their tasks up to then."""
        self.names: dict[str | None, str | None] = {}
        """Of the connectors with a record: one object for all keys of a connector."""
        self.places = KeyPlaces(lambda: partitions)
        """Where keys have records, by hash of the key, on topics with several partitions."""
        self._like = {} if like is None else like.values

    def add(self, original_key: bytes, record: Record) -> None:
        """Add the next record, with its original key."""
        key = hash_of(original_key)
        known = self.values.get(key) or self._like.get(key)
        name = connector_of(self.topic_type, original_key) if known is None else known[0]
        name = self.names.setdefault(name, name)
        is_status = self.topic_type is TopicType.STATUS and original_key.startswith(StatusKey.CONNECTOR.prefix)
        if is_status and record.value is None:
            self.removed_ms[name] = max(decisive_ms(record), self.removed_ms.get(name, -1))
        counts = self.places.take(key, record, self._known, self._hashed)
        hashed = self._hash(record.value) if counts is record else counts.value
        entry = name, hashed or _REMOVED
        self.values[key] = known if known is not None and known == entry else entry  # one object for both sides

    def _hash(self, value: bytes | None) -> bytes | None:
        if value is None or is_removal(self.topic_type, value):
            return None if value is None else _REMOVED
        return hashlib.blake2b(value, digest_size=8).digest()

    def _hashed(self, record: Record) -> Record:
        return replace(record, value=self._hash(record.value))

    def _known(self, key: bytes) -> bytes:
        return self.values[key][1]


def hash_of(original_key: bytes) -> bytes:
    """Return the hash by which a key is known."""
    return hashlib.blake2b(original_key, digest_size=16).digest()


def changes(backed_up: NewestValues, found: NewestValues) -> list[ConnectorChanges]:
    """Return the changes of each connector of one topic type, by name; connectors without any key are left out."""
    by_connector: dict[str | None, ConnectorChanges] = {}

    def of(connector: str | None) -> ConnectorChanges:
        return by_connector.setdefault(connector, ConnectorChanges(backed_up.topic_type, connector))

    for key, (connector, there) in backed_up.values.items():
        _, here = found.values.get(key, (None, _REMOVED))
        if there == here == _REMOVED:
            continue
        if here == _REMOVED:
            of(connector).added += 1
        elif there == _REMOVED:
            of(connector).removed += 1
        elif there == here:
            of(connector).same += 1
        else:
            of(connector).changed += 1
    for key, (connector, here) in found.values.items():
        if key not in backed_up.values and here != _REMOVED:
            of(connector).remaining += 1
    return sorted(by_connector.values(), key=lambda change: (change.connector is not None, change.connector or ""))
