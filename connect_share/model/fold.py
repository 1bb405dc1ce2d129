"""What the folds of the three topics have in common."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, ClassVar

from connect_share.model.keys import ClusterGroupId, SkipKind, prefix_of, split_key
from connect_share.model.limited_log import LimitedLog
from connect_share.model.places import KeyPlaces
from connect_share.model.records import Record, TopicType


class Fold(ABC):
    """Mutable state of one cluster group, fed with records in log order per partition.

    A bad record never takes others with it: it is counted in :attr:`skipped` and logged without its value.

    Attributes:
        group: whose records count; ``None``: those with plain keys.
        skipped: how many records were passed over, by reason.
        own_records: how many own records were understood.
        places: where the keys have records; of no key of a config topic, which has one partition.
    """

    topic_type: ClassVar[TopicType]
    unknown_key_level: ClassVar[int] = logging.WARNING

    def __init__(self, cluster_group_id: ClusterGroupId | None) -> None:
        self.skipped: Counter[SkipKind] = Counter()
        self.own_records: int = 0
        self.places: KeyPlaces = KeyPlaces()
        self.group = cluster_group_id
        self._prefix = prefix_of(cluster_group_id)
        self._said = LimitedLog(logging.getLogger(type(self).__module__))

    @abstractmethod
    def apply(self, record: Record) -> object:
        """Apply the next record of its partition."""

    @abstractmethod
    def saved(self) -> Any:
        """Return the state as plain values for JSON; counts of records are left out."""

    @abstractmethod
    def restore(self, saved: Any) -> None:
        """Replace the state by what :meth:`saved` returned."""

    def _pass_over(self, record: Record) -> None:
        """Count a record whose key is not one of this group's."""
        key = record.key
        if self.group is not None or split_key(self.topic_type, key) is not None:
            self.skipped[SkipKind.FOREIGN] += 1
        elif key is None:
            self.skipped[SkipKind.NULL_KEY] += 1
        else:
            self.skipped[SkipKind.BAD_KEY] += 1
            self._said.log(self.unknown_key_level, "Discarding record with an unknown key at %s", record.place)
