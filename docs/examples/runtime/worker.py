"""One worker: a task runner that can ask its leader, too, which those of release 0.3 expect."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from connect_share import ConnectShareError, WorkerConfig, task_configs_changed
from connect_share.kafka.connect_protocol import ConnectorsAndTasks
from connect_share.runtime import Generation
from connect_share.tasks import TaskRunner

from .leader_client import LeaderClient, RestError
from .plugins import CONNECTORS

_log = logging.getLogger(__name__)
_ASK_S = 1.0


class Worker(TaskRunner):
    """The runner, with the leader of its group."""

    def __init__(self, config: WorkerConfig, url: str, on_failed: Callable[[ConnectShareError], None]) -> None:
        super().__init__(config, CONNECTORS, worker_url=url, on_failed=on_failed)
        self._asking = threading.Event()

    @property
    def leader(self) -> LeaderClient:
        return LeaderClient(self.storage, self.member)

    def on_assigned(self, items: ConnectorsAndTasks, generation: Generation) -> None:
        super().on_assigned(items, generation)
        self._ask_soon()

    def receive(self, event: Any) -> None:
        super().receive(event)
        self._ask_soon()

    def _ask_soon(self) -> None:
        if not self._asking.is_set():
            self._asking.set()
            timer = threading.Timer(_ASK_S, self._ask)
            timer.daemon = True
            timer.start()

    def _ask(self) -> None:
        """Ask a leader of release 0.3, which writes tasks and fences when it is asked to; those of today do it at once."""
        self._asking.clear()
        try:
            snapshot = self.storage.config.snapshot()
            if self.leader.generation().is_leader:
                return
            for name in self.member.assignment.connectors:
                made = self.tasks_of(snapshot, name)
                if made is not None and task_configs_changed(snapshot, name, made):
                    self.leader.put_task_configs(name, made)
            for name in {task.connector for task in self.member.assignment.tasks}:
                if snapshot.pending_fencing(name) and self.config.exactly_once_source_support == "enabled":
                    self.leader.fence(name)
        except RestError as error:
            _log.warning("The leader is asked again: %s", error)
            self._ask_soon()
        except (ValueError, ConnectShareError):
            pass  # the status of the connector says it
