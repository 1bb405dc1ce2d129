"""One worker: a member of its group that runs the connectors and tasks which the leader assigns to it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final, Self

from connect_share.errors import ConnectShareError, NotStartedError, UsageError, safe_text
from connect_share.kafka.connect_protocol import ConnectorsAndTasks
from connect_share.model import config as events
from connect_share.model.config_state import ClusterConfigState, RestartRequest, TargetState, task_configs_changed
from connect_share.model.records import ConnectorTaskId, now_ms
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.model.writable import task_config_records
from connect_share.runtime import ConnectGroupMember, Generation, RestartPlan, SessionKeyRotation, deleted_statuses
from connect_share.runtime.member import membership_settings
from connect_share.storage import ConnectStorage
from connect_share.storage.async_storage import on_own_thread, stopped_until_its_end, to_its_end
from connect_share.storage.start import closed_meanwhile
from connect_share.stores.config import EventReceiver
from connect_share.tasks.connectors import Task
from connect_share.tasks.running import Assignment, RunningSink, RunningSource, RunningTask, trace_of
from connect_share.worker_config import WorkerConfig, WorkerConfigTransformer
from connect_share.worker_config.client_translation import whole_number
from connect_share.worker_config.secret_values import is_to_be_hidden

_logger = logging.getLogger(__name__)

_REVOKE_S: Final = 45.0
_RETRY_S: Final = 0.5
_ASKED_EVERY_S: Final = 0.1
_GRACEFUL: Final = "task.shutdown.graceful.timeout.ms"


class TaskRunner(EventReceiver):
    """Stores, membership, connectors and tasks of one worker, in a with statement; a thread for each task.

    In ``async with``, methods of tasks may be coroutines, and are carried out on that event loop.

    Everything that starts and stops runs on one thread, in the order in which it was asked for, as in Java's herder. The
    leader writes the configurations of all tasks, and fences the producers of earlier ones before they start, on another.

    Args:
        worker_config: a Java worker's properties.
        connectors: what runs for each ``connector.class``; nothing else is imported or made, whatever a topic says.
        worker_url: where others reach this worker, such as ``http://host:8083/``; its host and port are the worker id.
        storage: makes the stores: ``ConnectStorage``, or ``MemoryConnectStorage`` in tests.
        member: makes the membership: ``ConnectGroupMember``, or what stands for it in a test.
        on_failed: called once with what has ended the stores or the membership; the worker should be ended then.

    Raises:
        ConfigError: a setting is wrong; names it.
    """

    _loop: asyncio.AbstractEventLoop | None = None

    def __init__(
        self,
        worker_config: WorkerConfig,
        connectors: Mapping[str, type[Task]],
        *,
        worker_url: str,
        storage: Callable[..., ConnectStorage] = ConnectStorage,
        member: Callable[..., Any] = ConnectGroupMember,
        on_failed: Callable[[ConnectShareError], None] | None = None,
    ) -> None:
        self.config: WorkerConfig = worker_config
        self.url: str = worker_url
        self.worker_id: str = worker_url.rpartition("://")[2].strip("/")
        self._connectors_by_class = dict(connectors)
        self._on_failed = on_failed or (lambda _: None)
        self._make_member = member
        self._keys = SessionKeyRotation(worker_config)
        self._transformer = WorkerConfigTransformer(worker_config)
        self.storage: ConnectStorage = storage(
            worker_config,
            allow_live_members=ConnectGroupMember.is_own_member,
            update_listener=self,
            config_transformer=self._transformer,
            on_failed=self._fail,
        )
        if member is ConnectGroupMember:
            membership_settings(worker_config)  # what it refuses is said before the topics are read
        self._graceful_s = whole_number(_GRACEFUL, worker_config.originals.get(_GRACEFUL, "").strip() or "5000") / 1000
        self._connectors: set[str] = set()
        self._assigned: set[ConnectorTaskId] = set()
        self._tasks: dict[ConnectorTaskId, RunningTask] = {}
        self._due: dict[tuple[Any, ...], threading.Timer] = {}
        self._refused: dict[tuple[Any, ...], tuple[str, float]] = {}
        self._herder = ThreadPoolExecutor(1, thread_name_prefix="herder")
        self._leader = ThreadPoolExecutor(1, thread_name_prefix="leader")
        self._running = ExitStack()
        self._ended, self._has_failed, self._has_begun = threading.Event(), threading.Lock(), threading.Lock()
        self._stopped = False
        self.failed: ConnectShareError | None = None

    def start(self) -> Self:
        """Read the topics, then join the group: once. After :meth:`stop`, also one before it, ``StoreClosedError``."""
        if not self._has_begun.acquire(blocking=False):
            raise NotStartedError("this TaskRunner was started before: make another one")
        ready = threading.Event()
        self._soon(ready.wait)  # what changes meanwhile is done behind it

        def end_herder() -> None:
            self._herder.shutdown(wait=False, cancel_futures=True)
            ready.set()
            self._herder.shutdown()
            self._leader.shutdown(cancel_futures=True)
            for timer in [*self._due.values()]:
                timer.cancel()
            self._stop_tasks([*self._tasks])  # those that it could not stop in time

        with ExitStack() as running:
            running.callback(self._ended.set)
            running.callback(self.storage.stop)
            running.callback(end_herder)
            config = self.storage.start().config
            self.member: ConnectGroupMember = self._make_member(
                self.config, config, self, worker_url=self.url, on_failed=self._fail
            )
            running.callback(self.member.stop, _REVOKE_S + self._graceful_s)
            ready.set()
            self.member.start()
            self._running = running.pop_all()
        if self._stopped:
            self.stop()
            raise closed_meanwhile()
        return self

    def stop(self) -> None:
        """Leave the group, which stops everything, and close the stores; all of it, also where one of them raises."""
        self._stopped = True
        self._running.close()
        self.storage.stop()  # ends a start that is under way

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the runner was stopped; return whether it was. What has ended it is raised."""
        ended = self._ended.wait(timeout_s)
        if self.failed is not None:
            raise self.failed
        return ended

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        starting = asyncio.ensure_future(on_own_thread(self.start))
        try:
            return await to_its_end(starting)
        except asyncio.CancelledError:
            await stopped_until_its_end(starting, partial(on_own_thread, self.stop))
            raise

    async def __aexit__(self, *_: object) -> None:
        await to_its_end(on_own_thread(self.stop))

    def restart_task(self, task: ConnectorTaskId) -> bool:
        """Start a task anew; return whether it is one of this worker's."""
        if task in self._assigned:
            self._soon(self._start_task, task)
        return task in self._assigned

    def connector_class(self, config: Mapping[str, Any]) -> type[Task]:
        """Return what runs for a connector; ``UsageError``: there is none for its ``connector.class``."""
        name = config.get("connector.class")
        if name not in self._connectors_by_class:
            raise UsageError(f"connector.class {name!r}: this worker has {sorted(self._connectors_by_class)}")
        return self._connectors_by_class[name]

    def task_configs(self, config: Mapping[str, str]) -> list[dict[str, str]]:
        """Return the configurations of the tasks of a connector, or raise what is wrong with it, whatever that is."""
        kind, most = self.connector_class(config), int(config.get("tasks.max", "1"))
        found = [dict(each) for each in kind.task_configs(config, most)]
        if len(found) > most:
            raise ValueError(f"the connector made {len(found)} tasks; tasks.max is {most}")
        # As Java's workers do, which may have to run them.
        topics = {name: config[name] for name in ("topics", "topics.regex") if name in config and kind.kind == "sink"}
        return [{**each, **topics} for each in found]

    def tasks_of(self, state: ClusterConfigState, connector: str) -> list[dict[str, str]] | None:
        """Return the task configurations to be written for a connector, none while it is stopped; ``None``: it is gone."""
        config, raw = state.connector_config(connector), state.raw_connector_config(connector)
        if config is None or raw is None:
            return None
        made = [] if _target_state(state, connector) is TargetState.STOPPED else self.task_configs(config)
        task_config_records(connector, made)  # what cannot be written is wrong with the connector
        return [self._transformer.reverse(raw, each) for each in made]

    def on_revoked(self, items: ConnectorsAndTasks) -> None:
        """Stop these; called on the member's thread."""
        self._herder.submit(self._stop_items, items).result(_REVOKE_S + self._graceful_s)

    def on_assigned(self, items: ConnectorsAndTasks, generation: Generation) -> None:  # noqa: ARG002 - the member says it
        """Start these; called on the member's thread."""
        self._herder.submit(self._take, items).result(_REVOKE_S + self._graceful_s)

    def receive(self, event: events.ConfigEvent) -> None:
        """Follow a change on the config topic; called by the thread that follows it."""
        self._soon(self._follow, event)

    # What follows runs on the herder's thread, and what a leader writes on one of its own, which it may hold up.

    def _soon(self, work: Callable[..., object], *arguments: Any) -> None:
        def done() -> None:
            try:
                work(*arguments)
            except Exception as error:  # noqa: BLE001 - one that fails must not end the others
                _logger.error("The worker goes on after an error: %s", safe_text(error))  # noqa: TRY400 - no values

        if timer := self._due.pop((work, *arguments), None):
            timer.cancel()
        with suppress(RuntimeError):  # it was stopped
            (self._leader if work == self._leading else self._herder).submit(done)

    def _later(self, after_s: float, *work: Any) -> None:
        """Do it again soon: once, however often that is asked for."""
        if work not in self._due:
            timer = self._due[work] = threading.Timer(after_s, self._soon, work)
            timer.daemon = True
            timer.start()

    def _follow(self, event: events.ConfigEvent) -> None:
        match event:
            case events.ConnectorConfigRemoved():
                self.member.request_rejoin()
            case events.TaskConfigsUpdated(tasks):
                commit_of = self.storage.config.snapshot().task_config_generation
                for task in self._assigned.intersection(tasks):  # one that was assigned behind the commit runs with it
                    self._start_task(task, getattr(self._tasks.get(task), "commit", None) != commit_of(task.connector))
                self.member.request_rejoin()
            case events.ConnectorConfigUpdated(connector) | events.TargetStateChanged(connector):
                self._connector_changed(connector)
                self._pause(connector)
            case events.RestartRequested(request):
                self._restart(request)

    def _fail(self, error: ConnectShareError) -> None:
        if self._has_failed.acquire(blocking=False):  # once: stores and membership often fail together
            self.failed = error
            self._ended.set()
            self._on_failed(error)

    def _take(self, items: ConnectorsAndTasks) -> None:
        self._soon(self._leading, self._lead)
        for connector in items.connectors:
            self._connectors.add(connector)
            self._start_connector(connector)
        for task in items.tasks:
            self._assigned.add(task)
            self._start_task(task)

    def _leading(self, work: Callable[..., None], *arguments: Any) -> None:
        """Write what the leader writes, if that is this worker; where that fails, it is done again, soon if it may pass."""
        known, pause_s = self._refused.pop((work, *arguments), ("", _RETRY_S / 2))
        if (generation := self.member.generation) is None or not generation.is_leader:
            return
        try:
            if self.config.exactly_once_source_support != "disabled":
                self.storage.config.claim_write_privileges()  # which a write that fails has lost
            work(*arguments)
        except ConnectShareError as error:
            if str(error) != known:
                _logger.warning("The leader tries again: %s", error)
            pause_s = _RETRY_S if error.retriable else min(2 * pause_s, 60.0)  # as Java's herder
            self._refused[work, *arguments] = str(error), pause_s
            self._later(pause_s, self._leading, work, *arguments)

    def _rotate(self) -> None:
        due_ms = self._keys.due_ms(self._keys.rotate(self.storage.config) or self.storage.config.snapshot().session_key)
        if due_ms is not None:
            self._later(min((due_ms - now_ms()) / 1000, 3600.0), self._leading, self._rotate)

    def _lead(self) -> None:
        self._leading(self._rotate)
        config = self.storage.config.snapshot()
        for status in deleted_statuses(config, self.storage.status.snapshot()):
            if getattr(status, "task_id", None) not in self._assigned:  # else it says so when it has ended
                self._put(status)
        for connector in config.connectors():
            self._leading(self._write_tasks, connector)

    def _write_tasks(self, connector: str) -> None:
        """Write the configurations of a connector's tasks where they have changed, and fence earlier producers."""
        snapshot = self.storage.config.snapshot()
        try:
            configs = self.tasks_of(snapshot, connector)
        except Exception:  # noqa: BLE001 - the worker that has the connector says so
            return
        if configs is not None and task_configs_changed(snapshot, connector, configs):
            self.storage.config.put_task_configs(connector, configs)
        if configs and self._is_fenced(self.connector_class(snapshot.connector_config(connector) or {})):
            self.storage.fence_zombie_source_tasks(connector)

    def _is_fenced(self, kind: type[Task]) -> bool:
        return kind.kind == "source" and self.config.exactly_once_source_support == "enabled"

    def _connector_changed(self, connector: str) -> None:
        if connector in self._connectors:
            self._start_connector(connector)
        else:
            self.member.request_rejoin()
        self._soon(self._leading, self._write_tasks, connector)

    def _restart(self, request: RestartRequest) -> None:
        plan = RestartPlan.of(request, self.storage.status.snapshot())
        if plan is None:
            return
        if plan.restarts_connector:
            self._connector_changed(request.connector)
        for task in self._assigned.intersection(plan.tasks_to_restart):
            self._put_status(task, State.RESTARTING)
            self._start_task(task)

    def _start_connector(self, connector: str) -> None:
        """Say how a connector is, whose tasks the leader writes."""
        snapshot = self.storage.config.snapshot()
        try:
            if self.tasks_of(snapshot, connector) is not None:
                target = _target_state(snapshot, connector)
                self._put_status(connector, State.RUNNING if target is TargetState.STARTED else State(target.value))
        except Exception as error:  # noqa: BLE001 - whatever the connector raises is its status
            self._put_status(connector, State.FAILED, trace_of(error, self._secrets(connector)))

    def _start_task(self, task_id: ConnectorTaskId, anew: bool = True) -> None:
        if task_id not in self._assigned or (task_id in self._tasks and not anew):
            return  # another worker has it by now, or it runs
        self._stop_tasks([task_id])
        snapshot, connector = self.storage.config.snapshot(), task_id.connector
        if task_id not in snapshot.tasks(connector) or not snapshot.contains(connector):
            return
        try:
            config, of_connector = snapshot.task_config(task_id) or {}, snapshot.connector_config(connector) or {}
            kind = self.connector_class(of_connector)
            if self._is_fenced(kind) and snapshot.pending_fencing(connector):
                self._later(_ASKED_EVERY_S, self._start_task, task_id, False)  # the leader is at it
                return
            found = Assignment(task_id, kind, config, of_connector, self._secrets(connector), self.storage, self.config)
            running = RunningSource if kind.kind == "source" else RunningSink
            task = self._tasks[task_id] = running(found, self._call, partial(self._put_status, task_id))
            task.commit = snapshot.task_config_generation(connector)
            self._pause(connector)
            task.start()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the status of the task
            self._tasks.pop(task_id, None)
            self._put_status(task_id, State.FAILED, trace_of(error, self._secrets(connector)))

    def _pause(self, connector: str) -> None:
        """Let the tasks of a connector rest, or go on."""
        paused = _target_state(self.storage.config.snapshot(), connector) is TargetState.PAUSED
        for task in [task for task_id, task in self._tasks.items() if task_id.connector == connector]:
            (task.paused.set if paused else task.paused.clear)()

    def _stop_tasks(self, task_ids: Sequence[ConnectorTaskId]) -> None:
        tasks = [(task_id, self._tasks.pop(task_id)) for task_id in task_ids if task_id in self._tasks]
        for _, task in tasks:
            task.stopping.set()
        end_s = time.monotonic() + self._graceful_s
        for task_id, task in tasks:
            if not task.stop(max(0.0, end_s - time.monotonic())):
                _logger.warning("Task %s does not end; it writes nothing any more", task_id)

    def _stop_items(self, items: ConnectorsAndTasks) -> None:
        self._stop_tasks(items.tasks)
        self._assigned.difference_update(items.tasks)
        snapshot = self.storage.config.snapshot()
        for task in items.tasks:
            self._put_status(task, State.UNASSIGNED if task in snapshot.tasks(task.connector) else State.DESTROYED)
        for connector in self._connectors.intersection(items.connectors):
            self._connectors.discard(connector)
            self._put_status(connector, State.UNASSIGNED if snapshot.contains(connector) else State.DESTROYED)

    def _secrets(self, connector: str) -> list[str]:
        raw = self.storage.config.snapshot().raw_connector_config(connector) or {}
        found = [value for name, value in raw.items() if isinstance(value, str) and is_to_be_hidden(name, value)]
        with suppress(ConnectShareError):  # what a provider does not give now is in no trace
            found += self._transformer.secret_texts(raw)
        return found

    def _put_status(self, subject: str | ConnectorTaskId, state: State, trace: str | None = None) -> None:
        generation = self.member.generation  # the member's thread changes it at any moment
        kind: Any = TaskStatus if isinstance(subject, ConnectorTaskId) else ConnectorStatus
        self._put(kind(subject, state, self.worker_id, generation.number if generation else 0, trace))

    def _put(self, status: ConnectorStatus | TaskStatus) -> None:
        try:
            self.storage.status.put_safe(status)
        except ConnectShareError as error:
            _logger.warning("A status was not written: %s", error)

    def _call(self, stopping: threading.Event, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method of a task, on its thread; a coroutine is carried out on the event loop."""
        found = method(*arguments)
        if not inspect.isawaitable(found):
            return found
        if self._loop is None:
            getattr(found, "close", bool)()
            raise UsageError(f"{method.__qualname__} is a coroutine: enter the runner with async with")
        ending = asyncio.run_coroutine_threadsafe(asyncio.wait_for(found, None), self._loop)  # whatever can be awaited
        while method.__name__ == "poll" and not wait([ending], _ASKED_EVERY_S).done:
            if stopping.is_set():
                ending.cancel()
        return ending.result()


def _target_state(state: ClusterConfigState, connector: str) -> TargetState:
    return state.target_state(connector) or TargetState.STARTED
