"""Comparisons of a cluster before and after its Java workers came back on the shared topics, and the broker's disk.

Differences are named without values: neither configurations nor offsets nor lines leave this module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from connect_share.model.keys import split_key
from connect_share.model.records import Record, TopicType
from tests.lab.demo.result import DataAgain, SegmentSearch, SharedTopic
from tests.lab.demo.views import ClusterView, GroupComparison, compare_views, states_alone

Place = tuple[Literal["data topic", "file of sink"], str]

DataState = Mapping[Place, Sequence[bytes | None]]
"""What connectors have moved so far: values of data topics (one partition each), and lines of sinks' files."""


def compare_restart(cluster_group_id: str, before: ClusterView, again: ClusterView, worker_id: str) -> GroupComparison:
    """Compare what REST said before the move with what it says on the shared topics.

    Statuses are written anew by the worker that runs now, so their states are compared, and who wrote them.
    """
    return compare_views(cluster_group_id, states_alone(before, worker_id), states_alone(again))


def compare_data(
    before: DataState, started: DataState, at_end: DataState, appended: Mapping[Place, bytes]
) -> tuple[DataAgain, ...]:
    """Check that nothing was read twice, and that each line arrived exactly once: the old content is there, then the line.

    Args:
        before: when the workers were gone.
        started: when they were back.
        at_end: when they had been stopped again.
        appended: the line that has to arrive at a place, without its end.
    """
    found = []
    for place, old in before.items():
        kind, name = place
        wanted, since = appended.get(place), at_end[place][len(old) :]
        hits = 0 if wanted is None else since.count(wanted)
        differences = [] if started[place] == old else ["changed by the start"]
        if at_end[place][: len(old)] != old:
            differences.append("what was in it before is not in it any more")
        if wanted is not None and hits != 1:
            differences.append(f"the appended line arrived {hits} times")
        if others := len(since) - hits:
            differences.append(f"{others} lines that nobody appended")
        found.append(
            DataAgain(
                kind=kind,
                name=name,
                before=len(old),
                after_start=len(started[place]),
                at_end=len(at_end[place]),
                lines_appended=int(wanted is not None),
                lines_arrived=hits,
                differences=tuple(differences),
            )
        )
    return tuple(found)


def count_plain_keys(topic: str, topic_type: TopicType, records: Iterable[Record]) -> SharedTopic:
    """Return the number of records of a shared topic, and of those whose key carries no group's prefix."""
    number = plain = 0
    for record in records:
        number += 1
        parts = None if record.key is None else split_key(topic_type, record.key)
        plain += parts is None or parts[0] is None
    return SharedTopic(topic=topic, records=number, plain_keys=plain)


def search_segments(data_folder: Path, topics: Collection[str], text: bytes) -> SegmentSearch:
    """Return how many segment files of topics there are, and how many of them hold a text; none may be compressed."""
    found = [
        text in segment.read_bytes()
        for partition in data_folder.iterdir()
        if partition.name.rpartition("-")[0] in topics
        for segment in partition.glob("*.log")
    ]
    return SegmentSearch(files=len(found), with_text=sum(found))
