"""Which connector a key of Connect speaks of.

The text is taken apart as Java takes it apart, so that ``orders`` and ``orders-eu`` are never mixed up:
``task-orders-eu-0`` belongs to ``orders-eu``.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator

from connect_share import connect_json
from connect_share.errors import ValueFormatError
from connect_share.records import TopicType
from connect_share.state.names import encodable, key_text, parse_task_id

TopicText = Annotated[str, AfterValidator(encodable)]
"""A text from a topic as a member of what is written as JSON."""

_CONFIG_PREFIXES: Final = ("target-state-", "connector-", "commit-", "restart-connector-", "tasks-fencing-")
_TASK: Final = "task-"
_STATUS_TASK: Final = "status-task-"
_STATUS_CONNECTOR: Final = "status-connector-"
_STATUS_TOPIC: Final = "status-topic-"
_CONNECTOR_MARK_LENGTH: Final = len(":connector-")


def _connector_of_task(text: str, prefix_pieces: int) -> str | None:
    task_id = parse_task_id(text, prefix_pieces)
    return None if task_id is None else task_id.connector


def _connector_of_config_key(text: str) -> str | None:
    for prefix in _CONFIG_PREFIXES:
        if text.startswith(prefix):
            return text[len(prefix) :]
    return _connector_of_task(text, 1) if text.startswith(_TASK) else None


def _connector_of_status_key(text: str) -> str | None:
    if text.startswith(_STATUS_CONNECTOR):
        return text[len(_STATUS_CONNECTOR) :]
    if text.startswith(_STATUS_TASK):
        return _connector_of_task(text, 2)
    if text.startswith(_STATUS_TOPIC):
        colon = text.find(":")  # a topic name has none, a connector name may
        return text[colon + _CONNECTOR_MARK_LENGTH :] if colon >= 0 else None
    return None


def status_item(original: bytes) -> tuple[str, str, object] | None:
    """Name what a status is of: connector, kind and task or topic; ``None`` where Connect finds none.

    Different keys may name one task (``-1`` and ``-01``), so keys will not do.
    """
    text = key_text(original)
    connector = _connector_of_status_key(text)
    if connector is None:
        return None
    if text.startswith(_STATUS_TASK):
        task = parse_task_id(text, 2)
        return None if task is None else (connector, "task", task.task)
    if text.startswith(_STATUS_TOPIC):
        return (connector, "topic", text[len(_STATUS_TOPIC) : text.find(":")])
    return (connector, "connector", None)


def _connector_of_offset_key(key: bytes) -> str | None:
    try:
        parsed = connect_json.loads(key)
    except ValueFormatError:
        return None
    if not isinstance(parsed, list) or not parsed:
        return None
    return encodable(parsed[0]) if isinstance(parsed[0], str) else None


def connector_of(topic_type: TopicType, original_key: bytes) -> str | None:
    """Name the connector of an original (plain) key.

    Returns:
        ``None`` for keys that belong to no connector: the session key, log levels, and keys in which
        Connect itself finds no connector name or task number.

    Source: ``KafkaConfigBackingStore``, ``KafkaStatusBackingStore``, ``OffsetUtils.processPartitionKey``.
    """
    if topic_type is TopicType.OFFSET:
        return _connector_of_offset_key(original_key)
    text = key_text(original_key)
    return _connector_of_config_key(text) if topic_type is TopicType.CONFIG else _connector_of_status_key(text)
