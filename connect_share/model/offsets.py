"""The offset topic: its keys and values, what may be in them, and the fold into a worker's state."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final

from connect_share.errors import ValueFormatError
from connect_share.model.connect_json import dumps, loads
from connect_share.model.fold import Fold
from connect_share.model.keys import ClusterGroupId, OffsetKey, SkipKind
from connect_share.model.records import Record, TopicType


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


_LONGEST_PLAIN: Final = 1_000
_TEXT: Final = rb'"[ !#-\[\]-~]*"'
_PLAIN_KEY: Final = re.compile(
    rb"\[%(text)b,\{(?:%(member)b(?:,%(member)b)*)?\}\]"
    % {b"text": _TEXT, b"member": rb"%(text)b:(?:%(text)b|-?[1-9][0-9]{0,17}|0|true|false|null)" % {b"text": _TEXT}}
)
"""Matches keys that can be read, without reading them: connectors write few others."""

_Keys = dict[str, dict[bytes, dict[bytes, None]]]
"""Connector, identity of the source partition, original keys under which it has a value (usually one), in order."""


@dataclass(eq=False, repr=False)
class _SourcePartitions:
    """Source partitions of connectors, and the original keys under which they have a value."""

    _keys: _Keys
    _partitions: dict[bytes, dict[str, Any] | None]

    def partitions(self, connector: str) -> list[dict[str, Any]]:
        """Source partitions of a connector; the null partition is never listed."""
        found = (self._partitions[next(iter(keys))] for keys in self._known_keys().get(connector, {}).values())
        return [dict(partition) for partition in found if partition is not None]

    def original_keys(self, connector: str, partition: Mapping[str, Any] | None) -> tuple[bytes, ...]:
        """Original keys under which a source partition has a value; several if its members came in other orders."""
        return tuple(self._known_keys().get(connector, {}).get(partition_identity(partition), ()))

    def _known_keys(self) -> _Keys:
        return self._keys


class OffsetSnapshot(_SourcePartitions):
    """Immutable snapshot of the offset topic for one cluster group.

    Attributes:
        raw: value bytes by original (plain) key bytes; holds offsets, never put it into a log line.

    >>> from connect_share import replay_offsets
    >>> snapshot = replay_offsets([Record("offsets", 0, 0, 1, b'["c",{"file":"in.txt"}]', b'{"position":5}')])
    >>> snapshot.partitions("c"), snapshot.offset("c", {"file": "in.txt"})
    ([{'file': 'in.txt'}], {'position': 5})
    """

    def __init__(
        self, raw: Mapping[bytes, bytes], keys: _Keys, partitions: Mapping[bytes, dict[str, Any] | None]
    ) -> None:
        super().__init__(
            {name: {identity: dict.fromkeys(found) for identity, found in by.items()} for name, by in keys.items()},
            dict(partitions),
        )
        self.raw: Mapping[bytes, bytes] = MappingProxyType(dict(raw))

    def connectors(self) -> frozenset[str]:
        """Names of connectors that have offsets for at least one source partition."""
        return frozenset(name for name in self._keys if self.partitions(name))

    def offset(self, connector: str, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Source offset of a source partition; ``None`` if there is none or it is not an object.

        The key with the members in the order given is preferred, then the last in byte order.
        """
        exact = offset_key(connector, partition)
        keys = self.original_keys(connector, partition)
        if exact not in keys:
            if not keys:
                return None
            exact = max(keys)  # any rule will do that does not depend on the order of partitions
        try:
            value = loads(self.raw[exact])
        except ValueFormatError:
            return None
        return value if isinstance(value, dict) else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OffsetSnapshot):
            return NotImplemented
        return dict(self.raw) == dict(other.raw)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<OffsetSnapshot keys={len(self.raw)} connectors={sorted(self.connectors())}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (OffsetSnapshot, (dict(self.raw), self._keys, self._partitions))


