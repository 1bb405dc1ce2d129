"""The keys of a topic that a move must not write over. Pure.

The hash of each key is kept: a million keys take some hundred megabytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from connect_share.keys import ConfigKey, parse, split_key
from connect_share.records import Record, TopicType
from migrator.transform.rules import RULES, is_removal

Wanted = Mapping[str | None, frozenset[str] | None]
"""Key spaces (``None``: plain keys), and which of their connectors; ``None`` is everything in it."""


class LiveKeys:
    """The living keys of a topic, from its records in order within each partition.

    A key does not live if its newest record removes it. These do not live either: session keys and restart requests,
    which a move leaves behind; task configurations and commits of removed connectors, which Connect never removes.

    Args:
        topic_type: of the topic.
        wanted: the keys that are counted.
    """

    def __init__(self, topic_type: TopicType, wanted: Wanted) -> None:
        self._topic_type = topic_type
        self._wanted = wanted
        self._keys: dict[str | None, dict[int, int | None]] = {space: {} for space in wanted}

    def add(self, record: Record) -> None:
        """Read the next record."""
        parts = None if record.key is None else split_key(self._topic_type, record.key)
        key = None if parts is None else parse(self._topic_type, parts[1])
        if parts is None or key is None:
            return
        space, original, rule = None if parts[0] is None else str(parts[0]), parts[1], RULES[key.kind]
        if rule.left_behind_as is not None or space not in self._wanted:
            return
        connectors, connector = self._wanted[space], None if (subject := key.subject) is None else subject.connector
        if connectors is not None and connector not in connectors:
            return
        keys, at = self._keys[space], hash((record.partition, original))
        if is_removal(self._topic_type, record.value):
            keys.pop(at, None)
            return
        keys[at] = None
        if rule.ends_with_connector:
            keys[at] = hash((record.partition, ConfigKey.CONNECTOR.key(connector or "")))

    def counts(self) -> Counter[str | None]:
        """Return how many keys live in each space; spaces without any are left out."""
        return +Counter(
            {
                space: sum(connector is None or connector in keys for connector in keys.values())
                for space, keys in self._keys.items()
            }
        )


def key_spaces(moved: Iterable[tuple[str | None, Collection[str] | None]]) -> Wanted:
    """Return what is written by moves, each to a key space, of some connectors or of all (``None``)."""
    wanted: dict[str | None, frozenset[str] | None] = {}
    for space, only in moved:
        known = wanted.get(space, frozenset())
        wanted[space] = None if known is None or only is None else known | frozenset(only)
    return wanted
