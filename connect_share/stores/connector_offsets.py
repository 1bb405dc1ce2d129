"""Offsets of one connector where they may lie in two places: its own topic and the worker's."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any, Final

from connect_share.errors import ConnectShareError, KeyFormatError, WriteError
from connect_share.keys import ClusterGroupId
from connect_share.state import partition_identity
from connect_share.stores.given_group import NOT_GIVEN, GivenGroup, group_of_store
from connect_share.stores.offset_backing_store import (
    OffsetBackingStore,
    SetCallback,
    WriteOutcome,
    translated_key,
)
from connect_share.stores.transactional_writer import TransactionalWriter

_logger = logging.getLogger(__name__)

_Values = Mapping[bytes, bytes | None]

# Connect's limit for one alter or reset request.
TOMBSTONES_TIMEOUT_S: Final = 90.0


class ConnectorOffsetBackingStore:
    """A connector's own offsets topic in front of the worker's.

    Reads ask both; what the connector's own topic says wins *including nulls*, so a partition it does not
    know comes back as ``None`` even where the worker's topic has an offset. Connect behaves so although its
    documentation speaks of a fallback; it is kept (docs/decisions/0003).

    Writes go to the own topic first, whose result is reported, then to the worker's, where a failure is
    only logged. Tombstones go to the worker's topic *first*, and a failure there ends the write: otherwise
    an old offset could come back through the worker's topic.

    Keys given and returned carry the prefix of ``cluster_group_id``. Each of the two stores is asked with
    the prefix it uses itself: a connector's own offsets topic keeps plain keys even where the worker's
    topic is shared.

    Args:
        primary: the connector's own store, or the worker's store when there is no other.
        secondary: the worker's store behind an own topic, else ``None``.
        cluster_group_id: prefix of the keys this store is asked with. Left out, it is that of the worker's store; another one
            is a ``ConfigError``.

    Source: ``ConnectorOffsetBackingStore``.

    >>> from connect_share import MemoryOffsetBackingStore, OffsetStorageReader
    >>> own, of_worker = MemoryOffsetBackingStore(), MemoryOffsetBackingStore()
    >>> own.start(), of_worker.start()
    (None, None)
    >>> own.set({b'["c",{"file":"in.txt"}]': b'{"position":5}'}).result()
    >>> store = ConnectorOffsetBackingStore(own, of_worker)
    >>> OffsetStorageReader(store, "c").offset({"file": "in.txt"})
    {'position': 5}
    """

    def __init__(
        self,
        primary: OffsetBackingStore,
        secondary: OffsetBackingStore | None = None,
        *,
        cluster_group_id: GivenGroup = NOT_GIVEN,
    ) -> None:
        self._primary = primary
        self._secondary = secondary
        self._group = group_of_store(primary if secondary is None else secondary, cluster_group_id)

    @property
    def cluster_group_id(self) -> ClusterGroupId | None:
        """Group whose prefix the keys given to this store carry."""
        return self._group

    @property
    def topic(self) -> str:
        """The connector's own topic."""
        return self._primary.topic

    def start(self) -> None:
        """Start the connector's own store: its whole topic is read."""
        self._primary.start()

    def stop(self) -> None:
        """Stop the connector's own store; the worker's stays."""
        self._primary.stop()

    def get(self, keys: Collection[bytes]) -> Future[dict[bytes, bytes | None]]:
        """Look the keys up in both stores; the future fails if either store fails."""
        wanted = tuple(keys)
        answers: list[tuple[dict[bytes, bytes], Future[dict[bytes, bytes | None]]]] = []
        for store in filter(None, (self._secondary, self._primary)):
            asked = {key: self._key_for(store, key) for key in wanted}
            known = {key: theirs for key, theirs in asked.items() if theirs is not None}
            answers.append((known, store.get(tuple(known.values()))))
        return _joined(wanted, answers)

    def set(self, values: _Values, callback: SetCallback | None = None) -> Future[None]:
        """Write to both stores in the order described at the class.

        The third step, values to the worker's topic, is not waited for.
        """
        outcome = WriteOutcome(callback)
        try:
            for_primary, tombstones, regular = self._split(values)
        except KeyFormatError as error:
            return outcome.end(error)

        def write_secondary() -> None:
            if self._secondary is not None and regular:
                self._secondary.set(regular, _warn_only)

        def after_primary(error: ConnectShareError | None) -> None:
            try:
                outcome.end(error)
            finally:  # whatever the caller's callback does
                if error is None:
                    write_secondary()

        def after_tombstones(error: ConnectShareError | None) -> None:
            if error is not None:
                outcome.end(error)
            else:
                self._primary.set(for_primary, after_primary)

        if self._secondary is not None and tombstones:
            self._secondary.set(tombstones, after_tombstones)
        else:
            self._primary.set(for_primary, after_primary)
        return outcome.future

    def claim(self, writer: TransactionalWriter) -> None:
        """Fence all producers with the transactional ids of a writer to the connector's own topic.

        Raises:
            LiveMembersError: Java workers of the group are alive; nothing was fenced.
            StoreError: the claim failed.
        """
        self._primary.claim(writer)

    def set_in_transaction(self, values: _Values, writer: TransactionalWriter) -> None:
        """Write to both stores in the order described at the class, to the primary in one transaction.

        The worker's topic is written without one, as its copies always are.

        Raises:
            KeyFormatError: a key is not of this store's group; nothing was written.
            LiveMembersError: Java workers of the group are alive; the same.
            StoreError: a write failed, or was not acknowledged in time.
        """
        for_primary, tombstones, regular = self._split(values)
        if self._secondary is not None and tombstones:
            try:
                self._secondary.set(tombstones).result(TOMBSTONES_TIMEOUT_S)
            except TimeoutError as error:
                raise WriteError(
                    f"tombstones for the worker's offset topic were not acknowledged within {TOMBSTONES_TIMEOUT_S:g} s; "
                    f"nothing was written to {self.topic}"
                ) from error
        self._primary.set_in_transaction(for_primary, writer)
        if self._secondary is not None and regular:
            self._secondary.set(regular, _warn_only)

    def connector_partitions(self, connector: str) -> list[dict[str, Any]]:
        """List the source partitions known to either store, each once."""
        found = self._primary.connector_partitions(connector)
        if self._secondary is not None:
            known = {partition_identity(partition) for partition in found}
            found = found + [
                partition
                for partition in self._secondary.connector_partitions(connector)
                if partition_identity(partition) not in known
            ]
        return found

    def wire_keys(self, connector: str, partition: Mapping[str, Any] | None) -> tuple[bytes, ...]:
        """Return the keys of a source partition in either store, with this store's prefix."""
        keys: dict[bytes, None] = {}
        for store in filter(None, (self._primary, self._secondary)):
            for theirs in store.wire_keys(connector, partition):
                key = translated_key(theirs, store.cluster_group_id, self._group)
                if key is not None:
                    keys[key] = None
        return tuple(keys)

    def _key_for(self, store: OffsetBackingStore, key: bytes) -> bytes | None:
        return translated_key(key, self._group, store.cluster_group_id)

    def _split(self, values: _Values) -> tuple[_Values, _Values, _Values]:
        """Return what goes to the primary, and the tombstones and the other values that go to the secondary."""
        for_secondary = {} if self._secondary is None else self._translated(self._secondary, values)
        tombstones = {key: None for key, value in for_secondary.items() if value is None}
        regular = {key: value for key, value in for_secondary.items() if value is not None}
        return self._translated(self._primary, values), tombstones, regular

    def _translated(self, store: OffsetBackingStore, values: _Values) -> dict[bytes, bytes | None]:
        translated: dict[bytes, bytes | None] = {}
        for key, value in values.items():
            theirs = self._key_for(store, key)
            if theirs is None:
                raise KeyFormatError(
                    f"an offset key does not carry the prefix of cluster group {self._group!r}; make the "
                    "offset writer with the same cluster_group_id as its store"
                )
            translated[theirs] = value
        return translated


