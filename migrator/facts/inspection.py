"""What a Kafka cluster reports to the clients of a worker file: topics, groups, records; and the refusals that rest on it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connect_share.admin import Admin, TopicDescription
from connect_share.client import Message
from connect_share.errors import (
    LiveMembersError,
    OpenTransactionError,
    TopicMissingError,
    TopicRecreatedError,
)
from connect_share.keys import ConfigKey, parse, split_key
from connect_share.log.ranges import read_batches, read_ranges
from connect_share.records import OffsetRange, Record, TopicType
from connect_share.topics import check_cleanup_policy, check_partition_count, topic_spec
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import Isolation
from migrator.copy.checked_writer import CLIENT_ID
from migrator.copy.copy_job import IDLE_TIMEOUT_S
from migrator.errors import DestinationNotEmptyError, PlanRejectedError, SourceChangedError
from migrator.plan.plan import SourceTopic
from migrator.progress import Progress, counted
from migrator.transform.rules import PLAIN_KEYS, RULES, KeyTransform, is_removal
from migrator.transform.sealed import Opening, Sealing

BUSY_TOPIC_WAIT_S: Final = 30.0
"""The wait for open transactions on a busy topic; those of a healthy worker last a second."""
_ASK_AGAIN_S: Final = 0.2
Wanted = Mapping[str | None, frozenset[str] | None]
"""Key spaces (``None``: plain keys), and which of their connectors; ``None`` is everything in it."""
Sealings = Mapping[str | None, Sealing]
"""What opens the values of each key space; of others, and without keys, a sealed value counts as one."""


def admin_of(worker: WorkerConfig) -> Admin:
    """Return an admin client of the worker's cluster; the caller closes it."""
    return Admin(worker.admin_settings(), client_id=worker.client_id(CLIENT_ID))


def read_records(
    worker: WorkerConfig, ranges: Sequence[OffsetRange], isolation: Isolation, *, with_headers: bool = False
) -> Iterator[Record]:
    """Yield the records of offset ranges of the worker's cluster, in offset order within each partition.

    Raises:
        BrokerError: reading was refused.
        ReadToEndTimeoutError: the end of a range was not reached.
    """
    return read_ranges(
        worker.consumer_settings(),
        ranges,
        isolation=isolation,
        client_id=worker.client_id(CLIENT_ID),
        idle_timeout_s=IDLE_TIMEOUT_S,
        with_headers=with_headers,
    )


def read_messages(worker: WorkerConfig, ranges: Sequence[OffsetRange], isolation: Isolation) -> Iterator[list[Message]]:
    """Yield the messages of offset ranges of the worker's cluster in batches, in offset order within each partition.

    Raises:
        BrokerError, ReadToEndTimeoutError: as :func:`read_records`.
    """
    return read_batches(
        worker.consumer_settings(),
        ranges,
        isolation=isolation,
        client_id=worker.client_id(CLIENT_ID),
        idle_timeout_s=IDLE_TIMEOUT_S,
    )


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """One existing topic.

    Attributes:
        starts: first offset of each partition.
        ends: high watermark of each partition, exclusive.
    """

    topic: str
    topic_id: str | None
    starts: dict[int, int]
    ends: dict[int, int]

    def ranges(self) -> list[OffsetRange]:
        """Return the ranges of all records of the topic."""
        return [OffsetRange(self.topic, number, self.starts[number], end) for number, end in self.ends.items()]


def read_facts(admin: Admin, topics: Collection[str]) -> dict[str, ExistingTopic]:
    """Describe the topics that exist; missing ones are left out."""
    descriptions: dict[str, TopicDescription] = admin.describe_topics(list(topics))
    partitions = [(name, part.id) for name, found in descriptions.items() for part in found.partitions]
    starts = admin.start_offsets(partitions)
    ends = admin.end_offsets(partitions, Isolation.READ_UNCOMMITTED)
    return {
        name: ExistingTopic(
            topic=name,
            topic_id=found.topic_id,
            starts={part.id: starts[(name, part.id)] for part in found.partitions},
            ends={part.id: ends[(name, part.id)] for part in found.partitions},
        )
        for name, found in descriptions.items()
    }


