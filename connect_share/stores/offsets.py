"""The offset topic of a worker: raw offsets of every connector of one cluster group."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Unpack

from connect_share.errors import ConnectShareError, KeyFormatError, StoreClosedError
from connect_share.keys import own_key
from connect_share.log.protocol import STOP_TIMEOUT_S, RecordMetadata
from connect_share.records import Record, TopicType
from connect_share.state import OffsetFold, OffsetSnapshot
from connect_share.stores.given_group import NOT_GIVEN, GivenGroup
from connect_share.stores.offset_backing_store import SetCallback, WriteOutcome
from connect_share.stores.topic_based import (
    FENCE_GUARD_S,
    KafkaTopicBasedBackingStore,
    StoreOptions,
)
from connect_share.stores.transactional_writer import TransactionalWriter
from connect_share.worker_config import WorkerConfig

# A read waits for transactions that others hold open; the broker ends them after 15 minutes at the latest.
GET_TIMEOUT_S: Final = 900.0
_READERS: Final = 4
_KEYS_AT_ONCE: Final = 1_000


class KafkaOffsetBackingStore(KafkaTopicBasedBackingStore):
    """Offsets in a compacted topic. Keys are wire keys (see ``OffsetBackingStore``).

    Args:
        worker_config: names the topic (``offset.storage.topic``) and how to reach it.
        cluster_group_id: only keys with this prefix are read and written, ``None``: plain keys, as unmodified workers. Left
            out, the worker file decides; what contradicts it is a ``ConfigError``.
        options: see ``StoreOptions``.

    Source: ``KafkaOffsetBackingStore``.

    >>> from connect_share import prefix_key
    >>> key = prefix_key(worker_config.group_id, b'["c",{"file":"in.txt"}]')
    >>> store = KafkaOffsetBackingStore(worker_config)
    >>> store.start()
    >>> store.set({key: b'{"position":5}'}).result()
    >>> store.get([key]).result()[key]
    b'{"position":5}'
    >>> store.stop()
    """

    def __init__(
        self, worker_config: WorkerConfig, *, cluster_group_id: GivenGroup = NOT_GIVEN, **options: Unpack[StoreOptions]
    ) -> None:
        super().__init__(worker_config, TopicType.OFFSET, cluster_group_id=cluster_group_id, **options)
        self._state_lock = threading.Lock()
        self._fold: OffsetFold = OffsetFold(self._group)
        self._readers: ThreadPoolExecutor | None = None

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what is under way, within ``timeout_s``, end threads and clients; waiting reads fail. May be called twice."""
        try:
            super().stop(timeout_s)
        finally:
            readers, self._readers = self._readers, None
            if readers is not None:
                # Cancels nothing: reads that have not begun fail at once, too, and those that ask a broker fail soon.
                readers.shutdown(wait=False)

    def get(self, keys: Collection[bytes]) -> Future[dict[bytes, bytes | None]]:
        """Read to the end, then look up each wire key; a key without a value is there with ``None``."""
        wanted = tuple(keys)

        def read() -> dict[bytes, bytes | None]:
            compacted_log.read_to_end(GET_TIMEOUT_S)
            with self._state_lock:
                values = self._fold.values
                return {key: self._value(values, key) for key in wanted}

        future: Future[dict[bytes, bytes | None]]
        try:
            with self._lifecycle:
                compacted_log = self._log
                if self._readers is None:
                    self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="offset-reader")
                return self._readers.submit(read)
        except (ConnectShareError, RuntimeError) as error:
            future = Future()
            future.set_exception(
                error if isinstance(error, ConnectShareError) else StoreClosedError("the offset store was stopped")
            )
            return future

    def set(self, values: Mapping[bytes, bytes | None], callback: SetCallback | None = None) -> Future[None]:
        """Write values under wire keys, ``None`` as tombstone.

        Every record is sent at once; the write ends when all are acknowledged, or at the first error. An
        empty mapping ends at once. Nothing is read back.

        Args:
            values: value bytes by wire key.
            callback: called exactly once with the error or ``None``, before the future ends.
        """
        outcome = WriteOutcome(callback)
        if not values:
            return outcome.end(None)
        try:
            self._check_keys(values)
            self._check_write_allowed()
        except ConnectShareError as error:
            return outcome.end(error)
        write = _SetWrite(len(values), outcome)
        for key, value in values.items():
            self._send(key, value).add_done_callback(write.on_acknowledged)
        return outcome.future

    def claim(self, writer: TransactionalWriter) -> None:
        """Fence all producers with the transactional ids of ``writer``, where this store may be written.

        Raises:
            LiveMembersError: Java workers of the group are alive; nothing was fenced.
            StoreError: the claim failed.
        """
        self._check_write_allowed(FENCE_GUARD_S, at_once=True)
        writer.claim()

    def set_in_transaction(self, values: Mapping[bytes, bytes | None], writer: TransactionalWriter) -> None:
        """Write values under wire keys in one transaction; nothing is read back.

        Args:
            values: value bytes by wire key, ``None`` as tombstone.
            writer: writes to this store's topic; see :meth:`claim`.

        Raises:
            KeyFormatError: a key is not of this store's group; nothing was written.
            LiveMembersError: Java workers of the group are alive; the same.
            PrivilegedWriteError: the writer was not claimed, or the write failed.
        """
        self._check_keys(values)
        self._check_write_allowed()
        writer.write([(key, self._sealed(key, value)) for key, value in values.items()])

    def connector_partitions(self, connector: str) -> list[dict[str, Any]]:
        """List the source partitions for which the connector has offsets (as last read)."""
        self._check_topic()
        self._read_keys()
        with self._state_lock:
            return self._fold.partitions(connector)

    def wire_keys(self, connector: str, partition: Mapping[str, Any] | None) -> tuple[bytes, ...]:
        """Return the keys, as written, of a source partition: the same map may lie under several member orders."""
        self._check_topic()
        self._read_keys()
        with self._state_lock:
            originals = self._fold.original_keys(connector, partition)
        return tuple(self._wire_key(key) for key in originals)

    def snapshot(self) -> OffsetSnapshot:
        """Return what was read so far, immutable."""
        self._check_topic()
        self._read_keys()
        with self._state_lock:
            return self._fold.snapshot()

    def _read_keys(self) -> None:
        """Take keys apart a few at a time: the thread that applies records, perhaps those of other groups, waits."""
        more = True
        while more:
            with self._state_lock:
                more = self._fold.read_keys(_KEYS_AT_ONCE)

    def _check_keys(self, values: Mapping[bytes, bytes | None]) -> None:
        for key in values:
            if own_key(TopicType.OFFSET, key, self._group) is None:
                whose = "a plain key" if self._group is None else f"a key of cluster group {self._group!r}"
                raise KeyFormatError(f"an offset key for {self.topic} is not {whose}", topic=self.topic)

    def _value(self, values: Mapping[bytes, bytes], key: bytes) -> bytes | None:
        original = own_key(TopicType.OFFSET, key, self._group)
        return None if original is None else values.get(original)

    def _apply(self, records: Sequence[Record]) -> None:
        with self._state_lock:
            for record in records:
                self._fold.apply(record)


class _SetWrite:
    """Ends one write of several records: all acknowledged, or the first error."""

    def __init__(self, count: int, outcome: WriteOutcome) -> None:
        self._outcome = outcome
        self._lock = threading.Lock()
        self._missing = count
        self._ended = False

    def on_acknowledged(self, sent: Future[RecordMetadata]) -> None:
        error = sent.exception()
        if error is not None and not isinstance(error, ConnectShareError):
            error = ConnectShareError(f"an offset was not written: {type(error).__name__}")
        with self._lock:
            self._missing -= 1
            if self._ended or (error is None and self._missing > 0):
                return
            self._ended = True
        self._outcome.end(error)
