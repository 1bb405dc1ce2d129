"""Offsets of one connector, as its tasks read them at start."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from connect_share.connect_json import loads
from connect_share.errors import (
    ConnectShareError,
    ReadToEndTimeoutError,
    StoreClosedError,
    StoreError,
    ValueFormatError,
)
from connect_share.state import offset_key, validate_offset_map
from connect_share.stores.given_group import NOT_GIVEN, GivenGroup, group_of_store
from connect_share.stores.offset_backing_store import OffsetBackingStore, wire_key

_logger = logging.getLogger(__name__)

_Map = Mapping[str, Any]


class OffsetStorageReader:
    """Looks up offsets of one connector in an offset store.

    Thread-safe; :meth:`close` from another thread ends reads that wait.

    Args:
        backing_store: where offsets are.
        namespace: the connector's name.
        cluster_group_id: prefix of the keys, ``None`` for plain keys (KIP-1173). Left out, it is that of ``backing_store``;
            another one is a ``ConfigError``.

    Source: ``OffsetStorageReaderImpl``.

    >>> from connect_share import MemoryOffsetBackingStore
    >>> store = MemoryOffsetBackingStore()
    >>> store.start()
    >>> store.set({b'["c",{"file":"in.txt"}]': b'{"position":5}'}).result()
    >>> OffsetStorageReader(store, "c").offset({"file": "in.txt"})
    {'position': 5}
    """

    def __init__(
        self, backing_store: OffsetBackingStore, namespace: str, *, cluster_group_id: GivenGroup = NOT_GIVEN
    ) -> None:
        self._store = backing_store
        self._namespace = namespace
        self._cluster_group_id = group_of_store(backing_store, cluster_group_id)
        self._closed: Future[None] = Future()
        self._lock = threading.Lock()

    def offset(self, partition: _Map | None) -> dict[str, Any] | None:
        """Look up one source partition; ``None`` when there is no offset, or it cannot be understood.

        Raises:
            StoreError: as :meth:`offsets`.
        """
        found = self.offsets([partition])
        return found[0][1] if found else None

    def offsets(self, partitions: Iterable[_Map | None]) -> list[tuple[_Map | None, dict[str, Any] | None]]:
        """Look up several source partitions at once.

        Returns:
            Pairs (partition, offset) in the order asked. A partition without an offset is there with
            ``None``. A partition that cannot be serialised, or whose offset cannot be understood, is
            *absent* (and logged): the connector then starts it from the beginning or fails, as it likes.

        Raises:
            StoreClosedError: the reader was closed.
            ReadToEndTimeoutError: the store was not read to its end in time; ask again.
            StoreError: the store could not be read; the cause is attached, and ``retriable`` is the cause's.
        """
        keyed = self._keyed(list(partitions))
        values = self._fetch([key for key, _ in keyed])
        found: list[tuple[_Map | None, dict[str, Any] | None]] = []
        for key, partition in keyed:
            if key not in values:
                continue
            try:
                found.append((partition, self._parsed(values[key])))
            except ValueFormatError as error:
                _logger.critical(
                    "The offset of a source partition of connector %r cannot be understood; the connector "
                    "may start it from the beginning: %s",
                    self._namespace,
                    error,
                )
        return found

    def close(self) -> None:
        """End reads that wait, and refuse later ones; may be called twice."""
        with self._lock:
            if not self._closed.done():
                self._closed.set_result(None)

    def _keyed(self, partitions: Sequence[_Map | None]) -> list[tuple[bytes, _Map | None]]:
        keyed: list[tuple[bytes, _Map | None]] = []
        for partition in partitions:
            try:
                validate_offset_map(partition, "partition")
                key = offset_key(self._namespace, partition)
            except ValueFormatError as error:
                _logger.critical(
                    "A source partition of connector %r cannot be serialised, so its offset is not looked up: %s",
                    self._namespace,
                    error,
                )
                continue
            keyed.append((wire_key(key, self._cluster_group_id), partition))
        return keyed

    def _fetch(self, keys: list[bytes]) -> dict[bytes, bytes | None]:
        if self._closed.done():
            raise self._closed_error()
        try:
            pending = self._store.get(keys)
            waited_for: tuple[Future[Any], Future[Any]] = (pending, self._closed)
            wait(waited_for, return_when=FIRST_COMPLETED)
            if not pending.done():
                pending.cancel()
                raise self._closed_error()
            return pending.result()
        except (StoreClosedError, ReadToEndTimeoutError):
            raise
        except ConnectShareError as error:
            fetching = StoreError(f"offsets of connector {self._namespace!r} could not be fetched: {error}")
            fetching.retriable = error.retriable
            raise fetching from error

    def _closed_error(self) -> StoreClosedError:
        return StoreClosedError(f"the offset reader of connector {self._namespace!r} is closed; make a new one")

    @staticmethod
    def _parsed(value: bytes | None) -> dict[str, Any] | None:
        parsed = loads(value)
        validate_offset_map(parsed)
        return None if parsed is None else dict(parsed)
