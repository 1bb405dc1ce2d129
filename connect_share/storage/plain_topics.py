"""Noticing topics that were never moved onto sharing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from connect_share.errors import PlainTopicsError
from connect_share.keys import split_key
from connect_share.log.record_feed import KeyWatch
from connect_share.records import TopicType
from connect_share.worker_config import WorkerConfig


class PlainTopicsCheck:
    """What kinds of keys the topics hold; once a prefixed one was seen in any of them, there is nothing left to learn."""

    def __init__(self) -> None:
        self._prefixed_seen = False
        self._plain_topics: set[TopicType] = set()

    def watch(self, topic_type: TopicType) -> KeyWatch:
        """Return what looks at the keys of one topic."""
        return partial(self._look, topic_type)

    def _look(self, topic_type: TopicType, keys: Sequence[bytes | None]) -> bool:
        for key in keys:
            if self._prefixed_seen:
                break
            parts = None if key is None else split_key(topic_type, key)
            if parts is not None and parts[0] is not None:
                self._prefixed_seen = True
            elif parts is not None:
                self._plain_topics.add(topic_type)
        return not self._prefixed_seen

    def refuse(self, worker: WorkerConfig) -> None:
        """Raise ``PlainTopicsError`` if the topics hold plain keys, and no prefixed one."""
        if self._prefixed_seen or not self._plain_topics:
            return
        topics = ", ".join(worker.topic(topic_type) for topic_type in TopicType if topic_type in self._plain_topics)
        raise PlainTopicsError(
            f"sharing is enabled for cluster group {worker.cluster_group_id!r}, but {topics} hold only plain records, which "
            "no cluster group may read: the group would look empty. Move the records first "
            "(connect-share-migrate plan --source-worker-config OLD --destination-worker-config NEW -o PLAN, then "
            "apply), or, if the group is meant to start empty beside a plain cluster, use allow_empty=True"
        )
