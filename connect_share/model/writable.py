"""The records that stores write, made of values that Java can read back; anything else is refused before it is sent.

Connect's own store puts each value into a ``Struct``, which checks it against the record's schema. The records of
:mod:`connect_share.model.config` and ``status_records`` are made of what they are given, for code that copies
what lies in a topic already.

Each function raises ``ValueFormatError``; it names connector and member, never the value.

Source: the schemas of ``KafkaConfigBackingStore`` and ``KafkaStatusBackingStore``; for names of new connectors
``NonEmptyStringWithoutISOControl``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from connect_share.errors import ValueFormatError
from connect_share.model import config as config_records
from connect_share.model import status as status_records
from connect_share.model.config_state import RestartRequest, SessionKey, TargetState
from connect_share.model.connect_json import INT64, dumps, loads, member
from connect_share.model.keys import (
    INT32_MAX,
    ConfigKey,
    Key,
    KeyKind,
    OffsetKey,
    StatusKey,
    has_control_character,
    is_integer,
    parse,
    shown,
)
from connect_share.model.offsets import parse_offset_key, validate_offset_map
from connect_share.model.records import ConnectorTaskId, TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus, TopicStatus

Pair = tuple[bytes, bytes]
"""Key, without prefix, and value."""


def connector_config_record(connector: str, properties: Mapping[str, str | None]) -> Pair:
    """Return key and value of a connector's configuration."""
    require_connector_name(connector)
    _require_properties(f"the configuration of connector {shown(connector)}", properties)
    return config_records.connector_config_record(connector, properties)


def task_config_records(connector: str, configs: Iterable[Mapping[str, str | None]]) -> list[Pair]:
    """Return keys and values of the configurations of tasks 0, 1 and so on."""
    require_name(connector)
    if isinstance(configs, (str, bytes, Mapping)) or not isinstance(configs, Iterable):
        raise ValueFormatError(
            f"the task configurations of connector {shown(connector)} have to be a list, not {_kind(configs)}"
        )
    records = []
    for number, properties in enumerate(configs):
        _require_properties(f"the configuration of task {number} of connector {shown(connector)}", properties)
        records.append(config_records.task_config_record(ConnectorTaskId(connector, number), properties))
    return records


def target_state_record(connector: str, state: TargetState) -> Pair:
    """Return key and value of a target state."""
    require_name(connector)
    _require_kind(state, TargetState, f"the target state of connector {shown(connector)}")
    return config_records.target_state_record(connector, state)


def removal_keys(connector: str) -> tuple[bytes, bytes]:
    """Return the keys under which a connector is removed: its configuration and its target state."""
    require_name(connector)
    return ConfigKey.CONNECTOR.key(connector), ConfigKey.TARGET_STATE.key(connector)


def task_count_record(connector: str, tasks: int) -> Pair:
    """Return key and value of a task count."""
    require_name(connector)
    _require_count(tasks, f"the task count of connector {shown(connector)}")
    return config_records.task_count_record(connector, tasks)


def session_key_record(session_key: SessionKey) -> Pair:
    """Return key and value of a session key (a secret)."""
    _require_kind(session_key, SessionKey, "the session key")
    _require_kind(session_key.key, bytes, "'key' of the session key")
    if not session_key.key:
        raise ValueFormatError("'key' of the session key is empty")
    _require_text(session_key.algorithm, "'algorithm' of the session key")
    _require_time(session_key.creation_timestamp_ms, "'creation_timestamp_ms' of the session key")
    value = {
        "key": base64.b64encode(session_key.key).decode("ascii"),
        "algorithm": session_key.algorithm,
        "creation-timestamp": session_key.creation_timestamp_ms,
    }
    return ConfigKey.SESSION_KEY.prefix, dumps(value)


