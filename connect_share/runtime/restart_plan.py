"""Statuses of what is not configured any more, and which parts of a connector a request restarts (KIP-745)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Self

from connect_share.model.config_state import ClusterConfigState, RestartRequest
from connect_share.model.records import ConnectorTaskId
from connect_share.model.status import ConnectorStatus, State, StatusSnapshot, TaskStatus


def deleted_statuses(config: ClusterConfigState, statuses: StatusSnapshot) -> list[ConnectorStatus | TaskStatus]:
    """Return what the leader puts into the status store after a rebalance: ``DESTROYED`` for what is gone.

    Of a connector that is not configured all tasks go, too. Inconsistent connectors keep their tasks: these are written
    anew soon.

    Source: ``DistributedHerder.updateDeletedConnectorStatus``, ``updateDeletedTaskStatus``.
    """
    found: list[ConnectorStatus | TaskStatus] = []
    for name in sorted(statuses.connectors() | statuses.connectors_with_tasks()):
        status = statuses.connector_status(name)
        if status is not None and not config.contains(name):
            found.append(replace(status, state=State.DESTROYED, trace=None))
        if name in config.inconsistent_connectors():
            continue
        configured = set(config.tasks(name)) if config.contains(name) else set()
        tasks = [each for each in statuses.task_statuses(name) if each.task_id not in configured]
        found.extend(replace(each, state=State.DESTROYED, trace=None) for each in tasks)
    return found


def impact(request: RestartRequest) -> int:
    """Return the rank of a request: 0 restarts least, 3 all there is. Source: ``RestartRequest.impactRank``."""
    return 2 * (not request.only_failed) + request.include_tasks


def should_restart_connector(request: RestartRequest, status: ConnectorStatus) -> bool:
    """Return whether the connector itself is restarted."""
    return not request.only_failed or status.state is State.FAILED


def should_restart_task(request: RestartRequest, status: TaskStatus) -> bool:
    """Return whether this task is restarted."""
    return request.include_tasks and (not request.only_failed or status.state is State.FAILED)


@dataclass(frozen=True)
class RestartPlan:
    """What one request restarts.

    Attributes:
        request: what was asked for.
        connector: status of the connector, ``RESTARTING`` if it is restarted.
        tasks: statuses of its tasks, by number, ``RESTARTING`` for those that are restarted.

    Source: ``RestartPlan``, ``AbstractHerder.buildRestartPlan``.
    """

    request: RestartRequest
    connector: ConnectorStatus
    tasks: tuple[TaskStatus, ...]

    @classmethod
    def of(cls, request: RestartRequest, statuses: StatusSnapshot) -> Self | None:
        """Return the plan for what the statuses say; ``None`` if the connector has no status."""
        connector = statuses.connector_status(request.connector)
        if connector is None:
            return None
        tasks = sorted(statuses.task_statuses(request.connector), key=lambda each: each.task_id)
        return cls(
            request,
            replace(connector, state=State.RESTARTING) if should_restart_connector(request, connector) else connector,
            tuple(
                replace(each, state=State.RESTARTING) if should_restart_task(request, each) else each for each in tasks
            ),
        )

    @property
    def restarts_connector(self) -> bool:
        """Whether the connector itself is restarted."""
        return self.connector.state is State.RESTARTING

    @property
    def tasks_to_restart(self) -> tuple[ConnectorTaskId, ...]:
        """The tasks that are restarted."""
        return tuple(each.task_id for each in self.tasks if each.state is State.RESTARTING)


class PendingRestarts:
    """Restart requests that wait: of each connector the one with the greatest impact. Thread-safe.

    Source: ``DistributedHerder.pendingRestartRequests``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, RestartRequest] = {}

    def add(self, request: RestartRequest) -> None:
        """Take a request, unless one of the same connector waits that restarts as much."""
        with self._lock:
            waiting = self._requests.get(request.connector)
            if waiting is None or impact(request) > impact(waiting):
                self._requests[request.connector] = request

    def take(self) -> list[RestartRequest]:
        """Return the requests that wait, by name of the connector, and forget them."""
        with self._lock:
            found, self._requests = self._requests, {}
        return [found[name] for name in sorted(found)]
