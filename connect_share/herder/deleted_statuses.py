"""Statuses of connectors and tasks that are not configured any more."""

from __future__ import annotations

from dataclasses import replace

from connect_share.state import ClusterConfigState, ConnectorStatus, State, StatusSnapshot, TaskStatus


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
