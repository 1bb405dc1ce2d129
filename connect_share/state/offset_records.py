"""Keys and values of the offset topic, and what may be in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_share.connect_json import dumps, loads
from connect_share.errors import ValueFormatError


def validate_offset_map(value: object, what: str = "offset") -> None:
    """Check a source partition or source offset: null, or a map from strings to null or primitive values.

    ``what`` is ``"partition"`` or ``"offset"``, for the message.

    Raises:
        ValueFormatError: names the field and its type, never its value.

    Source: ``OffsetUtils.validateFormat``.
    """
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise ValueFormatError(f"a source {what} has to be a map, not {type(value).__name__}")
    for name, item in value.items():
        if not isinstance(name, str):
            raise ValueFormatError(f"the names in a source {what} have to be strings, not {type(name).__name__}")
        if item is not None and not isinstance(item, (bool, int, float, str, bytes)):
            raise ValueFormatError(
                f"field {name!r} of a source {what} has to be null, a number, a boolean, a string or bytes, "
                f"not {type(item).__name__}"
            )


def offset_key(connector: str, partition: Mapping[str, Any] | None) -> bytes:
    """Return the key of an offset: the JSON array of connector name and source partition, members in the mapping's order."""
    return dumps([connector, partition])


def offset_value(offset: Mapping[str, Any] | None) -> bytes | None:
    """Return the value of an offset; ``None`` is a tombstone and means: forget this partition."""
    return None if offset is None else dumps(offset)


def parse_offset_key(key: bytes) -> tuple[str, dict[str, Any] | None]:
    """Return connector name and source partition of an original key.

    Raises:
        ValueFormatError: says what is wrong, in the order of Connect's own tests.

    Source: ``OffsetUtils.processPartitionKey``.
    """
    parsed = loads(key)
    if not isinstance(parsed, list):
        raise ValueFormatError("the key is not a JSON array")
    if len(parsed) != 2:
        raise ValueFormatError(f"the key has {len(parsed)} elements instead of 2")
    connector, partition = parsed
    if not isinstance(connector, str):
        raise ValueFormatError("the first element of the key is not a string")
    if partition is not None and not isinstance(partition, dict):
        raise ValueFormatError("the second element of the key is not an object")
    return connector, partition


def partition_identity(partition: Mapping[str, Any] | None) -> bytes:
    """Return bytes that are equal for source partitions that Java counts as equal.

    Member order does not matter; ``1``, ``1.0`` and ``true`` are three different values.
    """
    return dumps(partition, in_order_of_names=True)
