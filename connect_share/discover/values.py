"""Whether a record has the form that Connect gives it: its key, and then its value."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, assert_never

from connect_share.errors import ValueFormatError
from connect_share.model.config_state import TargetState
from connect_share.model.connect_json import JSON_NULL, loads
from connect_share.model.keys import ConfigKey, Key, KeyKind, OffsetKey, StatusKey
from connect_share.model.offsets import parse_offset_key
from connect_share.model.status import State
from connect_share.sealing.cipher import is_sealed

_LONGEST_VALUE: Final = 4 << 20
"""Bytes; a longer value is not taken apart, and says nothing."""
_STATES: Final = frozenset(state.value for state in State)
_TARGETS: Final = frozenset(state.value for state in TargetState)
_STATUS: Final = frozenset({"state", "trace", "worker_id", "generation"})
_TOPIC: Final = frozenset({"name", "connector", "task", "discoverTimestamp"})

Members = Mapping[str, Any]


class Fit(enum.Enum):
    """What a value says about who wrote it."""

    UNKNOWN = enum.auto()
    """Nothing: a removal."""
    OTHER = enum.auto()
    """Connect does not write this under such a key."""
    FITS = enum.auto()
    """Connect writes such a value, and others may, too."""
    PROVES = enum.auto()
    """Nobody but Connect has a reason to write this."""


def fit_of(key: Key, value: bytes | None, *, of_group: bool) -> tuple[Fit, Members]:
    """Return whether Connect writes this value under this key, and the members of a value that fits. Never raises.

    ``of_group``: the key had a cluster group id before it; only there a value may be sealed.
    """
    if isinstance(key.kind, OffsetKey) and not _is_offset_key(key):
        return Fit.OTHER, {}
    if value is None or value == JSON_NULL or len(value) > _LONGEST_VALUE:
        return Fit.UNKNOWN, {}
    if is_sealed(value):
        return (Fit.PROVES if of_group and not isinstance(key.kind, OffsetKey) else Fit.OTHER), {}
    found: object = None
    with suppress(ValueFormatError):
        found = loads(value)
    if not isinstance(found, dict):
        return Fit.OTHER, {}
    fit = _of_members(key.kind, found)
    return fit, {} if fit is Fit.OTHER else found


def _is_offset_key(key: Key) -> bool:
    try:
        parse_offset_key(key.original)
    except ValueFormatError:
        return False
    return True


def _of_members(kind: KeyKind, found: Members) -> Fit:
    match kind:
        case ConfigKey.CONNECTOR:
            return _of_properties(found, "connector.class")
        case ConfigKey.TASK:
            return _of_properties(found, "task.class")
        case ConfigKey.SESSION_KEY:
            types = {"key": str, "algorithm": str, "creation-timestamp": int}
            return Fit.PROVES if _has(found, types) else Fit.OTHER
        case ConfigKey.TARGET_STATE:
            return Fit.FITS if _is_one_of(found.get("state"), _TARGETS) else Fit.OTHER
        case ConfigKey.COMMIT:
            return _fits(found, {"tasks": int})
        case ConfigKey.TASK_COUNT:
            return _fits(found, {"task-count": int})
        case ConfigKey.RESTART:
            return _fits(found, {"include-tasks": bool, "only-failed": bool})
        case ConfigKey.LOGGER_LEVEL:
            return _fits(found, {"level": str})
        case StatusKey.CONNECTOR | StatusKey.TASK:
            is_status = _is_one_of(found.get("state"), _STATES) and _has(found, {"generation": int})
            return Fit.PROVES if is_status and found.keys() >= _STATUS else Fit.OTHER
        case StatusKey.TOPIC:
            topic = found.get("topic")
            return Fit.PROVES if isinstance(topic, dict) and topic.keys() >= _TOPIC else Fit.OTHER
        case OffsetKey.OFFSET:
            return Fit.FITS
    assert_never(kind)


def _of_properties(found: Members, proof: str) -> Fit:
    """Return what a configuration says: nothing but a map of strings, in which the runtime's own property proves it."""
    properties = found.get("properties")
    if len(found) != 1 or not isinstance(properties, dict):
        return Fit.OTHER
    if not all(item is None or isinstance(item, str) for item in properties.values()):
        return Fit.OTHER
    return Fit.PROVES if properties.get(proof) else Fit.FITS


def _is_one_of(value: object, names: frozenset[str]) -> bool:
    return isinstance(value, str) and value in names


def _has(found: Members, types: Mapping[str, Callable[..., object]]) -> bool:
    return all(type(found.get(name)) is kind for name, kind in types.items())


def _fits(found: Members, types: Mapping[str, Callable[..., object]]) -> Fit:
    return Fit.FITS if len(found) == len(types) and _has(found, types) else Fit.OTHER
