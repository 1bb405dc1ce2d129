"""Which groups are kept of topics that are read, whatever others write to them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from connect_share.console.options import Group, named_groups
from connect_share.model.keys import ClusterGroupId

MOST_GROUPS: Final = 10_000
"""A limit: any writer of a topic can invent groups, and each takes some kilobytes here."""
LONGEST_ID: Final = 32_767
"""Kafka's limit of a ``group.id``: a longer text in front of a key is of no cluster, and is never kept."""
_MOST_NAMED: Final = 100
_LONGEST_NAMED: Final = 100


@dataclass
class GroupRoom:
    """Which groups are kept of topics that are read together: the caller's own, and the first others.

    When too much is to be kept of others, the largest group is left out: who invents keys takes no room from smaller ones.

    Attributes:
        most_bytes: about how much is kept of all others on each topic.
        left_out: groups that are not kept, with the records that came since; of those behind the first ones a hundred.
        limit: how many others.
    """

    own: Collection[str | None] = ()
    most_bytes: int = 1_000_000_000
    limit: int = field(default_factory=lambda: MOST_GROUPS)
    left_out: dict[Group, int] = field(default_factory=dict)
    forget: dict[object, Callable[[Group], object]] = field(default_factory=dict, repr=False)
    others: set[str | None] = field(default_factory=set)

    def admits(self, group: Group) -> bool:
        """Return whether a group is kept; count its record if it is not."""
        is_long = group is not None and len(group) > LONGEST_ID
        name = str.__new__(ClusterGroupId, f"{group[:_LONGEST_NAMED]}…") if group is not None and is_long else group
        if name in self.left_out:
            self.left_out[name] += 1
        elif group in self.others or group in self.own:
            return True
        elif not is_long and len(self.others) < self.limit:
            self.others.add(group)
            return True
        elif len(self.left_out) < _MOST_NAMED:
            self.left_out[name] = 1
        return False

    def most_left_out(self) -> list[Group]:
        """Return the groups that were left out, those with the most records first."""
        return sorted(self.left_out, key=self.left_out.__getitem__, reverse=True)

    def said(self, topic: str, records: int) -> str:
        """Return what was left out, for people; of the groups those with the most records are named."""
        what = f"{topic} has more than {self.limit:,} groups, or too many keys of one"
        named = named_groups(self.most_left_out())
        return f"{what}: {records:,} record(s) were left out, of {named}; name those that are wanted with --group"
