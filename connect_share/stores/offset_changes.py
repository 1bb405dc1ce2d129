"""Changes of source offsets, in the JSON of Connect's REST API (KIP-875): pure functions.

What is read here comes from a file or from a topic, so it is bounded, and no message holds a value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share.connect_json import dumps, loads
from connect_share.errors import UsageError, ValueFormatError
from connect_share.state import partition_identity, validate_offset_map

MOST_BYTES: Final = 16 * 1024 * 1024
UNREADABLE: Final = "[unreadable]"
"""Stands for a value that is not an offset."""

_Map = Mapping[str, Any]
OffsetPair = tuple[_Map | None, _Map | None]
"""Source partition and source offset; ``None`` in place of an offset: forget the partition."""
StoredOffset = tuple[_Map | None, bytes]
"""Source partition as it is spelled in a key, and value bytes."""

_INT64: Final = range(-(1 << 63), 1 << 63)
_LONGEST_INTEGER: Final = 20
_SINK_PARTITION: Final = {"kafka_topic", "kafka_partition"}


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """What happens to one source partition.

    Attributes:
        partition: the source partition.
        old: offset that is there; ``None``: none; :data:`UNREADABLE`: not an offset.
        new: offset that is to be there; ``None``: none.
        is_change: whether something has to be written.
        can_be_undone: ``old`` is all there is to know of what is there.
    """

    partition: _Map | None = field(repr=False)
    old: Any = field(repr=False)
    new: _Map | None = field(repr=False)
    is_change: bool
    can_be_undone: bool


def parse_offsets(data: bytes) -> list[OffsetPair]:
    """Read ``{"offsets": [{"partition": .., "offset": ..}]}`` as Connect's REST API gives and takes it.

    Members beside these are allowed, as the console's own output has some. Stricter than Connect where Connect would
    guess: repeated partitions or members, missing members and integers beyond 64 bits are refused.

    Raises:
        UsageError: says at which index, and why; never a value.
    """
    if len(data) > MOST_BYTES:
        raise UsageError(f"the offsets have more than {MOST_BYTES:,} bytes; change them in several steps")
    parsed = _parse(data, "the offsets")
    entries = parsed.get("offsets") if isinstance(parsed, dict) else None
    if not isinstance(entries, list):
        raise UsageError(
            'the offsets are not of the form {"offsets": [{"partition": {..}, "offset": {..}}]}, as '
            "get offsets --output json and GET /connectors/NAME/offsets give them"
        )
    pairs: list[OffsetPair] = []
    owners: set[bytes] = set()
    seen: dict[bytes, int] = {}
    for index, entry in enumerate(entries):
        pair = _pair(index, entry)
        identity = partition_identity(pair[0])
        if identity in seen:
            raise UsageError(f"offsets[{index}] has the same partition as offsets[{seen[identity]}]; keep one of them")
        seen[identity] = index
        owners.add(dumps([entry.get("group"), entry.get("connector")]))
        if len(owners) > 1:
            raise UsageError(
                f"offsets[{index}] is of another connector than those before it; a file holds the offsets of one connector, "
                "as get offsets --connector NAME --output json gives them"
            )
        pairs.append(pair)
    return pairs


def parse_partition(text: str) -> dict[str, Any]:
    """Read one source partition from a command line.

    Raises:
        UsageError: it is no JSON object that can be a source partition; never shows it.
    """
    parsed = _parse(text.encode("utf-8", "surrogateescape"), "the partition")
    if not isinstance(parsed, dict):
        raise UsageError('the partition is not a JSON object such as {"filename": "/data/in.txt"}')
    try:
        _check_flat(parsed, "partition")
    except ValueFormatError as error:
        raise UsageError(str(error)) from None
    return parsed


def offsets_document(pairs: Iterable[OffsetPair]) -> bytes:
    """Write pairs as :func:`parse_offsets` and Connect's ``PATCH /connectors/NAME/offsets`` read them."""
    entries = [{"partition": partition, "offset": offset} for partition, offset in pairs]
    return json.dumps({"offsets": entries}, indent=2, allow_nan=False).encode("ascii") + b"\n"


