"""Keys of shared topics: ``<cluster group id>.<original key>``, and how to take them apart again.

Connect's own keys are a closed set: ten prefixes, none of which holds a dot, one exact word
(``session-key``) and, on the offset topic, JSON arrays. So the boundary between group and key is the
first place, at the beginning or after a dot, where the rest is such a key; a cluster group id that
would make an earlier place look like one is refused. ``docs/decisions/0001-key-rule.md`` has the
argument, and why KIP-1173's "split on the dot into two parts" is not used.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from connect_share.errors import InvalidClusterGroupIdError
from connect_share.records import TopicType

SEPARATOR: Final = b"."
SESSION_KEY: Final = b"session-key"

CONFIG_KEY_PREFIXES: Final[tuple[bytes, ...]] = (
    b"target-state-",
    b"connector-",
    b"task-",
    b"commit-",
    b"restart-connector-",
    b"tasks-fencing-",
    b"logger-cluster-",
)
STATUS_KEY_PREFIXES: Final[tuple[bytes, ...]] = (b"status-task-", b"status-connector-", b"status-topic-")
KEY_PREFIXES: Final[tuple[bytes, ...]] = CONFIG_KEY_PREFIXES + STATUS_KEY_PREFIXES

_LEGAL_ID: Final = re.compile(r"[A-Za-z0-9._-]+")
_LONGEST_KNOWN: Final = 255
_LONGEST_SHOWN: Final = 200
_ANY_PREFIX: Final = "|".join(re.escape(prefix.decode()) for prefix in KEY_PREFIXES)
_FORBIDDEN: Final = re.compile(rf"(?:\A|\.)({_ANY_PREFIX})")


def _behind_a_dot(*words: bytes) -> re.Pattern[bytes]:
    """Return what finds the first dot before one of these words; a loop is too slow for a key of a million dots."""
    return re.compile(rb"\.(?=" + b"|".join(words) + rb")")


_BOUNDARY: Final = {
    TopicType.CONFIG: _behind_a_dot(*map(re.escape, CONFIG_KEY_PREFIXES), re.escape(SESSION_KEY) + rb"\Z"),
    TopicType.STATUS: _behind_a_dot(*map(re.escape, STATUS_KEY_PREFIXES)),
    TopicType.OFFSET: _behind_a_dot(rb"\["),
}


def _objection(text: str) -> str | None:
    """Say why ``text`` cannot be a cluster group id, or nothing."""
    if not text:
        return "it is empty"
    if not _LEGAL_ID.fullmatch(text):
        return "only the characters A-Z a-z 0-9 . _ - are allowed"
    found = _FORBIDDEN.search(text)
    if found is None:
        return None
    where = "it starts with" if found.start(1) == 0 else "after a dot it goes on with"
    return f"{where} {found[1]!r}, which is how keys of Connect begin"


class ClusterGroupId(str):
    """The ``group.id`` of a Connect cluster that shares topics, proven usable as a key prefix.

    Raises:
        InvalidClusterGroupIdError: empty, a character outside ``[A-Za-z0-9._-]``, or a part (the whole,
            or what follows a dot) that begins with one of Connect's ten key prefixes. An unmodified
            worker would take such a group's records for its own.

    Source: KIP-1173 ``clusterGroupId``; the constraint is ours.
    """

    __slots__ = ()

    def __new__(cls, value: str) -> ClusterGroupId:
        """Validate ``value``; an id passes as it is."""
        if isinstance(value, cls):
            return value
        objection = _objection(value)
        if objection is not None:
            shown = repr(value) if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]!r}..."
            raise InvalidClusterGroupIdError(
                f"{shown} cannot be a cluster group id: {objection}; choose another group.id"
            )
        return super().__new__(cls, value)


def prefix_key(cluster_group_id: str, key: bytes) -> bytes:
    """Put ``<cluster_group_id>.`` before an original key.

    Raises:
        InvalidClusterGroupIdError: the id cannot be a prefix.
    """
    return ClusterGroupId(cluster_group_id).encode("ascii") + SEPARATOR + key


def is_original_key(topic_type: TopicType, key: bytes, position: int = 0) -> bool:
    """Tell whether ``key``, from ``position`` on, is one that Connect itself writes to such a topic."""
    if topic_type is TopicType.OFFSET:
        return key.startswith(b"[", position)
    if topic_type is TopicType.STATUS:
        return key.startswith(STATUS_KEY_PREFIXES, position)
    return key.startswith(CONFIG_KEY_PREFIXES, position) or (
        len(key) - position == len(SESSION_KEY) and key.endswith(SESSION_KEY)
    )


def split_key(topic_type: TopicType, key: bytes) -> tuple[ClusterGroupId | None, bytes] | None:
    """Take a key apart into cluster group id and original key. Never raises.

    Returns:
        ``(group, original key)``, group ``None`` for a plain key; ``None`` when no legal key is in it or
        the text before it is no legal cluster group id.
    """
    if is_original_key(topic_type, key):
        return None, key
    found = _BOUNDARY[topic_type].search(key)
    if found is None:
        return None
    text = key[: found.start()]
    group = _known_group(text) if len(text) <= _LONGEST_KNOWN else _group(text)
    return None if group is None else (group, key[found.end() :])


def _group(text: bytes) -> ClusterGroupId | None:
    try:
        return ClusterGroupId(text.decode("ascii"))
    except (UnicodeDecodeError, InvalidClusterGroupIdError):
        return None


# A topic has many records of few groups, and to prove an id legal is most of the work of taking a key apart.
_known_group = lru_cache(maxsize=4096)(_group)


def own_key(topic_type: TopicType, key: bytes, cluster_group_id: ClusterGroupId | None) -> bytes | None:
    """Give the original key if ``key`` belongs to this group (``None``: to the plain cluster), else ``None``.

    Agrees with :func:`split_key` without scanning: the constraint on ids leaves no other reading.
    """
    if cluster_group_id is None:
        return key if is_original_key(topic_type, key) else None
    prefix = cluster_group_id.encode("ascii") + SEPARATOR
    if not key.startswith(prefix):
        return None
    original = key[len(prefix) :]
    return original if is_original_key(topic_type, original) else None
