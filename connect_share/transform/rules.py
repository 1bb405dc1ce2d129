"""The rules of a move, whatever its direction: which keys are taken, which keys they become, and the counts of both.

Pure. KIP-1173's ``KafkaConnectTopicMigrator`` is one way to ask for a transform, a plan is another; the plan also
knows directions the KIP forgot, such as the way out of shared topics (prefixed keys become plain ones).
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Self, assert_never

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from connect_share.model.keys import (
    KINDS,
    ClusterGroupId,
    ConfigKey,
    KeyKind,
    OffsetKey,
    StatusKey,
    encodable,
    parse,
    prefix_of,
    split_key,
)
from connect_share.model.records import Record, TopicType

TopicText = Annotated[str, AfterValidator(encodable)]
"""A text from a topic as a member of what is written as JSON."""

RULE_VERSION: Final = 2
"""Raised whenever :meth:`KeyTransform.apply` would answer differently for some record."""

PLAIN_KEYS: Final = "plain keys"
"""How messages name keys without a prefix."""


class SkipReason(enum.Enum):
    """Why a record is not carried over. The value is the name used in plans, manifests and reports."""

    _value_: str
    explanation: str
    """One sentence for people."""

    def __new__(cls, name: str, explanation: str) -> Self:
        """Make a member of its name, which is its value, and the sentence."""
        reason = object.__new__(cls)
        reason._value_, reason.explanation = name, explanation
        return reason

    NO_KEY = "no_key", "has no key; Connect never writes such a record"
    NOT_A_LEGAL_KEY = "not_a_legal_key", "has a key that Connect does not write to such a topic"
    ALREADY_PREFIXED = "already_prefixed", "carries the prefix of a cluster group where plain keys are taken"
    PLAIN_KEY = "plain_key", "has a plain key where keys of named cluster groups are taken"
    FOREIGN_GROUP = "foreign_group", "belongs to a cluster group that is not to be moved"
    SESSION_KEY = "session_key", "is a session key: a secret of the workers; the new leader makes a new one"
    RESTART_REQUEST = "restart_request", "is a restart request for the old workers"
    OTHER_JOB = "other_job", "belongs to another connector than the one to be moved"
    NO_JOB = "no_job", "belongs to no connector, and one connector only is to be moved"
    REFUSED = (
        "refused",
        "is refused by the group's own workers, too: a sealed group has not sealed it, or it is an old value",
    )
    REPLACED = "replaced", "lies in another partition than the newest record of its key, which is copied"
    ABORTED = "aborted", "is of an aborted transaction: the source's own workers do not see it"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that is not carried over, and why."""

    reason: SkipReason


@dataclass(frozen=True, slots=True)
class KindRule:
    """Rule of a move for the records of one kind.

    Attributes:
        left_behind_as: why no move takes them along; ``None``: moves take them.
        is_state: they are part of the state that is put in order and compared; others are carried as they are.
        ends_with_connector: they mean nothing once their connector is removed, and Connect never removes them.
    """

    left_behind_as: SkipReason | None = None
    is_state: bool = False
    ends_with_connector: bool = False


def _rule_of(kind: KeyKind) -> KindRule:
    match kind:
        case ConfigKey.SESSION_KEY:
            return KindRule(left_behind_as=SkipReason.SESSION_KEY)
        case ConfigKey.RESTART:
            return KindRule(left_behind_as=SkipReason.RESTART_REQUEST)
        case ConfigKey.LOGGER_LEVEL:
            return KindRule()
        case ConfigKey.TASK | ConfigKey.COMMIT:
            return KindRule(is_state=True, ends_with_connector=True)
        case ConfigKey.CONNECTOR | ConfigKey.TARGET_STATE | ConfigKey.TASK_COUNT:
            return KindRule(is_state=True)
        case StatusKey.CONNECTOR | StatusKey.TASK | StatusKey.TOPIC | OffsetKey.OFFSET:
            return KindRule(is_state=True)
    assert_never(kind)


RULES: Final[Mapping[KeyKind, KindRule]] = {kind: _rule_of(kind) for kinds in KINDS.values() for kind in kinds}


def prefixes_of(topic_type: TopicType, wanted: Callable[[KindRule], bool]) -> tuple[bytes, ...]:
    """Return how the keys begin, whatever follows, of the kinds of a topic with a wanted rule."""
    return tuple(kind.prefix for kind in KINDS[topic_type] if not kind.is_whole_key and wanted(RULES[kind]))


_TAKEN: Final = {each: prefixes_of(each, lambda rule: rule.left_behind_as is None) for each in TopicType}
"""The beginnings of the plain keys that are taken whatever follows, as long as all connectors are."""


