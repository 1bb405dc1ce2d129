"""The grammar of keys: what Connect writes to its three topics, and ``<cluster group id>.<original key>`` on shared ones.

Connect's own keys are a closed set: ten prefixes, none of which holds a dot, one exact word
(``session-key``) and, on the offset topic, JSON arrays. So the boundary between group and key is the
first place, at the beginning or after a dot, where the rest is such a key; a cluster group id that
would make an earlier place look like one is refused. ``docs/decisions/0001-key-rule.md`` has the
argument, and why KIP-1173's "split on the dot into two parts" is not used.

A new kind of record is a new member of :class:`ConfigKey`, :class:`StatusKey` or :class:`OffsetKey`. Code that handles kinds
matches on them exhaustively (``assert_never``), so mypy names each place that has to handle the new one.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, TypeGuard, TypeVar, assert_never

from connect_share.errors import InvalidClusterGroupIdError, ValueFormatError
from connect_share.model import connect_json
from connect_share.model.records import ConnectorTaskId, TopicType


class _Kind(enum.Enum):
    """How the original keys of one kind begin; the value of a member is that text."""

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__  # five times as fast as that of enum.Enum

    def __init__(self, begin: str) -> None:
        self.prefix: bytes = begin.encode("ascii")
        self.is_whole_key: bool = not begin.endswith(("-", "["))
        self.label: str = "offset" if begin == "[" else begin.removesuffix("-")

    def key(self, rest: object) -> bytes:
        """Return the original key of this kind in which ``rest`` follows the prefix.

        A lone surrogate becomes ``?``, as in Java's string serializer.
        """
        return self.prefix + str(rest).encode("utf-8", "replace")


class ConfigKey(_Kind):
    """Kinds of records of the config topic. Source: ``KafkaConfigBackingStore``."""

    TARGET_STATE = "target-state-"
    CONNECTOR = "connector-"
    TASK = "task-"
    COMMIT = "commit-"
    RESTART = "restart-connector-"
    TASK_COUNT = "tasks-fencing-"
    LOGGER_LEVEL = "logger-cluster-"
    SESSION_KEY = "session-key"


class StatusKey(_Kind):
    """Kinds of records of the status topic. Source: ``KafkaStatusBackingStore``."""

    TASK = "status-task-"
    CONNECTOR = "status-connector-"
    TOPIC = "status-topic-"

    @staticmethod
    def topic_key(topic: str, connector: str) -> bytes:
        """Return the key of a topic that a connector uses."""
        return StatusKey.TOPIC.key(f"{topic}{_BEFORE_CONNECTOR}{connector}")


class OffsetKey(_Kind):
    """The one kind of the offset topic: the JSON array of connector and source partition. Source: ``OffsetUtils``."""

    OFFSET = "["


KeyKind = ConfigKey | StatusKey | OffsetKey
KINDS: Final[Mapping[TopicType, tuple[KeyKind, ...]]] = {
    TopicType.CONFIG: tuple(ConfigKey),
    TopicType.STATUS: tuple(StatusKey),
    TopicType.OFFSET: tuple(OffsetKey),
}
MARKER: Final = (ConfigKey.TARGET_STATE.key(""), connect_json.JSON_NULL)
"""Original key and value of the record that closes a group's part of a config topic: it removes the target state of a
connector without a name, which there never is.

