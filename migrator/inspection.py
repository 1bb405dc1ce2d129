"""Refusals of a move that rest on what the topics are and hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from connect_share.errors import DestinationNotEmptyError, PlanRejectedError, SourceChangedError, TopicRecreatedError
from connect_share.files import Progress, counted
from connect_share.kafka.admin import Admin
from connect_share.kafka.facts import TopicFacts, read_records
from connect_share.model.keys import ConfigKey, parse, split_key
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.model.removal import is_removal
from connect_share.transform.rules import PLAIN_KEYS, RULES, KeyTransform
from connect_share.transform.sealed import Opener, Sealing
from connect_share.worker_config import Isolation, WorkerConfig
from migrator.plan import SourceTopic

Wanted = Mapping[str | None, frozenset[str] | None]
"""Key spaces (``None``: plain keys), and which of their connectors; ``None`` is everything in it."""
Sealings = Mapping[str | None, Sealing]
"""What opens the values of each key space; of others, and without keys, a sealed value counts as one."""


def require_same_cluster(admin: Admin, expected_id: str | None, path: str) -> None:
    """Refuse a worker file that leads to another Kafka cluster than expected.

    Raises:
        PlanRejectedError: it does.
    """
    found = admin.cluster_id()
    if expected_id is not None and found != expected_id:
        raise PlanRejectedError(
            f"{path} leads to the Kafka cluster {found}, but {expected_id} holds the topics: correct the file, or "
            "make a new plan if the change is intended"
        )


def require_same_topic(facts: TopicFacts, planned_id: str | None) -> None:
    """Refuse a topic that was deleted and created since the plan (KIP-516).

    Raises:
        TopicRecreatedError: its id is another one.
    """
    if planned_id is not None and facts.topic_id != planned_id:
        raise TopicRecreatedError(
            f"topic {facts.topic} has id {facts.topic_id}, the plan was made for id {planned_id}: it was "
            "deleted and created again; make a new plan",
            topic=facts.topic,
            old_id=planned_id,
            new_id=facts.topic_id,
        )


def key_spaces(moved: Iterable[tuple[str | None, Collection[str] | None]]) -> Wanted:
    """Return what is written by moves, each to a key space, of some connectors or of all (``None``)."""
    wanted: dict[str | None, frozenset[str] | None] = {}
    for space, only in moved:
        known = wanted.get(space, frozenset())
        wanted[space] = None if known is None or only is None else known | frozenset(only)
    return wanted


def _living_keys(
    topic_type: TopicType, wanted: Wanted, records: Iterable[Record], sealings: Sealings
) -> Counter[str | None]:
    """Return how many wanted keys live in each space of a topic; spaces without any are left out.

    A key does not live if its newest record removes it. These do not live either: session keys and restart requests,
    which a move leaves behind; task configurations and commits of removed connectors, which Connect never removes. The
    hash of each key is kept: a million keys take some hundred megabytes.

    Args:
        topic_type: of the topic.
        wanted: the keys that are counted.
        records: of the topic, in order within each partition.
        sealings: with keys; what such a group refuses does not live.
    """
    living: dict[str | None, dict[int, int | None]] = {space: {} for space in wanted}
    openers = {
        space: Opener(sealing, KeyTransform.between(topic_type, space, None))
        for space, sealing in sealings.items()
        if sealing.keys is not None
    }
    for record in records:
        parts = None if record.key is None else split_key(topic_type, record.key)
        key = None if parts is None else parse(topic_type, parts[1])
        if parts is None or key is None:
            continue
        space, original, rule = None if parts[0] is None else str(parts[0]), parts[1], RULES[key.kind]
        if rule.left_behind_as is not None or space not in wanted:
            continue
        connectors, connector = wanted[space], None if (subject := key.subject) is None else subject.connector
        if connectors is not None and connector not in connectors:
            continue
        keys, at = living[space], hash((record.partition, original))
        opened = openers[space].open(record) if space in openers else record
        if opened is None:
            continue
        if is_removal(topic_type, opened.value):
            keys.pop(at, None)
            continue
        keys[at] = None
        if rule.ends_with_connector:
            keys[at] = hash((record.partition, ConfigKey.CONNECTOR.key(connector or "")))
    return +Counter(
        {
            space: sum(connector is None or connector in keys for connector in keys.values())
            for space, keys in living.items()
        }
    )


def refuse_present(
    worker: WorkerConfig,
    topics: Mapping[TopicType, TopicFacts],
    wanted: Wanted,
    progress: Progress,
    sealings: Sealings | None = None,
) -> None:
    """Refuse destination topics in which something lives already of what is to be moved there.

    Keys that were removed or superseded do not count: a group may move back onto topics that it left.

    Raises:
        DestinationNotEmptyError: it says how many keys live there.
        BrokerError: reading was refused.
    """
    for topic_type, facts in topics.items():
        ranges = facts.ranges()
        progress.phase(f"looking for the groups in {facts.topic}", sum(part.end - part.start for part in ranges))
        records = counted(read_records(worker, ranges, Isolation.READ_UNCOMMITTED), progress.advance)
        counts = sorted(_living_keys(topic_type, wanted, records, sealings or {}).items(), key=str)
        if counts:
            space, count = counts[0]
            raise _not_empty(facts.topic, space, count, wanted[space])


def _not_empty(
    topic: str, space: str | None, count: int, connectors: frozenset[str] | None
) -> DestinationNotEmptyError:
    owner = PLAIN_KEYS if space is None else f"group {space}"
    if connectors is not None:
        owner = f"connector(s) {', '.join(map(repr, sorted(connectors)))} under {owner}"
    choice = "other topics" if space is None else "another group.id for the destination, other shared topics"
    return DestinationNotEmptyError(
        f"{topic} already holds {count} living key(s) of {owner}: choose {choice}"
        f"{'' if connectors else ', move the others with --assign'}, or remove them first; those that an "
        "earlier move has left there: connect-share-migrate rollback, or seal --seal remove, with the plan of that move"
    )


def require_source_unchanged(
    worker: WorkerConfig, facts: TopicFacts, planned: SourceTopic, opener: Opener, *, may_grow: bool = False
) -> None:
    """Refuse a source topic that has lost records, or has records to be moved behind the planned ends.

    On a shared topic other groups continue to write; their records do not count, and none that ``opener`` refuses.

    Raises:
        SourceChangedError: it says where.
        BrokerError: reading was refused.
    """
    parts = {part.partition: part for part in planned.partitions}
    if parts.keys() != facts.ends.keys():
        raise SourceChangedError(f"{planned.topic} has other partitions than planned; make a new plan")
    for number, part in parts.items():
        if facts.starts[number] > part.start:
            raise SourceChangedError(
                f"{planned.topic}[{number}] begins at {facts.starts[number]}, the plan says {part.start}: "
                "records were deleted since; make a new plan"
            )
        if facts.ends[number] < part.end:
            raise SourceChangedError(
                f"{planned.topic}[{number}] ends at {facts.ends[number]}, the plan says {part.end}: records were lost; "
                "make a new plan"
            )
    if may_grow:
        return
    grown = [OffsetRange(planned.topic, number, part.end, facts.ends[number]) for number, part in parts.items()]
    grown = [each for each in grown if each.end > each.start]
    for record in read_records(worker, grown, Isolation.READ_UNCOMMITTED):
        if opener.transform.takes(record.key) and (opener.open(record) is not None or opener.unopened):
            raise SourceChangedError(
                f"{planned.topic}[{record.partition}]@{record.offset} was written since the plan was made, which says "
                f"that the partition ends at {parts[record.partition].end}; make sure that all workers of "
                f"{worker.group_id} are stopped and make a new plan"
            )
