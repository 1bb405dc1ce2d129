"""Who writes in turns on a status topic: one cluster, or two."""

from __future__ import annotations

import time
from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.model.records import Record
from connect_share.model.status import PlainClusterWatch, StatusFold, TwoClusters

A, B, C = ("a:1", 10), ("b:1", 3), ("c:1", 10)
NEXT = ("b:1", 11)


@pytest.mark.parametrize(
    ("turns", "found"),
    [
        ([A, B, A, B], TwoClusters(A, B)),
        ([A, A, B, B, A, C, C, A, B], TwoClusters(A, B)),
        ([A, B, A], None),  # a cluster began to count anew, and the coordinator has both again
        ([B, A, A, ("b:1", 12), ("a:1", 12)], None),
        ([B, A, B, ("a:1", 12), B], None),  # a runtime that always says 3, after and before Java workers
        ([A, C, A, C, A, C], None),  # two workers of one cluster
        ([A, NEXT, A, NEXT], None),  # in the moment of a rebalance
        ([("a:1", 10), ("a:1", 3), ("a:1", 10), ("a:1", 3)], None),  # one worker, whatever it writes
    ],
)
def test_turns(turns: list[tuple[str, int]], found: TwoClusters | None) -> None:
    watch = PlainClusterWatch()
    for worker, generation in turns:
        watch.look(0, worker, generation)
    assert watch.found == found
    apart = PlainClusterWatch()
    for partition, (worker, generation) in enumerate(turns):
        apart.look(partition, worker, generation)  # partitions have no order
    assert apart.found is None


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
