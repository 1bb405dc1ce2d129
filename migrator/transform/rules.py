"""What every direction of a move has in common: which keys are taken, and what they become.

Pure. KIP-1173's ``KafkaConnectTopicMigrator`` is one way to ask for a transform, a plan is another; the plan also
knows directions the KIP forgot, such as the way out of shared topics (prefixed keys become plain ones).
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from connect_share.connect_json import JSON_NULL
from connect_share.keys import (
    CONFIG_KEY_PREFIXES,
    SEPARATOR,
    SESSION_KEY,
    STATUS_KEY_PREFIXES,
    ClusterGroupId,
    split_key,
)
from connect_share.records import Record, TopicType
from migrator.transform.connector_keys import connector_of

RULE_VERSION: Final = 2
"""Raised whenever :meth:`KeyTransform.apply` would answer differently for some record."""

PLAIN_KEYS: Final = "plain keys"
"""How people are told of keys without a prefix."""

_RESTART_PREFIX: Final = b"restart-connector-"
_TAKEN: Final[Mapping[TopicType, tuple[bytes, ...]]] = {
    TopicType.CONFIG: tuple(prefix for prefix in CONFIG_KEY_PREFIXES if prefix != _RESTART_PREFIX),
    TopicType.STATUS: STATUS_KEY_PREFIXES,
    TopicType.OFFSET: (b"[",),
}
"""How the plain keys begin that are taken whatever follows, as long as all connectors are."""


class SkipReason(enum.Enum):
    """Why a record is not carried over. The value is the name used in plans, manifests and reports."""

    NO_KEY = "no_key"
    NOT_A_LEGAL_KEY = "not_a_legal_key"
    ALREADY_PREFIXED = "already_prefixed"
    PLAIN_KEY = "plain_key"
    FOREIGN_GROUP = "foreign_group"
    SESSION_KEY = "session_key"
    RESTART_REQUEST = "restart_request"
    OTHER_JOB = "other_job"
    NO_JOB = "no_job"

    @property
    def explanation(self) -> str:
        """One sentence for people."""
        return _EXPLANATIONS[self]


_EXPLANATIONS: Final[Mapping[SkipReason, str]] = {
    SkipReason.NO_KEY: "has no key; Connect never writes such a record",
    SkipReason.NOT_A_LEGAL_KEY: "has a key that Connect does not write to such a topic",
    SkipReason.ALREADY_PREFIXED: "carries the prefix of a cluster group where plain keys are taken",
    SkipReason.PLAIN_KEY: "has a plain key where keys of named cluster groups are taken",
    SkipReason.FOREIGN_GROUP: "belongs to a cluster group that is not to be moved",
    SkipReason.SESSION_KEY: "is a session key: a secret between workers, which the new leader makes anew",
    SkipReason.RESTART_REQUEST: "is a restart request: it was meant for workers of the past",
    SkipReason.OTHER_JOB: "belongs to another connector than the one to be moved",
    SkipReason.NO_JOB: "belongs to no connector, and one connector only is to be moved",
}


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that is not carried over, and why."""

    reason: SkipReason


def left_behind_as(topic_type: TopicType, original: bytes) -> SkipReason | None:
    """Return why no move takes a legal plain key along: it says nothing of any connector that is kept."""
    if topic_type is TopicType.CONFIG:
        if original == SESSION_KEY:
            return SkipReason.SESSION_KEY
        if original.startswith(_RESTART_PREFIX):
            return SkipReason.RESTART_REQUEST
    return None


def is_removal(topic_type: TopicType, value: bytes | None) -> bool:
    """Return whether a value removes its key; on a config topic JSON null does, whoever reads it."""
    return value is None or (topic_type is TopicType.CONFIG and value == JSON_NULL)


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
        """What stands before the original key at the destination."""
        return b"" if self.destination is None else self.destination.encode("ascii") + SEPARATOR

    def at_destination(self) -> KeyTransform:
        """Give the transform that takes what this one has written."""
        return KeyTransform(
            topic_type=self.topic_type,
            plain=self.destination is None,
            groups=None if self.destination is None else frozenset({str(self.destination)}),
            destination=None,
            connectors=self.connectors,
        )

    @property
    def description(self) -> dict[str, object]:
        """All of it as JSON; equal for transforms that do the same."""
        return {
            "topic_type": self.topic_type.value,
            "plain": self.plain,
            "groups": None if self.groups is None or self.plain else sorted(self.groups),
            "destination": None if self.destination is None else str(self.destination),
            "connectors": None if self.connectors is None else sorted(self.connectors),
        }

    @property
    def fingerprint(self) -> str:
        """A hash over the description and the version of the rule: the same means the same transform."""
        told = json.dumps({"rule": RULE_VERSION, **self.description}, sort_keys=True)
        return f"sha256:{hashlib.sha256(told.encode()).hexdigest()}"

    @property
    def sure_beginnings(self) -> tuple[tuple[bytes, ...], int]:
        """How keys begin that are taken in any case, and how many of their bytes come before the original key.

        A loop over many records asks :meth:`original_key` for the others only. Ids are so made that a key has one
        reading (:func:`connect_share.keys.own_key`), hence one look at its beginning is enough.
        """
        if self.connectors is not None:
            return (), 0
        if self.plain:
            return _TAKEN[self.topic_type], 0
        if self.groups is None or len(self.groups) != 1:
            return (), 0
        prefix = next(iter(self.groups)).encode("ascii") + SEPARATOR
        return tuple(prefix + begin for begin in _TAKEN[self.topic_type]), len(prefix)

    def apply(self, record: Record) -> Record | Skipped:
        """Give the record its new key; never raises and keeps no memory of earlier records.

        Everything but the key stays as it is, tombstones, timestamp, headers and ``partition`` included:
        whoever writes the record places it by murmur2 of the new key.
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
        )

    def original_key(self, key: bytes | None) -> bytes | SkipReason:
        """Give the plain key inside ``key`` if its record is taken, else why not; never raises."""
        if key is None:
            return SkipReason.NO_KEY
        parts = split_key(self.topic_type, key)
        if parts is None:
            return SkipReason.NOT_A_LEGAL_KEY
        group, original = parts
        return self._objection(group, original) or original

    def _objection(self, group: ClusterGroupId | None, original: bytes) -> SkipReason | None:
        if self.plain:
            if group is not None:
                return SkipReason.ALREADY_PREFIXED
        elif group is None:
            return SkipReason.PLAIN_KEY
        elif self.groups is not None and group not in self.groups:
            return SkipReason.FOREIGN_GROUP
        if (left_behind := left_behind_as(self.topic_type, original)) is not None:
            return left_behind
        if self.connectors is not None:
            connector = connector_of(self.topic_type, original)
            if connector is None:
                return SkipReason.NO_JOB
            if connector not in self.connectors:
                return SkipReason.OTHER_JOB
        return None
