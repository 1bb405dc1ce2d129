"""Which keys of a topic still say something: what a move must not be laid over.

Pure. A number stands for each key, so a million keys take some hundred megabytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from connect_share.keys import split_key
from connect_share.records import Record, TopicType
from connect_share.state import connector_key
from migrator.transform.connector_keys import connector_of
from migrator.transform.rules import is_removal, left_behind_as

Wanted = Mapping[str | None, frozenset[str] | None]
"""Key spaces (``None``: plain keys), and which of their connectors; ``None`` is everything in it."""
_OF_TASKS: Final = (b"task-", b"commit-")


class LiveKeys:
    """Fed with the records of a topic, in order within each partition.

    A key does not live if its newest record removes it. Session keys and restart requests do not live, since a move
    leaves them behind, nor do task configurations and commits of connectors that are gone, which Connect never removes.

    Args:
        topic_type: of the topic.
        wanted: what is looked for.
    """

    def __init__(self, topic_type: TopicType, wanted: Wanted) -> None:
        self._topic_type = topic_type
        self._wanted = wanted
        self._keys: dict[str | None, dict[int, int | None]] = {space: {} for space in wanted}

    def take(self, record: Record) -> None:
        """Take the next record."""
        parts = None if record.key is None else split_key(self._topic_type, record.key)
        if parts is None or left_behind_as(self._topic_type, parts[1]) is not None:
            return
        space, original = None if parts[0] is None else str(parts[0]), parts[1]
        if space not in self._wanted:
            return
        connectors, connector = self._wanted[space], connector_of(self._topic_type, original)
        if connectors is not None and connector not in connectors:
            return
        keys, at = self._keys[space], hash((record.partition, original))
        if is_removal(self._topic_type, record.value):
            keys.pop(at, None)
            return
        keys[at] = None
        if self._topic_type is TopicType.CONFIG and original.startswith(_OF_TASKS):
            keys[at] = hash((record.partition, connector_key(connector or "")))

    def counts(self) -> Counter[str | None]:
        """Return how many keys live in each space; spaces without any are left out."""
        return +Counter(
            {
                space: sum(connector is None or connector in keys for connector in keys.values())
                for space, keys in self._keys.items()
            }
        )
