"""The state a worker of a cluster group has after reading these records in order."""

from __future__ import annotations

from collections.abc import Iterable

from connect_share.errors import UsageError
from connect_share.model.config import ConfigFold
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.keys import ClusterGroupId
from connect_share.model.offsets import OffsetFold, OffsetSnapshot
from connect_share.model.records import Record, TopicType
from connect_share.model.status import StatusFold, StatusSnapshot
from connect_share.sealing import KeyRing, SealingMode, TopicSeals


def _group(cluster_group_id: str | None) -> ClusterGroupId | None:
    return None if cluster_group_id is None else ClusterGroupId(cluster_group_id)


def _opened(
    topic_type: TopicType,
    records: Iterable[Record],
    group: ClusterGroupId | None,
    keys: KeyRing | None,
    mode: SealingMode,
) -> Iterable[Record]:
    if group is not None:
        return TopicSeals(topic_type, group, keys, mode).open_all(records)
    if keys is not None:
        raise UsageError("records with plain keys are never sealed: give the cluster group id with the keys")
    return records


def replay_config(
    records: Iterable[Record],
    cluster_group_id: str | None = None,
    *,
    keys: KeyRing | None = None,
    mode: SealingMode = SealingMode.REQUIRED,
) -> ClusterConfigState:
    """Fold records of a config topic.

    Records are in log order; without a ``cluster_group_id`` those with plain keys count, as for an unmodified worker. With
    ``keys`` the group's records are opened, and what it has not sealed is passed over, or, by ``mode``, accepted.

    Raises:
        InvalidClusterGroupIdError: the id cannot be one.
        UsageError: there are keys for records with plain keys.
        ConfigError: there are keys, and the library ``cryptography`` is not installed.

    >>> record = Record("configs", 0, 0, 1, b"a.connector-c", b'{"properties":{"name":"c"}}')
    >>> replay_config([record], "a").connector_config("c")
    {'name': 'c'}
    """
    group = _group(cluster_group_id)
    fold = ConfigFold(group)
    for record in _opened(TopicType.CONFIG, records, group, keys, mode):
        fold.apply(record, started=False)
    return fold.snapshot()


def replay_status(
    records: Iterable[Record],
    cluster_group_id: str | None = None,
    *,
    keys: KeyRing | None = None,
    mode: SealingMode = SealingMode.REQUIRED,
    partitions: int = 0,
) -> StatusSnapshot:
    """Fold records of a status topic; only the order within a partition matters. Else as :func:`replay_config`.

    ``partitions`` are those of the topic: of a key in several of them with equal times, the place of murmur2 decides.

    >>> value = b'{"state":"RUNNING","trace":null,"worker_id":"w:8083","generation":1}'
    >>> replay_status([Record("statuses", 0, 0, 1, b"a.status-connector-c", value)], "a").connector_status("c").state
    <State.RUNNING: 'RUNNING'>
    """
    group = _group(cluster_group_id)
    fold = StatusFold(group)
    fold.places.partitions = lambda: partitions
    for record in _opened(TopicType.STATUS, records, group, keys, mode):
        fold.apply(record)
    return fold.snapshot()


def replay_offsets(
    records: Iterable[Record],
    cluster_group_id: str | None = None,
    *,
    keys: KeyRing | None = None,
    mode: SealingMode = SealingMode.REQUIRED,
    partitions: int = 0,
) -> OffsetSnapshot:
    """Fold records of an offset topic; only the order within a partition matters. Else as :func:`replay_config`.

    ``partitions`` are those of the topic: of a key in several of them with equal times, the place of murmur2 decides.

    >>> record = Record("offsets", 0, 0, 1, b'a.["c",{"file":"in.txt"}]', b'{"position":5}')
    >>> replay_offsets([record], "a").offset("c", {"file": "in.txt"})
    {'position': 5}
    """
    group = _group(cluster_group_id)
    fold = OffsetFold(group)
    fold.places.partitions = lambda: partitions
    for record in _opened(TopicType.OFFSET, records, group, keys, mode):
        fold.apply(record)
    return fold.snapshot()
