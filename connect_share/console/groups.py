"""Cluster groups on the command line and in tables."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from connect_share.keys import ClusterGroupId

PLAIN: Final = "(plain)"
"""Stands for the cluster with plain keys; no cluster group id can be written like this."""

Group = ClusterGroupId | None
"""``None`` is the cluster with plain keys."""


def groups_of(names: Collection[str] | None) -> Collection[Group] | None:
    """Return the groups that were named; ``None``: all.

    Raises:
        InvalidClusterGroupIdError: a name cannot be one.
    """
    return {None if name == PLAIN else ClusterGroupId(name) for name in names} if names else None


def shown_group(group: Group) -> str:
    """Return the name of a group for people."""
    return PLAIN if group is None else group


def group_order(group: Group) -> tuple[bool, str]:
    """Return a key that sorts groups by name, the plain cluster first."""
    return group is not None, group or ""
