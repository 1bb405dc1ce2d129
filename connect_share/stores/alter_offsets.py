"""Changing and forgetting offsets of a stopped connector, in the JSON of Connect's REST API (KIP-875).

Those of a source are in an offset topic, those of a sink are its consumer group's. What is read here comes from a file or
from a topic, so it is bounded, and no message holds a value.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share.errors import BrokerError, ReadToEndTimeoutError, UsageError, ValueFormatError, WriteError
from connect_share.files import members_once
from connect_share.kafka.admin import result_of
from connect_share.kafka.client import ConsumerGroupTopicPartitions, KafkaException, TopicPartition, consumer, translate
from connect_share.kafka.write_access import RightsAdmin
from connect_share.model.connect_json import INT64, dumps, loads
from connect_share.model.keys import is_integer, shown
from connect_share.model.offsets import offset_value, parse_offset_key, partition_identity, validate_offset_map
from connect_share.stores.connector_offsets import ALTER_TIMEOUT_S, connector_client_settings
from connect_share.stores.offsets import OffsetBackingStore, serialised_offset, translated_key
from connect_share.stores.transactional_writer import TransactionalWriter
from connect_share.worker_config import Isolation, WorkerConfig
from connect_share.worker_config.override_policy import sink_group_id
from connect_share.worker_config.worker import is_topic_name

MOST_BYTES: Final = 16 * 1024 * 1024
UNREADABLE: Final = "[unreadable]"
"""Stands for a value that is not an offset."""

_Map = Mapping[str, Any]
OffsetPair = tuple[_Map | None, _Map | None]
"""Source partition and source offset; ``None`` in place of an offset: forget the partition."""
StoredOffset = tuple[_Map | None, bytes]
"""Source partition as it is spelled in a key, and value bytes."""

_LONGEST_INTEGER: Final = 20
TOPIC: Final = "kafka_topic"
PARTITION: Final = "kafka_partition"
OFFSET: Final = "kafka_offset"


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


def parse_offsets(data: bytes, *, of_sinks: bool = False) -> list[OffsetPair]:
    """Read ``{"offsets": [{"partition": .., "offset": ..}]}`` as Connect's REST API gives and takes it.

    Members beside these are allowed, as the console's own output has some. Stricter than Connect where Connect would
    guess: repeated partitions or members, missing members and integers beyond 64 bits are refused. So are offsets of
    sinks, but with ``of_sinks``.

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
        pair = _pair(index, entry, of_sinks=of_sinks)
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
    return not is_of_sink(partition)


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


def is_of_sink(partition: _Map | None) -> bool:
    """Return whether it is the partition of a topic that a sink reads."""
    return partition is not None and partition.keys() == {TOPIC, PARTITION}


def _pair(index: int, entry: object, *, of_sinks: bool) -> OffsetPair:
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
    if is_of_sink(partition) and not of_sinks:
        raise UsageError(f"offsets[{index}] is of a sink connector, and these are to be source offsets")
    return partition, offset


def _parse(data: bytes, what: str) -> Any:
    try:
        return json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=members_once,
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


def _integer(text: str) -> int:
    number = int(text) if len(text) <= _LONGEST_INTEGER else INT64.stop
    if number not in INT64:
        raise ValueError("an integer has more than 64 bits, which Connect cannot keep")
    return number


