"""Counting what a store reads, and noticing topics that were never moved onto sharing."""

from __future__ import annotations

from collections.abc import Sequence

from connect_share.keys import split_key
from connect_share.log.protocol import RecordSink
from connect_share.records import Record, TopicType


class KeyWatch:
    """What kinds of keys the topics hold; once a prefixed one was seen in any of them, there is nothing left to learn."""

    def __init__(self) -> None:
        self.prefixed_seen = False
        self.plain_topics: set[TopicType] = set()

    def look(self, topic_type: TopicType, keys: Sequence[bytes | None]) -> None:
        """Look at keys of a topic until one is prefixed."""
        for key in keys:
            parts = None if key is None else split_key(topic_type, key)
            if parts is None:
                continue
            if parts[0] is not None:
                self.prefixed_seen = True
                return
            self.plain_topics.add(topic_type)


class CountingSink:
    """Passes everything on to a store's sink and counts.

    Args:
        sink: the store's.
        topic_type: of the topic.
        watch: told of keys, if anybody wants to know.
    """

    def __init__(self, sink: RecordSink, topic_type: TopicType, watch: KeyWatch | None) -> None:
        self._sink = sink
        self._topic_type = topic_type
        self._watch = watch
        self.own = 0
        self.foreign = 0

    @property
    def key_prefix(self) -> bytes:
        """As the store's."""
        return self._sink.key_prefix

    @property
    def wants_foreign_keys(self) -> bool:
        """Until the watch knows."""
        return self._watch is not None and not self._watch.prefixed_seen

    def apply(self, records: Sequence[Record]) -> None:
        """Count and pass on."""
        self.own += len(records)
        if self._watch is not None and not self._watch.prefixed_seen:
            self._watch.look(self._topic_type, [record.key for record in records])
        self._sink.apply(records)

    def skip(self, count: int, keys: Sequence[bytes | None]) -> None:
        """Count and pass on."""
        self.foreign += count
        if self._watch is not None and not self._watch.prefixed_seen:
            self._watch.look(self._topic_type, keys)
        self._sink.skip(count, ())
