"""Where each connector's offsets are kept while a storage runs: the worker's topic, or one of its own before it."""

from __future__ import annotations

import logging
import queue
import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share.errors import ConnectShareError, LogFailedError, StoreClosedError, UsageError, safe_text
from connect_share.state import ClusterConfigState, TargetState
from connect_share.state.names import shown
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.stores.connector_offsets import ConnectorOffsetBackingStore
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.own_offsets_topic import own_offsets_properties, own_offsets_worker_config
from connect_share.stores.topic_based import WriteGuard
from connect_share.worker_config import WorkerConfig

_logger = logging.getLogger(__name__)

_LOOK_S: Final = 5.0


@dataclass(eq=False)
class _OwnStore:
    """A connector's own store, being started or started; ``made_of`` is what its configuration says of it."""

    made_of: dict[str, Any] = field(repr=False)  # overrides may hold passwords
    store: Future[ConnectorOffsetBackingStore] = field(default_factory=Future)

    def has_failed(self, connector: str) -> bool:
        """Return whether its log died after the start; readers and writers made from now on get another store."""
        if not self.store.done() or self.store.exception() is not None:
            return False
        try:
            self.store.result().wire_keys(connector, None)
        except LogFailedError:
            return True
        except ConnectShareError:
            pass  # a topic that was created again is not read anew without a word
        return False


def not_stopped(state: ClusterConfigState, connector: str) -> str | None:
    """Say why offsets of a connector may not be changed by what is configured; ``None``: they may."""
    target, tasks = state.target_state(connector), state.task_count(connector)
    if not state.contains(connector) or (target is TargetState.STOPPED and not tasks):
        return None
    name = (target or TargetState.STARTED).name
    return f"connector {shown(connector)} is not stopped (target state {name}, {tasks} tasks)"


class ConnectorOffsetStores:
    """Gives the store of a connector's offsets; one of its own is started when it is asked for first. Thread-safe.

    An own store is kept for as long as the connector's configuration says so. Then it is stopped once no reader and no
    writer uses it any more: tasks that are being stopped flush their last offsets after the configuration has changed.

    ``config`` says whether a connector has a topic of its own, ``offsets`` is the worker's store; ``stack`` closes what is
    started here, for which ``left_s`` seconds are left.
    """

    def __init__(
        self,
        worker_config: WorkerConfig,
        *,
        config: KafkaConfigBackingStore,
        offsets: KafkaOffsetBackingStore,
        write_guard: WriteGuard,
        stack: ExitStack,
        left_s: Callable[[], float],
    ) -> None:
        self._worker_config = worker_config
        self._config = config
        self._offsets = offsets
        self._write_guard = write_guard
        self._left_s = left_s
        self._lock = threading.Lock()
        self._closed = False
        self._own: dict[str, _OwnStore] = {}
        self._running: set[KafkaOffsetBackingStore] = set()
        # Its put() may be called wherever an object is let go.
        self._unused: queue.SimpleQueue[KafkaOffsetBackingStore | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        stack.callback(self._close)

    def store_of(self, connector: str) -> KafkaOffsetBackingStore | ConnectorOffsetBackingStore:
        """Return the store to read and write a connector's offsets with.

        Raises:
            ConfigError: the connector's configuration contradicts itself, or the worker's policy.
            StoreClosedError: the storage was closed.
        """
        state = self._config.snapshot()
        made_of = own_offsets_properties(self._worker_config, state.raw_connector_config(connector) or {})
        if not made_of:
            return self._offsets
        with self._lock:
            own = self._own.get(connector)
            is_new = own is None or own.made_of != made_of or own.has_failed(connector)
            if own is None or is_new:
                own = self._own[connector] = _OwnStore(made_of)
        if is_new:
            try:
                own.store.set_result(self._started(connector, state.connector_config(connector) or {}))
            except BaseException as error:
                with self._lock:
                    if self._own.get(connector) is own:
                        del self._own[connector]
                known = isinstance(error, ConnectShareError)
                own.store.set_exception(error if known else StoreClosedError("the start of the store was interrupted"))
                raise
        return own.store.result()

    def check_stopped(self, connector: str) -> None:
        """Refuse where tasks of a connector may run, by what the config topic says now.

        Raises:
            UsageError: the connector is not STOPPED, or still has tasks.

        Source: ``DistributedHerder.modifyConnectorOffsetsChecks``.
        """
        self._config.refresh()
        why_not = not_stopped(self._config.snapshot(), connector)
        if why_not is not None:
            raise UsageError(
                f"{why_not}: its tasks would go on from what they know. Write target state STOPPED and an empty list of "
                "task configurations first, or say force=True if nothing of it runs"
            )

    def _started(self, connector: str, connector_config: Mapping[str, Any]) -> ConnectorOffsetBackingStore:
        """Make and start a store, without the lock: an open transaction may hold it up for a quarter of an hour."""
        own = own_offsets_worker_config(self._worker_config, connector, connector_config)
        assert own is not None  # noqa: S101 - the caller has looked
        primary = KafkaOffsetBackingStore(own, write_guard=self._write_guard)
        store = ConnectorOffsetBackingStore(primary, None if own.is_the_workers else self._offsets)
        with self._lock:
            if self._closed:
                raise StoreClosedError(f"the storage was closed; it has no offsets of connector {connector!r} any more")
            self._running.add(primary)
            if self._thread is None:
                self._thread = threading.Thread(target=self._let_go, name="connector-offset-stores", daemon=True)
                self._thread.start()
        # A close() meanwhile stops the store, and the start ends.
        weakref.finalize(store, self._unused.put, primary).atexit = False
        primary.start()
        return store

    def _let_go(self) -> None:
        """Body of the thread that stops what is used no more."""
        while True:
            try:
                primary = self._unused.get(timeout=_LOOK_S)
            except queue.Empty:
                self._forget_outdated()
                continue
            if primary is None:
                return
            with self._lock:
                self._running.discard(primary)
            try:
                primary.stop()
            except Exception as error:  # noqa: BLE001 - the thread has others to stop
                _logger.warning("The offset store on %s was not stopped in order: %s", primary.topic, safe_text(error))

    def _forget_outdated(self) -> None:
        try:
            state = self._config.snapshot()
        except ConnectShareError:
            return  # callers of the config store hear of it
        with self._lock:
            for connector, own in list(self._own.items()):
                now = own_offsets_properties(self._worker_config, state.raw_connector_config(connector) or {})
                if own.store.done() and now != own.made_of:
                    del self._own[connector]

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            running, self._running, self._own = self._running, set(), {}
            thread = self._thread
        with ExitStack() as each:
            if thread is not None:
                each.callback(thread.join)
                each.callback(self._unused.put, None)
            for primary in running:
                each.callback(lambda store: store.stop(self._left_s()), primary)