def usable_pairs(stored: Sequence[StoredOffset]) -> list[OffsetPair]:
    """Return what is stored as pairs to be written elsewhere; each key of a partition gets the value of its last one.

    What no connector can use is left out: anybody may have written it.
    """
    values = {partition_identity(partition): _parsed(value) for partition, value in stored}
    pairs = [(partition, values[partition_identity(partition)]) for partition, _ in stored]
    return [pair for pair in pairs if pair[1] is not UNREADABLE and is_usable(pair[0])]


def is_usable(partition: _Map | None) -> bool:
    """Return whether a source connector can have offsets for this partition."""
    try:
        _check_flat(partition, "partition")
    except ValueFormatError:
        return False
    return not _is_of_sink(partition)


def compare(stored: Sequence[StoredOffset], wanted: Iterable[OffsetPair]) -> list[OffsetChange]:
    """Return what happens to each source partition in ``wanted``, each once, in that order.

    ``stored`` has one entry for each key; the same partition may lie under several, with members in other orders.
    """
    values: dict[bytes, list[Any]] = {}
    for partition, value in stored:
        values.setdefault(partition_identity(partition), []).append(_parsed(value))
    changes: dict[bytes, OffsetChange] = {}
    for partition, new in wanted:
        identity = partition_identity(partition)
        found = values.get(identity, [None])
        old = found[-1]
        changes[identity] = OffsetChange(
            partition,
            old,
            new,
            is_change=any(each is UNREADABLE or not _equal(each, new) for each in found),
            can_be_undone=old is not UNREADABLE and all(_equal(each, old) for each in found) and is_usable(partition),
        )
    return list(changes.values())


def _equal(one: Any, other: Any) -> bool:
    # == would take 1, 1.0 and true for the same.
    return partition_identity(one) == partition_identity(other)


def _parsed(value: bytes) -> Any:
    try:
        parsed = loads(value)
        _check_flat(parsed, "offset")
    except ValueFormatError:
        return UNREADABLE
    return UNREADABLE if parsed is None else parsed


def _check_flat(value: object, what: str) -> None:
    """Check what Connect can write, and read back as the same.

    Raises:
        ValueFormatError: names the field, never its value.
    """
    validate_offset_map(value, what)
    for name, item in value.items() if isinstance(value, Mapping) else ():
        if isinstance(item, float) and not math.isfinite(item):
            raise ValueFormatError(f"field {name!r} of a source {what} is too large for a double")


def _is_of_sink(partition: _Map | None) -> bool:
    return partition is not None and partition.keys() == _SINK_PARTITION


def _pair(index: int, entry: object) -> OffsetPair:
    if not isinstance(entry, dict):
        raise UsageError(f"offsets[{index}] is not an object")
    pair: list[_Map | None] = []
    for member in ("partition", "offset"):
        if member not in entry:
            raise UsageError(f"offsets[{index}] has no member {member}; null is written out")
        value = entry[member]
        if value is not None and not isinstance(value, dict):
            raise UsageError(f"offsets[{index}]: {member} is neither an object nor null")
        try:
            _check_flat(value, member)
        except ValueFormatError as error:
            raise UsageError(f"offsets[{index}]: {error}") from None
        pair.append(value)
    partition, offset = pair
    if _is_of_sink(partition):
        raise UsageError(
            f"offsets[{index}] is of a sink connector: those are committed offsets of its consumer group, which "
            "kafka-consumer-groups --reset-offsets or Connect's REST API changes"
        )
    return partition, offset


def _parse(data: bytes, what: str) -> Any:
    try:
        return json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_double,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        raise UsageError(f"{what}: not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{what}: not UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise UsageError(f"{what}: {error}") from None
    except RecursionError:
        raise UsageError(f"{what}: nested too deeply") from None


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("an object has two members of the same name")
    return found


def _integer(text: str) -> int:
    number = int(text) if len(text) <= _LONGEST_INTEGER else _INT64.stop
    if number not in _INT64:
        raise ValueError("an integer has more than 64 bits, which Connect cannot keep")
    return number


def _double(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large for a double, which Connect cannot keep")
    return number or 0.0  # Connect has no negative zero


def _constant(_: str) -> Any:
    raise ValueError("NaN and Infinity are not JSON")
