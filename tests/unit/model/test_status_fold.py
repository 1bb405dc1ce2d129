"""The status topic's rules, case by case. Numbers are those of the list in docs/testing.md."""

from __future__ import annotations

import time
from collections import deque
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connect_share.model.keys import ClusterGroupId, SkipKind
from connect_share.model.records import ConnectorTaskId, Record
from connect_share.model.status import (
    ConnectorStatus,
    PlainClusterWatch,
    State,
    StatusFold,
    TaskStatus,
    TopicStatus,
    TwoClusters,
    status_record,
)
from connect_share.replay import replay_status
from tests.support.records import logged, value_of

TASK = ConnectorTaskId("foo", 0)


def record(key: str, value: Any, *, at: int = 0, partition: int = 0, offset: int = 0) -> Record:
    return Record("status", partition, offset, at, key.encode(), value_of(value))


def status(state: str, generation: int, worker: str = "w1:8083") -> dict[str, Any]:
    return {"state": state, "trace": None, "worker_id": worker, "generation": generation}


TOPIC = {"topic": {"name": "tp", "connector": "foo", "task": 0, "discoverTimestamp": 1_729_798_381_000}}


@pytest.mark.parametrize(
    "key",
    [
        *("status-unknown", "status-connector-", "status-task-", "status-task-foo-source-#"),
        *("status-topic-", "status-topic-:connector-", "status-topic-foo:", "status-topic-foo:connector-"),
    ],
)
def test_case_42_bad_keys_are_discarded(key: str) -> None:
    fold = StatusFold()
    fold.apply(record(key, status("RUNNING", 1)))
    assert fold.snapshot() == StatusFold().snapshot()
    assert fold.skipped[SkipKind.BAD_KEY] == 1


@pytest.mark.parametrize(
    "value",
    [
        *(b"invalid", b"", b"null", []),
        status("running", 1),
        {**status("RUNNING", 1), "trace": 1},
        *({**status("RUNNING", 1), "generation": other} for other in (1.0, "1", True)),
        {"trace": None, "worker_id": "w", "generation": 1},
    ],
)
@pytest.mark.parametrize("key", ["status-connector-foo", "status-task-foo-0"])
def test_case_43_bad_values_are_discarded(key: str, value: Any) -> None:
    fold = StatusFold()
    fold.apply(record(key, status("RUNNING", 7)))
    fold.apply(record(key, value, at=1))
    seen = fold.connector_status("foo") or fold.task_status(TASK)
    assert getattr(seen, "generation", None) == 7
    assert fold.skipped[SkipKind.BAD_VALUE] == 1


@pytest.mark.parametrize(
    ("key", "connector", "topic"),
    [
        ("status-topic-server1.inv.x:connector-my.conn", "my.conn", "server1.inv.x"),
        ("status-topic-tp:connector-with:colon", "with:colon", "tp"),
        ("status-topic-foo:xxxxxxxxxxbar", "bar", "foo"),
    ],
)
def test_topic_keys_are_cut_at_the_first_colon(key: str, connector: str, topic: str) -> None:
    fold = StatusFold()
    fold.apply(record(key, TOPIC))
    assert fold.topic_status(connector, topic) == TopicStatus("tp", "foo", 0, 1_729_798_381_000)  # of the value


@pytest.mark.parametrize(
    "value", [{"topic": 1}, {"topic": {**TOPIC["topic"], "task": "0"}}, {"topic": {"name": "tp"}}, {}, b"null"]
)
def test_bad_topic_values_are_discarded(value: Any) -> None:
    assert replay_status([record("status-topic-tp:connector-foo", value)]).topics("foo") == frozenset()


def test_a_missing_worker_id_is_accepted() -> None:
    found = replay_status([record("status-connector-foo", {"state": "RUNNING", "generation": 1})])
    assert found.connector_status("foo") == ConnectorStatus("foo", State.RUNNING, None, 1)


def test_foreign_keys_are_counted_and_their_values_not_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    fold = StatusFold(ClusterGroupId("G"))
    for key in ("B.status-connector-foo", "status-connector-foo", "garbage", ""):
        fold.apply(record(key, b"\xff{"))
    fold.apply(Record("status", 0, 9, 0, None, b"x"))
    fold.apply(record("G.status-connector-foo", status("RUNNING", 1)))
    assert fold.skipped == {SkipKind.FOREIGN: 5}
    assert fold.snapshot().connectors() == {"foo"}
    assert logged(caplog) == []


def test_written_statuses_have_five_members_in_order() -> None:
    assert status_record(ConnectorStatus("foo", State.FAILED, "w:1", 9, "t\n", "4.3.1")) == (
        b"status-connector-foo",
        b'{"state":"FAILED","trace":"t\\n","worker_id":"w:1","generation":9,"version":"4.3.1"}',
    )
    assert status_record(TaskStatus(TASK, State.RUNNING, "w:1", 9)) == (
        b"status-task-foo-0",
        b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":9,"version":null}',
    )
    assert status_record(TaskStatus(TASK, State.DESTROYED, "w:1", 9)) == (b"status-task-foo-0", None)
    assert status_record(TopicStatus("tp", "foo", 0, 1_729_798_381_000)) == (
        b"status-topic-tp:connector-foo",
        b'{"topic":{"name":"tp","connector":"foo","task":0,"discoverTimestamp":1729798381000}}',
    )


