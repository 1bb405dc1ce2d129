"""Values that no store would have written, where they lie: a worker passes over them, or fails when it uses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from connect_share.checks.check import Check
from connect_share.checks.finding import Finding, Severity, of_group, place
from connect_share.checks.sources import CheckSources, GroupState
from connect_share.console.output import plural
from connect_share.errors import command_line
from connect_share.model.keys import ConfigKey, KeyKind, connector_of, key_text, parse, shown
from connect_share.model.records import TopicType, shown_time
from connect_share.model.writable import fault_of

REPAIRED: Final = (ConfigKey.CONNECTOR, ConfigKey.TASK, ConfigKey.TARGET_STATE)
"""What ``repair values`` writes again; the workers themselves write what else there is."""

_CONFIGURED: Final = (
    "Java workers pass over it, or fail on it: with a property that is no text, REST answers 500 for all connectors of the "
    "group"
)
_WRITE_AGAIN: Final = (
    "stop the workers and write it again: properties as text, else the newest value that can be read, else a removal"
)
_WAIT: Final = "no worker can use it"
_REMEDIES: Final[Mapping[KeyKind, str]] = {
    ConfigKey.COMMIT: "restart the connector, or send its configuration to REST once more: its workers then write it anew",
    ConfigKey.TASK_COUNT: "nothing: the next start of the connector's tasks with exactly-once writes it anew",
    ConfigKey.LOGGER_LEVEL: "nothing: set the level by REST again if it is still wanted",
}


def _of_configs(topic: str, state: GroupState) -> Iterator[Finding]:
    for original, fault in state.config_faults.items():
        record, key = state.kept.history.latest[original], parse(TopicType.CONFIG, original)
        is_repaired = key is not None and key.kind in REPAIRED
        yield Finding(
            "values-config",
            Severity.ERROR if is_repaired else Severity.WARNING,
            f"{place(topic, state.group, connector_of(TopicType.CONFIG, original))}, {record.partition}@{record.offset}",
            f"{shown(key_text(original))}: {fault}; written {shown_time(record.timestamp_ms)}",
            _CONFIGURED if is_repaired else _WAIT,
            _REMEDIES.get(key.kind, _WRITE_AGAIN) if key is not None else _WRITE_AGAIN,
            command_line("connect-share", "repair", "values", "-w", "FILE") if is_repaired else None,
        )


def _of_statuses(topic: str, state: GroupState) -> Iterator[Finding]:
    for original, (record, fault) in state.kept.bad_statuses.items():
        yield Finding(
            "values-status",
            Severity.WARNING,
            f"{place(topic, state.group, connector_of(TopicType.STATUS, original))}, {record.partition}@{record.offset}",
            f"{shown(key_text(original))}: {fault}; written {shown_time(record.timestamp_ms)}",
            "workers pass over it: REST shows an older status, or none",
            "restart the connector or task by REST: its worker writes a new status",
        )


def _of_offsets(topic: str, state: GroupState) -> Iterator[Finding]:
    counts: Counter[tuple[str | None, str]] = Counter()
    for original, value in state.offsets.raw.items():
        fault = fault_of(TopicType.OFFSET, original, value)
        if fault is not None:
            counts[connector_of(TopicType.OFFSET, original), fault] += 1
    for (connector, fault), count in counts.items():
        yield Finding(
            "values-offset",
            Severity.WARNING if connector is None else Severity.ERROR,
            place(topic, state.group, connector),
            f"{plural(count, 'source offset')}: {fault}",
            "a task reads no offset there, and starts its source partition from the beginning",
            "stop the connector, then the workers; give these source partitions an offset (alter offsets), or forget them "
            "(reset offsets)"
            if connector is not None
            else "no connector reads it: it costs its bytes and nothing else",
        )


_FINDERS: Final = ((TopicType.CONFIG, _of_configs), (TopicType.STATUS, _of_statuses), (TopicType.OFFSET, _of_offsets))


def find(topics: Mapping[TopicType, str], state: GroupState) -> Iterator[Finding]:
    """Yield what is found of one group; nothing of topics whose values cannot be opened."""
    for topic_type, of_topic in _FINDERS:
        if topic_type in topics and topic_type not in state.sealed:
            yield from of_topic(topics[topic_type], state)


def _in_groups(sources: CheckSources) -> Iterator[Finding]:
    for state in sources.groups:
        yield from of_group(state.group, find(sources.state.topics, state))


CHECK: Final = Check(
    "values",
    "can workers use what lies in the topics?",
    "Look for values that no worker would have written, such as a number as a property or text that is not JSON: workers "
    "pass over them, or fail on them.",
    _in_groups,
    place=30,
)
