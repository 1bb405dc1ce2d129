"""The equality of two states: the states of workers are compared, not bytes.

Pure. Both sides are folded with the stores' own replay; a difference names the item and the field, never a value.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from connect_share.model.config_state import ClusterConfigState, TargetState
from connect_share.model.connect_json import same
from connect_share.model.keys import MARKER, ClusterGroupId, connector_of
from connect_share.model.offsets import OffsetSnapshot
from connect_share.model.records import Record, TopicType
from connect_share.model.status import StatusSnapshot
from connect_share.replay import replay_config, replay_offsets, replay_status
from connect_share.transform.rules import PLAIN_KEYS, KeyTransform, SkipReason, TopicText

STATUS_FIELDS: Final = ("state", "worker_id", "generation", "trace", "version")


class Mismatch(enum.Enum):
    """The way in which an item differs."""

    MISSING = "missing"
    UNEXPECTED = "unexpected"
    DIFFERENT = "different"


class StateDifference(BaseModel):
    """One item that is not the same on both sides.

    Attributes:
        kind: what it is, such as ``task_config`` or ``offset``.
        connector: its connector; ``None`` when Connect finds none in the key.
        item: which one of several: a task number, a topic, a source partition.
        field: which part differs, such as the name of a configuration property. Never a value.
        problem: missing at the destination, unexpected there, or different.
    """

    model_config = ConfigDict(frozen=True)

    cluster_group_id: str | None
    topic_type: TopicType
    kind: str
    connector: TopicText | None
    item: TopicText | None = None
    field: TopicText | None = None
    problem: Mismatch

    def __str__(self) -> str:
        parts = [self.cluster_group_id or PLAIN_KEYS, self.topic_type.value, self.kind, repr(self.connector)]
        parts += [part for part in (self.item, self.field) if part is not None]
        return f"{' '.join(parts)}: {self.problem.value}"


_ABSENT: Final = object()


class Verification(BaseModel):
    """The result of ``verify``."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    equal: bool
    compared: int
    differences: tuple[StateDifference, ...]
    warnings: tuple[str, ...] = ()


class _Comparison:
    def __init__(self, cluster_group_id: str | None, topic_type: TopicType) -> None:
        self._group = cluster_group_id
        self._topic_type = topic_type
        self.differences: list[StateDifference] = []

    def compare(
        self, kind: str, connector: str | None, source: object, destination: object, *, item: str | None = None
    ) -> None:
        """Compare one thing that may be absent (``None``); mappings field by field, of which only names are reported."""
        sides: dict[str | None, tuple[object, object]] = {None: (source, destination)}
        if isinstance(source, Mapping) and isinstance(destination, Mapping):
            names = sorted(source.keys() | destination.keys())
            sides = {name: (source.get(name, _ABSENT), destination.get(name, _ABSENT)) for name in names}
        for field, (there, here) in sides.items():
            absent = _ABSENT if field is not None else None
            if same(there, here) and type(there) is type(here):
                continue
            problem = Mismatch.DIFFERENT
            if here is absent:
                problem = Mismatch.MISSING
            elif there is absent:
                problem = Mismatch.UNEXPECTED
            self.differences.append(
                StateDifference(
                    cluster_group_id=self._group,
                    topic_type=self._topic_type,
                    kind=kind,
                    connector=connector,
                    item=item,
                    field=field,
                    problem=problem,
                )
            )

    def compare_items(
        self, kind: str, connector: str, source: Mapping[Any, object], destination: Mapping[Any, object]
    ) -> None:
        for item in sorted(source.keys() | destination.keys()):
            self.compare(kind, connector, source.get(item), destination.get(item), item=str(item))


def compare_config_states(
    source: ClusterConfigState, destination: ClusterConfigState, *, cluster_group_id: str | None
) -> list[StateDifference]:
    """Compare connectors, configurations, tasks, target states, task counts and inconsistency.

    Target states and task counts of removed connectors count too: they come back with the name.
    Session keys are not compared (they are never carried), nor positions (other topics, other offsets).
    """
    comparison = _Comparison(cluster_group_id, TopicType.CONFIG)
    sides = (source, destination)
    names = {name for side in sides for name in (*side.connectors(), *side.target_states(), *side.task_count_records())}
    for name in sorted(names):
        there, here = (side.contains(name) for side in sides)
        comparison.compare("connector", name, there or None, here or None)
        if there is not here:
            continue
        comparison.compare("connector_config", name, *(side.connector_config(name) for side in sides))
        comparison.compare("target_state", name, *(_wanted_state(side, name) for side in sides))
        comparison.compare("task_count_record", name, *(side.task_count_record(name) for side in sides))
        comparison.compare("task_count", name, *(side.task_count(name) for side in sides))
        if there:  # of a removed connector nothing reads the tasks
            comparison.compare("inconsistent", name, *(name in side.inconsistent_connectors() for side in sides))
        comparison.compare_items(
            "task_config", name, *({task.task: side.task_config(task) for task in side.tasks(name)} for side in sides)
        )
    return comparison.differences


