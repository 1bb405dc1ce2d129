"""The offset topic of a worker, and the offsets of one connector: read at the start of its tasks, flushed in one go."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Final, Protocol, Unpack

from connect_share.errors import (
    BrokerError,
    ConnectShareError,
    FlushInProgressError,
    KeyFormatError,
    NotStartedError,
    ReadToEndTimeoutError,
    StoreClosedError,
    StoreError,
    ValueFormatError,
    WriteError,
)
from connect_share.kafka.client import Deadline
from connect_share.log.protocol import STOP_TIMEOUT_S, Steps, Wait, operation, steps_of
from connect_share.log.threads import SafeFuture
from connect_share.model.connect_json import loads
from connect_share.model.keys import ClusterGroupId, own_key, prefix_of
from connect_share.model.offsets import (
    OffsetFold,
    OffsetSnapshot,
    offset_key,
    offset_value,
    partition_identity,
    validate_offset_map,
)
from connect_share.model.records import TopicType
from connect_share.model.writable import require_name
from connect_share.stores.base import (
    FENCE_GUARD_S,
    NOT_GIVEN,
    GivenGroup,
    KafkaTopicBasedBackingStore,
    StoreOptions,
    agreed_group,
    when_all,
)
from connect_share.stores.transactional_writer import TransactionalWriter
from connect_share.worker_config import WorkerConfig

_logger = logging.getLogger(__name__)

_Map = Mapping[str, Any]
SetCallback = Callable[[ConnectShareError | None], None]


class OffsetBackingStore(Protocol):
    """Serialised offsets under serialised keys. Source: ``OffsetBackingStore``.

    Keys are *wire keys*: with ``<cluster group id>.`` before the JSON array where :attr:`cluster_group_id`
    is set, plain otherwise.
    """

    @property
    def cluster_group_id(self) -> ClusterGroupId | None:
        """Group whose prefix the keys carry, ``None`` for plain keys."""

    @property
    def topic(self) -> str:
        """Topic that decides: of two the first."""

    def start(self) -> None:
        """Read what is there; called once before anything else."""

    def stop(self) -> None:
        """Let go of clients and threads; may be called twice."""

    def get(self, keys: Collection[bytes]) -> Future[dict[bytes, bytes | None]]:
        """Look up wire keys after reading to the end; every key asked for is in the result."""

    def set(self, values: Mapping[bytes, bytes | None], callback: SetCallback | None = None) -> Future[None]:
        """Write all values (``None``: tombstone); ``callback`` is called once, before the future ends."""

    def claim(self, writer: TransactionalWriter) -> None:
        """Fence all producers with the transactional ids of a writer to :attr:`topic`; the caller closes it."""

    def set_in_transaction(self, values: Mapping[bytes, bytes | None], writer: TransactionalWriter) -> None:
        """Write all values in one transaction, with a writer that was claimed."""

    def connector_partitions(self, connector: str) -> list[dict[str, Any]]:
        """List the source partitions for which the connector has offsets."""

    def wire_keys(self, connector: str, partition: Mapping[str, Any] | None) -> tuple[bytes, ...]:
        """Return the keys, as written, under which offsets of this source partition lie; may be several."""


def wire_key(key: bytes, cluster_group_id: ClusterGroupId | None) -> bytes:
    """Return the key as it goes to the topic."""
    return prefix_of(cluster_group_id) + key


def translated_key(key: bytes, from_group: ClusterGroupId | None, to_group: ClusterGroupId | None) -> bytes | None:
    """Rewrite a wire key of one store as the wire key of another; ``None`` if it is not ``from_group``'s."""
    prefix = prefix_of(from_group)
    return wire_key(key[len(prefix) :], to_group) if key.startswith(prefix) else None


class WriteOutcome:
    """The end of a write, handed on once: to its callback, then by its future."""

    def __init__(self, callback: SetCallback | None) -> None:
        self.future: Future[None] = SafeFuture()
        self._callback = callback

    def end(self, error: ConnectShareError | None) -> Future[None]:
        """End with an error, or ``None``; return the future."""
        # An acknowledgement that is still held does not keep its store alive.
        callback, self._callback = self._callback, None
        try:
            if callback is not None:
                callback(error)
        finally:
            if error is None:
                self.future.set_result(None)
            else:
                self.future.set_exception(error)
        return self.future


