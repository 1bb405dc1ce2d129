"""Random lives of Connect clusters, as the records they leave in the three topics.

A life is a list of small steps, so a failing one shrinks to those that matter. Values are such as Java workers write
them, garbage excepted, which somebody else wrote.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from hypothesis import strategies as st

from connect_share.model.murmur2 import partition_for
from connect_share.model.records import Record, TopicType

# Each is, somewhere, taken for another by a rule that cuts keys at dashes, dots or colons.
NAMES: Final = ("jdbc", "jdbc-0", "jdbc.x", "connector-jdbc", "x.task-jdbc-0", "größe-😀:-1")
GARBAGE: Final = (b"", b"{", b"\xff", b"[]", b'{"properties":null}', b'{"state":"BOGUS"}', b'{"tasks":"2"}', b"7")
DEPTH_MS: Final = 4
"""The range by which timestamps run backwards."""
TASKS: Final = 3

T = TypeVar("T")

Entry = tuple[bytes | None, bytes | None, int]
"""Key, value, timestamp in milliseconds."""


class Draw(Protocol):
    """A way to choose values, inside a strategy or in the middle of a test."""

    def __call__(self, strategy: st.SearchStrategy[T], /) -> T: ...


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass
class Life:
    """The records a cluster has written so far; keys are plain ones."""

    jitter: Iterator[int]
    nulls: Iterator[bool]
    log: dict[TopicType, list[Entry]] = field(default_factory=lambda: {topic_type: [] for topic_type in TopicType})
    now_ms: int = 1_700_000_000_000
    serial: int = 0

    def write(self, topic_type: TopicType, key: str | bytes | None, value: object) -> None:
        self.now_ms += 1
        raw = key.encode() if isinstance(key, str) else key
        encoded = value if value is None or isinstance(value, bytes) else _json(value)
        self.log[topic_type].append((raw, encoded, self.now_ms - next(self.jitter)))

    def _fresh(self) -> str:
        self.serial += 1
        return str(self.serial)

    def removal(self) -> bytes | None:
        """JSON null, as groups on shared topics write it, or a tombstone."""
        return b"null" if next(self.nulls) else None

    def create(self, name: str, _: int) -> None:
        self.write(TopicType.CONFIG, f"connector-{name}", {"properties": {"name": name, "v": self._fresh()}})
        self.write(TopicType.STATUS, f"status-connector-{name}", self._status("RUNNING", 5))

    def tasks(self, name: str, number: int) -> None:
        """Task configs and their commit; a number above ``TASKS`` is a crash before the commit."""
        count = number % (TASKS + 1)
        for task in range(count):
            self.write(TopicType.CONFIG, f"task-{name}-{task}", {"properties": {"t": self._fresh()}})
        if number <= TASKS:
            self.commit(name, count)

    def commit(self, name: str, number: int) -> None:
        self.write(TopicType.CONFIG, f"commit-{name}", {"tasks": number % (TASKS + 1)})

    def target(self, name: str, number: int) -> None:
        state = ("STARTED", "PAUSED", "STOPPED")[number % 3]
        value = {"state": "PAUSED" if state == "STOPPED" else state}
        if number % 2:
            value["state.v2"] = state
        self.write(TopicType.CONFIG, f"target-state-{name}", value)

    def delete(self, name: str, number: int) -> None:
        """Removal as the leader writes it; odd numbers crash between its steps."""
        self.write(TopicType.CONFIG, f"connector-{name}", self.removal())
        if number != 1:
            self.write(TopicType.CONFIG, f"target-state-{name}", self.removal())
        if number != 3:
            self.write(TopicType.STATUS, f"status-connector-{name}", None)
        if number % 2 == 0:
            for task in range(TASKS):
                self.write(TopicType.STATUS, f"status-task-{name}-{task}", None)

    def fencing(self, name: str, number: int) -> None:
        self.write(TopicType.CONFIG, f"tasks-fencing-{name}", {"task-count": number})

    def restart(self, name: str, number: int) -> None:
        value = {"include-tasks": bool(number % 2), "only-failed": False}
        self.write(TopicType.CONFIG, f"restart-connector-{name}", value)

    def session_key(self, _name: str, number: int) -> None:
        value = {"key": "c2VjcmV0", "algorithm": "HmacSHA256", "creation-timestamp": number}
        self.write(TopicType.CONFIG, "session-key", value)

    def level(self, name: str, number: int) -> None:
        self.write(TopicType.CONFIG, f"logger-cluster-{name}", {"level": ("INFO", "DEBUG")[number % 2]})

    def marker(self, _name: str, _number: int) -> None:
        self.write(TopicType.CONFIG, "target-state-", b"null")

    def config_garbage(self, name: str, number: int) -> None:
        kinds = ("connector-{}", "task-{}-0", "commit-{}", "target-state-{}", "tasks-fencing-{}", "task-{}")
        value = GARBAGE[number % len(GARBAGE)]
        self.write(TopicType.CONFIG, kinds[(number + len(name)) % len(kinds)].format(name), value)

    def connector_status(self, name: str, number: int) -> None:
        state = ("RUNNING", "PAUSED", "UNASSIGNED", "FAILED")[number % 4]
        self.write(TopicType.STATUS, f"status-connector-{name}", self._status(state, number))

    def task_status(self, name: str, number: int) -> None:
        state = ("RUNNING", "UNASSIGNED", "FAILED")[number % 3]
        self.write(TopicType.STATUS, f"status-task-{name}-{number % 2}", self._status(state, number))

    def no_task_status(self, name: str, number: int) -> None:
        self.write(TopicType.STATUS, f"status-task-{name}-{number % 2}", None)

    def status_garbage(self, name: str, number: int) -> None:
        kinds = ("status-connector-{}", "status-task-{}-0", "status-topic-t:connector-{}", "status-topic-{}")
        value = GARBAGE[number % len(GARBAGE)]
        self.write(TopicType.STATUS, kinds[(number + len(name)) % len(kinds)].format(name), value)

    def active_topic(self, name: str, number: int) -> None:
        topic = f"t.{number % 2}"
        value = {"topic": {"name": topic, "connector": name, "task": 0, "discoverTimestamp": number}}
        self.write(TopicType.STATUS, f"status-topic-{topic}:connector-{name}", value if number % 3 else None)

    def offset(self, name: str, number: int) -> None:
        key = _json([name, ({"file": "a"}, {"file": "b.c"}, {}, None)[number % 4]])
        self.write(TopicType.OFFSET, key, {"position": int(self._fresh())} if number % 5 else None)

    def offset_garbage(self, name: str, number: int) -> None:
        keys = (b"[", b"[]", _json([name]), _json([name, {"file": "a"}]), b'[1,{"a":1}]')
        self.write(TopicType.OFFSET, keys[number % len(keys)], GARBAGE[number % len(GARBAGE)])

    def foreign(self, name: str, number: int) -> None:
        """Other groups, ids that look like ours with more or less of it, and what no key of Connect is."""
        others = ("g", "g.h.i", "h", "other", "g.h.", ".g.h", "g.hconnector-", "G.h")
        group = others[number % len(others)]
        self.write(TopicType.CONFIG, f"{group}.connector-{name}", {"properties": {"name": name, "v": "foreign"}})
        self.write(TopicType.CONFIG, f"{group}.commit-{name}", {"tasks": 1})
        self.write(TopicType.STATUS, f"{group}.status-connector-{name}", None)
        self.write(TopicType.OFFSET, f"{group}.".encode() + _json([name, {"file": "a"}]), b'{"position":-1}')
        for topic_type in TopicType:
            self.write(topic_type, (b"\xff\x00", b"no key of connect", b"", None)[number % 4], b"x")

    def _status(self, state: str, generation: int) -> dict[str, Any]:
        return {"state": state, "trace": None, "worker_id": f"w:{self._fresh()}", "generation": generation}


STEPS: Final = (
    *("create", "tasks", "target", "delete", "task_status", "offset") * 2,
    *("commit", "fencing", "restart", "session_key", "level", "marker", "config_garbage"),
    *("connector_status", "no_task_status", "status_garbage", "active_topic", "offset_garbage", "foreign"),
)
FOREIGN_STEP: Final = "foreign"


@dataclass(frozen=True)
class History:
    """The whole logs of a cluster: entries in the order they were written; foreign ones carry their own prefix."""

    log: Mapping[TopicType, tuple[tuple[Entry, bool], ...]]

    def records(
        self, topic_type: TopicType, group: str | None, partitions: int, *, topic: str = "source"
    ) -> list[Record]:
        """Lay it out under a group's prefix (``None``: plain keys), each record where a Java producer puts it."""
        prefix = b"" if group is None else group.encode() + b"."
        ends = [0] * partitions
        records = []
        for (key, value, timestamp_ms), own in self.log[topic_type]:
            whole = prefix + (key or b"") if own else key
            number = partition_for(whole or b"", partitions)
            records.append(Record(topic, number, ends[number], timestamp_ms, whole, value))
            ends[number] += 1
        return records


