"""The folded state of a topic as records, in Connect's own order: what ``--mode state`` writes.

Connect gives task configurations to workers only if a commit follows them, and drops those whose commit comes before
the connector (KAFKA-16838); compaction after a reconfiguration leaves such an order behind (KAFKA-17719). Written again
as connector, target state, tasks, commit, the same records have the effect that they were written for.

Pure. ``migrator.verify.verification`` folds the output of :func:`canonical_config` to know what is to be expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from connect_share.errors import ValueFormatError
from connect_share.model import connect_json
from connect_share.model.config import (
    ConfigFold,
    connector_config_record,
    target_state_record,
    task_commit_record,
    task_config_record,
    task_count_record,
)
from connect_share.model.config_state import ClusterConfigState, TargetState
from connect_share.model.keys import ConfigKey, SkipKind, StatusKey, parse
from connect_share.model.places import decisive_ms
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.model.removal import is_removal
from connect_share.model.status import State, StatusFold
from connect_share.transform.rules import RULES, KeyTransform, SkipReason


def fold_state(
    transform: KeyTransform, records: Iterable[Record], skipped: Counter[SkipReason] | None = None
) -> Iterator[Record]:
    """Yield the state that records of one partition amount to, as records with the new keys."""
    if transform.topic_type is TopicType.CONFIG:
        yield from canonical_config(transform, records, skipped).records
        return
    if transform.topic_type is TopicType.STATUS:
        yield from _statuses(transform, records, skipped)
        return
    latest: dict[bytes, Record] = {}
    for original, record in transform.taken(records, skipped):
        latest.pop(original, None)  # the order of the newest records is kept
        if record.value is not None:
            latest[original] = record
    for original, record in latest.items():
        yield replace(record, key=transform.prefix + original)


def _statuses(
    transform: KeyTransform, records: Iterable[Record], skipped: Counter[SkipReason] | None
) -> Iterator[Record]:
    """Yield the records of a status partition that still say something, for each connector, task and topic in their order.

    The newest alone is not enough: it may be garbage, or an UNASSIGNED that counts for less than the RUNNING before it;
    and the tombstone of a connector takes away task statuses that are in other partitions.
    """
    fold = StatusFold(transform.source)
    kept: dict[object, list[Record]] = {}
    for original, record in transform.taken(records, skipped):
        bad = fold.skipped[SkipKind.BAD_KEY] + fold.skipped[SkipKind.BAD_VALUE]
        fold.apply(record)
        if fold.skipped[SkipKind.BAD_KEY] + fold.skipped[SkipKind.BAD_VALUE] > bad:
            continue
        moved = replace(record, key=transform.prefix + original)
        key = parse(TopicType.STATUS, original)
        item, kind = (None, None) if key is None else (key.subject, key.kind)
        left = kept.pop(item, [])
        if kind is StatusKey.CONNECTOR:
            removals = [each for each in (*left, moved) if each.value is None]
            left = [max(removals, key=decisive_ms)] if removals else []
        elif not (kind is StatusKey.TASK and _is_unassigned(record)):
            left = []
        if record.value is not None:
            left.append(moved)
        kept[item] = left
    for left in kept.values():
        yield from left


def _is_unassigned(record: Record) -> bool:
    parsed = _parsed(record)
    return isinstance(parsed, dict) and parsed.get("state") == State.UNASSIGNED.value


def canonical_config(
    transform: KeyTransform, records: Iterable[Record], skipped: Counter[SkipReason] | None = None
) -> CanonicalConfig:
    """Return a config topic in order; ``records`` are those of its one partition."""
    history = ConfigHistory(transform)
    history.add(records, skipped)
    return history.ordered()


class ConfigHistory:
    """A config topic as it is read, record by record: the state that a worker has, and the newest record of each key.

    Attributes:
        latest: by original key.
        removed: where each connector was last removed, by name; compaction takes most of these records.
    """

    def __init__(self, transform: KeyTransform) -> None:
        self.latest: dict[bytes, Record] = {}
        self.removed: dict[str, int] = {}
        self._transform = transform
        self._fold = ConfigFold(transform.source)

    def add(self, records: Iterable[Record], skipped: Counter[SkipReason] | None = None) -> None:
        """Take the next records of the partition."""
        for original, record in self._transform.taken(records, skipped):
            self._fold.apply(record)
            self.latest[original] = record
            key = parse(TopicType.CONFIG, original)
            if key is not None and key.kind is ConfigKey.CONNECTOR and is_removal(TopicType.CONFIG, record.value):
                self.removed[key.rest] = record.offset

    def ordered(self) -> CanonicalConfig:
        """Return the records in order."""
        return CanonicalConfig(self._transform, self._fold.snapshot(), self)

    def compacted(self) -> ClusterConfigState:
        """Return the state of a worker that starts when the cleaner has been everywhere."""
        fold = ConfigFold(self._transform.source)
        for record in sorted(self.latest.values(), key=lambda each: each.offset):
            fold.apply(record)
        return fold.snapshot()


class CanonicalConfig:
    """A config topic in order.

    Attributes:
        state: that a worker of the source has today.
        records: what is written instead, keys already those of the destination.
        healed: connectors whose task configurations were all there but in an order that made Connect drop them.
        left_without_tasks: connectors whose task configurations are not all there; workers make new ones.
    """

    def __init__(self, transform: KeyTransform, state: ClusterConfigState, history: ConfigHistory) -> None:
        self.state = state
        self.records: list[Record] = []
        self.healed: set[str] = set()
        self.left_without_tasks: set[str] = set()
        self._transform, self._latest, self._removed = transform, history.latest, history.removed
        names = sorted(state.connectors(), key=lambda name: (self._offset(ConfigKey.CONNECTOR.key(name)), name))
        for name in names:
            self._connector(name)
            self._target_state(name)
            self._tasks(name)
            self._fencing(name)
        # What comes back with the name of a connector that is gone.
        for name in sorted({*state.target_states(), *state.task_count_records()} - set(names)):
            self._target_state(name)
            self._fencing(name)
        for original, record in self._latest.items():
            key = parse(TopicType.CONFIG, original)
            if key is not None and not RULES[key.kind].is_state and not is_removal(TopicType.CONFIG, record.value):
                self._emit(original, record)

    def _offset(self, original: bytes) -> int:
        record = self._latest.get(original)
        return -1 if record is None else record.offset

    def _emit(self, original: bytes, record: Record, value: bytes | None = None) -> None:
        value = record.value if value is None else value
        self.records.append(replace(record, key=self._transform.prefix + original, value=value))

    def _put(self, original: bytes, made: Callable[[], tuple[bytes, bytes]], like: bytes, *, is_there: bool) -> None:
        """Write the newest record of a key if that is right, else what is made, at the time of a record that is near."""
        near = self._latest.get(original) or self._latest.get(like) or next(iter(self._latest.values()))
        self._emit(original, near, None if is_there else made()[1])

    def _connector(self, name: str) -> None:
        config, original = self.state.connector_config(name), ConfigKey.CONNECTOR.key(name)
        is_there = connect_json.same(properties_of(self._latest.get(original)), config)
        self._put(original, partial(connector_config_record, name, config or {}), original, is_there=is_there)

    def _target_state(self, name: str) -> None:
        target = self.state.target_states().get(name)
        if target is None:
            return
        original, made = ConfigKey.TARGET_STATE.key(name), partial(target_state_record, name, target)
        record = self._latest.get(original)
        is_there = record is not None and self._alone(record).target_states().get(name) is target
        # Without a record Connect takes STARTED for every connector that is there.
        if is_there or target is not TargetState.STARTED or not self.state.contains(name):
            self._put(original, made, ConfigKey.CONNECTOR.key(name), is_there=is_there)

    def _alone(self, record: Record) -> ClusterConfigState:
        """Return the state that one record alone amounts to."""
        fold = ConfigFold(self._transform.source)
        fold.apply(record)
        return fold.snapshot()

    def _tasks(self, name: str) -> None:
        last = ConfigKey.COMMIT.key(name)
        commit = self._latest.get(last)
        if name in self.state.inconsistent_connectors() or self._came_too_early(name, commit):
            self._heal(name, commit)
            return
        if commit is None:
            return
        for task in self.state.tasks(name):
            original, config = ConfigKey.TASK.key(task), self.state.task_config(task)
            # A newer one may have been written but never committed.
            is_there = connect_json.same(properties_of(self._latest.get(original)), config)
            self._put(original, partial(task_config_record, task, config or {}), last, is_there=is_there)
        count = self.state.task_count(name)
        self._put(last, partial(task_commit_record, name, count), last, is_there=_count(commit) == count)

    def _came_too_early(self, name: str, commit: Record | None) -> bool:
        """Return whether Connect ignored a commit only because the connector's record comes after it.

        Tasks of an earlier connector of that name are not healed.
        """
        if commit is None or not _count(commit) or self.state.task_count(name):
            return False
        return self._removed.get(name, -1) < commit.offset < self._offset(ConfigKey.CONNECTOR.key(name))

    def _heal(self, name: str, commit: Record | None) -> None:
        count, removed = _count(commit), self._removed.get(name, -1)
        whole: list[tuple[bytes, Record]] = []
        for number in range(count or 0):  # which garbage may make a large number, so stop at the first that lacks
            original = ConfigKey.TASK.key(ConnectorTaskId(name, number))
            record = self._latest.get(original)
            if record is None or record.offset < removed or properties_of(record) is None:
                break
            whole.append((original, record))
        if commit is None or commit.offset < removed or len(whole) != count:
            self.left_without_tasks.add(name)
            return
        for original, record in whole:
            self._emit(original, record)
        self._emit(ConfigKey.COMMIT.key(name), commit)
        if whole:  # a commit for no tasks loses none
            self.healed.add(name)

    def _fencing(self, name: str) -> None:
        count = self.state.task_count_record(name)
        if count is None:
            return
        original = ConfigKey.TASK_COUNT.key(name)
        record = self._latest.get(original)
        is_there = record is not None and self._alone(record).task_count_record(name) == count
        self._put(original, partial(task_count_record, name, count), original, is_there=is_there)


def _parsed(record: Record | None) -> object:
    if record is None or record.value is None:
        return None
    try:
        return connect_json.loads(record.value)
    except ValueFormatError:
        return None


def properties_of(record: Record | None) -> object:
    """Return the properties in the value of a record, whatever they are."""
    parsed = _parsed(record)
    return parsed.get("properties") if isinstance(parsed, dict) else None


def _count(record: Record | None) -> int | None:
    parsed = _parsed(record)
    count = parsed.get("tasks") if isinstance(parsed, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None
