"""The state of every group on one topic, while it is followed. Pure: records in, state out.

Any writer of a topic can invent groups and keys, so both are limited; what is beyond a limit is counted, not kept.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from connect_share.console import Group, group_order
from connect_share.contents.groups import GroupFold, GroupFolds
from connect_share.model.keys import SkipKind
from connect_share.model.records import Record, TopicType
from connect_share.sealing.cipher import is_sealed, removes
from connect_share.worker_config import WorkerConfig

MOST_KEYS: Final = 2_000_000
"""Of one topic. A key and what is kept of it take some hundred bytes."""


class FollowedGroup(GroupFold):
    """One group on one topic.

    Attributes:
        is_folded: offsets are not, for only their counts are shown.
        records: read since the start, those that newer ones have replaced included.
        bytes: keys and values of those.
        last_written_ms: the newest time stamp of its records; what lies in the future counts as now, ``None``: none has one.
        living: hashes of its keys that are not removed, where it is folded.
    """

    def __init__(self, topic_type: TopicType, group: Group, worker: WorkerConfig | None) -> None:
        super().__init__(topic_type, group, worker)
        self.is_folded = topic_type is not TopicType.OFFSET
        self.records = 0
        self.bytes = 0
        self.last_written_ms: int | None = None
        self.living: set[int] = set()
        self._topic_type = topic_type
        self._state: Any = None

    @property
    def state(self) -> Any:
        """Return the folded state, ``None`` where nothing is folded or nothing could be opened."""
        if not self.is_folded or self.is_sealed:
            return None
        if self._state is None:
            self._state = self.snapshot()
        return self._state

    @property
    def skipped(self) -> dict[SkipKind, int]:
        """Return how many records changed nothing, by reason."""
        counts = Counter[SkipKind](self.fold.skipped)
        if self.seals is not None:
            counts[SkipKind.REFUSED] += self.seals.refused.total()
            counts[SkipKind.REPEATED] += self.seals.repeated
        return {kind: count for kind, count in counts.items() if count}

    def count_and_apply(self, record: Record, now_ms: int) -> None:
        """Count the next record and apply it, unless it is refused."""
        self.records += 1
        self.bytes += len(record.key or b"") + len(record.value or b"")
        if record.timestamp_ms >= 0:
            self.last_written_ms = max(self.last_written_ms or 0, min(record.timestamp_ms, now_ms))
        opened = self.open(record)
        if self.is_folded and (opened is not None or is_sealed(record.value)):
            is_gone = removes(self._topic_type, record.value)
            (self.living.discard if is_gone else self.living.add)(hash(record.key))
        if opened is not None and self.is_folded:
            self.fold.apply(opened)
            self._state = None


class TopicStates:
    """A sink of one topic's log that keeps the state of every group; may be read by another thread."""

    key_prefix: Final = b""

    def __init__(self, topic_type: TopicType, worker: WorkerConfig | None = None) -> None:
        self._folds = GroupFolds(topic_type, worker, lambda group: FollowedGroup(topic_type, group, worker))
        self._keys: set[int] = set()
        self._beyond_keys = 0
        self._lock = threading.Lock()

    @property
    def left_out(self) -> int:
        """Return the number of records of groups and keys beyond the limits."""
        return self._folds.beyond + self._beyond_keys

    @property
    def unrecognized(self) -> int:
        """Return the number of records whose key is not Connect's."""
        return self._folds.unrecognized

    def apply(self, records: Sequence[Record]) -> None:
        """Take the next records of the topic."""
        now_ms = int(time.time() * 1000)
        with self._lock:
            for record in records:
                found = self._folds.find(record)
                if found is None:
                    continue
                if self._has_room(found[0], record.key):
                    found[0].count_and_apply(record, now_ms)
                else:
                    self._beyond_keys += 1

    def _has_room(self, group: FollowedGroup, key: bytes | None) -> bool:
        if not group.is_folded and group.seals is None:
            return True  # nothing is kept of its keys
        at = hash(key)
        if at not in self._keys and len(self._keys) >= MOST_KEYS:
            return False
        self._keys.add(at)
        return True

    def groups(self) -> Iterator[FollowedGroup]:
        """Yield the groups by name, while nothing is applied; to be read to its end at once."""
        with self._lock:
            by_group = self._folds.by_group
            yield from (by_group[group] for group in sorted(by_group, key=group_order) if by_group[group].records)
