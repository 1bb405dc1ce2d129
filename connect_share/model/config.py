"""The config topic: its records as Connect writes them (keys plain; stores put the prefix), folded into a worker's state."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, assert_never

from connect_share.errors import ValueFormatError
from connect_share.model.config_state import (
    ClusterConfigState,
    Config,
    ConfigTables,
    Moved,
    RestartRequest,
    SessionKey,
    TargetState,
)
from connect_share.model.connect_json import JSON_NULL, dumps, loads, member
from connect_share.model.fold import Fold
from connect_share.model.keys import (
    MARKER,
    ClusterGroupId,
    ConfigKey,
    SkipKind,
    config_kind,
    is_integer,
    key_text,
    shown,
    split_key,
    task_id_of,
    to_int32,
)
from connect_share.model.records import ConnectorTaskId, Record, TopicType


def connector_config_record(connector: str, config: Mapping[str, str | None]) -> tuple[bytes, bytes]:
    """Return key and value of a connector's configuration, properties in the mapping's order."""
    return ConfigKey.CONNECTOR.key(connector), dumps({"properties": config})


def task_config_record(task: ConnectorTaskId, config: Mapping[str, str | None]) -> tuple[bytes, bytes]:
    """Return key and value of a task's configuration; workers do not use it before the commit."""
    return ConfigKey.TASK.key(task), dumps({"properties": config})


def task_commit_record(connector: str, tasks: int) -> tuple[bytes, bytes]:
    """Return key and value of the commit of task configurations 0 to ``tasks`` - 1."""
    return ConfigKey.COMMIT.key(connector), dumps({"tasks": tasks})


def target_state_record(connector: str, state: TargetState) -> tuple[bytes, bytes]:
    """Return key and value of a target state; workers that do not know STOPPED read PAUSED."""
    legacy = TargetState.PAUSED if state is TargetState.STOPPED else state
    return ConfigKey.TARGET_STATE.key(connector), dumps({"state": legacy.value, "state.v2": state.value})


MOVED: Final = "moved"


def moved_record(moved: Moved) -> tuple[bytes, bytes]:
    """Return key and value of the record that fences a group that was moved away; :data:`~.keys.MARKER` lifts the fence.

    Workers without the jar, and readers of before, take it for the target state of a connector that there never is.
    """
    state = {"state": TargetState.PAUSED.value, "state.v2": TargetState.STOPPED.value}
    return MARKER[0], dumps({**state, MOVED: asdict(moved)})


def moved_in(value: bytes | None) -> Moved | None:
    """Return what fences a group, from the value of such a record; ``None``: it is another one."""
    try:
        parsed = loads(value)
    except ValueFormatError:
        return None
    return Moved.read(parsed.get(MOVED)) if isinstance(parsed, dict) else None


def task_count_record(connector: str, tasks: int) -> tuple[bytes, bytes]:
    """Return key and value of a task count (fencing of exactly-once source tasks)."""
    return ConfigKey.TASK_COUNT.key(connector), dumps({"task-count": tasks})


_log = logging.getLogger(__name__)

_TARGET_STATES: Final = {state.value: state for state in TargetState}


@dataclass(frozen=True, slots=True)
class ConnectorConfigUpdated:
    """A connector's configuration was written."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorConfigRemoved:
    """A connector was removed."""

    connector: str


@dataclass(frozen=True, slots=True)
class TaskConfigsUpdated:
    """Task configurations of a connector were committed; no tasks when it has none, or the commit was incomplete."""

    tasks: tuple[ConnectorTaskId, ...]
    connector: str = ""


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """A connector is to be started, paused or stopped."""

    connector: str


@dataclass(frozen=True, slots=True)
class SessionKeyUpdated:
    """The leader has written a new session key."""

    session_key: SessionKey


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """A restart was requested."""

    request: RestartRequest


@dataclass(frozen=True, slots=True)
class LoggerLevelUpdated:
    """The level of a logger changes in the whole cluster."""

    namespace: str
    level: str


ConfigEvent = (
    ConnectorConfigUpdated
    | ConnectorConfigRemoved
    | TaskConfigsUpdated
    | TargetStateChanged
    | SessionKeyUpdated
    | RestartRequested
    | LoggerLevelUpdated
)


def _decode_base64(text: str) -> bytes:
    """Decode as Java's basic decoder does: standard alphabet, padding optional."""
    if "=" not in text:
        text += "=" * (-len(text) % 4)
    elif len(text) % 4 or text.endswith("==="):
        raise ValueFormatError("'key' is not base64")  # Python overlooks padding behind a whole unit
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ValueFormatError("'key' is not base64") from exc


