"""Connect's demands on its three topics, their creation, and findings about them.

Source: ``TopicAdmin``, ``KafkaTopicBasedBackingStore``, KIP-115 (never fewer replicas than asked for).
"""

from connect_share.topics.creation import CREATE_TIMEOUT_S, ensure_topic
from connect_share.topics.spec import (
    TopicSpec,
    check_cleanup_policy,
    check_known_policy,
    check_partition_count,
    topic_spec,
    topic_specs,
)
