"""A running cluster's brokers as the truth about topics."""

from __future__ import annotations

from typing import Final

from connect_share.admin import Admin
from connect_share.topic_ids.authority.authority import (
    REMOTE_LOG_METADATA,
    Authority,
    AuthorityPartition,
    AuthorityTopic,
    Mode,
    read_id,
)

_AT_ONCE: Final = 1000


def authority_of_brokers(admin: Admin) -> Authority:
    """Ask the brokers for all topics.

    With ZooKeeper behind them they tell what the controller remembers, so this is for KRaft; the scans show which it is.

    Raises:
        BrokerError: not reachable, or not allowed to describe a topic.
    """
    names = sorted(admin.topic_names())
    topics = {}
    for start in range(0, len(names), _AT_ONCE):
        for name, described in admin.describe_topics(names[start : start + _AT_ONCE]).items():
            topic_id, problem = read_id(described.topic_id)
            topics[name] = AuthorityTopic(
                name,
                topic_id,
                {one.id: AuthorityPartition(one.replicas, one.leader, one.isr) for one in described.partitions},
                problem,
            )
    return Authority(
        Mode.KRAFT,
        admin.bootstrap_servers,
        topics,
        cluster_id=admin.cluster_id(),
        addresses={one.id: one.address for one in admin.brokers() if one.address is not None},
        tiered_storage=REMOTE_LOG_METADATA in topics,
        from_memory=True,
    )