@dataclass(frozen=True, slots=True)
class KeyTransform:
    """Which records are taken, and the key they get. Holds no client and can be pickled.

    Attributes:
        topic_type: which of the three topics the records come from.
        plain: ``True`` takes plain keys only, ``False`` prefixed ones.
        groups: the cluster groups taken; ``None`` is any. Meaningless with ``plain``.
        destination: the cluster group that is written; ``None`` writes plain keys.
        connectors: exact names of the connectors taken; ``None`` takes all, and what belongs to no connector.
    """

    topic_type: TopicType
    plain: bool
    groups: frozenset[str] | None
    destination: ClusterGroupId | None
    connectors: frozenset[str] | None = None

    @property
    def prefix(self) -> bytes:
        """The bytes before the original key at the destination."""
        return prefix_of(self.destination)

    @property
    def source(self) -> ClusterGroupId | None:
        """The one cluster group whose keys are taken; ``None``: plain keys, or several groups."""
        return ClusterGroupId(next(iter(self.groups))) if self.groups and len(self.groups) == 1 else None

    @classmethod
    def between(
        cls,
        topic_type: TopicType,
        source: str | None,
        destination: ClusterGroupId | None,
        connectors: Collection[str] | None = None,
    ) -> KeyTransform:
        """Return the transform from one key space to another; ``None`` is that of plain keys."""
        return cls(
            topic_type=topic_type,
            plain=source is None,
            groups=None if source is None else frozenset({str(source)}),
            destination=destination,
            connectors=None if connectors is None else frozenset(connectors),
        )

    def at_destination(self) -> KeyTransform:
        """Return the transform that takes what this one has written."""
        return KeyTransform.between(self.topic_type, self.destination, None, self.connectors)

    @property
    def fingerprint(self) -> str:
        """A hash over all of it and the version of the rule: the same means the same transform."""
        content = {
            "rule": RULE_VERSION,
            "topic_type": self.topic_type.value,
            "plain": self.plain,
            "groups": None if self.groups is None else sorted(self.groups),
            "destination": None if self.destination is None else str(self.destination),
            "connectors": None if self.connectors is None else sorted(self.connectors),
        }
        text = json.dumps(content, sort_keys=True)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def sure_beginnings(self) -> tuple[tuple[bytes, ...], int]:
        """The beginnings of keys that are taken in any case, and the number of their bytes before the original key.

        A loop over many records asks :meth:`original_key` for the others only. Ids are so made that a key has one
        reading (:func:`connect_share.model.keys.own_key`), hence one look at its beginning is enough.
        """
        if self.connectors is not None:
            return (), 0
        if self.plain:
            return _TAKEN[self.topic_type], 0
        if (source := self.source) is None:
            return (), 0
        prefix = source.prefix
        return tuple(prefix + begin for begin in _TAKEN[self.topic_type]), len(prefix)

    def apply(self, record: Record) -> Record | Skipped:
        """Return the record with its new key, or why it is not carried over.

        Never raises and keeps no memory of earlier records.

        Everything but the key stays as it is, tombstones, timestamp, headers and ``partition`` included:
        the writer places the record by murmur2 of the new key.
        """
        original = self.original_key(record.key)
        if isinstance(original, SkipReason):
            return Skipped(original)
        return Record(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_ms,
            self.prefix + original,
            record.value,
            record.headers,
            record.sealed_ms,
        )

    def original_key(self, key: bytes | None) -> bytes | SkipReason:
        """Return the plain key inside ``key`` if its record is taken, else why not; never raises."""
        if key is None:
            return SkipReason.NO_KEY
        parts = split_key(self.topic_type, key)
        if parts is None:
            return SkipReason.NOT_A_LEGAL_KEY
        group, original = parts
        return self._objection(group, original) or original

    def taken(
        self, records: Iterable[Record], skipped: Counter[SkipReason] | None = None
    ) -> Iterator[tuple[bytes, Record]]:
        """Yield the records that are carried over, unchanged, with their original keys; ``skipped`` counts the others."""
        for record in records:
            original = self.original_key(record.key)
            if isinstance(original, bytes):
                yield original, record
            elif skipped is not None:
                skipped[original] += 1

    def takes(self, key: bytes | None) -> bool:
        """Return whether a record with this key is carried over."""
        return isinstance(self.original_key(key), bytes)

    def _objection(self, group: ClusterGroupId | None, original: bytes) -> SkipReason | None:
        if self.plain:
            if group is not None:
                return SkipReason.ALREADY_PREFIXED
        elif group is None:
            return SkipReason.PLAIN_KEY
        elif self.groups is not None and group not in self.groups:
            return SkipReason.FOREIGN_GROUP
        key = parse(self.topic_type, original)
        if key is None:
            return SkipReason.NOT_A_LEGAL_KEY
        if (left_behind := RULES[key.kind].left_behind_as) is not None:
            return left_behind
        if self.connectors is not None:
            subject = key.subject
            if subject is None:
                return SkipReason.NO_JOB
            if subject.connector not in self.connectors:
                return SkipReason.OTHER_JOB
        return None


Count = Annotated[int, Field(ge=0)]


class RecordCounts(BaseModel):
    """The counts of the records that were read.

    Attributes:
        read: records visible in the ranges; compaction and markers leave fewer than offsets.
        to_write: records that get a new key.
        tombstones: how many of those have no value.
        bytes_to_write: keys and values of those, new keys counted.
        skipped: per reason, see :class:`migrator.SkipReason`.
        several: keys with records in several partitions; ``None``: not counted.
        largest_bytes, largest_at: the largest of those, with all around it, and where it is.
        times_ms: the oldest and the newest time of those; ``None``: not known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    read: Count = 0
    to_write: Count = 0
    tombstones: Count = 0
    bytes_to_write: Count = 0
    skipped: dict[SkipReason, Count] = Field(default_factory=dict)
    several: Count | None = None
    largest_bytes: Count = 0
    largest_at: str = ""
    times_ms: tuple[int, int] | None = None