class ConfigFold(Fold):
    """The state of one cluster group after records of the config topic.

    With a ``cluster_group_id`` only records under its prefix count; everything else is foreign, is recognised by its key
    alone and does not move the position (decision 2). Without one, the fold behaves as an unmodified worker: every
    record moves the position unless its value cannot be parsed (values under a foreign prefix are not looked at).

    Source: ``KafkaConfigBackingStore.ConsumeCallback``.
    """

    topic_type = TopicType.CONFIG
    unknown_key_level = logging.ERROR

    def __init__(self, cluster_group_id: ClusterGroupId | None = None) -> None:
        super().__init__(cluster_group_id)
        self._tables = ConfigTables()

    @property
    def offset(self) -> int:
        """The group's position: offset of its last record whose value parsed, plus one; -1 before the first."""
        return self._tables.offset

    @property
    def newest_own_is_tombstone(self) -> bool:
        """Whether the newest own record has no value at all, so that compaction may remove it."""
        return self._tables.newest_own_is_tombstone

    def snapshot(self) -> ClusterConfigState:
        """Return the state after all records so far; later ones do not change it."""
        return ClusterConfigState(self._tables.copy())

    def contains(self, connector: str) -> bool:
        """Return whether a connector of this name is configured."""
        return connector in self._tables.connectors

    def saved(self) -> dict[str, Any]:
        """Return the whole state as plain values for JSON, secrets included; counts of records are left out."""
        return self._tables.saved()

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Replace the whole state by what :meth:`saved` returned."""
        self._tables = ConfigTables.read(saved)

    def living_keys(self) -> Iterator[bytes]:
        """Yield the keys, without the prefix, whose values are in the state; no target state that may be a default."""
        tables = self._tables
        yield from map(ConfigKey.CONNECTOR.key, tables.connectors)
        yield from map(ConfigKey.COMMIT.key, tables.task_counts)
        yield from map(ConfigKey.TASK_COUNT.key, tables.task_count_records)
        for connector, state in tables.target_states.items():
            if state is not TargetState.STARTED:
                yield ConfigKey.TARGET_STATE.key(connector)
        for connector in {*tables.committed, *tables.deferred}:
            for task in {*tables.committed.get(connector, ()), *tables.deferred.get(connector, ())}:
                yield ConfigKey.TASK.key(ConnectorTaskId(connector, task))
        if tables.session_key is not None:
            yield ConfigKey.SESSION_KEY.key("")

    def apply(self, record: Record) -> list[ConfigEvent]:
        """Apply the next record, and return the events for listeners, in order."""
        key, prefix = record.key, self._prefix
        kind = config_kind(key, len(prefix)) if key is not None and key.startswith(prefix) else None
        if key is None or kind is None:
            self._pass_over(record)
            return []
        try:
            value = loads(record.value)
        except ValueFormatError as error:
            self._bad(record, key[len(prefix) :], str(error))
            return []
        self._tables.offset = record.offset + 1
        self.own_records += 1
        self._tables.newest_own_is_tombstone = record.value is None
        events: list[ConfigEvent] = []
        try:
            rest = key_text(key[len(prefix) + len(kind.prefix) :])
            match kind:
                case ConfigKey.TASK:
                    self._task(rest, value)
                case ConfigKey.CONNECTOR:
                    self._connector(rest, value, events)
                case ConfigKey.COMMIT:
                    self._commit(rest, value, events)
                case ConfigKey.TARGET_STATE:
                    self._target_state(rest, value, events)
                case ConfigKey.TASK_COUNT:
                    self._task_count(rest, value)
                case ConfigKey.SESSION_KEY:
                    self._distributed_key(value, events)
                case ConfigKey.RESTART:
                    self._restart(rest, value, events)
                case ConfigKey.LOGGER_LEVEL:
                    self._logger(rest, value, events)
                case _:
                    assert_never(kind)
        except ValueFormatError as error:
            self._bad(record, key[len(prefix) :], str(error))
        return events

    def _pass_over(self, record: Record) -> None:
        """Count a record whose key is not one of this group's; as with an unmodified worker it moves the position."""
        key = record.key
        if self.group is None and key is not None:
            try:
                if split_key(TopicType.CONFIG, key) is None:
                    loads(record.value)
            except ValueFormatError as error:
                self._bad(record, key, str(error))
                return
            self._tables.offset = record.offset + 1
        super()._pass_over(record)

    def _bad(self, record: Record, key: bytes, reason: str) -> None:
        self.skipped[SkipKind.BAD_VALUE] += 1
        # Connect itself removes connectors and target states only; other keys are removed by tools, on purpose.
        level = logging.DEBUG if record.value in {None, JSON_NULL} else logging.ERROR
        self._said.log(level, "Discarding record %s at %s: %s", shown(key_text(key)), record.place, reason)

    def _forget(self, connector: str) -> None:
        tables = self._tables
        for states in (tables.connectors, tables.task_counts, tables.committed, tables.deferred, tables.applied):
            states.pop(connector, None)

    def _connector(self, connector: str, value: Any, events: list[ConfigEvent]) -> None:
        if value is None:
            _log.info("Connector %s was removed", shown(connector))
            # Target state, task count record, generation and the fencing and inconsistency marks stay, as in Java.
            self._forget(connector)
            events.append(ConnectorConfigRemoved(connector))
            return
        self._tables.connectors[connector] = _properties(value)
        self._tables.target_states.setdefault(connector, TargetState.STARTED)
        events.append(ConnectorConfigUpdated(connector))

    def _task(self, rest: str, value: Any) -> None:
        task = task_id_of(rest)
        if task is None:
            raise ValueFormatError("the key holds no task number")
        self._tables.deferred.setdefault(task.connector, {})[task.task] = _properties(value)

    def _commit(self, connector: str, value: Any, events: list[ConfigEvent]) -> None:
        if connector not in self._tables.connectors:
            # A late commit, or what compaction left of a removed connector.
            _log.debug("Ignoring the commit of task configs of unknown connector %s", shown(connector))
            self._forget(connector)
            self.skipped[SkipKind.UNKNOWN_CONNECTOR] += 1
            return
        count = _integer_member(value, "tasks")
        deferred = self._tables.deferred.get(connector)
        updated: tuple[ConnectorTaskId, ...] = ()
        if all(task in (deferred or {}) for task in range(count)):
            if deferred is not None:
                self._tables.committed.setdefault(connector, {}).update(deferred)
                self._tables.generations[connector] = self._tables.generations.get(connector, -1) + 1
                updated = tuple(ConnectorTaskId(connector, task) for task in sorted(deferred))
            self._tables.inconsistent.discard(connector)
            self._tables.applied[connector] = self._tables.connectors[connector]
        else:
            _log.debug("Connector %s has no complete set of task configs", shown(connector))
            self._tables.inconsistent.add(connector)
        if deferred is not None:
            deferred.clear()
        self._tables.task_counts[connector] = count
        self._tables.pending_fencing.add(connector)
        events.append(TaskConfigsUpdated(updated, connector))

    def _target_state(self, connector: str, value: Any, events: list[ConfigEvent]) -> None:
        if not connector:
            self._tables.moved = Moved.read(value.get(MOVED)) if isinstance(value, dict) else None
            if self._tables.moved is not None:
                return
        if value is None:
            self._tables.target_states.pop(connector, None)
            if connector in self._tables.connectors:
                self._tables.target_states[connector] = TargetState.STARTED
            return
        word = member(value, "state.v2")
        if word is not None and not isinstance(word, str):
            self._said.error("'state.v2' of the target state of connector %s is not a string", shown(connector))
        state = target_state_in(value)
        if state is None:
            raise ValueFormatError("'state' is not a target state")
        previous = self._tables.target_states.get(connector)
        self._tables.target_states[connector] = state
        if state is not previous and connector in self._tables.connectors:
            events.append(TargetStateChanged(connector))

    def _restart(self, connector: str, value: Any, events: list[ConfigEvent]) -> None:
        flags = {}
        for name in ("only-failed", "include-tasks"):
            flag = member(value, name)
            if not isinstance(flag, bool):
                self._said.warning(
                    "%r of the restart request for connector %s is not a boolean, taken as false",
                    name,
                    shown(connector),
                )
                flag = False
            flags[name] = flag
        request = RestartRequest(connector, flags["only-failed"], flags["include-tasks"])
        events.append(RestartRequested(request))

    def _task_count(self, connector: str, value: Any) -> None:
        self._tables.task_count_records[connector] = _integer_member(value, "task-count")
        self._tables.pending_fencing.discard(connector)

    def _logger(self, namespace: str, value: Any, events: list[ConfigEvent]) -> None:
        level = member(value, "level")
        if not isinstance(level, str):
            raise ValueFormatError("'level' is not a string")
        events.append(LoggerLevelUpdated(namespace, level))

    def _distributed_key(self, value: Any, events: list[ConfigEvent]) -> None:
        key, algorithm, created = (member(value, name) for name in ("key", "algorithm", "creation-timestamp"))
        if not isinstance(key, str) or not isinstance(algorithm, str) or not is_integer(created):
            raise ValueFormatError("'key', 'algorithm' or 'creation-timestamp' is missing or of the wrong type")
        secret = _decode_base64(key)
        if not secret:
            raise ValueFormatError("'key' is empty")
        self._tables.session_key = SessionKey(secret, algorithm, created)
        events.append(SessionKeyUpdated(self._tables.session_key))


def target_state_in(value: Any) -> TargetState | None:
    """Return the target state in the parsed value of its record; ``None``: there is none that is known."""
    if not isinstance(value, dict):
        return None
    word = value.get("state.v2")
    if not isinstance(word, str):
        word = value.get("state")
    return _TARGET_STATES.get(word) if isinstance(word, str) else None


def _properties(value: Any) -> Config:
    properties = member(value, "properties")
    if not isinstance(properties, dict):
        raise ValueFormatError("'properties' is not an object")
    return properties


def _integer_member(value: Any, name: str) -> int:
    number = member(value, name)
    if not is_integer(number):
        raise ValueFormatError(f"{name!r} is not an integer")
    return to_int32(number)
