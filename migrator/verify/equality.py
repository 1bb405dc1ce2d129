"""When two states count as equal: what workers would believe is compared, not bytes.

Pure. Both sides are folded with the stores' own replay; a difference names the item and the field, never
a value.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict

from connect_share.connect_json import same
from connect_share.keys import ClusterGroupId
from connect_share.records import Record, TopicType
from connect_share.state import (
    ClusterConfigState,
    OffsetSnapshot,
    StatusSnapshot,
    TargetState,
    replay_config,
    replay_offsets,
    replay_status,
)
from migrator.transform.connector_keys import TopicText, connector_of
from migrator.transform.rules import PLAIN_KEYS

STATUS_FIELDS: Final = ("state", "worker_id", "generation", "trace", "version")


class Mismatch(enum.Enum):
    """How an item differs."""

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


class _Report:
    """Collects differences of one group and topic type."""

    def __init__(self, cluster_group_id: str | None, topic_type: TopicType) -> None:
        self._group = cluster_group_id
        self._topic_type = topic_type
        self.differences: list[StateDifference] = []

    def add(
        self,
        kind: str,
        connector: str | None,
        problem: Mismatch,
        *,
        item: str | None = None,
        field: str | None = None,
    ) -> None:
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

    def compare(
        self,
        kind: str,
        connector: str | None,
        source: object,
        destination: object,
        *,
        item: str | None = None,
        field: str | None = None,
    ) -> bool:
        """Report a difference of one thing that may be absent (``None``); tell whether both have it."""
        if not same(source, destination):
            problem = Mismatch.DIFFERENT
            if destination is None:
                problem = Mismatch.MISSING
            elif source is None:
                problem = Mismatch.UNEXPECTED
            self.add(kind, connector, problem, item=item, field=field)
        return source is not None and destination is not None

    def compare_properties(
        self,
        kind: str,
        connector: str,
        source: Mapping[str, object] | None,
        destination: Mapping[str, object] | None,
        *,
        item: str | None = None,
    ) -> None:
        """Compare configurations property by property; only names are told."""
        if source is None or destination is None:
            self.compare(kind, connector, source, destination, item=item)
            return
        for name in sorted(source.keys() | destination.keys()):
            if name not in destination:
                self.add(kind, connector, Mismatch.MISSING, item=item, field=name)
            elif name not in source:
                self.add(kind, connector, Mismatch.UNEXPECTED, item=item, field=name)
            elif not same(source[name], destination[name]) or type(source[name]) is not type(destination[name]):
                self.add(kind, connector, Mismatch.DIFFERENT, item=item, field=name)


def compare_config_states(
    source: ClusterConfigState, destination: ClusterConfigState, *, cluster_group_id: str | None
) -> list[StateDifference]:
    """Compare connectors, configurations, tasks, target states, task counts and inconsistency.

    Target states and task counts of connectors that are gone count too: they come back with the name.
    Session keys are not compared (they are never carried), nor positions (other topics, other offsets).
    """
    report = _Report(cluster_group_id, TopicType.CONFIG)
    sides = (source, destination)
    names = {name for side in sides for name in (*side.connectors(), *side.target_states(), *side.task_count_records())}
    for name in sorted(names):
        there, here = (name if side.contains(name) else None for side in sides)
        if not report.compare("connector", name, there, here) and (there is not None or here is not None):
            continue
        report.compare_properties(
            "connector_config", name, source.connector_config(name), destination.connector_config(name)
        )
        report.compare("target_state", name, *(_wanted_state(side, name) for side in sides))
        report.compare("task_count_record", name, source.task_count_record(name), destination.task_count_record(name))
        report.compare("task_count", name, source.task_count(name), destination.task_count(name))
        if there is not None:  # nobody asks for the tasks of a connector that is gone
            report.compare("inconsistent", name, *(name in side.inconsistent_connectors() for side in sides))
        for task_id in sorted({*source.tasks(name), *destination.tasks(name)}):
            report.compare_properties(
                "task_config",
                name,
                source.task_config(task_id),
                destination.task_config(task_id),
                item=str(task_id.task),
            )
    return report.differences


def _wanted_state(state: ClusterConfigState, name: str) -> TargetState | None:
    """Give the target state; that of a connector which is gone counts only if somebody has set it.

    Connect takes STARTED with each connector's record; whether a worker still sees that record depends on the cleaner.
    """
    if not name:  # no connector has it, and its key is that of the marker
        return None
    target = state.target_state(name)
    return None if target is TargetState.STARTED and not state.contains(name) else target


def compare_status_snapshots(
    source: StatusSnapshot, destination: StatusSnapshot, *, cluster_group_id: str | None
) -> list[StateDifference]:
    """Compare connector statuses, task statuses and active topics."""
    report = _Report(cluster_group_id, TopicType.STATUS)
    names = {
        name
        for side in (source, destination)
        for name in (*side.connectors(), *side.connectors_with_tasks(), *side.connectors_with_topics())
    }
    for name in sorted(names):
        _compare_status(
            report, "connector_status", name, source.connector_status(name), destination.connector_status(name)
        )
        tasks_there = {status.task_id.task: status for status in source.task_statuses(name)}
        tasks_here = {status.task_id.task: status for status in destination.task_statuses(name)}
        for task in sorted(tasks_there.keys() | tasks_here.keys()):
            _compare_status(report, "task_status", name, tasks_there.get(task), tasks_here.get(task), item=str(task))
        topics_there = {status.topic: status for status in source.topic_statuses(name)}
        topics_here = {status.topic: status for status in destination.topic_statuses(name)}
        for topic in sorted(topics_there.keys() | topics_here.keys()):
            report.compare("active_topic", name, topics_there.get(topic), topics_here.get(topic), item=topic)
    return report.differences


def _compare_status(
    report: _Report,
    kind: str,
    connector: str,
    source: object | None,
    destination: object | None,
    *,
    item: str | None = None,
) -> None:
    if source is None or destination is None:
        report.compare(kind, connector, source, destination, item=item)
        return
    for field in STATUS_FIELDS:
        if getattr(source, field, None) != getattr(destination, field, None):
            report.add(kind, connector, Mismatch.DIFFERENT, item=item, field=field)


def compare_offset_snapshots(
    source: OffsetSnapshot, destination: OffsetSnapshot, *, cluster_group_id: str | None
) -> list[StateDifference]:
    """Compare source offsets by the raw bytes of key and value."""
    report = _Report(cluster_group_id, TopicType.OFFSET)
    there, here = source.raw, destination.raw
    for key in sorted(there.keys() | here.keys()):
        if there.get(key) != here.get(key):
            report.compare(
                "offset",
                connector_of(TopicType.OFFSET, key),
                there.get(key),
                here.get(key),
                item=key.decode("utf-8", errors="backslashreplace"),
            )
    return report.differences


def compare_states(
    topic_type: TopicType,
    source: Iterable[Record],
    destination: Iterable[Record],
    *,
    cluster_group_id: str | None,
    source_cluster_group_id: str | None = None,
) -> list[StateDifference]:
    """Fold the records of one topic on both sides and compare what workers would believe.

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
    if topic_type is TopicType.OFFSET:
        return compare_offset_snapshots(
            replay_offsets(source, there),
            replay_offsets(destination, here),
            cluster_group_id=cluster_group_id,
        )
    if topic_type is TopicType.CONFIG:
        return compare_config_states(
            replay_config(source, there), replay_config(destination, here), cluster_group_id=cluster_group_id
        )
    return compare_status_snapshots(
        replay_status(source, there), replay_status(destination, here), cluster_group_id=cluster_group_id
    )