def restart_request_record(request: RestartRequest) -> Pair:
    """Return key and value of a restart request."""
    _require_kind(request, RestartRequest, "a restart request")
    require_name(request.connector)
    for name, flag in (("only_failed", request.only_failed), ("include_tasks", request.include_tasks)):
        _require_kind(flag, bool, f"{name!r} of the restart request for connector {shown(request.connector)}")
    value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return ConfigKey.RESTART.key(request.connector), dumps(value)


def logger_level_record(namespace: str, level: str) -> Pair:
    """Return key and value of a cluster-wide log level."""
    _require_text(namespace, "the name of a logger")
    _require_text(level, f"the level of logger {shown(namespace)}")
    return ConfigKey.LOGGER_LEVEL.key(namespace), dumps({"level": level})


def status_record(status: ConnectorStatus | TaskStatus | TopicStatus) -> tuple[bytes, bytes | None]:
    """Return key and value of any status; ``DESTROYED`` gives a tombstone."""
    if isinstance(status, TopicStatus):
        topic_key(status.connector, status.topic)
        what = f"of topic {shown(status.topic)} of connector {shown(status.connector)}"
        _require_count(status.task, f"'task' {what}")
        _require_time(status.discover_timestamp_ms, f"'discover_timestamp_ms' {what}")
        return status_records.status_record(status)
    if not isinstance(status, (ConnectorStatus, TaskStatus)):
        raise ValueFormatError(f"a status cannot be {_kind(status)}")
    if isinstance(status, TaskStatus):
        _require_kind(status.task_id, ConnectorTaskId, "'task_id' of a status")
        require_name(status.task_id.connector)
        what = f"of the status of a task of connector {shown(status.task_id.connector)}"
        _require_count(status.task_id.task, f"'task' {what}")
    else:
        require_name(status.connector)
        what = f"of the status of connector {shown(status.connector)}"
    _require_kind(status.state, State, f"'state' {what}")
    if status.worker_id is None:
        raise ValueFormatError("a status without worker_id cannot be written; readers ask whose it is")
    if not is_integer(status.generation) or not -INT32_MAX - 1 <= status.generation <= INT32_MAX:
        raise ValueFormatError(f"'generation' {what} has to be an integer of 32 bits, not {_kind(status.generation)}")
    for name in ("worker_id", "trace", "version"):
        text = getattr(status, name)
        if text is not None:
            _require_kind(text, str, f"{name!r} {what}")
    return status_records.status_record(status)


def topic_key(connector: str, topic: str) -> bytes:
    """Return the key of an active topic."""
    require_name(connector)
    _require_text(topic, f"a topic of connector {shown(connector)}")
    if ":" in topic:
        raise ValueFormatError(f"the name {shown(topic)} of a topic of connector {shown(connector)} has a colon")
    return StatusKey.topic_key(topic, connector)


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _require_kind(value: object, kind: type, what: str) -> None:
    if not isinstance(value, kind):
        raise ValueFormatError(f"{what} has to be {kind.__name__}, not {_kind(value)}")


def _require_text(text: object, what: str) -> None:
    _require_kind(text, str, what)
    if not text:
        raise ValueFormatError(f"{what} is empty")


def require_name(connector: object) -> None:
    """Refuse what cannot be read out of a key again."""
    _require_text(connector, "the name of a connector")
    if not str(connector).isascii() and any("\ud800" <= character <= "\udfff" for character in str(connector)):
        raise ValueFormatError(
            f"the connector's name {shown(str(connector))} has half a surrogate pair: no UTF-8 holds it"
        )


def require_connector_name(connector: object) -> None:
    """Refuse what Connect gives no connector as its name."""
    require_name(connector)
    if has_control_character(str(connector)):
        raise ValueFormatError(
            f"the connector's name {shown(str(connector))} has a control character, which Connect refuses"
        )


