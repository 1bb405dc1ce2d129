"""The quick half of verifying: which connectors *may* differ, found without parsing a single value.

What Connect believes of a connector follows from the connector's own records alone: on the config topic from all of
them in their order, on the status topic from those of each item in theirs, on the offset topic from the newest of each
key. So where both sides have seen the same bytes, they believe the same. The others, the suspects, are read again and
folded by Connect's own rules (:mod:`migrator.verify.equality`), which alone say what is a difference: after a
compaction of one side a suspect is mostly equal.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, Self, TypeVar

from connect_share.keys import BEFORE_ORIGINAL, MARKER, ClusterGroupId, Subject, connector_of, parse
from connect_share.records import TopicType
from migrator.transform.rules import prefixes_of

_BELIEVED: Final = {each: prefixes_of(each, lambda rule: rule.is_state) for each in TopicType}


class RawMessage(Protocol):
    """What is asked of the client's message: key and value as bytes or ``None``, timestamp as type and milliseconds."""

    def key(self) -> Any: ...  # noqa: D102
    def value(self) -> Any: ...  # noqa: D102
    def timestamp(self) -> tuple[int, int]: ...  # noqa: D102


class Seen(Protocol):
    """What was seen of one key space in one topic."""

    def take(self, original: bytes, message: RawMessage) -> None:
        """Take the next record of its partition; ``original`` is its plain key."""

    def settle(self) -> None:
        """Everything was taken: let go of what is not needed to compare."""

    def beside(self) -> Self:
        """Give an empty one for the other side."""

    def suspects(self, other: Self) -> set[str | None] | None:
        """Give the connectors of which the settled sides have not seen the same.

        ``None`` among them stands for keys that name no connector; ``None`` alone for: which ones is not known any more.
        """


class SeenOffsets:
    """The newest value of each original key, in the end as one number.

    Args:
        keep: the values too, for twice the time and memory.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self._keep = keep
        self._values: dict[bytes, bytes] = {}
        self._told = (0, 0)

    def take(self, original: bytes, message: RawMessage) -> None:
        """See :class:`Seen`."""
        self.take_all((message,), (message.key(),), len(message.key()) - len(original))

    def take_all(self, messages: Iterable[RawMessage], beginnings: tuple[bytes, ...], cut: int) -> None:
        """Take the next records of their partitions whose keys begin so; a million times, hence in one loop.

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

    def settle(self) -> None:
        """See :class:`Seen`."""
        self._told = (len(self._values), sum(map(hash, self._values.items())))
        if not self._keep:
            self._values = {}

    def beside(self) -> SeenOffsets:
        """See :class:`Seen`."""
        return SeenOffsets(keep=self._keep)

    def suspects(self, other: SeenOffsets) -> set[str | None] | None:
        """See :class:`Seen`."""
        if self._told == other._told:
            return set()
        if not self._keep:
            return None
        return {connector_of(TopicType.OFFSET, key) for key in _unlike(self._values, other._values)}


class SeenStatuses:
    """What each status has been, as one number: which bytes and timestamps, in which order."""

    def __init__(self) -> None:
        self._items: dict[bytes, Subject | None] = {}
        self.histories: dict[Subject, int] = {}

    def take(self, original: bytes, message: RawMessage) -> None:
        """See :class:`Seen`."""
        if original not in self._items:
            key = parse(TopicType.STATUS, original)
            self._items[original] = None if key is None else key.subject
        item = self._items[original]
        if item is not None:  # else nobody believes it
            told = (self.histories.get(item), message.value(), message.timestamp()[1])
            self.histories[item] = hash(told)

    def settle(self) -> None:
        """See :class:`Seen`."""

    def beside(self) -> SeenStatuses:
        """See :class:`Seen`."""
        return SeenStatuses()

    def suspects(self, other: SeenStatuses) -> set[str | None]:
        """See :class:`Seen`."""
        return {item.connector for item in _unlike(self.histories, other.histories)}


class SeenConfigs:
    """What each connector's records have been, as one number."""

    def __init__(self) -> None:
        self._connectors: dict[bytes, str | None] = {}
        self.histories: dict[str | None, int] = {}
        self.marked = False

    def take(self, original: bytes, message: RawMessage) -> None:
        """See :class:`Seen`."""
        if (original, message.value()) == MARKER:  # which says nothing of any connector
            self.marked = True
            return
        if original not in self._connectors:
            self._connectors[original] = connector_of(TopicType.CONFIG, original)
        connector = self._connectors[original]
        if connector is not None:
            self.histories[connector] = hash((self.histories.get(connector), original, message.value()))

    def settle(self) -> None:
        """See :class:`Seen`."""

    def beside(self) -> SeenConfigs:
        """See :class:`Seen`."""
        return SeenConfigs()

    def suspects(self, other: SeenConfigs) -> set[str | None]:
        """See :class:`Seen`."""
        unlike = _unlike(self.histories, other.histories)
        if (self.marked or other.marked) and ("" in self.histories or "" in other.histories):
            unlike.add("")  # a connector without a name, and the marker is one of its records
        return unlike


_K = TypeVar("_K")


def _unlike(one: Mapping[_K, object], other: Mapping[_K, object]) -> set[_K]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def seen_of(topic_type: TopicType, *, keep: bool = False) -> Seen:
    """Give an empty one for a topic; with ``keep`` one that always knows its suspects."""
    if topic_type is TopicType.OFFSET:
        return SeenOffsets(keep=keep)
    return SeenStatuses() if topic_type is TopicType.STATUS else SeenConfigs()


class Spaces:
    """Tells which of some key spaces of one topic a record belongs to.

    Agrees with :func:`connect_share.keys.own_key`, which is asked for one space at a time.

    Args:
        topic_type: of the topic.
        spaces: by cluster group; ``None`` has the plain keys.
    """

    def __init__(self, topic_type: TopicType, spaces: Mapping[str | None, Seen]) -> None:
        self._believed = _BELIEVED[topic_type]
        self._by_prefix = {
            b"" if group is None else ClusterGroupId(group).prefix: space for group, space in spaces.items()
        }
        self._begin = BEFORE_ORIGINAL[topic_type]

    def take(self, messages: Sequence[RawMessage]) -> None:
        """Give the records of a batch to their spaces; those of others are passed over."""
        if len(self._by_prefix) > 1:
            self._deal_out(messages)
            return
        ((prefix, space),) = self._by_prefix.items()
        beginnings = tuple(prefix + each for each in self._believed)
        if isinstance(space, SeenOffsets):
            space.take_all(messages, beginnings, len(prefix))
            return
        cut, take = len(prefix), space.take
        for message in messages:
            key = message.key()
            if key is not None and key.startswith(beginnings):
                take(key[cut:], message)

    def _deal_out(self, messages: Iterable[RawMessage]) -> None:
        for message in messages:
            key = message.key() or b""
            found = self._begin.match(key)
            if found is None:
                continue
            cut = found.end()
            space = self._by_prefix.get(key[:cut])
            if space is not None and key.startswith(self._believed, cut):
                space.take(key[cut:], message)
