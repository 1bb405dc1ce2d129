"""The metrics: Strimzi's names with a label for the group, and ``connect_share_*`` for what only shared topics have.

With :mod:`connect_share.exporter.storage_metrics` and :mod:`connect_share.exporter.server` the only modules that import
``prometheus_client``. Source of the names: Strimzi's ``examples/metrics/kafka-connect-metrics.yaml``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from connect_share.console.options import PLAIN, Group
from connect_share.contents.group_room import GroupRoom
from connect_share.exporter.followed_topic import FollowedTopic
from connect_share.exporter.topic_states import FollowedGroup
from connect_share.kafka.create import TopicSpec
from connect_share.model.config_state import ClusterConfigState, TargetState
from connect_share.model.records import TopicType
from connect_share.model.status import State, StatusFold, StatusSnapshot

MOST_CONNECTORS: Final = 10_000
"""Of each of the caller's own groups, and of all others together; each becomes a dozen series."""
MOST_TASKS: Final = 20_000
"""The same of tasks, each with a series of its own."""
_LONGEST_LABEL: Final = 200
_TASK_STATES: Final = (State.RUNNING, State.FAILED, State.PAUSED, State.UNASSIGNED, State.DESTROYED, State.RESTARTING)

Members = Callable[[], Mapping[str, int]]
"""Returns the live members of each Connect group of which they are known."""


def label(value: str) -> str:
    """Return a label's value for one text only: what a co-tenant wrote must not break the whole answer, or fill memory."""
    whole = value.encode("utf-8", "surrogatepass")
    text = value.encode("utf-8", "backslashreplace").decode()
    if len(text) <= _LONGEST_LABEL and text == value:
        return text
    return f"{text[:_LONGEST_LABEL]}~{hashlib.blake2b(whole, digest_size=16).hexdigest()}"


