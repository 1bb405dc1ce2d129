"""The status topic: its records as Connect writes them (keys plain; the stores put the prefix), folded into a worker's state.

Two clusters with plain keys on one topic, which run and destroy each other's connectors, are detected from their statuses.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any, ClassVar, Final, TypeVar, assert_never

from connect_share.errors import KeyFormatError, ValueFormatError, command_line
from connect_share.model.connect_json import dumps, loads
from connect_share.model.fold import Fold
from connect_share.model.keys import (
    ClusterGroupId,
    SkipKind,
    StatusKey,
    connector_and_topic,
    is_integer,
    key_text,
    shown,
    status_kind,
    subject_of,
    task_id_of,
    to_int32,
)
from connect_share.model.places import decisive_ms
from connect_share.model.records import ConnectorTaskId, Record, TopicType


class State(enum.Enum):
    """State of a connector or task. Source: ``AbstractStatus.State``."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    """Never written as a value: a tombstone says it."""
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """Status of a connector.

    Attributes:
        worker_id: ``host:port`` of the worker's REST listener.
        generation: of the group when the status was written.
        trace: stack trace of a failure; not shown in ``repr``, it may quote configuration.
        version: of the plugin; workers before 4.1 do not write it.

    Source: ``ConnectorStatus``.
    """

    connector: str
    state: State
    worker_id: str | None
    generation: int
    trace: str | None = field(default=None, repr=False)
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """Status of a task; members as in :class:`ConnectorStatus`. Source: ``TaskStatus``."""

    task_id: ConnectorTaskId
    state: State
    worker_id: str | None
    generation: int
    trace: str | None = field(default=None, repr=False)
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic that a connector uses. Source: ``TopicStatus``.

    Attributes:
        discover_timestamp_ms: milliseconds since the epoch.
    """

    topic: str
    connector: str
    task: int
    discover_timestamp_ms: int


def _status_value(status: ConnectorStatus | TaskStatus) -> bytes:
    value: dict[str, Any] = {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }
    return dumps(value)


def status_record(status: ConnectorStatus | TaskStatus | TopicStatus) -> tuple[bytes, bytes | None]:
    """Return key and value, as Kafka 4.1 and later write them; ``DESTROYED`` gives a tombstone."""
    if isinstance(status, TopicStatus):
        value = {
            "topic": {
                "name": status.topic,
                "connector": status.connector,
                "task": status.task,
                "discoverTimestamp": status.discover_timestamp_ms,
            }
        }
        return StatusKey.topic_key(status.topic, status.connector), dumps(value)
    status_value = None if status.state is State.DESTROYED else _status_value(status)
    if isinstance(status, TaskStatus):
        return StatusKey.TASK.key(status.task_id), status_value
    return StatusKey.CONNECTOR.key(status.connector), status_value


_MOST_TURNS: Final = 64
_LONGEST_ID: Final = 200
"""Characters by which a worker is known: the topic decides how long its id is."""
_CHANGES: Final = 3
_NEXT_TO_EACH_OTHER: Final = 1

Writer = tuple[str, int]
"""A worker and the generation of its group in which it wrote."""


@dataclass(frozen=True, slots=True)
class TwoClusters:
    """Two workers that cannot be of one cluster.

    Attributes:
        first, second: each a worker id and a generation.
    """

    first: Writer
    second: Writer

    def warning(self, topic: str) -> str:
        """Return a warning and what to do; worker ids come from the topic and are escaped."""
        one, other = (f"{ascii(worker)[1:-1]} (generation {number})" for worker, number in (self.first, self.second))
        return (
            f"two Connect clusters with plain keys seem to share topic {topic}: workers {one} and {other} write to it "
            f"alternately. Each runs the other's connectors and overwrites its state; take them apart ({TAKE_APART}), or "
            "give one of them topics of its own"
        )


TAKE_APART: Final = command_line(
    "connect-share-migrate",
    *("plan", "-w", "FILE_OF_ONE", "FILE_OF_OTHER", "--to-worker-config", "NEW_OF_ONE", "NEW_OF_OTHER"),
    *("--assign", "OWNERS", "-o", "PLAN"),
)
"""OWNERS is a file that says whose each connector is."""