def _require_properties(what: str, properties: object) -> None:
    if not isinstance(properties, Mapping):
        raise ValueFormatError(f"{what} has to be a map of properties, not {_kind(properties)}")
    for name, value in properties.items():
        if not isinstance(name, str):
            raise ValueFormatError(f"{what}: the name of a property has to be str, not {_kind(name)}")
        if value is not None and not isinstance(value, str):
            raise ValueFormatError(f"{what}: property {shown(name)} has to be str or None, not {_kind(value)}")


def _require_count(number: Any, what: str) -> None:
    if not is_integer(number) or not 0 <= number <= INT32_MAX:
        found = "a negative or larger one" if is_integer(number) else _kind(number)
        raise ValueFormatError(f"{what} has to be an integer from 0 to {INT32_MAX}, not {found}")


def _require_time(number: Any, what: str) -> None:
    if not is_integer(number) or number not in INT64:
        raise ValueFormatError(f"{what} has to be an integer of 64 bits, milliseconds, not {_kind(number)}")


def fault_of(topic_type: TopicType, original: bytes, value: bytes | None) -> str | None:
    """Return why no store would have written a record that lies in a topic; ``None``: one would, or the key is not Connect's.

    The text names connector and member, never the value. A removal is never wrong, nor is what a worker soon writes anew:
    requests and session keys.
    """
    key = parse(topic_type, original)
    if key is None or value is None:
        return None
    try:
        content = loads(value)
        judge = _WRITTEN.get(key.kind)
        if content is not None and judge is not None:
            judge(key, content)
    except ValueFormatError as error:
        return str(error)
    return None


def _task(key: Key) -> ConnectorTaskId:
    subject = key.subject
    if subject is None or not isinstance(subject.part, int):
        raise ValueFormatError("the key holds no task number")
    return ConnectorTaskId(subject.connector, subject.part)


def _judge_target_state(key: Key, value: object) -> None:
    word = member(value, "state.v2") or member(value, "state")
    if word not in [state.value for state in TargetState]:
        raise ValueFormatError(f"the target state of connector {shown(key.rest)} is none that Connect has")


def _judge_status(subject: str | ConnectorTaskId, value: object) -> None:
    word = member(value, "state")
    state = next((state for state in State if state.value == word), None)
    if state is None:
        raise ValueFormatError(f"the state of {shown(str(subject))} is none that Connect has")
    members = state, *(member(value, name) for name in ("worker_id", "generation", "trace", "version"))
    status_record(
        TaskStatus(subject, *members) if isinstance(subject, ConnectorTaskId) else ConnectorStatus(subject, *members)
    )


def _judge_topic(_: Key, value: object) -> None:
    topic, names = member(value, "topic"), ("name", "connector", "task", "discoverTimestamp")
    members: list[Any] = [member(topic, name, "'topic'") for name in names]
    status_record(TopicStatus(*members))


def _judge_offset(key: Key, value: object) -> None:
    parse_offset_key(key.original)
    validate_offset_map(value)


_WRITTEN: Final[Mapping[KeyKind, Callable[[Key, Any], object]]] = {
    ConfigKey.CONNECTOR: lambda key, value: connector_config_record(key.rest, member(value, "properties")),
    ConfigKey.TASK: lambda key, value: _require_properties(
        f"the configuration of task {shown(str(_task(key)))}", member(value, "properties")
    ),
    ConfigKey.COMMIT: lambda _, value: _require_count(member(value, "tasks"), "'tasks' of a commit"),
    ConfigKey.TARGET_STATE: _judge_target_state,
    ConfigKey.TASK_COUNT: lambda key, value: task_count_record(key.rest, member(value, "task-count")),
    ConfigKey.LOGGER_LEVEL: lambda key, value: logger_level_record(key.rest, member(value, "level")),
    StatusKey.CONNECTOR: lambda key, value: _judge_status(key.rest, value),
    StatusKey.TASK: lambda key, value: _judge_status(_task(key), value),
    StatusKey.TOPIC: _judge_topic,
    OffsetKey.OFFSET: _judge_offset,
}
