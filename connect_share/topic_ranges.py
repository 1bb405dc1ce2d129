"""The partitions of the internal topics from their first offset to their end."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from connect_share.admin import Admin
from connect_share.errors import BrokerError, ReadToEndTimeoutError, TopicMissingError
from connect_share.log import find_open_transactions
from connect_share.records import OffsetRange, TopicType
from connect_share.worker_config import TOPIC_PROPERTIES, ClientSettings, Isolation, TopicSet

CLIENT_ID: Final = "connect-share-console"

TopicRanges = dict[TopicType, tuple[list[OffsetRange], list[str]]]
"""The ranges of each topic, and notes for stderr."""


def topic_ranges(admin: Admin, topic_set: TopicSet, wanted: Collection[TopicType]) -> TopicRanges:
    """Return all partitions of topics up to their present end.

    Raises:
        TopicMissingError: names the topic and the property.
        BrokerError: not reachable, or not allowed.
    """
    names = {topic_type: topic_set.topics[topic_type] for topic_type in wanted}
    described = admin.describe_topics(names.values())
    for topic_type, topic in names.items():
        if topic not in described:
            raise TopicMissingError(
                f"topic {topic} does not exist; check {TOPIC_PROPERTIES[topic_type]} and the cluster's address",
                topic=topic,
            )
    found: TopicRanges = {}
    for topic_type, topic in names.items():
        partitions = [(topic, partition.id) for partition in described[topic].partitions]
        starts = admin.start_offsets(partitions)
        isolation = topic_set.isolation[topic_type]
        # First the ends of all records: what is written in between can only raise those of the committed ones.
        written = admin.end_offsets(partitions) if isolation is Isolation.READ_COMMITTED else {}
        ends = admin.end_offsets(partitions, isolation)
        notes = []
        for place, end in sorted(written.items()):
            if ends[place] < end:
                notes += _open_transaction(admin, topic_set.settings, place, ends[place], end)
        if topic_type is TopicType.CONFIG and len(partitions) != 1:
            notes.append(
                f"config topic {topic} has {len(partitions)} partitions, so its records have no order: "
                f"no worker starts on it, and what is shown may be wrong"
            )
        found[topic_type] = [OffsetRange(*place, starts[place], ends[place]) for place in partitions], notes
    return found


def _open_transaction(
    admin: Admin, settings: ClientSettings, place: tuple[str, int], stable_end: int, end: int
) -> list[str]:
    topic, partition = place
    note = (
        f"an open transaction holds back the end of {topic}[{partition}]: read up to offset {stable_end} of {end}; "
        f"-X isolation.level=read_uncommitted shows all"
    )
    try:
        found = find_open_transactions(admin, settings, topic, [partition], client_id=CLIENT_ID)
    except (BrokerError, ReadToEndTimeoutError) as exc:
        return [note, f"its owner is not known: {exc}"]
    return [note, *(each.text(settings.bootstrap_servers) for each in found)]
