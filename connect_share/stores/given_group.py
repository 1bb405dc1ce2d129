"""Whose keys a store, reader or writer uses: what it stands on says so, and a call may only agree."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Literal

from connect_share.errors import ConfigError
from connect_share.model.keys import ClusterGroupId
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig

if TYPE_CHECKING:
    from connect_share.stores.base import OffsetBackingStore


class NotGiven(Enum):
    """Default of ``cluster_group_id``, because ``None`` says something: plain keys."""

    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return self.name


NOT_GIVEN: Final = NotGiven.NOT_GIVEN

GivenGroup = str | Literal[NotGiven.NOT_GIVEN] | None
"""A cluster group id, ``None`` for plain keys, or nothing said."""


def agreed_group(
    given: GivenGroup,
    own: ClusterGroupId | None,
    *,
    whose: str,
    other: str,
    argument: str = "cluster_group_id",
    optional: str = "cluster_group_id",
    property_name: str | None = None,
) -> ClusterGroupId | None:
    """Return ``own``, the group of what a call stands on, if the call does not say something else.

    ``whose`` says in the error what has that group, ``other`` what would have to be another one; ``argument`` is where the
    caller said it, ``optional`` what may be left out.

    Raises:
        ConfigError: ``given`` is another group, or plain keys where ``own`` is a group, or the reverse.
        InvalidClusterGroupIdError: ``given`` cannot be a cluster group id.
    """
    if isinstance(given, NotGiven):
        return own
    wanted = None if given is None else ClusterGroupId(given)
    if wanted != own:
        raise ConfigError(
            f"{argument}={wanted!r}, but {whose}: leave {optional} out, or use another {other}",
            property_name=property_name,
        )
    return own


def group_of_worker(
    worker_config: WorkerConfig,
    given: GivenGroup,
    *,
    argument: str = "cluster_group_id",
    optional: str = "cluster_group_id",
) -> ClusterGroupId | None:
    """Return the group of a worker file, as :func:`agreed_group`."""
    switch = "enabled" if worker_config.sharing_enabled else "disabled"
    return agreed_group(
        given,
        worker_config.cluster_group_id,
        whose=f"the worker file says {SHARING_PROPERTY}={switch} and group.id={worker_config.group_id!r}",
        other="worker file",
        argument=argument,
        optional=optional,
        property_name=SHARING_PROPERTY,
    )


def group_of_store(store: OffsetBackingStore, given: GivenGroup) -> ClusterGroupId | None:
    """Return the group of an offset store, as :func:`agreed_group`."""
    own = store.cluster_group_id
    keys = "plain keys" if own is None else f"keys of cluster group {own!r}"
    return agreed_group(given, own, whose=f"the offset store {store.topic} has {keys}", other="store")
