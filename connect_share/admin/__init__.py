"""What is asked of the cluster, and what it says: topics and their ids, offsets, settings, Connect groups."""

from connect_share.admin.cluster_admin import Admin
from connect_share.admin.descriptions import (
    BrokerDescription,
    GroupMember,
    HeldRights,
    LogEnd,
    NewTopicRequest,
    PartitionDescription,
    TopicDescription,
    topic_id_text,
)
from connect_share.admin.rights import RightsAdmin
