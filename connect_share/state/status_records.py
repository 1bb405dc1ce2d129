"""Statuses of connectors, tasks and active topics, and their records (keys plain; the stores put the prefix)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from connect_share.connect_json import dumps
from connect_share.keys import StatusKey
from connect_share.records import ConnectorTaskId


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


def _status_value(status: ConnectorStatus | TaskStatus) -> bytes | None:
    if status.state is State.DESTROYED:
        return None
    value: dict[str, Any] = {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }
    return dumps(value)


def connector_status_record(status: ConnectorStatus) -> tuple[bytes, bytes | None]:
    """Return key and value, five members as Kafka 4.1 and later write them; ``DESTROYED`` gives a tombstone."""
    return StatusKey.CONNECTOR.key(status.connector), _status_value(status)


def task_status_record(status: TaskStatus) -> tuple[bytes, bytes | None]:
    """Return key and value, five members as Kafka 4.1 and later write them; ``DESTROYED`` gives a tombstone."""
    return StatusKey.TASK.key(status.task_id), _status_value(status)


def topic_status_record(status: TopicStatus) -> tuple[bytes, bytes]:
    """Return key and value of an active topic."""
    value = {
        "topic": {
            "name": status.topic,
            "connector": status.connector,
            "task": status.task,
            "discoverTimestamp": status.discover_timestamp_ms,
        }
    }
    return StatusKey.topic_key(status.topic, status.connector), dumps(value)