def shares(wanted: Mapping[Any, int], most: int, own: Collection[Any] = ()) -> dict[Any, int]:
    """Return how many each one gets: as many as it wants, or as the others get; ``own`` ones get up to ``most`` each."""
    found = {name: min(count, most) for name, count in wanted.items()}
    others = sorted((name for name in wanted if name not in own), key=wanted.__getitem__)
    for place, name in enumerate(others):
        found[name] = min(found[name], most // (len(others) - place))
        most -= found[name]
    return found


def group_label(group: Group) -> str:
    """Return the label of a group."""
    return PLAIN if group is None else label(group)


_COUNTERS: Final = {
    "connect_share_topic_left_out_records": "Records of groups and keys beyond the exporter's limits",
    "connect_share_topic_unrecognized_records": "Records whose key is none of Connect's",
    "connect_share_group_records": "Records of the group that were read",
    "connect_share_group_bytes": "Keys and values of those records, bytes",
    "connect_share_group_skipped_records": "Records of the group that changed nothing, by reason",
}
_GAUGES: Final = {
    "kafka_connect_up": "1: all topics are read to their end, and the brokers answer",
    "kafka_connect_connectors_count": "Connectors of the group",
    "kafka_connect_worker_connector_count": "Connectors of the group",
    "kafka_connect_worker_task_count": "Tasks of the group",
    "kafka_connect_connector_status": "1 for the state of the connector",
    "kafka_connect_connector_task_status": "1 for the state of the task",
    "kafka_connect_worker_connector_total_task_count": "Tasks of the connector",
    **{
        f"kafka_connect_worker_connector_{state.value.lower()}_task_count": f"Tasks of the connector that are {state.value}"
        for state in _TASK_STATES
    },
    "connect_share_connector_target_state": "1 for the state that was asked for",
    "connect_share_connectors_left_out": "Connectors without series of their own",
    "connect_share_topic_up": "1: read to its end, and the brokers answer",
    "connect_share_topic_lag_records": "Offsets of five seconds ago that the exporter has not read yet",
    "connect_share_group_last_written_timestamp_seconds": "Newest time stamp of the group's records",
    "connect_share_group_sealed": "1: it has sealed values that cannot be opened here",
    "connect_share_group_live_members": "Workers that are members of the group",
    **{
        f"connect_share_group_left_out_{what}": f"Of the {what} of the group those that have no room"
        for what in ("connectors", "tasks", "records")
    },
}


class _Families(dict[str, Any]):
    """Metric families by name, each made with its first sample."""

    def add(self, name: str, value: float, **labels: str) -> None:
        if name not in self:
            kind, texts = (CounterMetricFamily, _COUNTERS) if name in _COUNTERS else (GaugeMetricFamily, _GAUGES)
            self[name] = kind(name, texts[name], labels=list(labels))
        self[name].add_metric(list(labels.values()), value)


class TopicMetrics(Collector):
    """What the followed topics say, anew for each scrape."""

    def __init__(self, topics: Sequence[FollowedTopic], members: Members, room: GroupRoom) -> None:
        self._topics = {topic.spec.topic_type: topic for topic in topics}
        self._members = members
        self._room = room

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        families = _Families()
        groups: dict[Group, dict[TopicType, FollowedGroup]] = {}
        families.add("kafka_connect_up", all(topic.is_up for topic in self._topics.values()))
        for topic_type, topic in self._topics.items():
            _topic(families, topic)
            for state in topic.states.groups():
                groups.setdefault(state.group, {})[topic_type] = state
        groups = {  # those that were removed left their removals on the config topic
            group: states
            for group, states in groups.items()
            if group in self._room.own or TopicType.CONFIG not in states or any(each.living for each in states.values())
        }
        for states in groups.values():
            for topic_type, state in states.items():
                _group_on_topic(families, self._topics[topic_type].spec, state)
        has_status = TopicType.STATUS in self._topics and self._topics[TopicType.STATUS].is_up
        known = ((group, _Connectors.of(group, states, has_status=has_status)) for group, states in groups.items())
        found = {group: each for group, each in known if each is not None}
        connectors = shares({group: len(each.names) for group, each in found.items()}, MOST_CONNECTORS, self._room.own)
        shown = {group: each.first(connectors[group]) for group, each in found.items()}
        tasks = shares({group: sum(map(len, each)) for group, each in shown.items()}, MOST_TASKS, self._room.own)
        for group, each in found.items():
            _group(families, each, shown[group], tasks[group])
        members = self._members()
        for group in groups:
            if group is not None and group in members:
                families.add("connect_share_group_live_members", members[group], group=group_label(group))
        hidden = sum(len(each.names) for each in found.values()) - sum(connectors.values())
        families.add("connect_share_connectors_left_out", hidden)
        left_out = {group: sum(state.left_out for state in states.values()) for group, states in groups.items()}
        for group, records in (left_out | self._room.left_out.copy()).items():
            _left_out(families, group, "records", records)
        yield from families.values()


def _topic(families: _Families, topic: FollowedTopic) -> None:
    labels = {"topic": topic.spec.topic, "type": topic.spec.topic_type.value}
    families.add("connect_share_topic_up", topic.is_up, **labels)
    if topic.lag is not None:  # else what is read first would look as if it had come since
        families.add("connect_share_topic_lag_records", topic.lag, **labels)
        families.add("connect_share_topic_left_out_records", topic.states.left_out, **labels)
        families.add("connect_share_topic_unrecognized_records", topic.states.unrecognized, **labels)


def _group_on_topic(families: _Families, spec: TopicSpec, state: FollowedGroup) -> None:
    labels = {"group": group_label(state.group), "topic": spec.topic, "type": spec.topic_type.value}
    families.add("connect_share_group_records", state.records, **labels)
    families.add("connect_share_group_bytes", state.bytes, **labels)
    if state.last_written_ms is not None:
        families.add("connect_share_group_last_written_timestamp_seconds", state.last_written_ms / 1000, **labels)
    families.add("connect_share_group_sealed", state.is_sealed, **labels)
    for kind, count in state.skipped.items():
        families.add("connect_share_group_skipped_records", count, **labels, reason=kind.value)


class _Connectors:
    """The connectors of one group: what is shown of one is made of so many only, for there may be a million names."""

    def __init__(
        self, group: Group, names: Collection[str], config: ClusterConfigState | None, status: StatusSnapshot | None
    ) -> None:
        self.group = group
        self.names = sorted(names)
        self._config = config
        self._status = status

    @classmethod
    def of(cls, group: Group, states: Mapping[TopicType, FollowedGroup], *, has_status: bool) -> _Connectors | None:
        """Return those of a group; ``None``: they are not known. ``has_status``: the status topic is read."""
        config: ClusterConfigState | None = states[TopicType.CONFIG].state if TopicType.CONFIG in states else None
        status: StatusSnapshot | None = states[TopicType.STATUS].state if TopicType.STATUS in states else None
        if config is None and status is not None:
            return cls(group, status.connectors() | status.connectors_with_tasks(), None, status)
        if has_status and TopicType.STATUS not in states:
            status = StatusFold(group).snapshot()
        return None if config is None else cls(group, config.connectors(), config, status)

    def first(self, most: int) -> list[_ConnectorMetrics]:
        """Return what the first ones do, by name."""
        return [_ConnectorMetrics(self.group, name, self._config, self._status) for name in self.names[:most]]

    def tasks(self) -> int:
        """Return how many tasks all of them have."""
        if self._config is not None:
            return sum(len(self._config.tasks(name)) for name in self.names)
        return 0 if self._status is None else sum(len(self._status.task_statuses(name)) for name in self.names)


def _group(families: _Families, group: _Connectors, shown: Sequence[_ConnectorMetrics], most_tasks: int) -> None:
    """Add what one group's connectors do: of some, and so many series of their tasks."""
    label_of_group, all_tasks = group_label(group.group), group.tasks()
    families.add("kafka_connect_connectors_count", len(group.names), group=label_of_group)
    families.add("kafka_connect_worker_connector_count", len(group.names), group=label_of_group)
    families.add("kafka_connect_worker_task_count", all_tasks, group=label_of_group)
    most = shares({each: len(each) for each in shown}, most_tasks)
    for each in shown:
        each.add_to(families, most[each])
    _left_out(families, group.group, "connectors", len(group.names) - len(shown))
    without_series = sum(map(len, shown)) - sum(most.values())
    _left_out(families, group.group, "tasks", all_tasks - sum(each.tasks for each in shown) + without_series)


def _left_out(families: _Families, group: Group, what: str, count: int) -> None:
    if count:
        families.add(f"connect_share_group_left_out_{what}", count, group=group_label(group))


class _ConnectorMetrics:
    """One connector: its own state, and its tasks by state."""

    def __init__(
        self, group: Group, name: str, config: ClusterConfigState | None, status: StatusSnapshot | None
    ) -> None:
        self._labels = {"group": group_label(group), "connector": label(name)}
        self._status = None if status is None else status.connector_status(name)
        self._target = None if config is None else config.target_state(name) or TargetState.STARTED
        statuses = [] if status is None else status.task_statuses(name)
        known = None if config is None else {task.task for task in config.tasks(name)}
        # A task that was taken away leaves its status behind for a moment.
        self._tasks = [each for each in statuses if known is None or each.task_id.task in known]
        self._silent = 0 if known is None or status is None else len(known) - len(self._tasks)
        self.tasks = len(self._tasks) + self._silent if known is None or status is not None else len(known)

    def __len__(self) -> int:
        return len(self._tasks)

    def add_to(self, families: _Families, most_tasks: int) -> None:
        """Add its metrics, with series of so many tasks."""
        if self._status is not None:
            status = self._status.state.value.lower()
            families.add("kafka_connect_connector_status", 1, **self._labels, status=status)
        if self._target is not None:
            families.add("connect_share_connector_target_state", 1, **self._labels, state=self._target.value.lower())
        for task in self._tasks[:most_tasks]:
            number, status = str(task.task_id.task), task.state.value.lower()
            families.add("kafka_connect_connector_task_status", 1, **self._labels, task=number, status=status)
        by_state = Counter(task.state for task in self._tasks)
        # Java counts a task that no worker has reported yet as unassigned.
        by_state[State.UNASSIGNED] += self._silent
        families.add("kafka_connect_worker_connector_total_task_count", self.tasks, **self._labels)
        for state in _TASK_STATES:
            name = f"kafka_connect_worker_connector_{state.value.lower()}_task_count"
            families.add(name, by_state[state], **self._labels)
