"""Statuses beside the workers that live: what claims to run and does not, and what should run and does not say so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from connect_share.checks.check import Check
from connect_share.checks.collisions import two_plain_clusters
from connect_share.checks.finding import Finding, Severity, named, of_group, place
from connect_share.checks.sources import CheckSources, GroupState
from connect_share.contents.workers import ANY_GROUP
from connect_share.model.config_state import TargetState
from connect_share.model.keys import ConfigKey, StatusKey
from connect_share.model.records import TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus

LONG_MS: Final = 600_000
"""Twice the default of ``scheduled.rebalance.max.delay.ms``, after which the work of a dead worker is given to others."""
_RUNS: Final = (State.RUNNING, State.RESTARTING)
_AT_A_WORKER: Final = (*_RUNS, State.PAUSED, State.FAILED)
_STARTED: Final = TargetState.STARTED
Elsewhere = Mapping[str | None, str]
"""Live Connect groups, by the ids of their workers."""


WorkerIds = Collection[str | None]
"""Of the live members of a Connect group, as in statuses, ``host:port``; ``None`` for one that does not say."""


def live_workers(
    state: GroupState, members: Mapping[str, WorkerIds], *, others: Collection[str], plain_group_id: str | None
) -> WorkerIds:
    """Return the live workers of a group; ``members`` are those of each Connect group.

    The records of the cluster with plain keys do not say its ``plain_group_id``. Without it, that is the group that is none
    of the ``others`` on the topics, and to which a worker in the statuses belongs.
    """
    group_id = plain_group_id if state.group is None else str(state.group)
    if group_id is not None:
        return members.get(group_id, ())
    there = {status.worker_id for _, _, status in _statuses(state)}
    for candidate, workers in sorted(members.items()):
        if candidate not in others and None not in workers and not there.isdisjoint(workers):
            return workers
    return ()


def find(
    topics: Mapping[TopicType, str],
    state: GroupState,
    workers: WorkerIds,
    now_ms: int,
    elsewhere: Elsewhere = MappingProxyType({}),
) -> Iterator[Finding]:
    """Yield what is found of a group whose statuses can be read."""
    where = place(topics[TopicType.STATUS], state.group)
    if workers:
        yield from _of_others(where, state, workers, now_ms, elsewhere)
        if TopicType.CONFIG in topics and TopicType.CONFIG not in state.sealed:
            yield from _of_configured(where, state, now_ms)
        return
    running = [name for name, _, status in _statuses(state) if status.state in _RUNS]
    if running:
        yield Finding(
            "liveness-no-workers",
            Severity.WARNING,
            where,
            f"no worker is alive, and {len(running):,} of its statuses say RUNNING: {named(running)}",
            "nothing runs there, unless a runtime other than Java's workers has this group; who reads statuses is told "
            "otherwise",
            "start the workers; if they are gone for good, remove what is left of the group",
        )


def _statuses(state: GroupState) -> Iterator[tuple[str, bytes, ConnectorStatus | TaskStatus]]:
    """Yield the statuses of connectors and tasks with their name and original key."""
    for connector in sorted(state.status.connectors() | state.status.connectors_with_tasks()):
        of_connector = state.status.connector_status(connector)
        if of_connector is not None:
            yield connector, StatusKey.CONNECTOR.key(connector), of_connector
        for status in state.status.task_statuses(connector):
            yield str(status.task_id), StatusKey.TASK.key(status.task_id), status


def _of_others(
    where: str, state: GroupState, workers: WorkerIds, now_ms: int, elsewhere: Elsewhere
) -> Iterator[Finding]:
    if None in workers:
        return
    found: dict[str, list[str]] = {}
    settled = set[str]()
    for name, key, status in _statuses(state):
        if status.worker_id is not None and status.worker_id not in workers and status.state in _AT_A_WORKER:
            found.setdefault(status.worker_id, []).append(name)
            if _is_long(state.kept.status_ms.get(key), now_ms):
                settled.add(status.worker_id)
    for worker, names in sorted(found.items()):
        what = f"statuses of worker {named([worker])}, which is no live member of the group: {named(names)}"
        why = (
            "it died, and its work is not at another worker yet: that takes scheduled.rebalance.max.delay.ms, by default "
            "five minutes"
        )
        if other := elsewhere.get(worker) if state.group is None else None:
            what = f"{what}; it is one of {named([other])}"
            why = "two clusters write to these topics, or it changed from one to the other in the last ten minutes"
            if worker in settled:
                yield two_plain_clusters(where, what)
                continue
        yield Finding(
            "liveness-unknown-worker",
            Severity.WARNING,
            where,
            what,
            why,
            "wait for these minutes; if it stays so, restart the connector, and look at the leader's log",
        )


def _is_long(ms: int | None, now_ms: int) -> bool:
    return ms is not None and 0 <= ms <= now_ms - LONG_MS


def _of_configured(where: str, state: GroupState, now_ms: int) -> Iterator[Finding]:
    kept, config = state.kept, state.config
    wanted = {name: config.target_state(name) or _STARTED for name in config.connectors()}

    unassigned: list[str] = []
    differs: list[str] = []
    for name, key, status in _statuses(state):
        target = wanted.get(status.connector if isinstance(status, ConnectorStatus) else status.task_id.connector)
        if target is None or not _is_long(kept.status_ms.get(key), now_ms):
            continue
        if target is _STARTED and status.state is State.UNASSIGNED:
            unassigned.append(name)
        elif target is not _STARTED and status.state in _RUNS:
            differs.append(name)
    if unassigned:
        yield Finding(
            "liveness-unassigned",
            Severity.ERROR,
            where,
            f"UNASSIGNED for more than {LONG_MS // 60_000} minutes: {named(unassigned)}",
            "workers are alive, and none of them runs it",
            "look at the leader's log, and restart the connector",
        )
    if differs:
        yield Finding(
            "liveness-not-stopped",
            Severity.WARNING,
            where,
            f"RUNNING, and to be paused or stopped: {named(differs)}",
            "the workers have not seen the target state, or cannot follow it",
            "look at the log of the worker in the status; restart the connector",
        )
    silent = [name for name in _without_status(state, wanted) if _is_long(_configured_ms(state, name), now_ms)]
    if silent:
        yield Finding(
            "liveness-no-status",
            Severity.WARNING,
            where,
            f"configured for more than {LONG_MS // 60_000} minutes, and never said to run: {named(silent)}",
            "no worker has taken it, or its statuses are lost",
            "look at the leader's log, and restart the connector",
        )


def _without_status(state: GroupState, wanted: Mapping[str, TargetState]) -> Iterator[str]:
    for name in sorted(wanted):
        if wanted[name] is not _STARTED:
            continue
        tasks = {status.task_id for status in state.status.task_statuses(name)}
        if state.status.connector_status(name) is None or not tasks.issuperset(state.config.tasks(name)):
            yield name


def _configured_ms(state: GroupState, name: str) -> int | None:
    """Return when a connector was last configured, or its tasks."""
    latest = state.kept.history.latest
    records = [latest.get(kind.key(name)) for kind in (ConfigKey.CONNECTOR, ConfigKey.COMMIT, ConfigKey.TARGET_STATE)]
    return max((record.timestamp_ms for record in records if record is not None), default=None)


def _in_groups(sources: CheckSources) -> Iterator[Finding]:
    others = {str(each.group) for each in sources.state.groups if each.group is not None}
    elsewhere = {worker: group for group, ids in sources.members.items() for worker in ids}
    for state in sources.groups:
        if TopicType.STATUS not in state.sealed and (sources.group_id_of(state.group) or ANY_GROUP) in sources.members:
            workers = live_workers(state, sources.members, others=others, plain_group_id=sources.plain_group_id)
            yield from of_group(state.group, find(sources.state.topics, state, workers, sources.now_ms, elsewhere))


CHECK: Final = Check(
    "liveness",
    "do the statuses agree with the workers that live?",
    "Compare statuses with the live members of each group: RUNNING without any worker, workers that are no members, "
    "UNASSIGNED for more than ten minutes, and connectors that nobody ever said to run.",
    _in_groups,
    needs=(TopicType.STATUS,),
    reads=(TopicType.CONFIG, TopicType.STATUS),
    place=50,
)
