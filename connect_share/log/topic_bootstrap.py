"""What has to be known of topics before they are read; a topic that is missing is created."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_share.admin import Admin, TopicDescription
from connect_share.client import is_unknown_topic
from connect_share.errors import BrokerError, TopicMissingError
from connect_share.topics import TopicSpec, ensure_topic

_SPREAD_S: Final = 30.0  # until every broker has heard of a new topic
_RETRY_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as it was found.

    Attributes:
        end_offsets: high watermark of each partition, open transactions included.
        leader_epochs: of the leaders that said so, -1 where they do not say.
        starts: where to begin to read, for partitions of which what lies before is known already.
        asked_s: when the brokers were asked, by the monotonic clock.
    """

    description: TopicDescription
    end_offsets: Mapping[int, int]
    leader_epochs: Mapping[int, int] = field(default_factory=dict)
    starts: Mapping[int, int] = field(default_factory=dict)
    asked_s: float = 0.0


def gather_facts(admin: Admin, topics: Iterable[str]) -> dict[str, TopicFacts]:
    """Return ids, partitions and ends of all topics, asked for at once; topics that do not exist are absent.

    Raises:
        BrokerError: not reachable, or not allowed to describe a topic.
    """
    asked_s = time.monotonic()
    return with_ends(admin, admin.describe_topics(topics), asked_s)


def with_ends(admin: Admin, descriptions: Mapping[str, TopicDescription], asked_s: float) -> dict[str, TopicFacts]:
    """Return the facts of topics that were described; ``asked_s`` is when that was asked for.

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


def find_or_create(
    spec: TopicSpec, admin: Admin, *, create_timeout_s: float, stopping: threading.Event, check: Callable[[], None]
) -> TopicFacts:
    """Make sure of the topic of a log, and return its facts.

    ``check`` is called between two questions; it raises when the log was stopped, which sets ``stopping``.

    Raises:
        TopicError: missing and not to be created, or not as Connect demands.
        BrokerError: the cluster refused, or the ends could not be learnt.
    """
    topic = spec.topic
    asked_s = time.monotonic()
    # With a deadline of one's own: brokers may be away just now, as Connect's start allows for.
    known = admin.describe_topics([topic], timeout_s=create_timeout_s)
    made = ensure_topic(
        admin,
        spec,
        timeout_s=create_timeout_s,
        known=known.get(topic),
        stopping=stopping,
    )
    deadline_s = time.monotonic() + _SPREAD_S
    while True:
        late = time.monotonic() + _RETRY_S > deadline_s
        try:
            facts = with_ends(admin, known, asked_s) if known else gather_facts(admin, [topic])
        except BrokerError as error:
            # A leader of a topic that has just been made may not have heard of it yet.
            if late or not is_unknown_topic(error):
                raise
        else:
            if topic in facts:
                return facts[topic]
            if late or not made:
                raise TopicMissingError(
                    f"topic {topic!r} of {spec.property_name} does not exist and was not created; create it first",
                    topic=topic,
                )
        known = {}
        stopping.wait(_RETRY_S)
        check()