It cannot be cleaned away, as a tombstone can (``docs/decisions/0002``)."""

_SEPARATOR: Final = b"."
_BEFORE_CONNECTOR: Final = ":connector-"
_LEGAL_ID: Final = re.compile(r"[A-Za-z0-9._-]+")
_LONGEST_KNOWN: Final = 255
_LONGEST_SHOWN: Final = 200
KEY_PREFIXES: Final = tuple(kind.prefix for kind in (*ConfigKey, *StatusKey) if not kind.is_whole_key)
"""No part of a cluster group id may begin with one of these."""
_FORBIDDEN: Final = re.compile(rf"(?:\A|\.)({'|'.join(re.escape(prefix.decode()) for prefix in KEY_PREFIXES)})")


def _pattern(kind: _Kind) -> bytes:
    return re.escape(kind.prefix) + (rb"\Z" if kind.is_whole_key else b"")


_ANY_KIND: Final = {topic_type: b"|".join(map(_pattern, kinds)) for topic_type, kinds in KINDS.items()}
# Finds the first dot before an original key; a loop is too slow for a key of a million dots.
_BOUNDARY: Final = {topic_type: re.compile(rb"\.(?=%b)" % any_kind) for topic_type, any_kind in _ANY_KIND.items()}
BEFORE_ORIGINAL: Final = {
    topic_type: re.compile(rb"(?:.*?\.)??(?=%b)" % any_kind, re.DOTALL) for topic_type, any_kind in _ANY_KIND.items()
}
"""Match what stands before the original key, nothing or all up to the dot, unproven; for code that knows all its groups."""

_K = TypeVar("_K", bound=_Kind)


def _finder_of(kinds: type[_K]) -> Callable[[bytes, int], _K | None]:
    match = re.compile(b"|".join(b"(%b)" % _pattern(kind) for kind in kinds)).match
    by_number: tuple[Any, ...] = (None, *kinds)

    def kind_at(key: bytes, position: int) -> _K | None:
        found = match(key, position)
        return None if found is None else by_number[found.lastindex or 0]

    return kind_at


config_kind: Final = _finder_of(ConfigKey)
"""Returns the kind of key that begins at a position, ``None`` if Connect does not write such a key to a config topic."""
status_kind: Final = _finder_of(StatusKey)
"""The same for a status topic."""
_KIND_AT: Final[Mapping[TopicType, Callable[[bytes, int], KeyKind | None]]] = {
    TopicType.CONFIG: config_kind,
    TopicType.STATUS: status_kind,
    TopicType.OFFSET: _finder_of(OffsetKey),
}


class ClusterGroupId(str):
    """The ``group.id`` of a Connect cluster that shares topics, proven usable as a key prefix.

    Raises:
        InvalidClusterGroupIdError: empty, a character outside ``[A-Za-z0-9._-]``, or a part (the whole,
            or what follows a dot) that begins with one of Connect's ten key prefixes. An unmodified
            worker would take such a group's records for its own.

    Source: KIP-1173 ``clusterGroupId``; the constraint is ours.

    >>> ClusterGroupId("group-a").prefix
    b'group-a.'
    """

    __slots__ = ()

    def __new__(cls, value: str) -> ClusterGroupId:
        """Validate ``value``; an id passes as it is."""
        if isinstance(value, cls):
            return value
        if not value:
            objection = "it is empty"
        elif not isinstance(value, str) or not _LEGAL_ID.fullmatch(value):
            objection = "only the characters A-Z a-z 0-9 . _ - are allowed"
        elif found := _FORBIDDEN.search(value):
            where = "it starts with" if found.start(1) == 0 else "after a dot it goes on with"
            objection = f"{where} {found[1]!r}, which is how keys of Connect begin"
        else:
            return super().__new__(cls, value)
        shown = repr(value) if len(str(value)) <= _LONGEST_SHOWN else f"{str(value)[:_LONGEST_SHOWN]!r}..."
        raise InvalidClusterGroupIdError(f"{shown} cannot be a cluster group id: {objection}; choose another group.id")

    @property
    def prefix(self) -> bytes:
        """The bytes before each original key of the group: the id and a dot."""
        return self.encode("ascii") + _SEPARATOR


@lru_cache(maxsize=4096)  # loops over records ask for each of them
def prefix_of(cluster_group_id: ClusterGroupId | None) -> bytes:
    """Return the bytes before each original key of a group; none for ``None``, the cluster with plain keys."""
    return b"" if cluster_group_id is None else cluster_group_id.prefix


def prefix_key(cluster_group_id: str, key: bytes) -> bytes:
    """Return an original key behind ``<cluster_group_id>.``.

    Raises:
        InvalidClusterGroupIdError: the id cannot be a prefix.

    >>> prefix_key("group-a", b"connector-sink")
    b'group-a.connector-sink'
    """
    return ClusterGroupId(cluster_group_id).prefix + key


def is_original_key(topic_type: TopicType, key: bytes, position: int = 0) -> bool:
    """Return whether ``key``, from ``position`` on, is one that Connect itself writes to such a topic."""
    return _KIND_AT[topic_type](key, position) is not None


def split_key(topic_type: TopicType, key: bytes | None) -> tuple[ClusterGroupId | None, bytes] | None:
    """Return the cluster group id and the original key of a key. Never raises.

    Returns:
        ``(group, original key)``, group ``None`` for a plain key; ``None`` when there is none, no legal key is in it or
        the text before it is no legal cluster group id.

    >>> split_key(TopicType.CONFIG, b"group-a.connector-sink")
    ('group-a', b'connector-sink')
    """
    if key is None:
        return None
    if _KIND_AT[topic_type](key, 0) is not None:
        return None, key
    found = _BOUNDARY[topic_type].search(key)
    if found is None:
        return None
    text = key[: found.start()]
    group = _known_group(text) if len(text) <= _LONGEST_KNOWN else _group(text)
    return None if group is None else (group, key[found.end() :])


def owner_of(key: bytes | None) -> tuple[TopicType, ClusterGroupId | None, bytes] | None:
    """Return the type of topic that a key belongs to, for those of the three have nothing in common, and its parts."""
    for topic_type in TopicType:
        parts = split_key(topic_type, key)
        if parts is not None:
            return topic_type, *parts
    return None


def _group(text: bytes) -> ClusterGroupId | None:
    try:
        return ClusterGroupId(text.decode("ascii"))
    except (UnicodeDecodeError, InvalidClusterGroupIdError):
        return None


# A topic has many records of few groups, and to prove an id legal is most of the work of taking a key apart.
_known_group = lru_cache(maxsize=4096)(_group)


def own_key(topic_type: TopicType, key: bytes, cluster_group_id: ClusterGroupId | None) -> bytes | None:
    """Return the original key if ``key`` belongs to this group (``None``: to the plain cluster), else ``None``.

    Agrees with :func:`split_key` without scanning: the constraint on ids leaves no other reading.
    """
    prefix = prefix_of(cluster_group_id)
    if not key.startswith(prefix) or not is_original_key(topic_type, key, len(prefix)):
        return None
    return key[len(prefix) :]


class Subject(NamedTuple):
    """A connector, or the task or topic of it with this number or name."""

    connector: str
    kind: KeyKind
    part: int | str | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """An original key of a known kind; :func:`parse` makes it.

    The text is taken apart as Java takes it apart, so that ``orders`` and ``orders-eu`` are never mixed up:
    ``task-orders-eu-0`` belongs to ``orders-eu``.
    """

    kind: KeyKind
    original: bytes = field(repr=False)

    @property
    def rest(self) -> str:
        """The text after the prefix."""
        return key_text(self.original[len(self.kind.prefix) :])

    @property
    def subject(self) -> Subject | None:
        """What the record is of.

        ``None`` for keys that belong to no connector: the session key, log levels, and keys in which Connect itself finds
        no connector name or task number. Different keys may have one subject: ``-1`` and ``-01`` name one task.

        Source: ``KafkaConfigBackingStore``, ``KafkaStatusBackingStore``, ``OffsetUtils.processPartitionKey``.
        """
        match self.kind:
            case (
                ConfigKey.CONNECTOR
                | ConfigKey.COMMIT
                | ConfigKey.TARGET_STATE
                | ConfigKey.RESTART
                | ConfigKey.TASK_COUNT
                | StatusKey.CONNECTOR
            ):
                return Subject(self.rest, self.kind)
            case ConfigKey.TASK | StatusKey.TASK:
                task = task_id_of(self.rest)
                return None if task is None else Subject(task.connector, self.kind, task.task)
            case StatusKey.TOPIC:
                found = connector_and_topic(self.rest)
                return None if found is None else Subject(found[0], self.kind, found[1])
            case OffsetKey.OFFSET:
                connector = _connector_of_offset(self.original)
                return None if connector is None else Subject(connector, self.kind)
            case ConfigKey.SESSION_KEY | ConfigKey.LOGGER_LEVEL:
                return None
        assert_never(self.kind)


def parse(topic_type: TopicType, key: bytes) -> Key | None:
    """Return an original (plain) key with its kind, ``None`` if Connect writes no such key to such a topic."""
    kind = _KIND_AT[topic_type](key, 0)
    return None if kind is None else Key(kind, key)


def subject_of(topic_type: TopicType, original_key: bytes) -> Subject | None:
    """Return what the record of an original (plain) key is of; ``None``: of no connector, see :attr:`Key.subject`."""
    key = parse(topic_type, original_key)
    return None if key is None else key.subject


def connector_of(topic_type: TopicType, original_key: bytes) -> str | None:
    """Return the connector of an original (plain) key; ``None``: it belongs to none."""
    subject = subject_of(topic_type, original_key)
    return None if subject is None else subject.connector


def _connector_of_offset(key: bytes) -> str | None:
    try:
        parsed = connect_json.loads(key)
    except ValueFormatError:
        return None
    return encodable(parsed[0]) if isinstance(parsed, list) and parsed and isinstance(parsed[0], str) else None


_ENCODED_SURROGATE: Final = re.compile(b"\xed[\xa0-\xbf][\x80-\xbf]?")
INT32_MAX: Final = (1 << 31) - 1
_ZEROS: Final = (  # decimal digits of one UTF-16 unit with the value 0; a test looks for others
    "0٠۰߀०০੦૦୦௦౦೦൦෦๐໐༠၀႐០᠐᥆᧐᪀᪐᭐᮰᱀᱐꘠꣐꤀꧐꧰꩐꯰０"
)


def key_text(key: bytes) -> str:
    """Decode a key as Java's string deserializer does: invalid UTF-8 becomes U+FFFD, never an error."""
    if key.isascii():
        return key.decode("ascii")
    # Java puts one such character for the two or three bytes of a surrogate, Python one for each.
    return _ENCODED_SURROGATE.sub(b"\xef\xbf\xbd", key).decode("utf-8", "replace")


