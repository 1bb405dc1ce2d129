"""The state of every group on one topic, while it is followed. Pure: records in, state out.

Any writer of a topic can invent groups and keys, so both are limited; what is beyond a limit is counted, not kept.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from connect_share.console.options import Group, group_order
from connect_share.contents.group_room import GroupRoom
from connect_share.contents.groups import GroupFold, GroupFolds
from connect_share.contents.seals import KEY_BYTES, kept_bytes
from connect_share.model.keys import SkipKind
from connect_share.model.records import Record, TopicType, now_ms
from connect_share.sealing.cipher import is_sealed, removes
from connect_share.worker_config import WorkerConfig

MOST_GROUPS: Final = 2_000
"""Others than the caller's own: each becomes a dozen series, and a scrape has to end while others invent more."""
MOST_BYTES: Final = 256_000_000
"""About what is kept of one topic: of each of the caller's own groups, and of all others together."""


_lock = threading.Lock()
"""A group that is left out gives up its room on all topics."""


class FollowedGroup(GroupFold):
    """One group on one topic.

    Attributes:
        is_folded: offsets are not, for only their counts are shown.
        state: when it was made last; ``None`` where nothing is folded, or nothing could be opened.
        bytes: keys and values of its records, those that newer ones have replaced included.
        left_out: records for whose keys there was no room.
        last_written_ms: the newest time stamp of its records; what lies in the future counts as now, ``None``: none has one.
        living: how many of its keys are not removed, or what was refused, where it is folded.
    """

    def __init__(self, topic_type: TopicType, group: Group, worker: WorkerConfig | None) -> None:
        super().__init__(topic_type, group, worker)
        self.is_folded = topic_type is not TopicType.OFFSET
        self.bytes = 0
        self.left_out = 0
        self.last_written_ms: int | None = None
        self.living = 0
        self._sizes: dict[int, int] = {}
        """Of the newest record of each key, by the key's hash; 0: it is removed."""
        self._topic_type = topic_type
        self.state: Any = None
        self._is_old = True

    def make_state(self) -> None:
        """Make the state of now; nothing may be applied meanwhile."""
        if self._is_old:
            self.state = None if not self.is_folded or self.is_sealed else self.snapshot()
            self._is_old = False

    @property
    def skipped(self) -> dict[SkipKind, int]:
        """Return how many records changed nothing, by reason; those for which there is an alert from the beginning."""
        counts = Counter[SkipKind](self.fold.skipped)
        if self.seals is not None:  # no query sees the growth of what begins above 0
            counts[SkipKind.REFUSED] += self.seals.refused.total()
            counts[SkipKind.REPEATED] += self.seals.repeated
        return counts

    def count(self, record: Record, now_ms: int) -> None:
        """Count the next record."""
        self.bytes += len(record.key or b"") + len(record.value or b"")
        if record.timestamp_ms >= 0:
            self.last_written_ms = max(self.last_written_ms or 0, min(record.timestamp_ms, now_ms))

    def apply_in(self, folds: GroupFolds[FollowedGroup], record: Record) -> None:
        """Apply the next record, unless it is refused, or there is no room for its key."""
        opened, self._is_old = self.open(record), True
        if not self.is_folded:
            return
        is_own = opened is not None and opened.key == record.key  # else it is refused, or what moves the position only
        if not is_own and (self.seals is not None or not is_sealed(record.value)):
            self.living += is_sealed(record.value)  # what is refused takes no room
            return
        before, size = self._sizes.get(at := hash(record.key)), 1 + (0 if opened is None else kept_bytes(record.value))
        if removes(self._topic_type, record.value):
            size = 0
        is_full = before is None and self.kept >= MOST_BYTES
        if is_full or not folds.keep(self, size - before if before is not None else KEY_BYTES + size):
            self.left_out += 1
            return
        self._sizes[at] = size
        self.living += bool(size) - bool(before)
        if opened is not None:
            self.fold.apply(opened)


class TopicStates:
    """A sink of one topic's log that keeps the state of every group that has room; may be read by another thread.

    Args:
        room: shared with the other topics; for all groups by default.
    """

    def __init__(
        self, topic_type: TopicType, worker: WorkerConfig | None = None, room: GroupRoom | None = None
    ) -> None:
        self.room = room or GroupRoom(most_bytes=MOST_BYTES)
        self._folds = GroupFolds(topic_type, lambda group: FollowedGroup(topic_type, group, worker), self.room)
        if worker is not None and (group := worker.cluster_group_id) is not None:
            self._folds.by_group[group] = FollowedGroup(topic_type, group, worker)

    @property
    def left_out(self) -> int:
        """Return the number of records of groups and keys beyond the limits."""
        with _lock:
            return self._folds.beyond + sum(group.left_out for group in self._folds.by_group.values())

    @property
    def unrecognized(self) -> int:
        """Return the number of records whose key is not Connect's."""
        return self._folds.unrecognized

    def apply(self, records: Sequence[Record]) -> None:
        """Take the next records of the topic."""
        at_ms = now_ms()
        with _lock:
            for record in records:
                found = self._folds.find(record)
                if found is not None:
                    found[0].count(record, at_ms)
                    found[0].apply_in(self._folds, record)

    def groups(self) -> list[FollowedGroup]:
        """Return the groups by name, with their state of now."""
        with _lock:
            groups = sorted(self._folds.by_group.values(), key=lambda each: group_order(each.group))
            for each in groups:
                each.make_state()
            return groups
