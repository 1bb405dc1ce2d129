"""What a command line wants of the topics: the worker file's factors, counts and settings, or Connect's defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from connect_share.records import TopicType
from connect_share.topics import TopicSpec, topic_spec
from connect_share.worker_config import TopicSet

_ORDER: Final = (TopicType.CONFIG, TopicType.OFFSET, TopicType.STATUS)
_PARTITIONS: Final = {TopicType.CONFIG: 1, TopicType.OFFSET: 25, TopicType.STATUS: 5}


def topic_specs(topic_set: TopicSet, replication_factor: int | None) -> list[TopicSpec]:
    """Give what is wanted of each topic that is named.

    Args:
        topic_set: where they are.
        replication_factor: wins over the worker file's; -1 is the brokers' default.
    """
    specs = [
        TopicSpec(topic_set.topics[topic_type], topic_type, _PARTITIONS[topic_type])
        if topic_set.worker is None
        else topic_spec(topic_set.worker, topic_type)
        for topic_type in _ORDER
        if topic_type in topic_set.topics
    ]
    return specs if replication_factor is None else [replace(s, replication_factor=replication_factor) for s in specs]