@dataclass
class PlainClusterWatch:
    """Detects two clusters from plain statuses in the order of their partition.

    A worker's generation never goes back, and that of all workers of a cluster is the same but for moments: two writers that
    write alternately, twice each, in generations that are not next to each other, belong to two clusters. A cluster that
    begins to count anew, a runtime that follows another and a worker that was cut off do not look so. Time stamps are
    not used. Two clusters whose generations happen to be next to each other are not noticed until that changes.
    """

    found: TwoClusters | None = None
    _turns: dict[int, deque[Writer]] = field(default_factory=dict, repr=False)

    def look(self, partition: int, worker_id: str | None, generation: int) -> None:
        """Consider one status."""
        if worker_id is None or self.found is not None:
            return
        writer = (worker_id[:_LONGEST_ID], generation)
        turns = self._turns.setdefault(partition, deque(maxlen=_MOST_TURNS))
        if turns and turns[-1] == writer:
            return
        turns.append(writer)
        if turns.count(writer) > 1:  # else no worker has written in turns with it
            self.found = _in_turns_with(writer, turns)


def _in_turns_with(writer: Writer, turns: Iterable[Writer]) -> TwoClusters | None:
    """Search the turns once, of which the last is the writer's, for one of another cluster."""
    own = 0
    others: dict[Writer, tuple[int, int]] = {}
    """Of each other writer: how often it and this one changed places, and how often this one had written by then."""
    for turn in turns:
        if turn == writer:
            own += 1
        elif turn[0] != writer[0] and abs(turn[1] - writer[1]) > _NEXT_TO_EACH_OTHER:
            changes, before = others.get(turn, (0, 0))
            if own > before:  # it wrote, this one wrote, and now it writes again
                changes += 2 if turn in others else 1
            others[turn] = (changes, own)
    for other, (changes, _) in others.items():
        if changes + 1 >= _CHANGES:  # this one writes last
            return TwoClusters(other, writer)
    return None


T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_LONGEST_RECENT: Final = 500
_MOST_OUTDATED: Final = 1_000
_STATES: Final = {state.value: state for state in State}


_Status = tuple[State, str | None, int, str | None, str | None]
"""State, worker id, generation, trace, version."""

_Tasks = dict[str, dict[int, tuple[int, TaskStatus]]]
"""Connector, task number, time in milliseconds and status."""


class _Statuses:
    """Statuses of one cluster group."""

    def __init__(
        self,
        connectors: dict[str, ConnectorStatus],
        tasks: _Tasks,
        topics: dict[str, dict[str, TopicStatus]],
    ) -> None:
        self._connectors = connectors
        self._tasks = tasks
        self._topics = topics

    def connectors(self) -> frozenset[str]:
        """Names of connectors that have a status of their own."""
        return frozenset(self._connectors)

    def connectors_with_tasks(self) -> frozenset[str]:
        """Names of connectors of which a task has a status."""
        return frozenset(self._tasks)

    def connectors_with_topics(self) -> frozenset[str]:
        """Names of connectors that have active topics."""
        return frozenset(self._topics)

    def connector_status(self, connector: str) -> ConnectorStatus | None:
        """Status of a connector."""
        return self._connectors.get(connector)

    def task_status(self, task: ConnectorTaskId) -> TaskStatus | None:
        """Status of one task."""
        entry = self._tasks.get(task.connector, {}).get(task.task)
        return None if entry is None else entry[1]

    def task_statuses(self, connector: str) -> list[TaskStatus]:
        """Statuses of a connector's tasks, by task number."""
        statuses = self._tasks.get(connector, {})
        return [statuses[task][1] for task in sorted(statuses)]

    def topics(self, connector: str) -> frozenset[str]:
        """Names of the topics a connector uses."""
        return frozenset(status.topic for status in self._topics.get(connector, {}).values())

    def topic_status(self, connector: str, topic: str) -> TopicStatus | None:
        """An active topic of a connector."""
        return self._topics.get(connector, {}).get(topic)

    def topic_statuses(self, connector: str) -> list[TopicStatus]:
        """Active topics of a connector, by name."""
        statuses = self._topics.get(connector, {})
        return [statuses[topic] for topic in sorted(statuses)]


