"""What restoring would change, by connector: counts of keys, never a value.

Pure. Only a hash is kept of each key and each newest value, so a million keys take some hundred megabytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from connect_share.records import TopicType
from migrator.transform.connector_keys import connector_of
from migrator.transform.rules import is_removal

_REMOVED: Final = 0
_VALUE_BITS: Final = 64


@dataclass
class ConnectorChanges:
    """Keys of one connector on one topic.

    Attributes:
        connector: ``None`` for keys that belong to none.
        added: in the backup, not at the destination.
        changed: in both, with another value.
        same: in both.
        removed: at the destination, and removed in the backup.
        remaining: at the destination, unknown to the backup: they stay.
    """

    topic_type: TopicType
    connector: str | None
    added: int = 0
    changed: int = 0
    same: int = 0
    removed: int = 0
    remaining: int = 0


class Newest:
    """The newest value of each key, as hashes; records of one key have to come in order."""

    def __init__(self, topic_type: TopicType) -> None:
        self.topic_type = topic_type
        self.values: dict[bytes, int] = {}
        self._connectors: list[str | None] = []
        self._numbers: dict[str | None, int] = {}

    def see(self, original_key: bytes, value: bytes | None) -> None:
        """Take note of one record."""
        connector = connector_of(self.topic_type, original_key)
        number = self._numbers.get(connector)
        if number is None:
            number = self._numbers[connector] = len(self._connectors)
            self._connectors.append(connector)
        at = hashlib.blake2b(original_key, digest_size=16).digest()
        self.values[at] = number << _VALUE_BITS | self._hash(value)

    def _hash(self, value: bytes | None) -> int:
        if value is None or is_removal(self.topic_type, value):
            return _REMOVED
        return int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "big") or 1

    def connector(self, packed: int) -> str | None:
        """Give the connector of an entry of ``values``."""
        return self._connectors[packed >> _VALUE_BITS]


def changes(backed_up: Newest, found: Newest) -> Iterator[ConnectorChanges]:
    """Compare; gives the connectors of one topic type in the order of their names, those without any key left out."""
    by_connector: dict[str | None, ConnectorChanges] = {}

    def of(connector: str | None) -> ConnectorChanges:
        if connector not in by_connector:
            by_connector[connector] = ConnectorChanges(backed_up.topic_type, connector)
        return by_connector[connector]

    only_value = (1 << _VALUE_BITS) - 1
    for at, packed in backed_up.values.items():
        there, here = packed & only_value, found.values.get(at, _REMOVED) & only_value
        if there == here == _REMOVED:
            continue
        change = of(backed_up.connector(packed))
        if here == _REMOVED:
            change.added += 1
        elif there == _REMOVED:
            change.removed += 1
        elif there == here:
            change.same += 1
        else:
            change.changed += 1
    for at, packed in found.values.items():
        if at not in backed_up.values and packed & only_value != _REMOVED:
            of(found.connector(packed)).remaining += 1
    yield from sorted(by_connector.values(), key=lambda change: (change.connector is not None, change.connector or ""))
