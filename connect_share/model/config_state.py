"""The state a worker has after reading the config topic."""

from __future__ import annotations

import base64
import copy
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Final, Protocol

from connect_share.errors import TaskCountError
from connect_share.model.keys import shown
from connect_share.model.records import ConnectorTaskId

MOST_TASKS: Final = 10_000
"""More tasks of one connector are not acted on: each is at least a thread in a worker, and the largest connectors have
hundreds. Any writer of the topic can write any number, and 2^31 transactional ids fill memory and broker."""


Config = Mapping[str, Any]
"""A configuration as it was read; it is replaced, never changed."""


class ConfigTransformer(Protocol):
    """What replaces references to config providers in snapshots: a ``WorkerConfigTransformer``."""

    def transform(self, properties: Config, *, connector: str | None = None) -> dict[str, Any]:
        """Return properties of a connector with their references replaced."""

    def transform_applied(self, connector: str, properties: Config) -> dict[str, Any]:
        """Return what ``transform`` made of these very properties when it was asked first."""


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


@dataclass(frozen=True, slots=True)
class Moved:
    """What the record says that fences a group where it was moved away; anybody who may write to a plain topic can write it.

    Attributes:
        plan: name of the plan file.
        run_id: of the plan.
        settings: the config topic's own settings before it was fenced, ``None``: a default; empty: the topic was not fenced.
    """

    plan: str
    run_id: str
    settings: Mapping[str, str | None] = field(default_factory=dict)

    @classmethod
    def read(cls, saved: Any) -> Moved | None:
        """Return what was written as JSON; ``None`` for anything else."""
        try:
            settings = {str(name): None if value is None else str(value) for name, value in saved["settings"].items()}
            return cls(str(saved["plan"]), str(saved["run_id"]), settings)
        except (TypeError, KeyError, AttributeError):
            return None


def closed_by(groups: Iterable[Moved | None]) -> str | None:
    """Return the plan that has closed a config topic, if every group there was moved away; given what fences each."""
    fences = [*groups]
    plans = [each.plan for each in fences if each is not None and each.settings]
    return plans[0] if plans and None not in fences else None


def _entries(read: Callable[[Any], Any], write: Callable[[Any], Any] | None = None) -> dict[str, Any]:
    """Return how the entries of a table become plain JSON and are made of it."""
    made = write or (lambda entry: entry)
    return {
        "read": lambda saved: {name: read(entry) for name, entry in saved.items()},
        "write": lambda table: {name: made(entry) for name, entry in table.items()},
    }


_SESSION_KEY: Final[dict[str, Any]] = {
    "read": lambda saved: None if saved is None else SessionKey(base64.b64decode(saved[0]), saved[1], saved[2]),
    "write": lambda key: key and [base64.b64encode(key.key).decode(), key.algorithm, key.creation_timestamp_ms],
}
_NUMBERS: Final = _entries(int)
_STATES: Final = _entries(TargetState, lambda state: state.value)
_CONFIGS: Final = _entries(dict)
_TASK_CONFIGS: Final = _entries(
    lambda saved: {int(task): dict(config) for task, config in saved.items()},
    lambda tasks: {str(task): config for task, config in tasks.items()},
)
_NAMES: Final = {"read": set, "write": sorted}