class StatusSnapshot(_Statuses):
    """Immutable snapshot of the status topic for one cluster group.

    >>> from connect_share import ConnectorStatus, MemoryStatusBackingStore
    >>> store = MemoryStatusBackingStore()
    >>> store.start()
    >>> store.put(ConnectorStatus("c", State.FAILED, "w:8083", 1))
    >>> store.snapshot().connector_status("c").state
    <State.FAILED: 'FAILED'>
    """

    def _compared(self) -> tuple[Any, ...]:
        tasks = {name: {task: status for task, (_, status) in found.items()} for name, found in self._tasks.items()}
        return self._connectors, tasks, self._topics

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StatusSnapshot):
            return NotImplemented
        return self._compared() == other._compared()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        tasks = sum(len(statuses) for statuses in self._tasks.values())
        topics = sum(len(statuses) for statuses in self._topics.values())
        return f"<StatusSnapshot connectors={sorted(self._connectors)} tasks={tasks} topics={topics}>"


class StatusFold(Fold, _Statuses):
    """The statuses of one cluster group after records of the status topic.

    The order *between* partitions does not matter: a connector's tombstone removes those task statuses whose
    time is not later than its own (on sealed topics that of the sealing), whichever is read first; and of a key in several
    partitions :class:`KeyPlaces` says which record counts.

    Attributes:
        clusters: with plain keys: whether they seem to be those of two clusters.

    Source: ``KafkaStatusBackingStore.read``; the rule on order is ours (decision 3).
    """

    topic_type = TopicType.STATUS

    def __init__(self, cluster_group_id: ClusterGroupId | None = None) -> None:
        Fold.__init__(self, cluster_group_id)
        _Statuses.__init__(self, {}, {}, {})
        self.clusters: PlainClusterWatch = PlainClusterWatch()
        self._removed_at_ms: dict[str, int] = {}
        # Of connectors with tasks that outlived a removal: a heap of their times and numbers, some of them outdated.
        self._ages: dict[str, list[tuple[int, int]]] = {}
        self._stale: dict[ConnectorTaskId, tuple[int, TaskStatus]] = {}

    def snapshot(self) -> StatusSnapshot:
        """Return the state after all records so far; later ones do not change it."""
        tasks = {name: dict(statuses) for name, statuses in self._tasks.items()}
        topics = {name: dict(statuses) for name, statuses in self._topics.items()}
        return StatusSnapshot(dict(self._connectors), tasks, topics)

    def saved(self) -> dict[str, Any]:
        """Return the whole state as plain values for JSON; counts of records are left out."""
        return {
            "connectors": {name: _plain(status) for name, status in self._connectors.items()},
            "tasks": [
                [name, task, timestamp_ms, _plain(status)]
                for name, statuses in self._tasks.items()
                for task, (timestamp_ms, status) in statuses.items()
            ],
            "topics": [
                [name, topic, status.topic, status.connector, status.task, status.discover_timestamp_ms]
                for name, topics in self._topics.items()
                for topic, status in topics.items()
            ],
            "removed_at_ms": dict(self._removed_at_ms),
            "outdone": [
                [task.connector, task.task, timestamp_ms, _plain(status)]
                for task, (timestamp_ms, status) in self._stale.items()
            ],
            "places": self.places.saved(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Replace the whole state by what :meth:`saved` returned."""
        self._connectors = {name: ConnectorStatus(name, *_fields(plain)) for name, plain in saved["connectors"].items()}
        self._tasks, self._topics, self._stale, self._ages = {}, {}, {}, {}
        for name, task, timestamp_ms, plain in saved["tasks"]:
            status = TaskStatus(ConnectorTaskId(name, task), *_fields(plain))
            self._tasks.setdefault(name, {})[task] = (timestamp_ms, status)
        for name, key, topic, connector, task, discovered in saved["topics"]:
            self._topics.setdefault(name, {})[key] = TopicStatus(topic, connector, task, discovered)
        self._removed_at_ms = dict(saved["removed_at_ms"])
        for name, task, timestamp_ms, plain in saved["outdone"]:
            of = ConnectorTaskId(name, task)
            self._stale[of] = (timestamp_ms, TaskStatus(of, *_fields(plain)))
        self.places.restore(saved.get("places", {}))

    def apply(self, record: Record) -> None:
        """Apply the next record of its partition."""
        key, prefix = record.key, self._prefix
        kind = status_kind(key, len(prefix)) if key is not None and key.startswith(prefix) else None
        if key is None or kind is None:
            self._pass_over(record)
            return
        try:
            rest = key_text(key[len(prefix) + len(kind.prefix) :])
            match kind:
                case StatusKey.TASK:
                    self._task(rest, record)
                case StatusKey.CONNECTOR:
                    self._connector(rest, record)
                case StatusKey.TOPIC:
                    self._topic(rest, record)
                case _:
                    assert_never(kind)
        except (KeyFormatError, ValueFormatError) as error:
            self.skipped[SkipKind.BAD_KEY if isinstance(error, KeyFormatError) else SkipKind.BAD_VALUE] += 1
            name = shown(key_text(key[len(prefix) :]))
            self._said.warning("Discarding record %s at %s: %s", name, record.place, error)
            return
        self.own_records += 1

    def _connector(self, connector: str, record: Record) -> None:
        if not connector:
            raise KeyFormatError("the key names no connector")
        _, fields = self._counting(record, _status)
        self._connectors.pop(connector, None)
        if fields is not None:
            self._connectors[connector] = ConnectorStatus(connector, *fields)
        if record.value is not None:
            return
        at_ms = decisive_ms(record)
        removed_at_ms = self._removed_at_ms[connector] = max(at_ms, self._removed_at_ms.get(connector, at_ms))
        # Any writer may remove a connector as often as it likes: not all of its tasks are looked at each time.
        ages = self._ages.get(connector)
        if ages is None and connector in self._tasks:
            ages = self._ages[connector] = sorted((at, task) for task, (at, _) in self._tasks[connector].items())
        while ages and ages[0][0] <= removed_at_ms:
            timestamp_ms, number = heappop(ages)
            if self._tasks.get(connector, {}).get(number, (None,))[0] != timestamp_ms:
                continue
            task_id = ConnectorTaskId(connector, number)
            self._drop_task(task_id)
            # The partitions may be read in any order: with the tombstone first, the stale status would have been stored.
            stale = self._stale.pop(task_id, None)
            if stale is not None:
                self._take(*stale)

    def _task(self, rest: str, record: Record) -> None:
        task = task_id_of(rest)
        if task is None:
            raise KeyFormatError("the key holds no task number")
        counts, fields = self._counting(record, _status)
        if fields is None or self.places.kept((record.key or b"")[len(self._prefix) :], record.partition) is not None:
            self._drop_task(task)
            self._stale.pop(task, None)
        if fields is not None and not self._take(decisive_ms(counts), TaskStatus(task, *fields)):
            self.skipped[SkipKind.STALE] += 1

    def _counting(self, record: Record, parse_value: Callable[[bytes], T]) -> tuple[Record, T | None]:
        """Return the record of this one's key that counts now, and its value; ``None``: it removes the key."""
        value = None if record.value is None else parse_value(record.value)  # what cannot be read counts nowhere
        if self.group is None and isinstance(value, tuple):
            self.clusters.look(record.partition, value[1], value[2])
        counts = self.places.take((record.key or b"")[len(self._prefix) :], record, self._value_of, self._kept_as)
        if counts is not record:
            value = None if counts.value is None else parse_value(counts.value)
        return counts, value

    def _kept_as(self, record: Record) -> Record:
        """Return what is kept of a record whose key lies in several partitions: in its own, a task's may be outdone."""
        old = self.places.kept((record.key or b"")[len(self._prefix) :], record.partition)
        is_task = (record.key or b"").startswith(StatusKey.TASK.prefix, len(self._prefix))
        if not is_task or record.value is None or old is None or old.value is None:
            return record
        (state, _, generation, *_), (before, _, generation_before, *_) = _status(record.value), _status(old.value)
        return replace(record, value=old.value) if _is_outdone(state, generation, before, generation_before) else record

    def _value_of(self, original: bytes) -> bytes | None:
        subject = subject_of(TopicType.STATUS, original)
        if subject is None:
            return None
        connector, kind, member = subject
        if kind is StatusKey.TOPIC:
            topic = self.topic_status(connector, str(member))
            return None if topic is None else status_record(topic)[1]
        task = ConnectorTaskId(connector, int(member or 0))
        status = self.connector_status(connector) if kind is StatusKey.CONNECTOR else self.task_status(task)
        return None if status is None else _status_value(status)  # DESTROYED, too: workers never write it

    def _take(self, timestamp_ms: int, status: TaskStatus) -> bool:
        """Store a task's status and return ``True``, unless it is stale."""
        task = status.task_id
        known = self.task_status(task)
        if known is not None and _is_outdone(status.state, status.generation, known.state, known.generation):
            # Stored after all if the RUNNING status is removed by a record that another order puts before it.
            self._stale[task] = (timestamp_ms, status)
            return False
        if self._stale:
            self._stale.pop(task, None)
        if timestamp_ms <= self._removed_at_ms.get(task.connector, timestamp_ms - 1):
            self._drop_task(task)
            return False
        tasks = self._tasks.setdefault(task.connector, {})
        tasks[task.task] = (timestamp_ms, status)
        if (ages := self._ages.get(task.connector)) is not None:
            heappush(ages, (timestamp_ms, task.task))
            if len(ages) > 2 * len(tasks) + _MOST_OUTDATED:
                del self._ages[task.connector]  # the next removal makes it anew
        return True

    def _drop_task(self, task: ConnectorTaskId) -> None:
        _drop(self._tasks, task.connector, task.task)
        if task.connector not in self._tasks:
            self._ages.pop(task.connector, None)

    def _topic(self, rest: str, record: Record) -> None:
        connector, topic = connector_and_topic(rest) or ("", "")
        if not topic or not connector:
            raise KeyFormatError("the key does not name a topic and a connector")
        _, status = self._counting(record, _topic_status)
        if status is None:
            _drop(self._topics, connector, topic)
        else:
            self._topics.setdefault(connector, {})[topic] = status


def _drop(table: dict[str, dict[K, V]], name: str, key: K) -> None:
    """Forget an entry, and its connector with the last one: names come and go."""
    entries = table.get(name)
    if entries is not None:
        entries.pop(key, None)
        if not entries:
            del table[name]


def _plain(status: ConnectorStatus | TaskStatus) -> list[Any]:
    return [status.state.value, status.worker_id, status.generation, status.trace, status.version]


def _fields(plain: list[Any]) -> _Status:
    state, worker_id, generation, trace, version = plain
    return State(state), worker_id, generation, trace, version


def _status(value: bytes) -> _Status:
    """Take a status apart; connectors and tasks that a worker starts together have the same, to the byte."""
    return _recent_status(value) if len(value) <= _LONGEST_RECENT else _parse_status(value)


def status_in(value: bytes) -> tuple[State, str | None, int] | None:
    """Return state, worker and generation in the value of a connector's or task's status; ``None``: it is none."""
    try:
        return _status(value)[:3]
    except ValueFormatError:
        return None


def _parse_status(data: bytes) -> _Status:
    value = loads(data)
    if not isinstance(value, dict):
        raise ValueFormatError("the value is not an object")
    state = _STATES.get(value["state"]) if isinstance(value.get("state"), str) else None
    if state is None:
        raise ValueFormatError("'state' is not a known state")
    generation = value.get("generation")
    if not is_integer(generation):
        raise ValueFormatError("'generation' is not an integer")
    texts = []
    for name in ("worker_id", "trace", "version"):
        text = value.get(name)
        if text is not None and not isinstance(text, str):
            raise ValueFormatError(f"{name!r} is not a string")
        texts.append(text)
    return state, texts[0], to_int32(generation), texts[1], texts[2]


_recent_status = lru_cache(maxsize=128)(_parse_status)


def _is_outdone(state: State, generation: int, before: State, generation_before: int) -> bool:
    """Return whether a task's status does not replace the one before it in its partition."""
    return state is State.UNASSIGNED and before is State.RUNNING and generation_before >= generation


def _topic_status(data: bytes) -> TopicStatus:
    value = loads(data)
    topic = value.get("topic") if isinstance(value, dict) else None
    if not isinstance(topic, dict):
        raise ValueFormatError("'topic' is not an object")
    name, connector = topic.get("name"), topic.get("connector")
    task, discovered = topic.get("task"), topic.get("discoverTimestamp")
    if not isinstance(name, str) or not isinstance(connector, str):
        raise ValueFormatError("'name' or 'connector' is not a string")
    if not is_integer(task) or not is_integer(discovered):
        raise ValueFormatError("'task' or 'discoverTimestamp' is not an integer")
    return TopicStatus(name, connector, to_int32(task), discovered)
