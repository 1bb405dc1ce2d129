"""Which connector a key of Connect speaks of.

The text is taken apart as Java takes it apart, so that ``orders`` and ``orders-eu`` are never mixed up:
``task-orders-eu-0`` belongs to ``orders-eu``.
"""

from __future__ import annotations

from typing import Final

from connect_share import connect_json
from connect_share.errors import ValueFormatError
from connect_share.records import TopicType

_CONFIG_PREFIXES: Final = ("target-state-", "connector-", "commit-", "restart-connector-", "tasks-fencing-")
_TASK: Final = "task-"
_STATUS_TASK: Final = "status-task-"
_STATUS_CONNECTOR: Final = "status-connector-"
_STATUS_TOPIC: Final = "status-topic-"
_CONNECTOR_MARK_LENGTH: Final = len(":connector-")
_INT_MAX: Final = 2**31 - 1
_INT_MIN: Final = -(2**31)


def _before_task_number(text: str) -> str | None:
    """Give the connector of ``<connector>-<number>``, ``None`` when Java finds no task number in it.

    Source: ``KafkaConfigBackingStore.parseTaskId`` (``String.split`` drops trailing empty pieces).
    """
    trimmed = text.rstrip("-")
    connector, dash, number = trimmed.rpartition("-")
    if not dash:
        return None
    digits = number[1:] if number[0] in "+-" else number
    # Java reads UTF-16 units one by one, so digits beyond U+FFFF are none to it.
    if not digits or not all(character.isdecimal() and ord(character) <= 0xFFFF for character in digits):
        return None
    # A longer text can only be a number out of range or one with leading zeros; int() of it is cheap enough
    # because keys are bounded by the message size, but Python refuses more than 4300 digits.
    significant = digits.lstrip("0") or "0"
    if len(significant) > 10 or not _INT_MIN <= int(significant) <= _INT_MAX:
        return None
    return connector


def _connector_of_config_key(text: str) -> str | None:
    for prefix in _CONFIG_PREFIXES:
        if text.startswith(prefix):
            return text[len(prefix) :]
    return _before_task_number(text[len(_TASK) :]) if text.startswith(_TASK) else None


def _connector_of_status_key(text: str) -> str | None:
    if text.startswith(_STATUS_CONNECTOR):
        return text[len(_STATUS_CONNECTOR) :]
    if text.startswith(_STATUS_TASK):
        return _before_task_number(text[len(_STATUS_TASK) :])
    if text.startswith(_STATUS_TOPIC):
        colon = text.find(":")  # a topic name has none, a connector name may
        return text[colon + _CONNECTOR_MARK_LENGTH :] if colon >= 0 else None
    return None


def _connector_of_offset_key(key: bytes) -> str | None:
    try:
        parsed = connect_json.loads(key)
    except ValueFormatError:
        return None
    if not isinstance(parsed, list) or not parsed:
        return None
    return parsed[0] if isinstance(parsed[0], str) else None


def connector_of(topic_type: TopicType, original_key: bytes) -> str | None:
    """Name the connector of an original (plain) key.

    Returns:
        ``None`` for keys that belong to no connector: the session key, log levels, and keys in which
        Connect itself finds no connector name or task number.

    Source: ``KafkaConfigBackingStore``, ``KafkaStatusBackingStore``, ``OffsetUtils.processPartitionKey``.
    """
    if topic_type is TopicType.OFFSET:
        return _connector_of_offset_key(original_key)
    text = original_key.decode("utf-8", errors="replace")
    return _connector_of_config_key(text) if topic_type is TopicType.CONFIG else _connector_of_status_key(text)
