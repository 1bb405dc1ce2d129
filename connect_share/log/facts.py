"""What has to be known of topics before they are read: one admin round for any number of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from connect_share.admin import Admin, TopicDescription


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as it was found.

    Attributes:
        end_offsets: high watermark of each partition, open transactions included.
    """

    description: TopicDescription
    end_offsets: Mapping[int, int]


def gather_facts(admin: Admin, topics: Iterable[str]) -> dict[str, TopicFacts]:
    """Ask for ids, partitions and ends of all topics at once; topics that do not exist are absent.

    Raises:
        BrokerError: not reachable, or not allowed to describe a topic.
    """
    descriptions = admin.describe_topics(topics)
    ends = admin.end_offsets(
        (name, partition.id) for name, description in descriptions.items() for partition in description.partitions
    )
    return {
        name: TopicFacts(
            description, {partition.id: ends[(name, partition.id)] for partition in description.partitions}
        )
        for name, description in descriptions.items()
    }
