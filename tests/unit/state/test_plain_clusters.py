"""Who writes in turns on a status topic: one cluster, or two."""

from __future__ import annotations

import pytest

from connect_share.records import Record
from connect_share.state import StatusFold
from connect_share.state.plain_clusters import PlainClusterWatch, TwoClusters

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
    assert r"workers a\x1b[2J:1 (generation 10) and b:1 (generation 3) take turns" in plain.clusters.found.told("t")
