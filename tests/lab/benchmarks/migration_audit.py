"""What a copy of a topic got wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Message
from connect_share.kafka.read import Reader
from connect_share.model.keys import ConfigKey, split_key
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import OffsetRange, TopicType
from connect_share.worker_config import ClientSettings, Isolation
from tests.lab.benchmarks.mirror_maker import ends_of


def wrong_in(
    topic_type: TopicType, group: str, source: tuple[str, str], destination: tuple[str, str]
) -> dict[str, int]:
    """Compare a copy with what it should be: every record but the session key, each where Java puts its new key.

    Args:
        topic_type: of both.
        group: whose prefix the copies have.
        source, destination: ``host:port`` and topic.
    """
    prefix = group.encode() + b"."
    expected = [
        (hash(prefix + key), hash((prefix + key, rest)))
        for _, key, rest in records_of(*source)
        if key != ConfigKey.SESSION_KEY.prefix
    ]
    found: Counter[int] = Counter()
    session_keys = 0
    rows = []
    for partition, key, rest in records_of(*destination):
        found[hash((key, rest))] += 1
        rows.append((partition, key))
        parts = split_key(topic_type, key)
        session_keys += parts is not None and parts[1] == ConfigKey.SESSION_KEY.prefix
    with Admin(ClientSettings({"bootstrap.servers": destination[0]}), client_id="benchmark") as admin:
        partitions = len(ends_of(admin, [destination[1]]))
    misplaced = sum(partition_for(key, partitions) != partition for partition, key in rows)
    missing = _without(found, expected)
    return {
        "misplaced": misplaced,
        "session_keys": session_keys,
        "duplicates": found.total() - session_keys,
        "missing": missing,
    }


def _without(found: Counter[int], expected: Sequence[tuple[int, int]]) -> int:
    """Take expected records, of a key each, from those that were found; return how many are missing.

    A record is not missing where a later one of its key is there: the cleaner may have taken it since the copy.
    """
    missing, later = 0, set[int]()
    for key, record in reversed(expected):
        if found[record]:
            found[record] -= 1
            later.add(key)
        elif key not in later:
            missing += 1
    return missing


def records_of(servers: str, topic: str) -> Any:
    """Yield partition, key, and what else makes a record."""
    for batch in whole_topics(ClientSettings({"bootstrap.servers": servers}), [topic]):
        for message in batch:
            yield message.partition(), message.key() or b"", (message.value(), message.timestamp()[1])


def whole_topics(settings: ClientSettings, topics: Sequence[str]) -> Iterator[list[Message]]:
    """Yield all that is in topics now, in batches, by one client."""
    with Admin(settings, client_id="benchmark") as admin:
        ends = ends_of(admin, topics)
    ranges = [OffsetRange(*place, 0, end) for place, end in ends.items()]
    yield from Reader(settings, "benchmark", Isolation.READ_UNCOMMITTED).batches(ranges)
