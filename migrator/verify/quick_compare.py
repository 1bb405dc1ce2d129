"""The quick half of a verification: finds the connectors that *may* differ without parsing a single value.

What Connect believes of a connector follows from the connector's own records alone. On the config topic these are all of
them in their order, on the status topic those of each item in theirs, on the offset topic the newest of each key. So
where both sides have the same bytes, workers believe the same. The other connectors, the suspects, are read again and
folded by Connect's own rules (:mod:`migrator.verify.equality`). Only these decide what is a difference: after a
compaction of one side most suspects are equal.

Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, Self, TypeVar

from connect_share.keys import BEFORE_ORIGINAL, MARKER, ClusterGroupId, Subject, connector_of, parse
from connect_share.records import TopicType
from connect_share.sealing.cipher import is_sealed
from connect_share.transform.rules import prefixes_of

_STATE_PREFIXES: Final = {each: prefixes_of(each, lambda rule: rule.is_state) for each in TopicType}


class RawMessage(Protocol):
    """The client's message: key and value as bytes or ``None``, timestamp as type and milliseconds."""

    def key(self) -> Any: ...  # noqa: D102
    def value(self) -> Any: ...  # noqa: D102
    def timestamp(self) -> tuple[int, int]: ...  # noqa: D102


class KeySpaceDigest(ABC):
    """A digest of the records of one key space in one topic.

    Attributes:
        sealed: there are sealed values: the same bytes mean the same only to who has the same keys.
    """

    sealed = False

    @abstractmethod
    def add(self, original: bytes, message: RawMessage) -> None:
        """Add the next record of its partition; ``original`` is its plain key."""

    def finish(self) -> None:  # noqa: B027 - only one of the three has something to free
        """Free what is not needed to compare; every record was added."""

    @abstractmethod
    def suspects(self, other: Self) -> set[str | None] | None:
        """Return the connectors whose records differ between two finished digests.

        ``None`` among them stands for keys that name no connector. ``None`` instead of a set: the digests differ, and the
        connectors are not known any more.
        """


class OffsetDigest(KeySpaceDigest):
    """The newest value of each original key, in the end as one number.

    Args:
        keep: the values too, for twice the time and memory.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self._keep = keep
        self._values: dict[bytes, bytes] = {}
        self._digest = (0, 0)

    def add(self, original: bytes, message: RawMessage) -> None:  # noqa: D102
        self.add_all((message,), (message.key(),), len(message.key()) - len(original))

    def add_all(self, messages: Iterable[RawMessage], beginnings: tuple[bytes, ...], cut: int) -> None:
        """Add the messages whose keys have one of these beginnings, in one loop: there may be millions.

        Args:
            messages: of any keys.
            beginnings: of the keys that count.
            cut: bytes before the original key.
        """
        values = self._values
        for message in messages:
            key = message.key()
            if key is not None and key.startswith(beginnings):
                value = message.value()
                if value is None:
                    values.pop(key[cut:], None)
                else:
                    values[key[cut:]] = value

    def finish(self) -> None:  # noqa: D102
        self._digest = (len(self._values), sum(map(hash, self._values.items())))
        self.sealed = any(map(is_sealed, self._values.values()))
        if not self._keep:
            self._values = {}

    def suspects(self, other: OffsetDigest) -> set[str | None] | None:  # noqa: D102
        if self._digest == other._digest:
            return set()
        if not self._keep:
            return None
        return {connector_of(TopicType.OFFSET, key) for key in _unlike(self._values, other._values)}


class StatusDigest(KeySpaceDigest):
    """The bytes and timestamps of each status in their order, as one number."""

    def __init__(self) -> None:
        self._items: dict[bytes, Subject | None] = {}
        self._digests: dict[Subject, int] = {}

    def add(self, original: bytes, message: RawMessage) -> None:  # noqa: D102
        if original not in self._items:
            key = parse(TopicType.STATUS, original)
            self._items[original] = None if key is None else key.subject
        self.sealed = self.sealed or is_sealed(message.value())
        item = self._items[original]
        if item is not None:  # Connect ignores other keys
            self._digests[item] = hash((self._digests.get(item), message.value(), message.timestamp()[1]))

    def suspects(self, other: StatusDigest) -> set[str | None]:  # noqa: D102
        return {item.connector for item in _unlike(self._digests, other._digests)}


class ConfigDigest(KeySpaceDigest):
    """The records of each connector in their order, as one number."""

    def __init__(self) -> None:
        self._connectors: dict[bytes, str | None] = {}
        self._digests: dict[str | None, int] = {}
        self._marked = False

    def add(self, original: bytes, message: RawMessage) -> None:  # noqa: D102
        if (original, message.value()) == MARKER:  # of no connector
            self._marked = True
            return
        if original not in self._connectors:
            self._connectors[original] = connector_of(TopicType.CONFIG, original)
        self.sealed = self.sealed or is_sealed(message.value())
        connector = self._connectors[original]
        if connector is not None:
            self._digests[connector] = hash((self._digests.get(connector), original, message.value()))

    def suspects(self, other: ConfigDigest) -> set[str | None]:  # noqa: D102
        unlike = _unlike(self._digests, other._digests)
        if (self._marked or other._marked) and ("" in self._digests or "" in other._digests):
            unlike.add("")  # a connector without a name, and the marker is one of its records
        return unlike


_K = TypeVar("_K")


def _unlike(one: Mapping[_K, object], other: Mapping[_K, object]) -> set[_K]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def digest_of(topic_type: TopicType, *, keep: bool = False) -> KeySpaceDigest:
    """Return an empty digest; with ``keep`` one that always knows its suspects."""
    if topic_type is TopicType.OFFSET:
        return OffsetDigest(keep=keep)
    return StatusDigest() if topic_type is TopicType.STATUS else ConfigDigest()


class KeySpaces:
    """The digests of some key spaces of one topic, to which each record is added by its key.

    Agrees with :func:`connect_share.keys.own_key`, which decides on one space at a time.

    Args:
        topic_type: of the topic.
        digests: by cluster group; ``None`` has the plain keys.
    """

    def __init__(self, topic_type: TopicType, digests: Mapping[str | None, KeySpaceDigest]) -> None:
        self._prefixes = _STATE_PREFIXES[topic_type]
        self._digests = {
            b"" if group is None else ClusterGroupId(group).prefix: digest for group, digest in digests.items()
        }
        self._before_original = BEFORE_ORIGINAL[topic_type]

    def add(self, messages: Sequence[RawMessage]) -> None:
        """Add the messages of a batch to their digests; those of other key spaces are left out."""
        if len(self._digests) > 1:
            self._add_to_many(messages)
            return
        ((prefix, digest),) = self._digests.items()
        beginnings, cut = tuple(prefix + each for each in self._prefixes), len(prefix)
        if isinstance(digest, OffsetDigest):
            digest.add_all(messages, beginnings, cut)
            return
        for message in messages:
            key = message.key()
            if key is not None and key.startswith(beginnings):
                digest.add(key[cut:], message)

    def _add_to_many(self, messages: Iterable[RawMessage]) -> None:
        for message in messages:
            key = message.key() or b""
            found = self._before_original.match(key)
            if found is None:
                continue
            cut = found.end()
            digest = self._digests.get(key[:cut])
            if digest is not None and key.startswith(self._prefixes, cut):
                digest.add(key[cut:], message)