def encodable(text: str) -> str:
    """Return text that UTF-8 and any JSON can hold: half a surrogate pair, which JSON can spell, becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def task_id_of(rest: str) -> ConnectorTaskId | None:
    """Return connector and number of ``<connector>-<n>``, the rest of the key of a task or its status.

    Java's split on ``-`` drops trailing empty pieces, so trailing dashes vanish; the number may have a plus sign,
    leading zeros and any Unicode decimal digits, and has to fit into 32 bits.

    Returns:
        ``None`` when there is no such number. The connector may be the empty string.

    Source: ``KafkaConfigBackingStore.parseTaskId``, ``KafkaStatusBackingStore.parseConnectorTaskId``.
    """
    connector, dash, last = rest.rstrip("-").rpartition("-")
    number = _java_int(last) if dash else None
    return None if number is None else ConnectorTaskId(connector, number)


def connector_and_topic(rest: str) -> tuple[str, str] | None:
    """Return connector and topic of ``<topic>:connector-<connector>``, the rest of the key of a topic's status.

    A topic name has no colon, a connector name may have one. Both may be empty; ``None`` when there is no colon.
    """
    topic, colon, behind = rest.partition(":")
    return (behind[len(_BEFORE_CONNECTOR) - 1 :], topic) if colon else None


def _java_int(text: str) -> int | None:
    """Parse what ``Integer.parseInt`` does; there is no minus sign, the text was split on it."""
    digits = text.removeprefix("+")
    number = 0
    significant = digits.lstrip(_ZEROS)  # of which there may be a megabyte
    for digit in significant:
        # Java looks at UTF-16 units, so digits above U+FFFF are none.
        if not digit.isdecimal() or digit > "\uffff":
            return None
        number = number * 10 + unicodedata.decimal(digit)
        if number > INT32_MAX:
            return None
    return number if digits else None


BLANKS: Final = "".join(map(chr, range(0x21)))
"""What Java's ``trim`` takes away; Python's ``strip`` takes more."""
_ISO_CONTROL: Final = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0))))


def has_control_character(text: str) -> bool:
    """Return whether Java's ``Character.isISOControl`` holds for a character; Connect refuses such names."""
    return not _ISO_CONTROL.isdisjoint(text)


