"""The changes that a restore makes, by connector: counts of keys, never a value.

Pure. Only a hash is kept of each key and each newest value, so a million keys take some hundred megabytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from connect_share.keys import connector_of
from connect_share.records import TopicType
from connect_share.transform.rules import is_removal

_REMOVED: Final = 0


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
    """The newest value of each key, as hashes; the records of one key have to come in order."""

    def __init__(self, topic_type: TopicType) -> None:
        self.topic_type = topic_type
        self.values: dict[bytes, tuple[str | None, int]] = {}
        """Connector and hash of the value, by hash of the key."""
        self._names: dict[str | None, str | None] = {}

    @property
    def connectors(self) -> set[str]:
        """Names of the connectors with a record."""
        return {name for name in self._names if name is not None}

    def add(self, original_key: bytes, value: bytes | None) -> None:
        """Add the next record."""
        name = connector_of(self.topic_type, original_key)
        name = self._names.setdefault(name, name)  # one object for all keys of a connector
        hashed = _REMOVED
        if value is not None and not is_removal(self.topic_type, value):
            hashed = int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "big") or 1
        self.values[hashlib.blake2b(original_key, digest_size=16).digest()] = (name, hashed)


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
