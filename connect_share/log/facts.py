"""What has to be known of topics before they are read: one admin round for any number of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_share.admin import Admin, TopicDescription


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as it was found.

    Attributes:
        end_offsets: high watermark of each partition, open transactions included.
        leader_epochs: of the leaders that said so, -1 where they do not tell.
        starts: where to begin to read, for partitions of which what lies before is known already.
        asked_s: when the brokers were asked, by the monotonic clock.
    """

    description: TopicDescription
    end_offsets: Mapping[int, int]
    leader_epochs: Mapping[int, int] = field(default_factory=dict)
    starts: Mapping[int, int] = field(default_factory=dict)
    asked_s: float = 0.0


def gather_facts(admin: Admin, topics: Iterable[str]) -> dict[str, TopicFacts]:
    """Ask for ids, partitions and ends of all topics at once; topics that do not exist are absent.

    Raises:
        BrokerError: not reachable, or not allowed to describe a topic.
    """
    asked_s = time.monotonic()
    return with_ends(admin, admin.describe_topics(topics), asked_s)


def with_ends(admin: Admin, descriptions: Mapping[str, TopicDescription], asked_s: float) -> dict[str, TopicFacts]:
    """Ask for the ends of topics that were described; ``asked_s`` is when that was asked for.

    Raises:
        BrokerError: not reachable, or a topic is gone meanwhile.
    """
    ends = admin.log_ends(
        (name, partition.id) for name, description in descriptions.items() for partition in description.partitions
    )
    found = {}
    for name, description in descriptions.items():
        here = {partition.id: ends[name, partition.id] for partition in description.partitions}
        found[name] = TopicFacts(
            description,
            {number: end.offset for number, end in here.items()},
            {number: end.leader_epoch for number, end in here.items()},
            asked_s=asked_s,
        )
    return found