def shown(text: str) -> str:
    """Return a name that comes from a topic or a caller as messages show it: quoted, escaped and cut."""
    quoted = repr(text[: _LONGEST_SHOWN + 1])
    if len(quoted) <= _LONGEST_SHOWN + 2:
        return quoted
    return f"{quoted[: _LONGEST_SHOWN + 1]}... ({len(text)} characters)"


def to_int32(number: int) -> int:
    """Return the low 32 bits, as Java's ``intValue`` does."""
    return ((number + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether a parsed JSON value is an integer in Connect's sense (``1.0`` and ``true`` are not)."""
    return isinstance(value, int) and not isinstance(value, bool)


class SkipKind(enum.Enum):
    """Reason for which a fold passed a record over; folds count them in ``skipped``."""

    FOREIGN = "foreign"
    """Key of another cluster group, of the plain cluster, or of no Connect cluster (sharing on)."""
    NULL_KEY = "null key"
    BAD_KEY = "bad key"
    """Own key that Connect's rules cannot read."""
    BAD_VALUE = "bad value"
    """Own key, but the value is not what belongs there."""
    UNKNOWN_CONNECTOR = "unknown connector"
    """A commit for a connector that is not there (any more)."""
    STALE = "stale"
    """A status that a newer one, or a removal, has overtaken."""
    REFUSED = "refused"
    """Own key, but the value is not one that the group has sealed; never reaches a fold."""
    REPEATED = "repeated"
    """Own key, and the sealed value that counts already, written again; never reaches a fold."""
