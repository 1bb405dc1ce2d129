"""One worker: a member of its group that runs the connectors and tasks the leader assigns to it."""

from __future__ import annotations

import logging
import queue
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from connect_share import (
    ConfigUpdateListener,
    ConnectorStatus,
    ConnectorTaskId,
    ConnectShareError,
    ConnectStorage,
    RestartRequest,
    State,
    TargetState,
    TaskStatus,
    WorkerConfig,
    WorkerConfigTransformer,
    task_configs_changed,
)
from connect_share.kafka.connect_protocol import ConnectorsAndTasks
from connect_share.runtime import ConnectGroupMember, Generation, RestartPlan, SessionKeyRotation, deleted_statuses

from .leader_client import LeaderClient, RestError
from .plugins import plugin_of
from .tasks import RunningTask

_log = logging.getLogger(__name__)
_REVOKE_S = 45.0
_RETRY_S = 0.5


class Worker(ConfigUpdateListener):
    """Stores, membership and tasks of one process.

    Everything that starts and stops runs on one thread, in the order in which it was asked for, as in Java's herder.
    """

    def __init__(self, config: WorkerConfig, url: str, on_failed: Callable[[ConnectShareError], None]) -> None:
        self.config, self.url, self.worker_id = config, url, url.partition("://")[2].rstrip("/")
        self._transformer = WorkerConfigTransformer(config)
        self.storage = ConnectStorage(
            config,
            allow_live_members=ConnectGroupMember.is_own_member,
            update_listener=self,
            config_transformer=self._transformer,
            on_failed=on_failed,
        )
        self._on_failed = on_failed
        self._keys = SessionKeyRotation(config)
        self._connectors: set[str] = set()
        self._tasks: dict[ConnectorTaskId, RunningTask] = {}
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="herder", daemon=True)

    def start(self) -> None:
        """Read the topics, then join the group."""
        self.storage.start()
        self.member = ConnectGroupMember(
            self.config, self.storage.config, self, worker_url=self.url, on_failed=self._on_failed
        )
        self.leader = LeaderClient(self.storage, self.member)
        self._thread.start()  # what changed meanwhile waits in the queue
        self.member.start()

    def stop(self) -> None:
        """Leave the group, which stops everything, and close the stores."""
        self.member.stop(_REVOKE_S)
        self._work.put(None)
        self._thread.join()
        self.storage.stop()

    # Membership: called on the member's thread.

    def on_revoked(self, items: ConnectorsAndTasks) -> None:
        self._await(lambda: self._stop_items(items))

    def on_assigned(self, items: ConnectorsAndTasks, generation: Generation) -> None:
        self._await(lambda: self._take(items, generation))

    # Changes on the config topic: called on the thread that follows it.

    def on_connector_config_update(self, connector: str) -> None:
        self._work.put(lambda: self._connector_changed(connector))

    def on_connector_config_remove(self, connector: str) -> None:
        self._work.put(self._rejoin)

    def on_task_config_update(self, tasks: Sequence[ConnectorTaskId]) -> None:
        self._work.put(lambda: self._tasks_changed(set(tasks)))

    def on_connector_target_state_change(self, connector: str) -> None:
        self._work.put(lambda: self._target_state_changed(connector))

    def on_restart_request(self, request: RestartRequest) -> None:
        self._work.put(lambda: self._restart(request))

    # The herder's thread.

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:
                _log.exception("The herder goes on after an error")

    def _await(self, work: Callable[[], None]) -> None:
        done: Future[None] = Future()

        def run() -> None:
            try:
                work()
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        self._work.put(run)
        done.result(_REVOKE_S)

    def _take(self, items: ConnectorsAndTasks, generation: Generation) -> None:
        if generation.is_leader:
            self._lead()
        for connector in items.connectors:
            self._connectors.add(connector)
            self._start_connector(connector)
        for task in items.tasks:
            self._start_task(task)

    def _lead(self) -> None:
        if self.config.exactly_once_source_support != "disabled":
            self.storage.config.claim_write_privileges()
        self._keys.rotate(self.storage.config)
        for status in deleted_statuses(self.storage.config.snapshot(), self.storage.status.snapshot()):
            self._put(status)

    def _rejoin(self) -> None:
        self.member.request_rejoin()

    def _connector_changed(self, connector: str) -> None:
        if connector in self._connectors:
            self._start_connector(connector)
        else:
            self._rejoin()

    def _target_state_changed(self, connector: str) -> None:
        if connector in self._connectors:
            self._start_connector(connector)
        for task_id, task in self._tasks.items():
            if task_id.connector == connector:
                task.pause(self._target_state(connector) is TargetState.PAUSED)

    def _tasks_changed(self, tasks: set[ConnectorTaskId]) -> None:
        for task in tasks & self._tasks.keys():
            self._start_task(task)
        self._rejoin()

    def _restart(self, request: RestartRequest) -> None:
        plan = RestartPlan.of(request, self.storage.status.snapshot())
        if plan is None:
            return
        if plan.restarts_connector and request.connector in self._connectors:
            self._start_connector(request.connector)
        for task in plan.tasks_to_restart:
            if task in self._tasks:
                self._start_task(task)

    def restart_task(self, task: ConnectorTaskId) -> bool:
        """Start a task anew; return whether it runs here."""
        if task not in self._tasks:
            return False
        self._work.put(lambda: self._start_task(task) if task in self._tasks else None)
        return True

    def _start_connector(self, connector: str) -> None:
        """Make the tasks of a connector, and let the leader write them where they have changed."""
        snapshot, target = self.storage.config.snapshot(), self._target_state(connector)
        config = snapshot.connector_config(connector)
        if config is None:
            return
        try:
            configs = [] if target is TargetState.STOPPED else plugin_of(config).task_configs(config)
            self._put_connector_status(connector, _STATES[target])
            raw = snapshot.raw_connector_config(connector) or {}
            configs = [self._transformer.reverse(raw, each) for each in configs]
            if task_configs_changed(snapshot, connector, configs):
                self.leader.put_task_configs(connector, configs)
        except RestError as error:
            _log.warning("The tasks of %s are not written yet: %s", connector, error)
            self._later(lambda: self._start_connector(connector) if connector in self._connectors else None)
        except (ValueError, ConnectShareError):
            self._put_connector_status(connector, State.FAILED, traceback.format_exc())

    def _later(self, work: Callable[[], None]) -> None:
        """Do this again: the leader is away, and it, or another, will be there soon."""
        threading.Timer(_RETRY_S, lambda: self._work.put(work)).start()

    def _start_task(self, task_id: ConnectorTaskId) -> None:
        running = self._tasks.pop(task_id, None)
        if running is not None:
            running.stop()
        config = self.storage.config.snapshot().task_config(task_id)
        if config is None:
            return
        try:
            plugin = plugin_of(config)
            if plugin.kind == "source" and self.config.exactly_once_source_support == "enabled":
                self.leader.fence(task_id.connector)  # the producers of tasks that ran before
        except RestError as error:
            _log.warning("Task %s does not start yet: %s", task_id, error)
            self._later(lambda: self._start_task(task_id) if task_id in self.member.assignment.tasks else None)
            return
        except (ValueError, ConnectShareError):
            self._put_task_status(task_id, State.FAILED, traceback.format_exc())
            return
        task = self._tasks[task_id] = RunningTask(task_id, config, plugin, self.storage, self.config)
        task.on_state = lambda state, trace: self._put_task_status(task_id, state, trace)
        task.pause(self._target_state(task_id.connector) is TargetState.PAUSED)
        task.start()

    def _stop_items(self, items: ConnectorsAndTasks) -> None:
        tasks = [(task, self._tasks.pop(task)) for task in items.tasks if task in self._tasks]
        for _, running in tasks:
            running.ask_to_stop()
        for task_id, running in tasks:
            running.stop()
            wanted = task_id in self.storage.config.snapshot().tasks(task_id.connector)
            self._put_task_status(task_id, State.UNASSIGNED if wanted else State.DESTROYED)
        for connector in items.connectors:
            if connector in self._connectors:
                self._connectors.discard(connector)
                wanted = self.storage.config.snapshot().contains(connector)
                self._put_connector_status(connector, State.UNASSIGNED if wanted else State.DESTROYED)

    def _target_state(self, connector: str) -> TargetState:
        return self.storage.config.snapshot().target_state(connector) or TargetState.STARTED

    def _put_connector_status(self, connector: str, state: State, trace: str | None = None) -> None:
        self._put(ConnectorStatus(connector, state, self.worker_id, self._generation(), trace))

    def _put_task_status(self, task: ConnectorTaskId, state: State, trace: str | None = None) -> None:
        self._put(TaskStatus(task, state, self.worker_id, self._generation(), trace))

    def _put(self, status: ConnectorStatus | TaskStatus) -> None:
        try:
            self.storage.status.put_safe(status)
        except ConnectShareError as error:
            _log.warning("A status was not written: %s", error)

    def _generation(self) -> int:
        generation = self.member.generation
        return 0 if generation is None else generation.number


_STATES: dict[TargetState, Any] = {
    TargetState.STARTED: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}