def task_after(steps: list[tuple[str, int, int]]) -> tuple[str, int] | None:
    """The rule where all is known beforehand: nothing counts that is not later than a tombstone of the connector."""
    removed_at = max((at for step, _, at in steps if step == "T"), default=-1)
    task: tuple[str, int] | None = None
    for step, generation, at in steps:
        if step == "t":
            task = None
        elif step == "R" or (step == "U" and (task is None or task[0] == "UNASSIGNED" or task[1] < generation)):
            task = (STATES[step], generation) if at > removed_at else None
    return task


STATES = {"R": "RUNNING", "U": "UNASSIGNED"}


@example([("R", 3, 5), ("U", 1, 9), ("T", 1, 7)])
@given(st.lists(st.tuples(st.sampled_from("RRUUUtT"), st.integers(1, 3), st.integers(1, 9)), max_size=12))
def test_of_what_was_outdone_the_newest_is_enough_in_any_order_of_partitions(steps: list[tuple[str, int, int]]) -> None:
    """Cases 39 and 40: a task goes from worker to worker; and it, its connector, or both are removed."""
    fold, log = StatusFold(), []
    for number, (step, generation, at) in enumerate(steps, 1):
        value = status(STATES[step], generation) if step in STATES else None
        key = "status-connector-foo" if step == "T" else "status-task-foo-0"
        log.append(record(key, value, at=at, partition=int(step == "T")))
        fold.apply(log[-1])
        seen = fold.task_status(TASK)
        assert (seen and (seen.state.value, seen.generation)) == task_after(steps[:number])
        restored = StatusFold()
        restored.restore(fold.saved())
        assert restored.saved() == fold.saved()
        assert len(fold.saved()["outdone"]) <= (seen is not None)  # what is removed is not kept
    assert fold.skipped.keys() <= {SkipKind.STALE}
    for first in (0, 1):
        other_order = sorted(log, key=lambda each: each.partition != first)
        assert replay_status(other_order).task_status(TASK) == fold.task_status(TASK)


def test_not_all_tasks_are_looked_at_each_time_their_connector_is_removed() -> None:
    fold = StatusFold()
    for at in range(10, 60):
        fold.apply(record(f"status-task-foo-{at}", status("RUNNING", 1), at=at))
    fold.apply(record("status-connector-foo", None, at=10))
    outlived = fold._ages["foo"]
    fold.apply(record("status-connector-foo", None, at=49))
    assert fold._ages["foo"] is outlived
    assert [each.task_id.task for each in fold.task_statuses("foo")] == [*range(50, 60)]
    for _ in range(5_000):  # what is outdated is not kept for ever, either
        fold.apply(record("status-task-foo-59", status("RUNNING", 1), at=90))
    fold.apply(record("status-connector-foo", None, at=89))
    assert ([each.task_id.task for each in fold.task_statuses("foo")], len(fold._ages["foo"])) == ([59], 1)


def test_only_plain_statuses_count_and_worker_ids_are_escaped() -> None:
    plain, shared = StatusFold(), StatusFold(None)
    value = '{"state":"RUNNING","trace":null,"worker_id":"%s","generation":%d}'
    writers = [("a\x1b[2J:1", 10), ("b:1", 3)] * 2
    for offset, (worker, generation) in enumerate(writers):
        text = (value % (worker.replace("\x1b", "\\u001b"), generation)).encode()
        plain.apply(Record("t", 0, offset, 0, b"status-task-x-%d" % (offset % 2), text))
        shared.apply(Record("t", 0, offset, 0, b"group.status-connector-x", text))
    assert shared.clusters.found is None
    assert plain.clusters.found is not None
    assert (
        r"workers a\x1b[2J:1 (generation 10) and b:1 (generation 3) write to it alternately"
        in plain.clusters.found.warning("t")
    )


class SlowWatch(PlainClusterWatch):
    """The rule as it is written down: with each other writer of the window, count how often the two took turns."""

    def look(self, partition: int, worker_id: str | None, generation: int) -> None:
        if worker_id is None or self.found is not None:
            return
        writer = (worker_id, generation)
        turns = self._turns.setdefault(partition, deque(maxlen=64))
        if turns and turns[-1] == writer:
            return
        turns.append(writer)
        for other in set(turns):
            theirs = [each for each in turns if each in (writer, other)]
            apart = other[0] != worker_id and abs(other[1] - generation) > 1
            if apart and sum(one != two for one, two in pairwise(theirs)) >= 3:
                self.found = TwoClusters(other, writer)


writers = st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 4))


@given(st.lists(st.tuples(st.integers(0, 1), writers), max_size=150))
@example([(0, writer) for writer in (("a", 1), ("b", 2)) * 3])  # as when a group rebalances
def test_turns_are_found_as_the_rule_says(seen: list[tuple[int, tuple[str, int]]]) -> None:
    quick, slow = PlainClusterWatch(), SlowWatch()
    for partition, writer in seen:
        quick.look(partition, *writer)
        slow.look(partition, *writer)
        assert (quick.found is None) == (slow.found is None)
    if quick.found is not None and slow.found is not None:
        assert quick.found.second == slow.found.second


def test_writers_that_change_all_the_time_cost_next_to_nothing() -> None:
    """Seconds are generous: it takes a tenth, and took a minute."""
    watch = PlainClusterWatch()
    began = time.process_time()
    for number in range(40_000):
        watch.look(0, f"w:{number % 60}", number // 60 % 2)
    watch.look(0, "x" * 1_000_000, 7)
    assert time.process_time() - began < 5
    assert watch.found is None
    assert max(len(worker) for worker, _ in watch._turns[0]) <= 200