def _wanted_state(state: ClusterConfigState, name: str) -> TargetState | None:
    """Return the target state; that of a removed connector counts only if it was set to another one than STARTED.

    Connect reads STARTED from each connector's own record. Whether a worker still sees that record depends on the cleaner.
    """
    if not name:  # no connector has it, and its key is that of the marker
        return None
    target = state.target_state(name)
    return None if target is TargetState.STARTED and not state.contains(name) else target


def _compare_status_snapshots(
    source: StatusSnapshot, destination: StatusSnapshot, *, cluster_group_id: str | None
) -> list[StateDifference]:
    comparison = _Comparison(cluster_group_id, TopicType.STATUS)
    sides = (source, destination)
    names = {
        name
        for side in sides
        for name in (*side.connectors(), *side.connectors_with_tasks(), *side.connectors_with_topics())
    }
    for name in sorted(names):
        comparison.compare("connector_status", name, *(_status_fields(side.connector_status(name)) for side in sides))
        tasks = [{status.task_id.task: _status_fields(status) for status in side.task_statuses(name)} for side in sides]
        comparison.compare_items("task_status", name, *tasks)
        topics = [{status.topic: status for status in side.topic_statuses(name)} for side in sides]
        comparison.compare_items("active_topic", name, *topics)
    return comparison.differences


def _status_fields(status: object | None) -> dict[str, object] | None:
    return None if status is None else {field: getattr(status, field, None) for field in STATUS_FIELDS}


def _compare_offset_snapshots(
    source: OffsetSnapshot, destination: OffsetSnapshot, *, cluster_group_id: str | None
) -> list[StateDifference]:
    comparison = _Comparison(cluster_group_id, TopicType.OFFSET)
    there, here = source.raw, destination.raw
    for key in sorted(there.keys() | here.keys()):
        if there.get(key) != here.get(key):
            item = key.decode("utf-8", errors="backslashreplace")
            comparison.compare("offset", connector_of(TopicType.OFFSET, key), there.get(key), here.get(key), item=item)
    return comparison.differences


def compare_newest(
    source: Iterable[Record], destination: Iterable[Record], transform: KeyTransform
) -> list[StateDifference]:
    """Compare the newest bytes of each key, and on a config topic their order: of values that cannot be opened here."""
    topic_type = transform.topic_type
    comparison = _Comparison(transform.destination, topic_type)
    there, here = _newest(source, transform), _newest(destination, transform.at_destination())
    for key in sorted(there.keys() | here.keys()):
        item = key.decode("utf-8", errors="backslashreplace")
        comparison.compare("sealed_value", connector_of(topic_type, key), there.get(key), here.get(key), item=item)
    if topic_type is TopicType.CONFIG and not comparison.differences:
        for one, other in zip(there, here, strict=True):
            if one != other:
                comparison.compare("order", connector_of(topic_type, one), one, other)
                break
    return comparison.differences


def _newest(records: Iterable[Record], transform: KeyTransform) -> dict[bytes, bytes]:
    newest: dict[bytes, bytes] = {}
    for record in records:
        original = transform.original_key(record.key)
        if isinstance(original, SkipReason) or (transform.topic_type is TopicType.CONFIG and original == MARKER[0]):
            continue
        newest.pop(original, None)
        if record.value is not None:
            newest[original] = record.value
    return newest


def compare_states(
    topic_type: TopicType,
    source: Iterable[Record],
    destination: Iterable[Record],
    *,
    cluster_group_id: str | None,
    source_cluster_group_id: str | None = None,
) -> list[StateDifference]:
    """Fold the records of one topic on both sides and compare the states of workers.

    Records may come in any order of partitions, in log order within each; each side is read once.

    Args:
        topic_type: which of the three topics.
        source: records of the source topic, as its worker reads them.
        destination: records of the shared topic, those of other groups included.
        cluster_group_id: the group at the destination; ``None`` for plain keys.
        source_cluster_group_id: the group at the source; ``None`` for plain keys.
    """
    here = None if cluster_group_id is None else ClusterGroupId(cluster_group_id)
    there = None if source_cluster_group_id is None else ClusterGroupId(source_cluster_group_id)
    replay, compare = _RULES[topic_type]
    return compare(replay(source, there), replay(destination, here), cluster_group_id=cluster_group_id)


_RULES: Final[Mapping[TopicType, tuple[Callable[..., Any], Callable[..., list[StateDifference]]]]] = {
    TopicType.CONFIG: (replay_config, compare_config_states),
    TopicType.STATUS: (replay_status, _compare_status_snapshots),
    TopicType.OFFSET: (replay_offsets, _compare_offset_snapshots),
}
