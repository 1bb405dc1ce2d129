"""Offsets of one task, collected while records flow and flushed in one go."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from connect_share.errors import ConnectShareError, FlushInProgressError, NotStartedError
from connect_share.keys import ClusterGroupId
from connect_share.state import offset_key, offset_value, validate_offset_map
from connect_share.stores.given_group import NOT_GIVEN, GivenGroup, group_of_store
from connect_share.stores.offset_backing_store import OffsetBackingStore, SetCallback, wire_key

_logger = logging.getLogger(__name__)

_Pair = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]


class OffsetStorageWriter:
    """Buffers offsets of one connector and writes them through an offset store.

    Two buffers: while one is being flushed the other takes new offsets. One flush at a time.
    A flush is ``begin_flush()``, then ``do_flush()``; where either the flush fails to be serialised or the
    caller loses patience, ``cancel_flush()`` puts its offsets back under the newer ones.

    Thread-safe.

    Args:
        backing_store: where offsets go.
        namespace: the connector's name.
        cluster_group_id: prefix of the keys, ``None`` for plain keys (KIP-1173). Left out, it is that of ``backing_store``;
            another one is a ``ConfigError``.

    Source: ``OffsetStorageWriter``.

    >>> from connect_share import MemoryOffsetBackingStore, OffsetStorageReader
    >>> store = MemoryOffsetBackingStore()
    >>> store.start()
    >>> writer = OffsetStorageWriter(store, "c")
    >>> writer.offset({"file": "in.txt"}, {"position": 5})
    >>> if writer.begin_flush():
    ...     writer.do_flush().result()
    >>> OffsetStorageReader(store, "c").offset({"file": "in.txt"})
    {'position': 5}
    """

    def __init__(
        self, backing_store: OffsetBackingStore, namespace: str, *, cluster_group_id: GivenGroup = NOT_GIVEN
    ) -> None:
        self._store = backing_store
        self._namespace = namespace
        self._cluster_group_id = group_of_store(backing_store, cluster_group_id)
        self._lock = threading.Lock()
        self._permit = threading.Semaphore(1)
        self._data: dict[object, _Pair] = {}
        self._to_flush: dict[object, _Pair] | None = None
        self._flush_number = 0

    def offset(self, partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> None:
        """Remember the newest offset of a source partition; ``None`` as offset forgets the partition."""
        identity = identity_of(partition)
        kept = (
            None if partition is None else dict(partition),
            None if offset is None else dict(offset),
        )
        with self._lock:
            self._data.pop(identity, None)
            self._data[identity] = kept

    def will_flush(self) -> bool:
        """Return whether a flush would have anything to write."""
        with self._lock:
            return bool(self._data)

    def begin_flush(self, timeout_s: float = 0.0) -> bool:
        """Begin to write the offsets collected so far.

        Args:
            timeout_s: how long to wait for an earlier flush to end.

        Returns:
            Whether there is anything to flush; if not, ``do_flush`` must not be called.

        Raises:
            FlushInProgressError: an earlier flush has not ended in time.
        """
        acquired = self._permit.acquire(timeout=timeout_s) if timeout_s > 0 else self._permit.acquire(False)
        if not acquired:
            raise FlushInProgressError(
                f"offsets of connector {self._namespace!r} are still being flushed after waiting "
                f"{timeout_s:g} s; wait for that flush, or cancel it"
            )
        with self._lock:
            if not self._data:
                self._permit.release()
                return False
            self._to_flush, self._data = self._data, {}
            return True

    def do_flush(self, callback: SetCallback | None = None) -> Future[None] | None:
        """Write the offsets taken by :meth:`begin_flush`.

        Args:
            callback: called once with the error, or ``None``; not called when the flush was cancelled.

        Returns:
            A future that ends with the write. ``None`` when an offset cannot be serialised: then
            ``callback`` has the ``ValueFormatError`` and the caller has to call :meth:`cancel_flush`.

        Raises:
            NotStartedError: no flush was begun, or it was cancelled.
        """
        with self._lock:
            if self._to_flush is None:
                raise NotStartedError(
                    f"no flush of offsets of connector {self._namespace!r} is open; "
                    "call begin_flush() and go on only if it says True"
                )
            flush_number = self._flush_number
            pairs = list(self._to_flush.values())
        try:
            serialised = dict(serialised_offset(self._namespace, self._cluster_group_id, *pair) for pair in pairs)
        except ConnectShareError as error:
            # No trace: it would show the offset.
            _logger.warning("Offsets of connector %r cannot be serialised: %s", self._namespace, error)
            if callback is not None:
                callback(error)
            return None

        def on_completion(error: ConnectShareError | None) -> None:
            if self._finish(flush_number, error) and callback is not None:
                callback(error)

        return self._store.set(serialised, on_completion)

    def cancel_flush(self) -> None:
        """Give up the flush under way; its offsets stay, under newer ones. Without a flush: nothing."""
        with self._lock:
            self._cancel()

    def _cancel(self) -> None:
        if self._to_flush is None:
            return
        self._data = {**self._to_flush, **self._data}
        self._end_flush()

    def _end_flush(self) -> None:
        self._to_flush = None
        self._flush_number += 1
        self._permit.release()

    def _finish(self, flush_number: int, error: ConnectShareError | None) -> bool:
        """End the flush unless it was cancelled meanwhile; return whether it was still the current one."""
        with self._lock:
            if flush_number != self._flush_number or self._to_flush is None:
                return False
            if error is None:
                self._end_flush()
            else:
                self._cancel()
            return True


def serialised_offset(
    connector: str,
    cluster_group_id: ClusterGroupId | None,
    partition: Mapping[str, Any] | None,
    offset: Mapping[str, Any] | None,
) -> tuple[bytes, bytes | None]:
    """Return wire key and value of an offset.

    Raises:
        ValueFormatError: partition or offset is no map Connect can write.
    """
    validate_offset_map(partition, "partition")
    validate_offset_map(offset)
    return wire_key(offset_key(connector, partition), cluster_group_id), offset_value(offset)


def identity_of(value: object) -> object:
    """Return something hashable that is equal where Java's maps are, also for what cannot be serialised."""
    if isinstance(value, Mapping):
        return ("map", frozenset((identity_of(key), identity_of(member)) for key, member in value.items()))
    if isinstance(value, list | tuple):
        return ("list", tuple(identity_of(member) for member in value))
    if isinstance(value, float):
        return ("float", repr(value))
    if value is None or isinstance(value, bool | int | str | bytes):
        return (type(value).__name__, value)
    return ("object", id(value), type(value).__qualname__)
