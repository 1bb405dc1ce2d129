"""The state of the Python folds after a log, in the form in which ``StoreAnswers.java`` prints that of Java's stores."""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_share.contents.groups import FOLDS
from connect_share.model import config as model
from connect_share.model.config import ConfigEvent, ConfigFold
from connect_share.model.config_state import SessionKey
from connect_share.model.keys import ClusterGroupId, SkipKind
from connect_share.model.offsets import OffsetFold
from connect_share.model.records import Record, TopicType
from connect_share.model.status import ConnectorStatus, StatusFold, TaskStatus


@dataclass
class FoldAnswer:
    """State, events as ``[offset of the record, kind, ...]``, position after each record, why a record was passed over."""

    state: dict[str, Any]
    events: list[list[Any]] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    skipped: dict[int, SkipKind] = field(default_factory=dict)


def fold_answer(topic_type: TopicType, records: list[Record], group: str | None, started: int) -> FoldAnswer:
    """Fold a log; listeners hear of what comes from offset ``started`` on."""
    fold = FOLDS[topic_type](None if group is None else ClusterGroupId(group))
    answer = FoldAnswer({})
    for record in records:
        before = fold.skipped.copy()
        if topic_type is TopicType.CONFIG:
            events = [[record.offset, *_event(event)] for event in fold.apply(record)]
            answer.events += events if record.offset >= started else []
            answer.positions[record.offset] = fold.offset
        else:
            fold.apply(record)
        for reason in fold.skipped - before:
            answer.skipped[record.offset] = reason
    states: dict[TopicType, Any] = {TopicType.CONFIG: _config, TopicType.STATUS: _status, TopicType.OFFSET: _offsets}
    answer.state = states[topic_type](fold)
    return answer


def plain_text(value: Any) -> str:
    """Write any value of Connect's JSON, however deep, in one spelling: members sorted, a double as its 64 bits."""
    out: list[str] = []
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, _Text):
            out.append(item)
        elif isinstance(item, Mapping):
            todo.append(_Text("}"))
            members = sorted(
                ((_quoted(name), each) for name, each in item.items()), key=lambda member: member[0], reverse=True
            )
            for number, (name, each) in enumerate(members):
                todo += [each, _Text(("," if number < len(members) - 1 else "") + name + ":")]
            todo.append(_Text("{"))
        elif isinstance(item, list):
            todo.append(_Text("]"))
            for number in range(len(item) - 1, -1, -1):
                todo += [item[number], *([_Text(",")] if number else [])]
            todo.append(_Text("["))
        else:
            out.append(_plain_scalar(item))
    return "".join(out)


class _Text(str):
    """Text that is written as it is."""

    __slots__ = ()


def _plain_scalar(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        return f'"double {int.from_bytes(struct.pack(">d", value), "big"):x}"'
    return (
        {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)
    )


def _quoted(text: str) -> str:
    units = struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass"))
    return (
        '"' + "".join(chr(u) if 0x20 <= u <= 0x7E and u not in (0x22, 0x5C) else f"\\u{u:04x}" for (u,) in units) + '"'
    )


def _property(value: Any) -> Any:
    return value if value is None or isinstance(value, bool) else plain_text(value)


def _properties(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _property(value) for name, value in config.items()}


def _event(event: ConfigEvent) -> list[Any]:
    match event:
        case model.ConnectorConfigUpdated(connector):
            return ["updated", connector]
        case model.ConnectorConfigRemoved(connector):
            return ["removed", connector]
        case model.TaskConfigsUpdated(tasks):
            return ["tasks", [str(task) for task in tasks]]
        case model.TargetStateChanged(connector):
            return ["target state", connector]
        case model.SessionKeyUpdated(key):
            return ["session key", _key(key)]
        case model.RestartRequested(request):
            return ["restart", request.connector, request.only_failed, request.include_tasks]
        case model.LoggerLevelUpdated(namespace, level):
            return ["level", namespace, level]
    raise AssertionError(event)


def _key(key: SessionKey) -> list[Any]:
    return [b64encode(key.key).decode(), key.algorithm, key.creation_timestamp_ms]


def _config(fold: ConfigFold) -> dict[str, Any]:
    state = fold.saved()
    for name in ("offset", "newest_own_is_tombstone", "moved"):
        del state[name]
    for name in ("connectors", "applied"):
        state[name] = {connector: _properties(config) for connector, config in state[name].items()}
    for name in ("committed", "deferred"):
        state[name] = {
            connector: {task: _properties(config) for task, config in tasks.items()}
            for connector, tasks in state[name].items()
            if tasks or name == "deferred"
        }
    return state


def _status(fold: StatusFold) -> dict[str, Any]:
    snapshot = fold.snapshot()

    def fields(status: ConnectorStatus | TaskStatus | None) -> list[Any]:
        assert status is not None
        return [status.state.value, status.worker_id, status.generation, status.trace, status.version]

    return {
        "connectors": {name: fields(snapshot.connector_status(name)) for name in snapshot.connectors()},
        "tasks": {
            name: {str(status.task_id.task): fields(status) for status in snapshot.task_statuses(name)}
            for name in snapshot.connectors_with_tasks()
        },
        "topics": {
            name: {
                topic: [status.topic, status.connector, status.task, status.discover_timestamp_ms]
                for topic, status in snapshot._topics[name].items()
            }
            for name in snapshot.connectors_with_topics()
        },
    }


def _offsets(fold: OffsetFold) -> dict[str, Any]:
    fold.read_keys()
    return {
        "data": {b64encode(key).decode(): b64encode(value).decode() for key, value in fold.values.items()},
        "partitions": {
            name: sorted(plain_text(partition) for partition in fold.partitions(name))
            for name in fold._keys
            if fold.partitions(name)
        },
    }
