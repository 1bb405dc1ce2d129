"""Changing and forgetting the offsets of a stopped connector, as Connect's REST API does."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from connect_share.connect_json import dumps, loads
from connect_share.errors import ReadToEndTimeoutError, UsageError, WriteError
from connect_share.state import offset_key, offset_value, parse_offset_key, validate_offset_map
from connect_share.stores.offset_backing_store import OffsetBackingStore, translated_key, wire_key
from connect_share.stores.offset_changes import OffsetPair, StoredOffset
from connect_share.stores.transactional_writer import TransactionalWriter

_logger = logging.getLogger(__name__)

_Map = Mapping[str, Any]
# Source partition and value bytes.
_Change = tuple[_Map | None, bytes | None]

# Connect's limit for one alter or reset request, everything included.
ALTER_TIMEOUT_S: Final = 90.0


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
    changes = [_normalised(partition, offset) for partition, offset in offsets]
    with _claimed(store, connector, transactional_writer):
        _read_to_end(store, connector, timeout_s)
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
        _read_to_end(store, connector, timeout_s)
        changes: list[_Change] = [(each, None) for each in _partitions(store, connector)]
        return _write(store, connector, changes, transactional_writer, timeout_s)


def stored_offsets(
    store: OffsetBackingStore, connector: str, *, timeout_s: float = ALTER_TIMEOUT_S
) -> list[StoredOffset]:
    """Return what a connector's tasks would find, one entry for each key that has a value, in the order of keys.

    Raises:
        ReadToEndTimeoutError: the end was not reached in time.
        StoreError: the store cannot be read.
    """
    _read_to_end(store, connector, timeout_s)
    keys = sorted(key for each in _partitions(store, connector) for key in store.wire_keys(connector, each))
    values = store.get(keys).result(timeout_s)
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


def _read_to_end(store: OffsetBackingStore, connector: str, timeout_s: float) -> None:
    """Make sure that the keys of all partitions are known."""
    try:
        store.get(()).result(timeout_s)
    except TimeoutError as error:
        raise ReadToEndTimeoutError(
            f"{store.topic} was not read to its end within {timeout_s:g} s, so offsets of connector {connector!r} were not "
            "changed; a transaction may be open there, or the brokers away: try again",
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
        serialised = wire_key(offset_key(connector, partition), store.cluster_group_id)
        for key in store.wire_keys(connector, partition) or (serialised,):
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
