"""Comparisons of a cluster before and after its Java workers came back on the shared topics, and the broker's disk.

Differences are named without values: neither configurations nor offsets nor lines leave this module.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from connect_share.model.keys import split_key
from connect_share.model.records import Record, TopicType
from tests.lab.demo.clusters import Connector
from tests.lab.demo.result import ConnectorAgain, FileAgain, SegmentSearch, SharedTopic, TopicAgain
from tests.lab.demo.views import ClusterView, ConnectorView, StatusView, compared

# What a plain worker says of each record that it cannot place.
_ABOUT_FOREIGN: Final = re.compile(
    r"^\[[^\]]*\] (?:WARN|ERROR|FATAL) .*?"
    r"(?:discarding|ignoring offset partition|ignoring task configuration|invalid key|invalid data for)",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True, repr=False)
class DataState:
    """The data that connectors have moved so far.

    Attributes:
        ends: data topics (one partition each) to the number of their records.
        files: sink connectors to what is in their file, nothing if there is none.
    """

    ends: Mapping[str, int]
    files: Mapping[str, bytes]


def compare_restart(before: ClusterView, again: ClusterView, worker_id: str) -> tuple[ConnectorAgain, ...]:
    """Compare what REST said before the move with what it says on the shared topics.

    Statuses are written anew by the worker that runs now, so their states are compared, and who wrote them.
    """
    wanted = {name: _written_by(worker_id, connector) for name, connector in before.items()}
    lines = compared(wanted, again, ("REST before", "REST again"), ("state", "worker_id"))
    return tuple(
        ConnectorAgain(connector=name, before=there, again=here, differences=differences)
        for name, there, here, differences in lines
    )


def _written_by(worker_id: str, connector: ConnectorView) -> ConnectorView:
    """Return a connector whose statuses are those of another worker."""

    def written(status: StatusView | None) -> StatusView | None:
        return None if status is None else replace(status, worker_id=worker_id)

    tasks = {task: written(status) for task, status in connector.tasks.items()}
    return replace(connector, status=written(connector.status), tasks=tasks)


def compare_topics(
    before: DataState,
    started: DataState,
    at_end: DataState,
    appended: Mapping[str, bytes],
    arrived: Mapping[str, Sequence[bytes | None]],
) -> tuple[TopicAgain, ...]:
    """Check that nothing was read twice, and that each line arrived exactly once.

    Args:
        before: when the workers were gone.
        started: when they were back.
        at_end: when they had been stopped again.
        appended: data topics to the line appended to the file of their source, without its end.
        arrived: data topics to the values of the records since ``before``.
    """
    found = []
    for topic, old_end in sorted(before.ends.items()):
        wanted = appended.get(topic)
        arrived_lines, differences = _count_appended(arrived.get(topic, ()), wanted, "records")
        if started.ends[topic] != old_end:
            differences.insert(0, f"{started.ends[topic] - old_end} records written by the start")
        found.append(
            TopicAgain(
                topic=topic,
                records_before=old_end,
                records_after_start=started.ends[topic],
                records_at_end=at_end.ends[topic],
                lines_appended=int(wanted is not None),
                lines_arrived=arrived_lines,
                differences=tuple(differences),
            )
        )
    return tuple(found)


def _count_appended(since: Sequence[bytes | None], wanted: bytes | None, unit: str) -> tuple[int, list[str]]:
    """Return how often the appended line is among what is new, and what is wrong about that."""
    hits = 0 if wanted is None else since.count(wanted)
    differences = [] if wanted is None or hits == 1 else [f"the appended line arrived {hits} times"]
    if others := len(since) - hits:
        differences.append(f"{others} {unit} that nobody appended")
    return hits, differences


def compare_files(
    connectors: Iterable[Connector],
    before: DataState,
    started: DataState,
    at_end: DataState,
    appended: Mapping[str, bytes],
) -> tuple[FileAgain, ...]:
    """Check that sinks continue where they were: the old content is there, then the appended line, once, if it runs."""
    found = []
    for connector in connectors:
        if connector.name not in before.files:
            continue
        old, new = before.files[connector.name], at_end.files[connector.name]
        wanted = appended.get(connector.topic) if connector.fate == "runs" else None
        arrived_lines, differences = _count_appended(new[len(old) :].splitlines(), wanted, "lines")
        if not new.startswith(old):
            differences.insert(0, "what was in it before is not in it any more")
        if started.files[connector.name] != old:
            differences.insert(0, "changed by the start")
        found.append(
            FileAgain(
                connector=connector.name,
                lines_before=old.count(b"\n"),
                lines_at_end=new.count(b"\n"),
                lines_appended=int(wanted is not None),
                lines_arrived=arrived_lines,
                differences=tuple(differences),
            )
        )
    return tuple(found)


def foreign_log_lines(log: str) -> int:
    """Return the number of warnings and errors of a worker's log that speak of records it cannot place."""
    return len(_ABOUT_FOREIGN.findall(log))


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
