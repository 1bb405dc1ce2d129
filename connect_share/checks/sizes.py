"""Records that are nearly too large, and topics that the cleaner does not keep small."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from connect_share.checks.check import Check
from connect_share.checks.finding import Finding, Severity, limited, place
from connect_share.console.options import Group, group_order, shown_group
from connect_share.contents.advice import MIB, CleanerSettings
from connect_share.contents.profile import Count, TopicProfile
from connect_share.errors import command_line
from connect_share.model.records import TopicType

_NEAR: Final = 0.75
_OVERHEAD: Final = 70
"""Bytes of a batch with one record beside its key and value, at most. Source: ``DefaultRecordBatch``, ``DefaultRecord``."""
_OUTGROWN_BYTES: Final = 64 * MIB
_OUTGROWN_TIMES: Final = 4


def find(
    topics: Mapping[TopicType, TopicProfile], request_size: int, groups: Collection[Group] | None = None
) -> Iterator[Finding]:
    """Yield what is found; ``request_size`` is the ``max.request.size`` of the producers that write the topics."""
    for topic in topics.values():
        yield from limited(large(topic, request_size, groups=groups))
        yield from _outgrown(topic)


def largest(
    topics: Mapping[TopicType, TopicProfile], groups: Collection[Group] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the largest record of each group that is wanted on each topic, for JSON."""
    for topic_type, topic in topics.items():
        by_group: dict[Any, tuple[str, Count]] = {}
        for (group, kind), count in topic.counts().items():
            if group not in by_group or by_group[group][1].largest_record_bytes < count.largest_record_bytes:
                by_group[group] = kind, count
        for group in sorted((each for each in by_group if groups is None or each in groups), key=group_order):
            kind, count = by_group[group]
            yield {
                "group": group,
                "topic": topic.topic,
                "topic_type": topic_type.value,
                "kind": kind,
                "bytes": count.largest_record_bytes,
                "at": count.largest_place,
            }


def large(
    topic: TopicProfile, request_size: int, *, groups: Collection[Group] | None = None, added: int = 0
) -> Iterator[Finding]:
    """Yield the kinds of records that are nearly too large, with ``added`` bytes more than they have now."""
    accepted = None if topic.configs is None else CleanerSettings.of(topic.configs).max_message_bytes
    limit, name = request_size, "max.request.size of the producer"
    if accepted is not None and accepted < request_size:
        limit, name = accepted, "max.message.bytes of the topic"
    counts = sorted(topic.counts().items(), key=lambda each: (group_order(each[0][0]), each[0][1]))
    for (group, kind), count in counts:
        size = count.largest_record_bytes + added + _OVERHEAD
        if size < _NEAR * limit or (groups is not None and group not in groups):
            continue
        over = size > limit
        yield Finding(
            "sizes-too-large" if over else "sizes-near-limit",
            Severity.ERROR if over else Severity.WARNING,
            f"{place(topic.topic, group)}, {count.largest_place}",
            f"a record of kind {kind} has {count.largest_record_bytes + added:,} bytes; the {name} is {limit:,}",
            "it cannot be written once more: a connector cannot be changed, and a restore or a move stops there"
            if over
            else "if it grows, it cannot be written: the workers then fail to change the connector, or to store its offsets",
            "make it smaller (shorter lists in the configuration, more tasks), or raise max.message.bytes of the topic and "
            "max.request.size of the workers",
            group=shown_group(group),
        )


def _outgrown(topic: TopicProfile) -> Iterator[Finding]:
    count = topic.total()
    kept = count.bytes - count.superseded_bytes
    if count.superseded_bytes >= max(_OUTGROWN_BYTES, _OUTGROWN_TIMES * kept):
        yield Finding(
            "sizes-outgrown",
            Severity.WARNING,
            topic.topic,
            f"{count.superseded_bytes // MIB:,} MiB of {count.bytes // MIB:,} MiB are records that newer ones have replaced",
            "every start of every group reads them; the cleaner does not come, or its settings let it come too late",
            "see which settings would help; if these are right, look whether the brokers' cleaner runs (log-cleaner.log)",
            command_line("connect-share", "check", "startup", "-w", "FILE"),
        )


CHECK: Final = Check(
    "sizes",
    "are records nearly too large, or topics larger than they should be?",
    "Compare the largest records with max.message.bytes of the topic and max.request.size of the worker, and look for "
    "topics that are not compacted as they should be.",
    lambda sources: find(sources.profile.topics, sources.request_size, sources.only),
    needs=tuple(TopicType),
    members={"largest": lambda sources: [*largest(sources.profile.topics, sources.only)]},
    place=65,
)