def _double(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large for a double, which Connect cannot keep")
    return number or 0.0  # Connect has no negative zero


def _constant(_: str) -> Any:
    raise ValueError("NaN and Infinity are not JSON")


_logger = logging.getLogger(__name__)

# Source partition and value bytes.
_Change = tuple[_Map | None, bytes | None]


def alter_offsets(
    store: OffsetBackingStore,
    connector: str,
    offsets: Iterable[OffsetPair],
    *,
    transactional_writer: TransactionalWriter | None = None,
    timeout_s: float = ALTER_TIMEOUT_S,
) -> int:
    """Write new offsets, or tombstones for ``None``, for source partitions of a connector.

    The connector must not run. Partitions and offsets are normalised by one trip through JSON, as Connect
    does. Unlike Connect, which writes only the key in its own member order, every key under which the
    partition was ever written (and read by ``store``) is written, so that the offset the connector will
    look up is the new one whatever order it uses.

    Args:
        store: a started offset store, or a connector's pair of stores; it is read to the end first.
        connector: the connector's name.
        offsets: pairs (source partition, source offset).
        transactional_writer: in exactly-once mode: write in one transaction of task 0's transactional id
            (``<group.id>-<connector>-0``), which fences that task if it still runs, and others if it was made so. It
            must write to the topic of ``store``; of a pair, to the connector's own, the worker's is written without
            a transaction.
        timeout_s: for reading, and again for the acknowledgements.

    Returns:
        How many records were written.

    Raises:
        ValueFormatError: a partition or offset is not a map Connect can write; nothing was written.
        ReadToEndTimeoutError: the end was not reached in time, perhaps for an open transaction; nothing was written.
        WriteError: not acknowledged in time; whether something was written shows when it is read again.
        LiveMembersError: Java workers of the group are alive; nothing was written, and no task fenced.
        UsageError: ``transactional_writer`` writes to another topic.

    Source: ``Worker.modifyConnectorOffsets``.

    >>> from connect_share import MemoryOffsetBackingStore
    >>> store = MemoryOffsetBackingStore()
    >>> store.start()
    >>> alter_offsets(store, "c", [({"file": "in.txt"}, {"position": 5})])
    1
    """
    pairs = list(offsets) if isinstance(offsets, Iterable) else [offsets]
    if any(not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in pairs):
        raise ValueFormatError(f"the offsets of connector {shown(str(connector))} have to be pairs of maps")
    changes = [_normalised(partition, offset) for partition, offset in pairs]
    with _claimed(store, connector, transactional_writer):
        _read(store, connector, (), timeout_s)
        return _write(store, connector, changes, transactional_writer, timeout_s)


def reset_offsets(
    store: OffsetBackingStore,
    connector: str,
    *,
    transactional_writer: TransactionalWriter | None = None,
    timeout_s: float = ALTER_TIMEOUT_S,
) -> int:
    """Forget all offsets of a connector: a tombstone for each key of each of its source partitions.

    Reads to the end first. Arguments, result and errors as for :func:`alter_offsets`.

    >>> from connect_share import MemoryOffsetBackingStore
    >>> store = MemoryOffsetBackingStore()
    >>> store.start()
    >>> alter_offsets(store, "c", [({"file": "in.txt"}, {"position": 5})])
    1
    >>> reset_offsets(store, "c")
    1
    """
    with _claimed(store, connector, transactional_writer):
        _read(store, connector, (), timeout_s)
        changes: list[_Change] = [(each, None) for each in _partitions(store, connector)]
        return _write(store, connector, changes, transactional_writer, timeout_s)


def stored_offsets(store: OffsetBackingStore, connector: str) -> list[StoredOffset]:
    """Return what a connector's tasks would find, one entry for each key that has a value, in the order of keys.

    Raises:
        ReadToEndTimeoutError: the end was not reached in time.
        StoreError: the store cannot be read.
    """
    _read(store, connector, (), ALTER_TIMEOUT_S)
    keys = sorted(key for each in _partitions(store, connector) for key in store.wire_keys(connector, each))
    values = _read(store, connector, keys, ALTER_TIMEOUT_S)
    found: list[StoredOffset] = []
    for key in keys:
        original, value = translated_key(key, store.cluster_group_id, None), values[key]
        if original is not None and value is not None:
            found.append((parse_offset_key(original)[1], value))
    return found


def _partitions(store: OffsetBackingStore, connector: str) -> list[_Map | None]:
    found: list[_Map | None] = [*store.connector_partitions(connector)]
    # Never listed, but an offset all the same.
    return [*found, None] if store.wire_keys(connector, None) else found


def _normalised(partition: _Map | None, offset: _Map | None) -> _Change:
    validate_offset_map(partition, "partition")
    validate_offset_map(offset)
    return loads(dumps(partition)), offset_value(loads(dumps(offset)))


@contextmanager
def _claimed(store: OffsetBackingStore, connector: str, writer: TransactionalWriter | None) -> Iterator[None]:
    """Fence before reading, as Connect does: the end cannot be read while a task that runs has a transaction open."""
    if writer is None:
        yield
        return
    if writer.topic != store.topic:
        raise UsageError(
            f"the transactional writer given writes to {writer.topic}, but connector {connector!r} looks for its offsets in "
            f"{store.topic}; make one for that topic"
        )
    store.claim(writer)
    try:
        yield
    finally:
        writer.close()


def _read(
    store: OffsetBackingStore, connector: str, keys: Collection[bytes], timeout_s: float
) -> dict[bytes, bytes | None]:
    """Return the values of wire keys; from then on the keys of all partitions are known."""
    try:
        return store.get(keys).result(timeout_s)
    except TimeoutError as error:
        raise ReadToEndTimeoutError(
            f"{store.topic} was not read to its end within {timeout_s:g} s, so the offsets of connector {connector!r} are "
            "not known, and nothing was changed; a transaction may be open there, or the brokers away: try again",
            topic=store.topic,
        ) from error


def _write(
    store: OffsetBackingStore,
    connector: str,
    changes: Iterable[_Change],
    transactional_writer: TransactionalWriter | None,
    timeout_s: float,
) -> int:
    values: dict[bytes, bytes | None] = {}
    for partition, value in changes:
        found = store.wire_keys(connector, partition)
        for key in found or serialised_offset(connector, store.cluster_group_id, partition, None)[:1]:
            values[key] = value
    if not values:
        return 0
    if transactional_writer is not None:
        store.set_in_transaction(values, transactional_writer)
    else:
        try:
            store.set(values).result(timeout_s)
        except TimeoutError as error:
            raise WriteError(
                f"offsets of connector {connector!r} were sent but not acknowledged within {timeout_s:g} s; "
                "read them again before anything else"
            ) from error
    _logger.info("Wrote %d offset records of connector %r", len(values), connector)
    return len(values)


_NO_GROUP = "GROUP_ID_NOT_FOUND"


class ConsumerGroupsAdmin(RightsAdmin):
    """An admin client for the offsets of consumer groups.

    Each method raises ``BrokerError``: not reachable, not allowed, or refused because the group has members, with Kafka's
    name for that.
    """

    def group_offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group, by topic and partition; none of a group that does not exist."""
        doing = f"reading the offsets of consumer group {group_id}"
        # A consumer that never joins, and not the admin client: that one crashes the process where the coordinator is moving
        # or not there yet (librdkafka issue 5040). With a topic the brokers forget its offsets, so all there are are found.
        settings = self.settings.overlaid({"group.id": group_id})
        reader = consumer(settings, client_id="group-offsets", isolation=Isolation.READ_COMMITTED)

        def ask(timeout_s: float) -> dict[tuple[str, int], int]:
            try:
                topics = reader.list_topics(timeout=timeout_s).topics
                wanted = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
                found = reader.committed(wanted, timeout=timeout_s) if wanted else []
            except KafkaException as exc:
                raise translate(exc, doing) from exc
            for each in found:
                if each.error is not None:
                    raise translate(each.error, doing)
            return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

        try:
            return self._retried(ask)
        finally:
            reader.close()

    def alter_group_offsets(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set committed offsets of a group without members."""
        partitions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]

        def ask(timeout_s: float) -> None:
            wanted = [ConsumerGroupTopicPartitions(group_id, partitions)]
            (future,) = self._client.alter_consumer_group_offsets(wanted, request_timeout=timeout_s).values()
            doing = f"changing the offsets of consumer group {group_id}"
            for each in result_of(future, doing, timeout_s=timeout_s).topic_partitions:
                if each.error is not None:
                    raise translate(each.error, f"{doing}: {each.topic}, partition {each.partition}")

        self._retried(ask)

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, with all its offsets; it need not exist."""

        def ask(timeout_s: float) -> None:
            (future,) = self._client.delete_consumer_groups([group_id], request_timeout=timeout_s).values()
            try:
                result_of(future, f"deleting consumer group {group_id}", timeout_s=timeout_s)
            except BrokerError as error:
                if error.name != _NO_GROUP:
                    raise

        self._retried(ask)


_MOST_DIGITS: Final = len(str(2**63))
_LIVE: Final = frozenset({"NON_EMPTY_GROUP", "UNKNOWN_MEMBER_ID"})


def sink_offsets(admin: ConsumerGroupsAdmin, group_id: str) -> list[dict[str, Any]]:
    """Return the committed offsets: ``[{"partition": {..}, "offset": {..}}, ..]`` by topic and partition.

    Raises:
        BrokerError: the cluster cannot be reached, or refuses.
    """
    return [{"partition": at, "offset": offset} for at, offset in sink_pairs(admin.group_offsets(group_id))]


def alter_sink_offsets(admin: ConsumerGroupsAdmin, group_id: str, offsets: Iterable[OffsetPair]) -> None:
    """Set offsets of a stopped sink connector, given as pairs of partition and offset.

    All are checked before one is changed. ``None`` as offset is refused: the client library cannot remove one offset of a
    group; :func:`reset_sink_offsets` removes all.

    Raises:
        ValueFormatError: a pair is not of Connect's form; says which.
        UsageError: the group has members: the connector is not stopped.
        BrokerError: the cluster cannot be reached, or refuses.

    Source: ``Worker.alterSinkConnectorOffsets``, ``SinkUtils.parseSinkConnectorOffsets``.
    """
    wanted = parsed_sink_offsets(offsets)
    if wanted:
        _of_stopped(group_id, lambda: admin.alter_group_offsets(group_id, wanted))


def reset_sink_offsets(admin: ConsumerGroupsAdmin, group_id: str) -> None:
    """Remove all offsets of a stopped sink connector, with its consumer group.

    Raises:
        UsageError: the group has members: the connector is not stopped.
        BrokerError: the cluster cannot be reached, or refuses.
    """
    _of_stopped(group_id, lambda: admin.delete_group(group_id))


def parsed_sink_offsets(offsets: Iterable[OffsetPair]) -> dict[tuple[str, int], int]:
    """Return offsets by topic and partition.

    Raises:
        ValueFormatError: as of :func:`alter_sink_offsets`.
    """
    return {_partition(number, at): _offset(number, offset) for number, (at, offset) in enumerate(offsets)}


def sink_pairs(offsets: Mapping[tuple[str, int], int]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return committed offsets as Connect's REST has them, by topic and partition."""
    return [({TOPIC: topic, PARTITION: number}, {OFFSET: at}) for (topic, number), at in sorted(offsets.items())]


