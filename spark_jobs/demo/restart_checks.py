"""What has to hold when a cluster's Java workers are back on the shared topics; pure comparisons.

Differences are named without values: neither configurations nor offsets nor lines leave this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connect_share.keys import split_key
from connect_share.records import Record, TopicType
from spark_jobs.demo.clusters import Connector
from spark_jobs.demo.result import ConnectorAgain, FileAgain, SharedTopic, TopicAgain
from spark_jobs.demo.views import ClusterView, ConnectorView, StatusView, line_of, view_differences

# What a plain worker says of each record that it cannot place.
_ABOUT_FOREIGN: Final = re.compile(
    r"^\[[^\]]*\] (?:WARN|ERROR|FATAL) .*?"
    r"(?:discarding|ignoring offset partition|ignoring task configuration|invalid key|invalid data for)",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True, repr=False)
class DataState:
    """What connectors have moved so far.

    Attributes:
        ends: data topics (one partition each) to the number of their records.
        files: sink connectors to what is in their file, nothing if there is none.
    """

    ends: Mapping[str, int]
    files: Mapping[str, bytes]


def compare_restart(before: ClusterView, again: ClusterView, worker_id: str) -> tuple[ConnectorAgain, ...]:
    """Compare what REST said before the move with what it says on the shared topics.

    Statuses are written anew by the worker that runs now, so their states are compared, and who wrote them is checked.
    """
    return tuple(
        ConnectorAgain(
            connector=name,
            before=line_of(before.get(name)),
            again=line_of(again.get(name)),
            differences=(
                *view_differences(before.get(name), again.get(name), ("REST before", "REST again"), ("state",)),
                *_old_statuses(again.get(name), worker_id),
            ),
        )
        for name in sorted(before.keys() | again.keys())
    )


def _old_statuses(connector: ConnectorView | None, worker_id: str) -> list[str]:
    if connector is None:
        return []
    statuses: list[tuple[str, StatusView | None]] = [("connector status", connector.status)]
    statuses += [(f"status of task {task}", status) for task, status in sorted(connector.tasks.items())]
    return [
        f"{what} not written by the worker that runs"
        for what, status in statuses
        if status is not None and status.worker_id != worker_id
    ]


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
    lines = []
    for topic in sorted(before.ends):
        wanted = appended.get(topic)
        values = arrived.get(topic, ())
        hits = 0 if wanted is None else sum(value == wanted for value in values)
        differences = []
        if started.ends[topic] != before.ends[topic]:
            differences.append(f"{started.ends[topic] - before.ends[topic]} records written by the start")
        if wanted is not None and hits != 1:
            differences.append(f"the appended line arrived {hits} times")
        if others := len(values) - hits:
            differences.append(f"{others} records that nobody appended")
        lines.append(
            TopicAgain(
                topic=topic,
                records_before=before.ends[topic],
                records_after_start=started.ends[topic],
                records_at_end=at_end.ends[topic],
                lines_appended=0 if wanted is None else 1,
                lines_arrived=hits,
                differences=tuple(differences),
            )
        )
    return tuple(lines)


def compare_files(
    connectors: Iterable[Connector],
    before: DataState,
    started: DataState,
    at_end: DataState,
    appended: Mapping[str, bytes],
) -> tuple[FileAgain, ...]:
    """Check that sinks went on where they were: what was there is there, then the appended line, once, if it runs."""
    lines = []
    for connector in connectors:
        if connector.name not in before.files:
            continue
        old, new = before.files[connector.name], at_end.files[connector.name]
        wanted = appended.get(connector.topic) if connector.fate == "runs" else None
        differences = []
        if started.files[connector.name] != old:
            differences.append("changed by the start")
        if not new.startswith(old):
            differences.append("what was in it before is not in it any more")
        since = new[len(old) :].splitlines()
        hits = 0 if wanted is None else since.count(wanted)
        if wanted is not None and hits != 1:
            differences.append(f"the appended line is in it {hits} times")
        if others := len(since) - hits:
            differences.append(f"{others} lines that nobody appended")
        lines.append(
            FileAgain(
                connector=connector.name,
                lines_before=old.count(b"\n"),
                lines_at_end=new.count(b"\n"),
                lines_appended=0 if wanted is None else 1,
                lines_arrived=hits,
                differences=tuple(differences),
            )
        )
    return tuple(lines)


def foreign_log_lines(log: str) -> int:
    """Count the warnings and errors of a worker's log that speak of records it cannot place."""
    return len(_ABOUT_FOREIGN.findall(log))


def count_plain_keys(topic: str, topic_type: TopicType, records: Iterable[Record]) -> SharedTopic:
    """Count the records of a shared topic, and those whose key carries no group's prefix."""
    number = plain = 0
    for record in records:
        number += 1
        parts = None if record.key is None else split_key(topic_type, record.key)
        plain += parts is None or parts[0] is None
    return SharedTopic(topic=topic, records=number, plain_keys=plain)