def require_topic(facts: dict[str, ExistingTopic], topic: str, *, remedy: str) -> ExistingTopic:
    """Return the facts of a topic that has to exist.

    Raises:
        TopicMissingError: it does not.
    """
    if topic not in facts:
        raise TopicMissingError(f"topic {topic} does not exist; {remedy}", topic=topic)
    return facts[topic]


def destination_settings(
    admin: Admin, worker: WorkerConfig, topic_type: TopicType, found: ExistingTopic | None
) -> Mapping[str, str]:
    """Check a destination topic that exists. Returns its settings, or those with which it will be created.

    Raises:
        TopicError: it is not compacted, or has too many partitions.
    """
    if found is None:
        return worker.topic_settings(topic_type)
    spec = topic_spec(worker, topic_type)
    check_cleanup_policy(admin, spec)
    check_partition_count(spec, len(found.ends))
    return admin.topic_configs(found.topic)


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


def require_same_topic(facts: ExistingTopic, planned_id: str | None) -> None:
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


def require_no_open_transaction(admin: Admin, facts: ExistingTopic, *, wait_s: float = 0.0) -> None:
    """Refuse a topic with a transaction open in front of the ends taken before.

    Args:
        admin: of the topic's cluster.
        facts: the topic with its ends.
        wait_s: wait this long for transactions that are open now, seconds.

    Raises:
        OpenTransactionError: a transaction is open in front of an end. A reader of committed records would stop
            there; another reader would take records that may be aborted.
    """
    partitions = [(facts.topic, number) for number in facts.ends]
    deadline_s = time.monotonic() + wait_s
    while True:
        # The ends were read before: what is appended meanwhile can only raise the last stable offset.
        stable = admin.end_offsets(partitions, Isolation.READ_COMMITTED)
        behind = [(number, at) for (_, number), at in stable.items() if at < facts.ends[number]]
        if not behind:
            return
        if time.monotonic() >= deadline_s:
            break
        time.sleep(_ASK_AGAIN_S)
    number, last_stable_offset = behind[0]
    end = facts.ends[number]
    raise OpenTransactionError(
        f"{facts.topic}[{number}]: a transaction is open, the last stable offset is {last_stable_offset} "
        f"but the end is {end}; wait until it is committed, aborted or timed out, or abort it with "
        "kafka-transactions.sh, then try again",
        topic=facts.topic,
        partition=number,
        last_stable_offset=last_stable_offset,
        end_offset=end,
    )


def require_no_live_workers(admin: Admin, group_id: str, *, side: str) -> None:
    """Refuse while workers of a Connect group are alive.

    Raises:
        LiveMembersError: the group has members.
    """
    members = admin.connect_groups().get(group_id, 0)
    if members:
        raise LiveMembersError(
            f"{members} worker(s) of the {side} group {group_id} are alive: stop them all, and keep them "
            "stopped, then try again"
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
    openings = {
        space: Opening(sealing, KeyTransform.between(topic_type, space, None))
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
        opened = openings[space].take(record) if space in openings else record
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
    topics: Mapping[TopicType, ExistingTopic],
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
    worker: WorkerConfig, facts: ExistingTopic, planned: SourceTopic, opening: Opening, *, may_grow: bool = False
) -> None:
    """Refuse a source topic that has lost records, or has records to be moved behind the planned ends.

    On a shared topic other groups continue to write; their records do not count, and none that ``opening`` refuses.

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
        if opening.transform.takes(record.key) and (opening.take(record) is not None or opening.unopened):
            raise SourceChangedError(
                f"{planned.topic}[{record.partition}]@{record.offset} was written since the plan was made, which says "
                f"that the partition ends at {parts[record.partition].end}; make sure that all workers of "
                f"{worker.group_id} are stopped and make a new plan"
            )
