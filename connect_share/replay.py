"""The state a worker of a cluster group has after reading these records in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from connect_share.errors import UsageError
from connect_share.model.config import ConfigFold
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.fold import Fold
from connect_share.model.keys import ClusterGroupId
from connect_share.model.offsets import OffsetFold, OffsetSnapshot
from connect_share.model.records import Record
from connect_share.model.status import StatusFold, StatusSnapshot
from connect_share.sealing import KeyRing, SealingMode, TopicSeals


def _group(cluster_group_id: str | None) -> ClusterGroupId | None:
    return None if cluster_group_id is None else ClusterGroupId(cluster_group_id)


AnyFold = TypeVar("AnyFold", bound=Fold)


def _folded(
    fold: AnyFold, records: Iterable[Record], keys: KeyRing | None, mode: SealingMode | None, partitions: int = 0
) -> AnyFold:
    """Apply what the group accepts of these records."""
    fold.places.partitions = lambda: partitions
    if fold.group is None and keys is not None:
        raise UsageError("records with plain keys are never sealed: give the cluster group id with the keys")
    if keys is None and mode not in (None, SealingMode.OFF):
        raise UsageError("mode says which values count beside keys: give the keys, or leave it out")
    for record in TopicSeals(fold.topic_type, fold.group, keys, mode or SealingMode.REQUIRED).open_all(records):
        fold.apply(record)
    return fold


def replay_config(
    records: Iterable[Record],
    cluster_group_id: str | None = None,
    *,
    keys: KeyRing | None = None,
    mode: SealingMode | None = None,
) -> ClusterConfigState:
    """Fold records of a config topic.

    Records are in log order; without a ``cluster_group_id`` those with plain keys count, as for an unmodified worker. With
    ``keys`` the group's records are opened, and what it has not sealed is passed over, or, by ``mode``, accepted.

    Raises:
        InvalidClusterGroupIdError: the id cannot be one.
        UsageError: there are keys for records with plain keys, or a mode without keys.
        ConfigError: there are keys, and the library ``cryptography`` is not installed.

    >>> record = Record("configs", 0, 0, 1, b"a.connector-c", b'{"properties":{"name":"c"}}')
    >>> replay_config([record], "a").connector_config("c")
    {'name': 'c'}
    """
    return _folded(ConfigFold(_group(cluster_group_id)), records, keys, mode).snapshot()


def replay_status(
    records: Iterable[Record],
    cluster_group_id: str | None = None,
    *,
    keys: KeyRing | None = None,
    mode: SealingMode | None = None,
    partitions: int = 0,
) -> StatusSnapshot:
    """Fold records of a status topic; only the order within a partition matters. Else as :func:`replay_config`.

    ``partitions`` are those of the topic: of a key in several of them with equal times, the place of murmur2 decides.

    >>> value = b'{"state":"RUNNING","trace":null,"worker_id":"w:8083","generation":1}'
    >>> replay_status([Record("statuses", 0, 0, 1, b"a.status-connector-c", value)], "a").connector_status("c").state
    <State.RUNNING: 'RUNNING'>
    """
    return _folded(StatusFold(_group(cluster_group_id)), records, keys, mode, partitions).snapshot()


def replay_offsets(
    records: Iterable[Record],
    cluster_group_id: str | None = None,
    *,
    keys: KeyRing | None = None,
    mode: SealingMode | None = None,
    partitions: int = 0,
) -> OffsetSnapshot:
    """Fold records of an offset topic; only the order within a partition matters. Else as :func:`replay_config`.

    ``partitions`` are those of the topic: of a key in several of them with equal times, the place of murmur2 decides.

    >>> record = Record("offsets", 0, 0, 1, b'a.["c",{"file":"in.txt"}]', b'{"position":5}')
    >>> replay_offsets([record], "a").offset("c", {"file": "in.txt"})
    {'position': 5}
    """
    return _folded(OffsetFold(_group(cluster_group_id)), records, keys, mode, partitions).snapshot()