def _warn_only(error: ConnectShareError | None) -> None:
    if error is not None:
        _logger.warning(
            "Offsets are safe in the connector's own topic, but were not written to the worker's: %s", error
        )


def _joined(
    wanted: tuple[bytes, ...],
    answers: list[tuple[dict[bytes, bytes], Future[dict[bytes, bytes | None]]]],
) -> Future[dict[bytes, bytes | None]]:
    """Combine answers once all are there; later ones in the list win, nulls included."""
    joined: Future[dict[bytes, bytes | None]] = Future()
    joined.set_running_or_notify_cancel()
    lock = threading.Lock()
    missing, ended = len(answers), False

    def on_answer(answer: Future[dict[bytes, bytes | None]]) -> None:
        nonlocal missing, ended
        error = answer.exception()
        with lock:
            missing -= 1
            if ended or (error is None and missing):
                return
            ended = True
        # Without the lock: what is called at the end may wait for the other answer.
        if error is not None:
            joined.set_exception(error)
            return
        result: dict[bytes, bytes | None] = dict.fromkeys(wanted)
        for known, done in answers:
            found = done.result()
            result.update({key: found.get(theirs) for key, theirs in known.items()})
        joined.set_result(result)

    for _, answer in answers:
        answer.add_done_callback(on_answer)
    return joined