class OffsetFold(Fold, _SourcePartitions):
    """The offsets of one cluster group after records of the offset topic.

    A source partition is listed as long as one of its keys has a value, and of a key in several partitions of the topic
    :class:`KeyPlaces` says which record counts: so the order between partitions does not matter (Java forgets a source
    partition at the tombstone of any of its keys; decision 3).

    Attributes:
        values: value bytes by original key bytes.

    Source: ``KafkaOffsetBackingStore`` and ``OffsetUtils``.
    """

    topic_type = TopicType.OFFSET

    def __init__(self, cluster_group_id: ClusterGroupId | None = None) -> None:
        Fold.__init__(self, cluster_group_id)
        _SourcePartitions.__init__(self, {}, {})
        self.values: dict[bytes, bytes] = {}
        self._begins = tuple(self._prefix + kind.prefix for kind in OffsetKey)
        self._homes: dict[bytes, tuple[str, bytes]] = {}
        self._unread: OrderedDict[bytes, None] = OrderedDict()

    def read_keys(self, most: int | None = None) -> bool:
        """Take apart keys, the oldest first, that were not yet; return whether there are more.

        Listings do it themselves: who looks up a value by its key needs none of it.
        """
        for _ in range(len(self._unread) if most is None else min(most, len(self._unread))):
            self._read_key(self._unread.popitem(last=False)[0])
        return bool(self._unread)

    def _known_keys(self) -> _Keys:
        self.read_keys()
        return self._keys

    def snapshot(self) -> OffsetSnapshot:
        """Return the state after all records so far; later ones do not change it."""
        return OffsetSnapshot(self.values, self._known_keys(), self._partitions)

    def saved(self) -> dict[str, Any]:
        """Return the whole state as plain values for JSON: original keys and values, in base64."""
        values = [[b64encode(key).decode(), b64encode(value).decode()] for key, value in self.values.items()]
        return {"values": values, "places": self.places.saved()}

    def restore(self, saved: Mapping[str, Any] | Sequence[Sequence[str]]) -> None:
        """Replace the whole state by what :meth:`saved` returned; 0.3.0 saved the values only."""
        known: Mapping[str, Any] = saved if isinstance(saved, Mapping) else {"values": saved, "places": {}}
        self.values, self._keys, self._partitions, self._homes = {}, {}, {}, {}
        self._unread.clear()
        for key, value in known["values"]:
            self._learn(b64decode(key, validate=True), b64decode(value, validate=True))
        self.places.restore(known["places"])

    def apply(self, record: Record) -> None:
        """Apply the next record of its partition."""
        key = record.key
        if key is None or not key.startswith(self._begins):
            self._pass_over(record)
            return
        key = key[len(self._prefix) :]
        value = self.places.take(key, record, self.values.get).value
        if value is None:
            self._forget(key)
        elif key in self.values:
            self.values[key] = value
        else:
            reason = self._learn(key, value)
            if reason is not None:
                # As in Java the bytes are kept, but no connector is known for them.
                self.skipped[SkipKind.BAD_KEY] += 1
                self._said.warning("Ignoring the key at %s: %s", record.place, reason)
        self.own_records += 1

    def _learn(self, key: bytes, value: bytes) -> ValueFormatError | None:
        """Store the value of a new key; return why no connector is known for it, if so."""
        self.values[key] = value
        if len(key) > _LONGEST_PLAIN or _PLAIN_KEY.fullmatch(key) is None:
            try:
                parse_offset_key(key)
            except ValueFormatError as error:
                return error
        self._unread[key] = None
        return None

    def _read_key(self, key: bytes) -> None:
        connector, partition = parse_offset_key(key)
        identity = partition_identity(partition)
        self._keys.setdefault(connector, {}).setdefault(identity, {})[key] = None
        self._partitions[key] = partition
        self._homes[key] = (connector, identity)

    def _forget(self, key: bytes) -> None:
        if self.values.pop(key, None) is None:
            return
        self._unread.pop(key, None)
        if key not in self._homes:
            return
        connector, identity = self._homes.pop(key)
        del self._partitions[key]
        by_identity = self._keys[connector]
        del by_identity[identity][key]
        if not by_identity[identity]:
            del by_identity[identity]
            if not by_identity:
                del self._keys[connector]
