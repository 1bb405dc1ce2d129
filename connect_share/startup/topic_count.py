"""One bounded read of the three topics for their profile, by ``check startup`` or by Spark tasks.

Memory holds eight bytes and their place for each distinct key of one topic at a time, and no values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from connect_share.admin import Admin
from connect_share.errors import AuthorizationError
from connect_share.log import read_batches
from connect_share.records import OffsetRange, TopicType
from connect_share.startup.profile import PartitionCounter, PartitionProfile, TopicProfile
from connect_share.startup.report import ProfiledTopic
from connect_share.topic_ranges import CLIENT_ID, topic_ranges
from connect_share.worker_config import ClientSettings, Isolation, TopicSet


@dataclass(frozen=True)
class CountJob:
    """Partitions of one topic to be counted in one read; picklable, and secret: it holds client settings."""

    topic_type: TopicType
    settings: ClientSettings
    ranges: Sequence[OffsetRange]
    isolation: Isolation
    timeout_s: float
    with_digests: bool

    def run(self, advance: Callable[[int], None] | None = None) -> list[PartitionProfile]:
        """Read and count.

        ``advance`` is called with the number of further records.

        Raises:
            BrokerError: a partition cannot be read.
            ReadToEndTimeoutError: no progress for too long.
        """
        counters = {each.partition: PartitionCounter(self.topic_type, each.partition) for each in self.ranges}
        batches = read_batches(
            self.settings,
            self.ranges,
            isolation=self.isolation,
            client_id=CLIENT_ID,
            idle_timeout_s=self.timeout_s,
        )
        for batch in batches:
            for message in batch:
                counters[message.partition() or 0].add(
                    message.offset() or 0, message.timestamp()[1], message.key(), message.value()
                )
            if advance is not None:
                advance(len(batch))
        return [counter.finish(with_digests=self.with_digests) for counter in counters.values()]


@dataclass(frozen=True)
class CountPlan:
    """The topics to be counted, and their settings.

    Attributes:
        configs: effective settings by topic type, ``None`` where they may not be read.
    """

    topic_set: TopicSet
    ranges: Mapping[TopicType, Sequence[OffsetRange]]
    configs: Mapping[TopicType, Mapping[str, str] | None]
    notes: Sequence[str]
    now_ms: int
    timeout_s: float

    @classmethod
    def of(cls, topic_set: TopicSet, *, timeout_s: float) -> CountPlan:
        """Ask the cluster for the three topics.

        Raises:
            TopicMissingError: names the topic and the property.
            BrokerError: not reachable, or not allowed.
        """
        configs: dict[TopicType, Mapping[str, str] | None] = {}
        notes: list[str] = []
        with Admin(topic_set.settings, client_id=CLIENT_ID, timeout_s=timeout_s) as admin:
            found = topic_ranges(admin, topic_set, list(TopicType))
            for topic_type in TopicType:
                notes += found[topic_type][1]
                topic = topic_set.topics[topic_type]
                try:
                    configs[topic_type] = admin.topic_configs(topic)
                except AuthorizationError as exc:
                    configs[topic_type] = None
                    notes.append(f"no advice for {topic}: {exc}")
        ranges = {topic_type: each for topic_type, (each, _) in found.items()}
        return cls(topic_set, ranges, configs, notes, time.time_ns() // 1_000_000, timeout_s)

    def jobs(self, topic_type: TopicType, *, one_for_each_partition: bool = False) -> list[CountJob]:
        """Return the reads of one topic: a single one, or one for each partition."""
        ranges = self.ranges[topic_type]
        return [
            CountJob(
                topic_type,
                self.topic_set.settings,
                part,
                self.topic_set.isolation[topic_type],
                self.timeout_s,
                with_digests=len(ranges) > 1,
            )
            for part in ([[each] for each in ranges] if one_for_each_partition else [ranges])
        ]

    def records_at_most(self, topic_type: TopicType) -> int:
        """Return the number of offsets to be read; fewer records may come."""
        return sum(each.end - each.start for each in self.ranges[topic_type])

    def profiled(self, topic_type: TopicType, partitions: Sequence[PartitionProfile]) -> ProfiledTopic:
        """Return the profile of a topic whose partitions were counted."""
        topic = self.topic_set.topics[topic_type]
        return ProfiledTopic(TopicProfile.of(topic, topic_type, partitions), self.configs[topic_type])
