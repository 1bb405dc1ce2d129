"""Records that remove a key: what readers take for a removal, and what is written to remove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from connect_share.model.connect_json import JSON_NULL
from connect_share.model.keys import MARKER, ClusterGroupId, StatusKey
from connect_share.model.offsets import offset_key
from connect_share.model.records import Record, TopicType, now_ms

BARRIER_RECORDS: Final[Mapping[TopicType, tuple[bytes, bytes | None]]] = {
    TopicType.CONFIG: MARKER,  # the marker that closes a config topic anyway
    # Removals for a connector " ", a name that Connect refuses: no worker has anything to remove.
    TopicType.STATUS: (StatusKey.CONNECTOR.key(" "), None),
    TopicType.OFFSET: (offset_key(" ", {}), None),
}
"""What a resumed copy writes to each partition before it reads: behind it lies nothing that an earlier producer has sent."""

OLDEST_MS: Final = 1
"""The time of what is to be as old as its topic allows, as who writes it finds out; 0 would be the time of the write."""


def is_removal(topic_type: TopicType, value: bytes | None) -> bool:
    """Return whether a value removes its key; on a config topic JSON null does, whoever reads it."""
    return value is None or (topic_type is TopicType.CONFIG and value == JSON_NULL)


def removal_value(topic_type: TopicType, group: ClusterGroupId | None) -> bytes | None:
    """Return the value that removes a key of a group; ``None``, a tombstone, always with plain keys.

    With sharing a removal on the config topic is never a tombstone (``docs/decisions/0002-config-position.md``).
    """
    return JSON_NULL if group is not None and topic_type is TopicType.CONFIG else None


def tombstone(topic_type: TopicType, topic: str, key: bytes) -> Record:
    """Return the tombstone that removes a key.

    The tombstone of a connector's status removes task statuses with timestamps up to its own. Statuses that are put back
    keep their old timestamps. So this tombstone has to be older than all of them, as far as its topic takes that.
    """
    at_ms = OLDEST_MS if topic_type is TopicType.STATUS else now_ms()
    return Record(topic, 0, 0, at_ms, key, None)


def removal(topic_type: TopicType, topic: str, key: bytes, group: ClusterGroupId | None) -> Record:
    """Return the record that removes a key of a group, with a timestamp as :func:`tombstone` has; not sealed."""
    return replace(tombstone(topic_type, topic, key), value=removal_value(topic_type, group))
