"""What a worker believes after reading the config topic."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from connect_share.errors import TaskCountError
from connect_share.records import ConnectorTaskId
from connect_share.state.names import shown

MOST_TASKS: Final = 10_000
"""More tasks of one connector are not acted on: each is at least a thread in a worker, and the largest connectors have
hundreds. Whoever may write to the topic can write any number, and 2^31 transactional ids fill memory and broker."""


class TargetState(enum.Enum):
    """State the user wants a connector to be in. Source: ``TargetState``."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Secret with which workers of one group sign requests to each other.

    Attributes:
        key: the secret; never shown.
        algorithm: such as ``HmacSHA256``.
        creation_timestamp_ms: milliseconds since the epoch.
    """

    key: bytes = field(repr=False)
    algorithm: str
    creation_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """Request to restart a connector and perhaps its tasks. Source: ``RestartRequest``."""

    connector: str
    only_failed: bool = False
    include_tasks: bool = False


class Properties(dict[str, Any]):
    """A configuration as it was read; snapshots share it, so it refuses to be changed."""

    __slots__ = ()

    def _refuse(self, *_arguments: object, **_named: object) -> NoReturn:
        raise TypeError("a snapshot never changes; change a copy: dict(properties)")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __repr__(self) -> str:
        """Show names only: values may be secrets, and where a snapshot is shown these are, too."""
        return f"<Properties {sorted(self)}>"

    def __reduce__(self) -> tuple[type[Properties], tuple[dict[str, Any]]]:
        return Properties, (dict(self),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterConfigState:
    """Immutable snapshot of the config topic for one cluster group.

    Use the methods; the other fields are the copies they answer from and must not be changed.

    Attributes:
        offset: the group's position: offset of its last record whose value parsed, plus one; -1 before the first.
        session_key: newest session key, ``None`` before the first.

    Equality ignores fencing counts, generations, applied configs and pending fencing, as Java's does; ``repr`` shows
    names and counts only, configs may hold secrets. Source: ``ClusterConfigState``.
    """

    offset: int = -1
    session_key: SessionKey | None = None
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    task_counts: Mapping[str, int] = field(default_factory=dict)
    task_configs: Mapping[str, Mapping[int, Mapping[str, Any]]] = field(default_factory=dict)
    states: Mapping[str, TargetState] = field(default_factory=dict)
    fencing_counts: Mapping[str, int] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    applied_configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fencing_pending: frozenset[str] = frozenset()
    inconsistent: frozenset[str] = frozenset()

    def connectors(self) -> frozenset[str]:
        """Names of all connectors, inconsistent ones included."""
        return frozenset(self.configs)

    def contains(self, connector: str) -> bool:
        """Tell whether the connector is configured."""
        return connector in self.configs

    def connector_config(self, connector: str) -> dict[str, Any] | None:
        """Configuration of a connector (holds secrets), ``None`` if there is no such connector.

        Values are text where Connect wrote them; a record of another writer may hold anything JSON has.
        """
        config = self.configs.get(connector)
        return None if config is None else dict(config)

    def task_count(self, connector: str) -> int:
        """Number of tasks of the last commit, 0 if unknown."""
        return self.task_counts.get(connector, 0)

    def tasks(self, connector: str) -> list[ConnectorTaskId]:
        """Ids 0 to count-1; empty for an inconsistent connector or one without a commit."""
        if connector in self.inconsistent:
            return []
        return [ConnectorTaskId(connector, task) for task in range(self.task_count(connector))]

    def task_config(self, task: ConnectorTaskId) -> dict[str, Any] | None:
        """Committed configuration of a task, ``None`` if unknown."""
        config = self.task_configs.get(task.connector, {}).get(task.task)
        return None if config is None else dict(config)

    def all_task_configs(self, connector: str) -> dict[ConnectorTaskId, dict[str, Any]]:
        """Every committed task configuration, those above the current count included."""
        configs = self.task_configs.get(connector, {})
        return {ConnectorTaskId(connector, task): dict(configs[task]) for task in sorted(configs)}

    def target_state(self, connector: str) -> TargetState | None:
        """State the user wants; may be known before the connector is."""
        return self.states.get(connector)

    def target_states(self) -> dict[str, TargetState]:
        """All target states, those of unknown connectors included."""
        return dict(self.states)

    def inconsistent_connectors(self) -> frozenset[str]:
        """Connectors whose last commit did not find all its task configs (compaction took some)."""
        return self.inconsistent

    def task_count_record(self, connector: str) -> int | None:
        """Number of tasks to fence before new ones start (exactly-once), ``None`` if never written."""
        return self.fencing_counts.get(connector)

    def task_count_records(self) -> dict[str, int]:
        """All task count records."""
        return dict(self.fencing_counts)

    def tasks_to_fence(self, connector: str) -> list[ConnectorTaskId]:
        """Return all tasks that may have a producer: of the last commit and of the last task count record.

        Raises:
            TaskCountError: there are more than :data:`MOST_TASKS`; names the records.
        """
        count = max(self.task_count(connector), self.task_count_record(connector) or 0)
        if count > MOST_TASKS:
            raise TaskCountError(
                f"connector {shown(connector)} has {count} tasks by its commit and its tasks-fencing record; more than "
                f"{MOST_TASKS} are not believed: find out who wrote that; its workers write both anew when the connector is "
                "restarted"
            )
        return [ConnectorTaskId(connector, task) for task in range(count)]

    def task_config_generation(self, connector: str) -> int | None:
        """How often task configs were committed, counted from 0; ``None`` before the first."""
        return self.generations.get(connector)

    def applied_connector_config(self, connector: str) -> dict[str, Any] | None:
        """Configuration for which the current tasks were made."""
        config = self.applied_configs.get(connector)
        return None if config is None else dict(config)

    def pending_fencing(self, connector: str) -> bool:
        """Tell whether tasks were committed since the last task count record."""
        return connector in self.fencing_pending

    def connectors_pending_fencing(self) -> frozenset[str]:
        """All connectors for which :meth:`pending_fencing` holds."""
        return self.fencing_pending

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterConfigState):
            return NotImplemented
        return self._compared() == other._compared()

    __hash__ = None  # type: ignore[assignment]

    def _compared(self) -> tuple[Any, ...]:
        return (
            self.offset,
            self.session_key,
            self.configs,
            self.task_counts,
            self.task_configs,
            self.states,
            self.inconsistent,
        )

    def __repr__(self) -> str:
        key = "none" if self.session_key is None else "[hidden]"
        return (
            f"<ClusterConfigState offset={self.offset} connectors={sorted(self.configs)} "
            f"tasks={sum(self.task_counts.values())} inconsistent={sorted(self.inconsistent)} session_key={key}>"
        )
