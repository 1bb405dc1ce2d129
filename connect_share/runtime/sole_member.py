"""The membership of a worker that is alone, for unit tests of a runtime: no group, and no broker."""

from __future__ import annotations

import threading
from typing import Any

from connect_share.kafka.connect_protocol import NOTHING, ConnectorsAndTasks
from connect_share.log.threads import BackgroundThread, await_end
from connect_share.runtime.member import STOP_TIMEOUT_S, Generation, GroupListener, OnFailed, configured, listening
from connect_share.stores.config import ConfigBackingStore
from connect_share.worker_config import WorkerConfig


class SoleMember:
    """Leads, and has all connectors and tasks; stands where ``ConnectGroupMember`` does, as ``member=`` of ``TaskRunner``.

    Args: as of ``ConnectGroupMember``.
    """

    def __init__(
        self,
        _worker_config: WorkerConfig,
        config: ConfigBackingStore,
        listener: GroupListener,
        *,
        worker_url: str,
        on_failed: OnFailed | None = None,
    ) -> None:
        self.generation: Generation = Generation(1, "sole", "sole", worker_url, -1)
        self.assignment: ConnectorsAndTasks = NOTHING
        self._config, self._listener = config, listener
        self._wake, self._stopping = threading.Event(), threading.Event()
        failed: Any = on_failed or (lambda _: None)
        self._thread = BackgroundThread("sole-member", self._run, failed)

    def start(self) -> None:
        """Begin to assign."""
        self._thread.start()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Revoke everything; waits ``timeout_s`` at most for the listener."""
        self._stopping.set()
        self._wake.set()
        await_end(self._thread, timeout_s)

    def request_rejoin(self) -> None:
        """Assign what is configured now."""
        self._wake.set()

    def _run(self) -> None:
        with listening():
            while not self._stopping.is_set():
                self._wake.clear()
                wanted, had = configured(self._config.snapshot()), self.assignment
                self.assignment = wanted
                self._listener.on_revoked(had - wanted)
                self._listener.on_assigned(wanted - had, self.generation)
                self._wake.wait()
            self._listener.on_revoked(self.assignment)
