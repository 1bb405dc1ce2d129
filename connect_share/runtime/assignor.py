"""Which connectors and tasks each member of a group is to start and to stop.

Cooperative as Java's ``IncrementalCooperativeAssignor`` (KIP-415): a member keeps what it runs as long as the load is even,
and what moves is stopped in one rebalance and started in the next. Unlike there, work of a member that is gone is assigned
at once: there is no ``scheduled.rebalance.max.delay.ms``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from connect_share.kafka.connect_protocol import NOTHING, ConnectorsAndTasks

Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True)
class Change:
    """What a member is to start, and what it is to stop."""

    assigned: ConnectorsAndTasks = NOTHING
    revoked: ConnectorsAndTasks = NOTHING


def balanced_assignment(running: Mapping[str, ConnectorsAndTasks], configured: ConnectorsAndTasks) -> dict[str, Change]:
    """Return the change of each member, by member id.

    Connectors and tasks are each spread evenly: the counts of two members differ by one at most, after as many
    rebalances as it takes to stop what moves. What two members run at once, and what is not configured, is revoked.

    Args:
        running: what each member of the group runs.
        configured: what is to run.
    """
    connectors = _spread({member: items.connectors for member, items in running.items()}, configured.connectors)
    tasks = _spread({member: items.tasks for member, items in running.items()}, configured.tasks)
    return {
        member: Change(
            ConnectorsAndTasks(connectors[member][0], tasks[member][0]),
            ConnectorsAndTasks(connectors[member][1], tasks[member][1]),
        )
        for member in running
    }


def _spread(
    running: Mapping[str, Collection[Item]], configured: Iterable[Item]
) -> dict[str, tuple[tuple[Item, ...], tuple[Item, ...]]]:
    """Return what each member is to start and to stop."""
    wanted = dict.fromkeys(configured)
    owners = Counter(item for items in running.values() for item in set(items))
    kept: dict[str, list[Any]] = {
        member: [item for item in dict.fromkeys(items) if item in wanted and owners[item] == 1]
        for member, items in running.items()
    }
    # Those who have most may keep one more, so that nothing moves without need.
    by_load = sorted(kept, key=lambda member: (-len(kept[member]), member))
    share, more = divmod(len(wanted), len(kept)) if kept else (0, 0)
    quota = {member: share + (at < more) for at, member in enumerate(by_load)}
    for member, items in kept.items():
        del items[quota[member] :]
    free = [item for item in wanted if not owners[item]]
    assigned: dict[str, list[Any]] = {member: [] for member in kept}
    for member in sorted(kept, key=lambda member: (len(kept[member]), member)):
        missing = quota[member] - len(kept[member])
        assigned[member], free = free[:missing], free[missing:]
    stay = {member: frozenset(items) for member, items in kept.items()}
    return {
        member: (tuple(assigned[member]), tuple(item for item in dict.fromkeys(items) if item not in stay[member]))
        for member, items in running.items()
    }