@contextmanager
def sink_admin(worker: WorkerConfig, connector: str, config: _Map) -> Iterator[tuple[ConsumerGroupsAdmin, str]]:
    """Give an admin client of the cluster that a sink reads, and its consumer group.

    Raises:
        AuthorizationError: it may not see a topic that the sink names: brokers leave out its offsets without a word.
        ConfigError: as of ``connector_client_settings``.
    """
    settings = connector_client_settings(worker, connector, config, "consumer")
    with ConsumerGroupsAdmin(settings, client_id=worker.client_id("console")) as admin:
        names = map(str.strip, str(config.get("topics") or "").split(","))
        admin.require({name: ("DESCRIBE",) for name in names if is_topic_name(name)})
        yield admin, sink_group_id(connector, config)


def _of_stopped(group_id: str, change: Callable[[], None]) -> None:
    try:
        change()
    except BrokerError as error:
        if error.name in _LIVE:
            raise UsageError(
                f"consumer group {group_id} has members: stop the connector, and all other consumers of the group"
            ) from error
        raise


def _partition(number: int, given: object) -> tuple[str, int]:
    if not isinstance(given, Mapping) or set(given) != {TOPIC, PARTITION}:
        raise ValueFormatError(f"partition {number} has to be an object with {TOPIC} and {PARTITION}, and nothing else")
    topic, partition = given[TOPIC], given[PARTITION]
    if not isinstance(topic, str) or not topic:
        raise ValueFormatError(f"{TOPIC} of partition {number} has to be the name of a topic")
    found = _number(partition, 2**31)
    if found is None:
        raise ValueFormatError(f"{PARTITION} of {shown(topic)} has to be a partition number")
    return topic, found


def _offset(number: int, given: object) -> int:
    if given is None:
        raise ValueFormatError(
            f"the offset of partition {number} cannot be removed alone: reset the offsets of the connector"
        )
    if not isinstance(given, Mapping) or set(given) != {OFFSET}:
        raise ValueFormatError(f"the offset of partition {number} has to be an object with {OFFSET}, and nothing else")
    offset = _number(given[OFFSET], 2**63)
    if offset is None:
        raise ValueFormatError(f"{OFFSET} of partition {number} has to be an offset")
    return offset


def _number(given: object, end: int) -> int | None:
    """Return a number below ``end``; as with Java's parser it may be text. ``None``: it is none."""
    if isinstance(given, str) and len(given) <= _MOST_DIGITS and given.isascii() and given.isdigit():
        given = int(given)
    return given if is_integer(given) and 0 <= given < end else None
