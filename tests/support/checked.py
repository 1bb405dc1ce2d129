"""Topics as the checks see them, made of records without a broker."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from connect_share.checks import collisions, order, orphans, secrets, values
from connect_share.checks.finding import Finding
from connect_share.checks.sources import GroupRecords, TopicsState, topics_state
from connect_share.console.options import Group
from connect_share.contents.group_room import GroupRoom
from connect_share.contents.groups import Contents, Look, TopicContents, TopicFold
from connect_share.model.keys import prefix_key
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import WorkerConfig
from tests.support.captures import captured

CONFIG, STATUS, OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET
CAPTURED = {CONFIG: "configs", STATUS: "status", OFFSET: "offsets"}


def folded(
    topic_type: TopicType,
    records: Iterable[Record],
    *,
    topic: str = "t",
    groups: Collection[Group] | None = None,
    worker: WorkerConfig | None = None,
    look: Look | None = None,
    timed: bool = False,
) -> TopicContents:
    """A topic with these records, as the console reads it once."""
    fold = TopicFold(topic, topic_type, groups, worker, look=look, timed=timed, room=GroupRoom())
    fold.apply(records)
    contents = fold.contents()
    contents.forget_replaced()
    return contents


def state_of(topics: Mapping[TopicType, Iterable[Record]], worker: WorkerConfig | None = None) -> TopicsState:
    """The state of topics with these records, named by their type."""
    contents, kept = Contents(), dict[Group, GroupRecords]()

    def look(topic_type: TopicType, group: Group, original: bytes, taken: Record | None) -> None:
        kept.setdefault(group, GroupRecords(group)).add(topic_type, original, taken)

    for topic_type, records in topics.items():
        contents.topics[topic_type] = folded(topic_type, records, topic=topic_type.value, worker=worker, look=look)
    return topics_state(contents, kept)


def captured_topics(version: str) -> dict[TopicType, tuple[Record, ...]]:
    """The three topics of a capture."""
    return {topic_type: captured(version, name) for topic_type, name in CAPTURED.items()}


def findings_of(state: TopicsState, members: int | None = None) -> list[Finding]:
    """What the checks that need no cluster find."""
    found = list(collisions.find(state))
    for group in state.groups:
        found += values.find(state.topics, group)
        if CONFIG in state.topics:
            found += [*order.find("config", group), *secrets.find("config", group)]
            found += orphans.find(state.topics, group, members)
    return found


def records(topic_type: TopicType, *pairs: tuple[str, str | None], group: str | None = None) -> list[Record]:
    """Records of one partition in order: original key and value, ``None`` for a tombstone."""
    made = []
    for offset, (text, value) in enumerate(pairs):
        key = text.encode() if group is None else prefix_key(group, text.encode())
        made.append(Record(topic_type.value, 0, offset, 1_000 + offset, key, None if value is None else value.encode()))
    return made


def ids(findings: Sequence[Finding]) -> list[str]:
    """The ids of findings, in order."""
    return sorted(finding.id for finding in findings)
