"""Some connectors of a key space: what is compared when the destination holds more than one source has brought.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from connect_share.records import Record
from migrator.transform.connector_keys import connector_of
from migrator.transform.rules import KeyTransform


class Narrowing:
    """Lets through what a transform takes at the source, and at the destination what belongs to the same connectors.

    Use :meth:`at_source` to its end first: the connectors of a merged source are known only then.

    Args:
        transform: of the source.
        connectors: known connectors; those seen at the source are added.
    """

    def __init__(self, transform: KeyTransform, connectors: set[str] | None = None) -> None:
        self._transform = transform
        self._back = transform.at_destination()
        self._connectors = set(transform.connectors or ()) | (connectors or set())

    def at_source(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records of connectors that are moved, unchanged, and learn which those are."""
        for record in records:
            original = self._transform.original_key(record.key)
            if isinstance(original, bytes):
                connector = connector_of(self._transform.topic_type, original)
                if connector is not None:
                    self._connectors.add(connector)
                    yield record

    def at_destination(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records of the same connectors, unchanged."""
        for record in records:
            original = self._back.original_key(record.key)
            if isinstance(original, bytes):
                connector = connector_of(self._transform.topic_type, original)
                if connector in self._connectors:
                    yield record