@dataclass(slots=True, repr=False)
class ConfigTables:
    """The state of a config topic: the fold changes it, a snapshot copies it, a checkpoint holds its members.

    Attributes:
        offset: the group's position: offset of its last record whose value parsed, plus one; -1 before the first.
        newest_own_is_tombstone: the newest own record has no value at all, so compaction may remove it.
        committed: task configurations by number that a commit made valid.
        deferred: those that no commit has made valid yet.
        applied: configurations of connectors for which the current tasks were made.
        pending_fencing: connectors with a commit since their last task count record.
        inconsistent: connectors whose last commit did not find all its task configurations.
        moved: the group was moved away; a checkpoint of before knows nothing of it.
    """

    offset: int = field(default=-1, metadata={"read": int})
    newest_own_is_tombstone: bool = field(default=False, metadata={"read": bool})
    session_key: SessionKey | None = field(default=None, metadata=_SESSION_KEY)
    connectors: dict[str, Config] = field(default_factory=dict, metadata=_CONFIGS)
    committed: dict[str, dict[int, Config]] = field(default_factory=dict, metadata=_TASK_CONFIGS)
    deferred: dict[str, dict[int, Config]] = field(default_factory=dict, metadata=_TASK_CONFIGS)
    task_counts: dict[str, int] = field(default_factory=dict, metadata=_NUMBERS)
    target_states: dict[str, TargetState] = field(default_factory=dict, metadata=_STATES)
    task_count_records: dict[str, int] = field(default_factory=dict, metadata=_NUMBERS)
    generations: dict[str, int] = field(default_factory=dict, metadata=_NUMBERS)
    applied: dict[str, Config] = field(default_factory=dict, metadata=_CONFIGS)
    pending_fencing: set[str] = field(default_factory=set, metadata=_NAMES)
    inconsistent: set[str] = field(default_factory=set, metadata=_NAMES)
    moved: Moved | None = field(
        default=None, metadata={"read": Moved.read, "write": lambda moved: moved and asdict(moved), "optional": True}
    )

    def copy(self) -> ConfigTables:
        """Return what later changes of these tables do not change."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        tables = ConfigTables(**{name: copy.copy(value) for name, value in values})
        tables.committed = {name: dict(tasks) for name, tasks in self.committed.items()}
        tables.deferred = {name: dict(tasks) for name, tasks in self.deferred.items()}
        return tables

    def saved(self) -> dict[str, Any]:
        """Return all of it as plain values for JSON, secrets included.

        Later changes do not change them: configurations are replaced, never altered.
        """
        values = ((each, getattr(self, each.name)) for each in fields(self))
        return {
            each.name: each.metadata["write"](value) if "write" in each.metadata else value for each, value in values
        }

    @classmethod
    def read(cls, saved: Mapping[str, Any]) -> ConfigTables:
        """Return the tables of which :meth:`saved` returned these values."""
        known = [each for each in fields(cls) if each.name in saved or "optional" not in each.metadata]
        return cls(**{each.name: each.metadata["read"](saved[each.name]) for each in known})


class ClusterConfigState:
    """Immutable snapshot of the config topic for one cluster group.

    Configurations are as they were written, unless it came from a store with a config transformer, or of
    :meth:`transformed_by`: then ``connector_config``, ``task_config`` and ``applied_connector_config`` have their references
    to config providers replaced, and raise as ``WorkerConfigTransformer.transform``.

    Equality ignores fencing counts, generations, applied configs and pending fencing, as Java's does; ``repr`` shows
    names and counts only, configs may hold secrets. Source: ``ClusterConfigState``.

    >>> from connect_share import MemoryConfigBackingStore
    >>> store = MemoryConfigBackingStore()
    >>> store.start()
    >>> store.put_connector_config("c", {"name": "c"})
    >>> store.snapshot().connectors()
    frozenset({'c'})
    """

    __slots__ = ("_tables", "_transformer")

    def __init__(self, tables: ConfigTables | None = None, transformer: ConfigTransformer | None = None) -> None:
        self._tables = ConfigTables() if tables is None else tables
        self._transformer = transformer

    def transformed_by(self, transformer: ConfigTransformer | None) -> ClusterConfigState:
        """Return the same state, whose configurations a transformer resolves; with ``None`` all of it is raw."""
        return ClusterConfigState(self._tables, transformer)

    @property
    def offset(self) -> int:
        """The group's position: offset of its last record whose value parsed, plus one; -1 before the first."""
        return self._tables.offset

    @property
    def session_key(self) -> SessionKey | None:
        """Newest session key, ``None`` before the first."""
        return self._tables.session_key

    @property
    def moved(self) -> Moved | None:
        """What fences the group here: it was moved away; ``None``: nothing."""
        return self._tables.moved

    def connectors(self) -> frozenset[str]:
        """Names of all connectors, inconsistent ones included."""
        return frozenset(self._tables.connectors)

    def contains(self, connector: str) -> bool:
        """Return whether the connector is configured."""
        return connector in self._tables.connectors

    def connector_config(self, connector: str) -> dict[str, Any] | None:
        """Configuration of a connector (holds secrets), ``None`` if there is no such connector.

        Values are text where Connect wrote them; a record of another writer may hold anything JSON has.
        """
        return self._transformed(connector, self.raw_connector_config(connector))

    def raw_connector_config(self, connector: str) -> dict[str, Any] | None:
        """Configuration of a connector as it was written, with its references; ``None`` if there is no such connector."""
        config = self._tables.connectors.get(connector)
        return None if config is None else dict(config)

    def task_count(self, connector: str) -> int:
        """Number of tasks of the last commit, 0 if unknown."""
        return self._tables.task_counts.get(connector, 0)

    def tasks(self, connector: str) -> list[ConnectorTaskId]:
        """Ids 0 to count-1; empty for an inconsistent connector or one without a commit."""
        if connector in self._tables.inconsistent:
            return []
        return [ConnectorTaskId(connector, task) for task in range(self.task_count(connector))]

    def task_config(self, task: ConnectorTaskId) -> dict[str, Any] | None:
        """Committed configuration of a task, ``None`` if unknown."""
        return self._transformed(task.connector, self.raw_task_config(task))

    def raw_task_config(self, task: ConnectorTaskId) -> dict[str, Any] | None:
        """Committed configuration of a task as it was written, with its references; ``None`` if unknown."""
        config = self._tables.committed.get(task.connector, {}).get(task.task)
        return None if config is None else dict(config)

    def all_task_configs(self, connector: str) -> dict[ConnectorTaskId, dict[str, Any]]:
        """Every committed task configuration as it was written, those above the current count included."""
        configs = self._tables.committed.get(connector, {})
        return {ConnectorTaskId(connector, task): dict(configs[task]) for task in sorted(configs)}

    def target_state(self, connector: str) -> TargetState | None:
        """State the user wants; may be known before the connector is."""
        return self._tables.target_states.get(connector)

    def target_states(self) -> dict[str, TargetState]:
        """All target states, those of unknown connectors included."""
        return dict(self._tables.target_states)

    def inconsistent_connectors(self) -> frozenset[str]:
        """Connectors whose last commit did not find all its task configs (compaction took some)."""
        return frozenset(self._tables.inconsistent)

    def task_count_record(self, connector: str) -> int | None:
        """Number of tasks to fence before new ones start (exactly-once), ``None`` if never written."""
        return self._tables.task_count_records.get(connector)

    def task_count_records(self) -> dict[str, int]:
        """All task count records."""
        return dict(self._tables.task_count_records)

    def tasks_to_fence(self, connector: str) -> list[ConnectorTaskId]:
        """Return all tasks that may have a producer: of the last commit and of the last task count record.

        Raises:
            TaskCountError: there are more than :data:`MOST_TASKS`; names the records.
        """
        count = max(self.task_count(connector), self.task_count_record(connector) or 0)
        if count > MOST_TASKS:
            raise TaskCountError(
                f"connector {shown(connector)} has {count} tasks by its commit and its tasks-fencing record; more than "
                f"{MOST_TASKS} are not accepted: find out who wrote that; its workers write both anew when the connector is "
                "restarted"
            )
        return [ConnectorTaskId(connector, task) for task in range(count)]

    def task_config_generation(self, connector: str) -> int | None:
        """How often task configs were committed, counted from 0; ``None`` before the first."""
        return self._tables.generations.get(connector)

    def applied_connector_config(self, connector: str) -> dict[str, Any] | None:
        """Configuration for which the current tasks were made."""
        config = self._tables.applied.get(connector)
        if config is None or self._transformer is None:
            return None if config is None else dict(config)
        return self._transformer.transform_applied(connector, config)

    def pending_fencing(self, connector: str) -> bool:
        """Return whether tasks were committed since the last task count record."""
        return connector in self._tables.pending_fencing

    def connectors_pending_fencing(self) -> frozenset[str]:
        """All connectors for which :meth:`pending_fencing` holds."""
        return frozenset(self._tables.pending_fencing)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterConfigState):
            return NotImplemented
        return self._compared() == other._compared()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def _transformed(self, connector: str, config: dict[str, Any] | None) -> dict[str, Any] | None:
        if config is None or self._transformer is None:
            return config
        return self._transformer.transform(config, connector=connector)

    def _compared(self) -> tuple[Any, ...]:
        tables = self._tables
        return (
            tables.offset,
            tables.session_key,
            tables.connectors,
            tables.task_counts,
            tables.committed,
            tables.target_states,
            tables.inconsistent,
        )

    def __repr__(self) -> str:
        key = "none" if self.session_key is None else "[hidden]"
        return (
            f"<ClusterConfigState offset={self.offset} connectors={sorted(self._tables.connectors)} "
            f"tasks={sum(self._tables.task_counts.values())} "
            f"inconsistent={sorted(self._tables.inconsistent)} session_key={key}>"
        )


def task_configs_changed(state: ClusterConfigState, connector: str, task_configs: Sequence[Config]) -> bool:
    """Return whether the tasks of a connector have to be written anew.

    They have if their number or a configuration is another, or if the connector's own configuration is not the one for
    which the current tasks were made. In a state with a transformer that is also so after a secret has changed.

    Args:
        state: what the config topic says.
        connector: its name.
        task_configs: what the connector made now, after ``WorkerConfigTransformer.reverse``.

    Source: ``AbstractHerder.taskConfigsChanged``.

    >>> task_configs_changed(ClusterConfigState(), "c", [{"file": "in.txt"}])
    True
    """
    if len(task_configs) != state.task_count(connector):
        return True
    if any(
        state.raw_task_config(ConnectorTaskId(connector, number)) != dict(config)
        for number, config in enumerate(task_configs)
    ):
        return True
    return state.applied_connector_config(connector) != state.connector_config(connector)