def group_of_store(store: OffsetBackingStore, given: GivenGroup) -> ClusterGroupId | None:
    """Return the group of an offset store, as :func:`agreed_group`."""
    own = store.cluster_group_id
    keys = "plain keys" if own is None else f"keys of cluster group {own!r}"
    return agreed_group(given, own, whose=f"the offset store {store.topic} has {keys}", other="store")


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


FLUSH_TIMEOUT_S: Final = 30.0


class Flush:
    """Offsets that a flush writes, and when it ends."""

    def __init__(self, offsets: dict[bytes, tuple[bytes, bytes | None]]) -> None:
        self.offsets = offsets
        self.ended: Future[None] = SafeFuture()


class OffsetStorageWriter:
    """Collects offsets of one connector and writes them through an offset store.

    :meth:`flush` writes what was collected so far. While it does, new offsets are taken; one flush at a time. Connect's own
    steps are there, too: ``begin_flush()``, then ``do_flush()``; if the caller loses patience, ``cancel_flush()`` puts the
    offsets back under the newer ones.

    Thread-safe.

    Args: as of ``OffsetStorageReader``.

    Source: ``OffsetStorageWriter``.

    >>> from connect_share import MemoryOffsetBackingStore, OffsetStorageReader
    >>> store = MemoryOffsetBackingStore()
    >>> store.start()
    >>> writer = OffsetStorageWriter(store, "c")
    >>> writer.offset({"file": "in.txt"}, {"position": 5})
    >>> writer.flush(timeout_s=30)
    True
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
        self._data: dict[bytes, tuple[bytes, bytes | None]] = {}
        self._flush: Flush | None = None

    def offset(self, partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> None:
        """Remember the newest offset of a source partition; ``None`` as offset forgets the partition.

        Raises:
            ValueFormatError: partition or offset is not a map that Connect can write; what was set before stays.
        """
        serialised = serialised_offset(self._namespace, self._cluster_group_id, partition, offset)
        identity = partition_identity(partition)
        with self._lock:
            self._data.pop(identity, None)
            self._data[identity] = serialised

    def will_flush(self) -> bool:
        """Return whether offsets were set that no flush has taken; those of a flush under way do not count."""
        with self._lock:
            return bool(self._data)

    @operation
    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> Steps[bool]:
        """Write what was set so far, and return when it is acknowledged: whether there was anything to write.

        What was not written is written with the next flush, under what was set since.

        Args:
            timeout_s: how long it may take, an earlier flush that has to end before included.

        Raises:
            FlushInProgressError: an earlier flush has not ended in time.
            WriteError: not acknowledged in time; it may still arrive.
            ConnectShareError: it was refused, or the store has failed or was stopped.
        """
        deadline = Deadline.after(timeout_s)
        if not (yield from steps_of(self.begin_flush)(timeout_s)):
            return False
        flush, written = self._flush, self.do_flush()
        try:
            yield Wait(written, deadline.remaining_s())
        except BaseException as error:
            self._finish(flush, error)
            if isinstance(error, TimeoutError):
                raise WriteError(
                    f"offsets of connector {self._namespace!r} were sent to {self._store.topic} but not acknowledged within "
                    f"{timeout_s:g} s; they may still arrive, and are written again with the next flush"
                ) from None
            raise
        return True

    @operation
    def begin_flush(self, timeout_s: float = 0.0) -> Steps[bool]:
        """Begin to write the offsets collected so far.

        Args:
            timeout_s: how long to wait for an earlier flush to end.

        Returns:
            Whether there is anything to flush; if not, ``do_flush`` must not be called.

        Raises:
            FlushInProgressError: an earlier flush has not ended in time.
        """
        deadline = Deadline.after(timeout_s)
        while True:
            with self._lock:
                flush = self._flush
                if flush is None or flush.ended.done():
                    if not self._data:
                        return False
                    # One assignment begins a flush: an exception of a signal comes before it or behind it.
                    self._flush = Flush(self._data)
                    self._data = {}
                    return True
            try:
                yield Wait(flush.ended, deadline.remaining_s())
            except TimeoutError:
                raise FlushInProgressError(
                    f"offsets of connector {self._namespace!r} are still being flushed after waiting "
                    f"{timeout_s:g} s; wait for that flush, or cancel it"
                ) from None

    def do_flush(self, callback: SetCallback | None = None) -> Future[None]:
        """Write the offsets taken by :meth:`begin_flush`.

        Args:
            callback: called once with the error, or ``None``; not called when the flush was cancelled.

        Returns:
            A future that ends with the write.

        Raises:
            NotStartedError: no flush was begun, or it was cancelled.
        """
        with self._lock:
            flush = self._flush
            if flush is None or flush.ended.done():
                raise NotStartedError(
                    f"no flush of offsets of connector {self._namespace!r} is open; "
                    "call begin_flush() and go on only if it says True"
                )
            values = dict(flush.offsets.values())

        def on_completion(error: ConnectShareError | None) -> None:
            if isinstance(error, BrokerError):  # of one record, so no other sees it
                error.args = (f"offsets of connector {self._namespace!r}: {error}",)
            if self._finish(flush, error) and callback is not None:
                callback(error)

        return self._store.set(values, on_completion)

    def cancel_flush(self) -> None:
        """Give up the flush under way; its offsets stay, under newer ones. Without a flush: nothing."""
        self._finish(self._flush, FlushInProgressError("cancelled"))

    def _finish(self, flush: Flush | None, error: BaseException | None) -> bool:
        """End a flush, after an error with its offsets under the newer ones; return whether it had not ended before."""
        with self._lock:
            if flush is None or flush.ended.done():
                return False
            if error is not None:
                self._data = {**flush.offsets, **self._data}
            flush.ended.set_result(None)
            return True


def serialised_offset(
    connector: str,
    cluster_group_id: ClusterGroupId | None,
    partition: Mapping[str, Any] | None,
    offset: Mapping[str, Any] | None,
) -> tuple[bytes, bytes | None]:
    """Return wire key and value of an offset."""
    require_name(connector)
    validate_offset_map(partition, "partition")
    validate_offset_map(offset)
    return wire_key(offset_key(connector, partition), cluster_group_id), offset_value(offset)


# A read waits for transactions that others hold open; the broker ends them after 15 minutes at the latest.
GET_TIMEOUT_S: Final = 900.0
_READERS: Final = 4
_KEYS_AT_ONCE: Final = 1_000


class KafkaOffsetBackingStore(KafkaTopicBasedBackingStore):
    """Offsets in a compacted topic. Keys are wire keys (see ``OffsetBackingStore``).

    Args: as of ``KafkaConfigBackingStore``.

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
        self._fold.places.partitions = self._partition_count
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
                originals = {key: own_key(TopicType.OFFSET, key, self._group) for key in wanted}
                return {key: None if name is None else values.get(name) for key, name in originals.items()}

        try:
            with self._lifecycle:
                compacted_log = self._log
                if self._readers is None:
                    self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="offset-reader")
                return self._readers.submit(read)
        except (ConnectShareError, RuntimeError) as error:
            future: Future[dict[bytes, bytes | None]] = Future()
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

        def end(error: BaseException | None) -> None:
            if error is not None and not isinstance(error, ConnectShareError):
                error = ConnectShareError(f"an offset was not written: {type(error).__name__}")
            outcome.end(error)

        when_all([self._send(key, value) for key, value in values.items()], end)
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
        sealed = self._sealed(values.items())
        writer.write([(key, value, place) for key, value in sealed for place in (-1, *self._other_places(key))])

    def connector_partitions(self, connector: str) -> list[dict[str, Any]]:
        """List the source partitions for which the connector has offsets (as last read)."""
        self._read_keys()
        with self._at_rest():
            return self._fold.partitions(connector)

    def wire_keys(self, connector: str, partition: Mapping[str, Any] | None) -> tuple[bytes, ...]:
        """Return the keys, as written, of a source partition: the same map may lie under several member orders."""
        self._read_keys()
        with self._at_rest():
            originals = self._fold.original_keys(connector, partition)
        return tuple(self._key_prefix + key for key in originals)

    def snapshot(self) -> OffsetSnapshot:
        """Return what was read so far, immutable."""
        self._read_keys()
        with self._at_rest():
            return self._fold.snapshot()

    def _read_keys(self) -> None:
        """Take keys apart a few at a time: the thread that applies records, perhaps those of other groups, waits."""
        more = True
        while more:
            with self._state_lock:
                more = self._fold.read_keys(_KEYS_AT_ONCE)

    def _check_keys(self, values: Mapping[bytes, bytes | None]) -> None:
        for key, value in values.items():
            if not isinstance(key, bytes) or not isinstance(value, bytes | None):
                raise ValueFormatError(f"keys and values of offsets for {self.topic} have to be bytes, a removal None")
            if own_key(TopicType.OFFSET, key, self._group) is None:
                whose = "a plain key" if self._group is None else f"a key of cluster group {self._group!r}"
                raise KeyFormatError(f"an offset key for {self.topic} is not {whose}", topic=self.topic)
