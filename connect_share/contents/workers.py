"""The workers of Connect groups as their brokers describe them: looked at for some seconds, for only then all is told."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from connect_share.console.options import PLAIN
from connect_share.errors import listed
from connect_share.kafka.admin import Admin
from connect_share.kafka.connect_protocol import NO_ERROR
from connect_share.kafka.descriptions import GroupMember, HeldRights
from connect_share.kafka.waits import longest_wait_s

ANY_GROUP: Final = "?"
"""No group has this id: who may see it, may see all, also that of a cluster with plain keys, which do not say its id."""
LOOK_S: Final = 12.0
"""How long a group is looked at that does not settle: a worker that died is missed after ten seconds by default."""
_EVERY_S: Final = 0.1
_CALM: Final = 5  # looks in a row; between two rebalances of a storm were up to four
_FEW: Final = 20  # of more, all groups of the cluster are described at once


@dataclass(frozen=True)
class WatchedGroup:
    """A Connect group.

    Attributes:
        members: at the last look that told all; at the last one if none did.
        looks, calm: how often it was looked at, and was stable with an assignment that its members can follow.
        in_a_row: looks of the end that were so.
    """

    group_id: str
    members: tuple[GroupMember, ...] = ()
    looks: int = 0
    calm: int = 0
    in_a_row: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether it was calm for long enough; a group without members is."""
        return self.in_a_row >= _CALM or not self.members

    @property
    def leader(self) -> str | None:
        """The member id of its leader; ``None``: not known."""
        return next((each.assignment.leader for each in self.members if each.assignment is not None), None)

    def seen(self, members: tuple[GroupMember, ...]) -> WatchedGroup:
        """Return it after one more look."""
        told = all(each.group_state == "Stable" and each.state is not None for each in members)
        calm = told and all(each.assignment is None or each.assignment.error == NO_ERROR for each in members)
        kept = members if told or not members or self.leader is None else self.members
        in_a_row = self.in_a_row + 1 if calm else 0
        return replace(self, members=kept, looks=self.looks + 1, calm=self.calm + calm, in_a_row=in_a_row)


def live_worker_ids(admin: Admin, group_ids: Collection[str] = ()) -> dict[str, tuple[str | None, ...]]:
    """Return the worker ids of each Connect group with live members, and of these groups that may be seen and have none."""
    found = {group: tuple(each.worker_id for each in live) for group, live in admin.connect_members().items() if live}
    rights = admin.group_rights({*group_ids} - found.keys())
    return {group: () for group, held in rights.items() if held != HeldRights()} | found


def not_seen(group_ids: Iterable[str]) -> list[str]:
    """Return the note about groups that :func:`live_worker_ids` does not return, if there are any."""
    names = listed(sorted(PLAIN if each == ANY_GROUP else each for each in group_ids))
    return [f"whether workers of {names} live is not known: DESCRIBE on the group is missing"] if names else []


def watch(admin: Admin, group_ids: Collection[str] | None) -> Mapping[str, WatchedGroup]:
    """Look at groups until all have settled, or the time is over; ``None``: all Connect groups of the cluster."""
    found = {group_id: WatchedGroup(group_id) for group_id in sorted(group_ids or ())}
    deadline_s = time.monotonic() + min(LOOK_S, longest_wait_s(LOOK_S))
    while True:
        wanted = [name for name, group in found.items() if not group.looks or not group.is_settled]
        asked: list[str | None] = [*wanted] if group_ids is not None and len(wanted) <= _FEW else [None]
        groups = {name: members for one in asked for name, members in admin.connect_members(one).items()}
        for group_id in wanted if group_ids is not None else sorted(groups.keys() | found):
            found[group_id] = found.get(group_id, WatchedGroup(group_id)).seen(groups.get(group_id, ()))
        if all(each.is_settled for each in found.values()) or time.monotonic() > deadline_s:
            return found
        time.sleep(_EVERY_S)
