"""What the checks look at: the state of each group, and the few things about records that no state keeps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from connect_share.console import Group
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.keys import KEY_PREFIXES, ConfigKey, StatusKey, key_text, parse
from connect_share.model.offsets import OffsetSnapshot
from connect_share.model.records import Record, TopicType
from connect_share.model.status import StatusSnapshot
from connect_share.transform.canonical import ConfigHistory
from connect_share.transform.rules import KeyTransform

_MOST_ODD_KEYS: Final = 1_000
# What a reader that looks for the last dot, or for another group's prefix, takes for the beginning of an original key.
_SECOND_KEY: Final = re.compile(rb"\.(?:%b|session-key\Z)" % b"|".join(map(re.escape, KEY_PREFIXES)))


class GroupRecords:
    """What is kept of the records of one group while its topics are read.

    Attributes:
        group: its id.
        history: of its config topic, as its workers believe it.
        status_ms: the time of the newest status, by original key.
        odd_keys: original keys in which another key seems to begin.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self.history = ConfigHistory(KeyTransform.between(TopicType.CONFIG, group, group))
        self.status_ms: dict[bytes, int] = {}
        self.odd_keys: set[str] = set()

    def add(self, topic_type: TopicType, original: bytes, taken: Record | None) -> None:
        """Take the next record; ``taken`` is what the group's workers believe of it."""
        if topic_type is TopicType.OFFSET:
            return  # there may be millions, and their state is all that is needed
        if b"." in original and len(self.odd_keys) < _MOST_ODD_KEYS and _is_odd(topic_type, original):
            self.odd_keys.add(key_text(original))
        if taken is None:
            return
        if topic_type is TopicType.CONFIG:
            self.history.add(taken)
        elif not (taken.key or b"").endswith(original):
            pass  # it stands in the place of a replay
        elif taken.value is None:
            self.status_ms.pop(original, None)
        else:
            self.status_ms[original] = taken.timestamp_ms


def _is_odd(topic_type: TopicType, original: bytes) -> bool:
    key = parse(topic_type, original)
    # Names of loggers and topics have dots, and no reader looks for a key in them.
    free = key is None or key.kind in (ConfigKey.LOGGER_LEVEL, StatusKey.TOPIC)
    return not free and _SECOND_KEY.search(original) is not None


@dataclass(frozen=True)
class GroupState:
    """One group in the topics that were read; a state is empty where its topic was not.

    Attributes:
        sealed: topics whose values of this group cannot be opened; its state is empty there.
        records: how many it has, by type of the topic.
    """

    group: Group
    config: ClusterConfigState
    status: StatusSnapshot
    offsets: OffsetSnapshot
    kept: GroupRecords = field(repr=False)
    sealed: frozenset[TopicType] = frozenset()
    records: Mapping[TopicType, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicsState:
    """The topics that were read.

    Attributes:
        topics: their names; those that were not read are absent.
        groups: all that have a record in any of them.
        two_clusters: if plain keys seem to be those of two clusters: that, and what to do.
    """

    topics: Mapping[TopicType, str]
    groups: Sequence[GroupState]
    two_clusters: str | None = None
