"""The state a worker of a cluster group has after reading these records in order."""

from __future__ import annotations

from collections.abc import Iterable

from connect_share.keys import ClusterGroupId
from connect_share.records import Record
from connect_share.state.config_fold import ConfigFold
from connect_share.state.config_state import ClusterConfigState
from connect_share.state.offset_fold import OffsetFold, OffsetSnapshot
from connect_share.state.status_fold import StatusFold, StatusSnapshot


def _group(cluster_group_id: str | None) -> ClusterGroupId | None:
    return None if cluster_group_id is None else ClusterGroupId(cluster_group_id)


def replay_config(records: Iterable[Record], cluster_group_id: str | None = None) -> ClusterConfigState:
    """Fold records of a config topic.

    Records are in log order; without a ``cluster_group_id`` those with plain keys count, as for an unmodified worker.

    Raises:
        InvalidClusterGroupIdError: the id cannot be one.
    """
    fold = ConfigFold(_group(cluster_group_id))
    for record in records:
        fold.apply(record, started=False)
    return fold.snapshot()


def replay_status(records: Iterable[Record], cluster_group_id: str | None = None) -> StatusSnapshot:
    """Fold records of a status topic; only the order within a partition matters.

    Raises:
        InvalidClusterGroupIdError: the id cannot be one.
    """
    fold = StatusFold(_group(cluster_group_id))
    for record in records:
        fold.apply(record)
    return fold.snapshot()


def replay_offsets(records: Iterable[Record], cluster_group_id: str | None = None) -> OffsetSnapshot:
    """Fold records of an offset topic; only the order within a partition matters.

    Raises:
        InvalidClusterGroupIdError: the id cannot be one.
    """
    fold = OffsetFold(_group(cluster_group_id))
    for record in records:
        fold.apply(record)
    return fold.snapshot()
