"""The state of every group on one topic, while it is followed. Pure: records in, state out.

Any writer of a topic can invent groups and keys, so both are limited; what is beyond a limit is counted, not kept.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share.console import Group, group_order
from connect_share.model.config import ConfigFold
from connect_share.model.keys import SkipKind, split_key
from connect_share.model.records import Record, TopicType
from connect_share.model.status import StatusFold
from connect_share.sealing import TopicSeals
from connect_share.sealing.cipher import is_sealed
from connect_share.worker_config import WorkerConfig

MOST_GROUPS: Final = 10_000
MOST_KEYS: Final = 2_000_000
"""Of one topic. A key and what a fold keeps of it take some hundred bytes."""

# Of offsets only counts are shown, so nothing is kept of them.
_FOLDS: Final[dict[TopicType, Callable[[Group], Any]]] = {
    TopicType.CONFIG: ConfigFold,
    TopicType.STATUS: StatusFold,
}


@dataclass
class GroupState:
    """One group on one topic.

    Attributes:
        records: read since the start, those that newer ones have replaced included.
        bytes: keys and values of those.
        last_written_ms: the newest time stamp of its records; what lies in the future counts as now, ``None``: none has one.
        is_sealed: it has sealed values that cannot be opened here, so its state is not known.
    """

    group: Group
    fold: Any = field(default=None, repr=False)
    seals: TopicSeals | None = field(default=None, repr=False)
    records: int = 0
    bytes: int = 0
    last_written_ms: int | None = None
    is_sealed: bool = False
    _snapshot: Any = field(default=None, repr=False)

    @property
    def snapshot(self) -> Any:
        """Return the folded state, ``None`` where nothing is folded or nothing could be opened."""
        if self.fold is None or self.is_sealed:
            return None
        if self._snapshot is None:
            self._snapshot = self.fold.snapshot()
        return self._snapshot

    @property
    def skipped(self) -> dict[SkipKind, int]:
        """Return how many records changed nothing, by reason."""
        counts = Counter[SkipKind]() if self.fold is None else Counter(self.fold.skipped)
        if self.seals is not None:
            counts[SkipKind.REFUSED] += self.seals.refused.total()
        return {kind: count for kind, count in counts.items() if count}

    def take(self, record: Record, now_ms: int) -> None:
        """Count the next record, and apply it if it may be believed."""
        self.records += 1
        self.bytes += len(record.key or b"") + len(record.value or b"")
        if record.timestamp_ms >= 0:
            self.last_written_ms = max(self.last_written_ms or 0, min(record.timestamp_ms, now_ms))
        self.is_sealed = self.is_sealed or (self.seals is None and self.group is not None and is_sealed(record.value))
        if self.fold is None or self.is_sealed:
            return
        believed = record if self.seals is None else self.seals.take(record)
        if believed is not None:
            self.fold.apply(believed)
            self._snapshot = None


class TopicStates:
    """A sink of one topic's log that keeps the state of every group; may be read by another thread.

    Args:
        topic_type: what kind of records the topic holds.
        worker: opens the values of its own group.

    Attributes:
        left_out: records of groups and keys beyond the limits.
        unrecognized: records whose key is not Connect's.
    """

    key_prefix: Final = b""

    def __init__(self, topic_type: TopicType, worker: WorkerConfig | None = None) -> None:
        self.left_out = 0
        self.unrecognized = 0
        self._topic_type = topic_type
        self._worker = worker
        self._groups: dict[Group, GroupState] = {}
        self._keys: set[int] = set()
        self._lock = threading.Lock()

    def apply(self, records: Sequence[Record]) -> None:
        """Take the next records of the topic."""
        now_ms = int(time.time() * 1000)
        with self._lock:
            for record in records:
                self._take(record, now_ms)

    def _take(self, record: Record, now_ms: int) -> None:
        owner = None if record.key is None else split_key(self._topic_type, record.key)
        if owner is None:
            self.unrecognized += 1
            return
        state = self._groups.get(owner[0])
        if (state is None and len(self._groups) >= MOST_GROUPS) or not self._has_room(record.key):
            self.left_out += 1
            return
        if state is None:
            state = self._groups[owner[0]] = self._new(owner[0])
        state.take(record, now_ms)

    def _has_room(self, key: bytes | None) -> bool:
        if self._topic_type not in _FOLDS:
            return True
        at = hash(key)
        if at not in self._keys and len(self._keys) >= MOST_KEYS:
            return False
        self._keys.add(at)
        return True

    def _new(self, group: Group) -> GroupState:
        fold = _FOLDS.get(self._topic_type)
        worker = self._worker
        seals = None
        if worker is not None and group == worker.cluster_group_id and worker.keys_in_use is not None:
            seals = worker.seals(self._topic_type)
        return GroupState(group, None if fold is None else fold(group), seals)

    def groups(self) -> Iterator[GroupState]:
        """Yield the groups by name, while nothing is applied; to be read to its end at once."""
        with self._lock:
            yield from (self._groups[group] for group in sorted(self._groups, key=group_order))