@st.composite
def histories(draw: st.DrawFn, max_steps: int = 30) -> History:
    """One cluster's life, with others in between."""
    some = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    step = st.tuples(st.sampled_from(STEPS), st.sampled_from(some), st.integers(0, 7))
    steps = draw(st.lists(step, min_size=3, max_size=max_steps))
    jitter = draw(st.lists(st.integers(0, DEPTH_MS), min_size=1, max_size=5))
    nulls = draw(st.lists(st.booleans(), min_size=1, max_size=3))
    life = Life(itertools.cycle(jitter), itertools.cycle(nulls))
    log: dict[TopicType, list[tuple[Entry, bool]]] = {topic_type: [] for topic_type in TopicType}
    for name, connector, number in steps:
        getattr(life, name)(connector, number)
        for topic_type, entries in life.log.items():
            log[topic_type] += [(entry, name != FOREIGN_STEP) for entry in entries]
            entries.clear()
    return History({topic_type: tuple(entries) for topic_type, entries in log.items()})


def compacted(draw: Draw, records: Iterable[Record]) -> list[Record]:
    """Drop some of what a cleaner may drop: superseded records, and tombstones with nothing left before them."""
    kept = list(records)
    pressure = draw(st.sampled_from((0, 0, 1, 2, 3)))
    if not pressure:
        return kept
    newest = {(record.partition, record.key): record.offset for record in kept}
    left: list[Record] = []
    held: set[tuple[int, bytes | None]] = set()
    for record in kept:
        at = (record.partition, record.key)
        superseded = newest[at] != record.offset
        alone = record.value is None and at not in held
        if record.key is not None and (superseded or alone) and draw(st.integers(0, 3)) < pressure:
            continue
        held.add(at)
        left.append(record)
    return left


def interleaved(draw: Draw, logs: Sequence[Sequence[Record]]) -> list[Record]:
    """Read several logs at once: order within each is kept, there is none between them."""
    waiting = [list(log) for log in logs if log]
    read = []
    while waiting:
        at = draw(st.integers(0, len(waiting) - 1)) if len(waiting) > 1 else 0
        many = draw(st.integers(1, 4)) if len(waiting) > 1 else len(waiting[0])
        read += waiting[at][:many]
        del waiting[at][:many]
        waiting = [log for log in waiting if log]
    return read


def by_partition(records: Iterable[Record]) -> list[list[Record]]:
    """Cut a topic into the logs of its partitions."""
    logs: dict[int, list[Record]] = {}
    for record in records:
        logs.setdefault(record.partition, []).append(record)
    return [logs[number] for number in sorted(logs)]
