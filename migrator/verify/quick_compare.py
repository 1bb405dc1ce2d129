"""The quick half of a verification: finds the connectors that *may* differ without parsing a single value.

A connector's state follows from the connector's own records alone. On the config topic these are all of
them in their order, on the status topic those of each item in theirs, on the offset topic the newest of each key. So
where both sides have the same bytes, the states are the same. The other connectors, the suspects, are read again and
folded by Connect's own rules (:mod:`migrator.verify.equality`). Only these decide what is a difference: after a
compaction of one side most suspects are equal.

Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, Self, TypeVar

from connect_share.model.keys import BEFORE_ORIGINAL, MARKER, ClusterGroupId, Subject, connector_of, parse
from connect_share.model.records import TopicType
from connect_share.sealing.cipher import is_sealed
from connect_share.transform.rules import prefixes_of

_SHARES: Final = 4_096
"""Few keys that differ are in few of the shares, so most keys need not be kept."""
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

    def fold(self) -> None:  # noqa: B027 - only one of the three has something to free
        """Free what is not needed to compare; all records were added of the partitions that were read so far."""

    def closer(self, other: Self) -> Callable[[], Self] | None:  # noqa: ARG002 - two of the three know them at once
        """Return what makes digests that see more, if these two differ and do not know in which connectors."""
        return None

    @abstractmethod
    def suspects(self, other: Self) -> set[str | None]:
        """Return the connectors whose records differ between two folded digests that need not look closer.

        ``None`` among them stands for keys that name no connector.
        """


class OffsetDigest(KeySpaceDigest):
    """The newest value of each original key, as sums of hashes.

    Values and keys are kept of the partitions that are being read, so :meth:`fold` bounds the memory. Where two digests
    differ, the next ones have a sum for each share of the keys, and those after them keep keys and values of the shares
    that differ. A key in several partitions, which Connect does not write, counts once for each; if that makes a
    difference, Connect's rules decide. Keys have their share by their hash; ``kept`` are the shares whose keys and values
    are kept.
    """

    def __init__(self, *, shares: int = 1, kept: frozenset[int] | None = None) -> None:
        self._values: dict[bytes, bytes] = {}
        self._sums = [0] * shares
        self._shares = kept
        self._kept: dict[bytes, bytes] = {}

    def add(self, original: bytes, message: RawMessage) -> None:  # noqa: D102
        self.add_all((message,), (message.key(),), len(message.key()) - len(original))

    def add_all(self, messages: Iterable[RawMessage], beginnings: tuple[bytes, ...], cut: int) -> None:
        """Add the messages whose keys have one of these beginnings, in one loop: there may be millions.

        ``cut`` is the number of bytes before the original key.
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

    def fold(self) -> None:  # noqa: D102
        values, self._values = self._values, {}
        sums, shares, kept = self._sums, len(self._sums), self._shares
        self.sealed = self.sealed or any(map(is_sealed, values.values()))
        if shares == 1:
            sums[0] += sum(map(_hash_of, values.items()))
            return
        for item in values.items():
            share = hash(item[0]) % shares
            sums[share] += _hash_of(item)
            if kept is not None and share in kept:
                self._kept[item[0]] = item[1]

    def closer(self, other: OffsetDigest) -> Callable[[], OffsetDigest] | None:  # noqa: D102
        if self._shares is not None or self._sums == other._sums:
            return None
        if len(self._sums) == 1:
            return partial(OffsetDigest, shares=_SHARES)
        unlike = (at for at, both in enumerate(zip(self._sums, other._sums, strict=True)) if both[0] != both[1])
        return partial(OffsetDigest, shares=_SHARES, kept=frozenset(unlike))

    def suspects(self, other: OffsetDigest) -> set[str | None]:  # noqa: D102
        return {connector_of(TopicType.OFFSET, key) for key in _unlike(self._kept, other._kept)}


def _hash_of(item: tuple[bytes, bytes]) -> int:
    """Return a number to add up.

    Not the hash of the tuple: sums of those are often the same when two keys have each other's values.
    """
    key, value = item
    return hash((len(key), key + value))


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


def digest_of(topic_type: TopicType) -> KeySpaceDigest:
    """Return an empty digest."""
    if topic_type is TopicType.OFFSET:
        return OffsetDigest()
    return StatusDigest() if topic_type is TopicType.STATUS else ConfigDigest()


class KeySpaces:
    """The digests of some key spaces of one topic, to which each record is added by its key.

    Agrees with :func:`connect_share.model.keys.own_key`, which decides on one space at a time.
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
