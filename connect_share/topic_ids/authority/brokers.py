"""The topics of a running cluster, as its brokers describe them."""

from __future__ import annotations

from typing import Final

from connect_share.admin import Admin
from connect_share.topic_ids.authority.authority import (
    REMOTE_LOG_METADATA,
    Authority,
    AuthorityPartition,
    AuthorityTopic,
    MetadataMode,
    read_id,
)

_AT_ONCE: Final = 1000


def authority_of_brokers(admin: Admin) -> Authority:
    """Return all topics of a KRaft cluster; raise ``BrokerError`` if it does not answer, or does not allow it.

    Brokers with ZooKeeper only return what the controller remembers; the scans show which of the two it is.
    """
    names = sorted(admin.topic_names())
    topics = {}
    for start in range(0, len(names), _AT_ONCE):
        for name, described in admin.describe_topics(names[start : start + _AT_ONCE]).items():
            partitions = {one.id: AuthorityPartition(one.replicas, one.leader, one.isr) for one in described.partitions}
            topic_id, problem = read_id(described.topic_id)
            topics[name] = AuthorityTopic(name, topic_id, partitions, problem)
    return Authority(
        MetadataMode.KRAFT,
        admin.bootstrap_servers,
        topics,
        cluster_id=admin.cluster_id(),
        addresses={one.id: one.address for one in admin.brokers() if one.address is not None},
        tiered_storage=REMOTE_LOG_METADATA in topics,
        from_memory=True,
    )
