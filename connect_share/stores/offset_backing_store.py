"""What the offset reader and writer need of a place that keeps offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from connect_share.errors import ConnectShareError
from connect_share.keys import ClusterGroupId, prefix_key

if TYPE_CHECKING:
    from connect_share.stores.transactional_writer import TransactionalWriter

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
    return key if cluster_group_id is None else prefix_key(cluster_group_id, key)


def translated_key(key: bytes, from_group: ClusterGroupId | None, to_group: ClusterGroupId | None) -> bytes | None:
    """Rewrite a wire key of one store as the wire key of another; ``None`` if it is not ``from_group``'s."""
    if from_group is not None:
        prefix = prefix_key(from_group, b"")
        if not key.startswith(prefix):
            return None
        key = key[len(prefix) :]
    return wire_key(key, to_group)


class WriteOutcome:
    """How a write ends: once, for its callback and then for its future."""

    def __init__(self, callback: SetCallback | None) -> None:
        self.future: Future[None] = Future()
        self.future.set_running_or_notify_cancel()  # what is sent cannot be called back
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
