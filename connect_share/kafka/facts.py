"""What a cluster says of topics before they are read or written; a missing topic is created; refusals that need no plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Final

from connect_share.errors import ConfigError, LiveMembersError, OpenTransactionError, TopicMissingError, command_line
from connect_share.kafka.admin import Admin, admin_for
from connect_share.kafka.client import Deadline, Message, to_record, to_whole_record
from connect_share.kafka.create import TopicSpec, check_cleanup_policy, check_partition_count, ensure_topic, topic_spec
from connect_share.kafka.descriptions import TopicDescription
from connect_share.kafka.read import Reader, owners_of_open
from connect_share.kafka.waits import Awaited, longest_wait_s
from connect_share.kafka.write import MIGRATE_CLIENT_ID
from connect_share.model.keys import ClusterGroupId, split_key
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.sealing import KEYS_PROPERTY, TopicSeals
from connect_share.worker_config import CREATION_PROPERTY, Isolation, WorkerConfig


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as it was found.

    Attributes:
        ends: high watermark of each partition, exclusive; open transactions included.
        starts: where to begin to read each partition: the first offset that is kept, or where a checkpoint ends; empty
            if it was not asked for.
        leader_epochs: of the leaders that said so, -1 where they do not say.
        asked_s: when the brokers were asked, by the monotonic clock.
    """

    description: TopicDescription
    ends: Mapping[int, int]
    starts: Mapping[int, int] = field(default_factory=dict)
    leader_epochs: Mapping[int, int] = field(default_factory=dict)
    asked_s: float = 0.0

    @property
    def topic(self) -> str:
        """Return the name of the topic."""
        return self.description.name

    @property
    def topic_id(self) -> str | None:
        """Return the id of the topic; ``None`` if the broker gives none."""
        return self.description.topic_id

    def ranges(self) -> list[OffsetRange]:
        """Return the ranges from the starts to the ends."""
        return [OffsetRange(self.topic, number, self.starts[number], end) for number, end in self.ends.items()]

    def since(self, ends: Mapping[int, int]) -> TopicFacts:
        """Return the same topic from these ends on."""
        return replace(self, starts={number: ends.get(number, 0) for number in self.ends})


def gather_facts(admin: Admin, topics: Iterable[str]) -> dict[str, TopicFacts]:
    """Return ids, partitions and ends of topics of one set, asked for at once; those that do not exist are absent."""
    asked_s = time.monotonic()
    return with_ends(admin, admin.describe_topics(topics, together=True), asked_s)


def with_ends(admin: Admin, descriptions: Mapping[str, TopicDescription], asked_s: float) -> dict[str, TopicFacts]:
    """Return the facts of topics that were described; ``asked_s`` is when that was asked for."""
    found = admin.log_ends((name, part.id) for name, topic in descriptions.items() for part in topic.partitions)
    return {
        name: TopicFacts(
            topic,
            {part.id: found[name, part.id].offset for part in topic.partitions},
            leader_epochs={part.id: found[name, part.id].leader_epoch for part in topic.partitions},
            asked_s=asked_s,
        )
        for name, topic in descriptions.items()
    }


def read_facts(admin: Admin, topics: Iterable[str], *, expected: bool = False) -> dict[str, TopicFacts]:
    """Return the same as :func:`gather_facts`, with the first offsets; ``expected``: topics that were there before."""
    asked_s = time.monotonic()
    descriptions = admin.describe_topics(topics, expected=expected, together=True)
    # The starts first: what is deleted meanwhile makes no range that ends before it starts.
    starts = admin.start_offsets((name, part.id) for name, topic in descriptions.items() for part in topic.partitions)
    return {
        name: replace(facts, starts={number: starts[name, number] for number in facts.ends})
        for name, facts in with_ends(admin, descriptions, asked_s).items()
    }


def find_or_create(spec: TopicSpec, admin: Admin, *, create_timeout_s: float, stopping: threading.Event) -> TopicFacts:
    """Make sure of the topic of a log, and return its facts; a log that is stopped sets ``stopping``.

    Raises:
        TopicError: missing and not to be created, or not as Connect demands.
        BrokerError: the cluster refused, or the ends could not be learnt.
    """
    topic = spec.topic
    asked_s = time.monotonic()
    # With a deadline of one's own: brokers may be away just now, as Connect's start allows for.
    known = admin.describe_topics([topic], expected=not spec.automatic, timeout_s=create_timeout_s)
    if topic not in known and not spec.automatic:
        create = command_line("connect-share", "create", "topics", "-w", "FILE")
        raise TopicMissingError(
            f"topic {topic!r} of {spec.property_name} does not exist, and {CREATION_PROPERTY}=false: nothing was created; "
            f"create it first ({create}), or, if it was lost, restore it",
            topic=topic,
        )
    ensure_topic(admin, spec, timeout_s=create_timeout_s, known=known.get(topic), stopping=stopping)
    if topic not in known:
        asked_s = time.monotonic()
        known = admin.describe_topics([topic], expected=True)
    if topic not in known:
        raise TopicMissingError(
            f"topic {topic!r} of {spec.property_name} does not exist and was not created; create it first", topic=topic
        )
    return with_ends(admin, known, asked_s)[topic]


BUSY_TOPIC_WAIT_S: Final = 10.0
"""The wait for open transactions on a busy topic; those of a healthy worker last a second."""
_ASK_AGAIN_S: Final = 0.2


def admin_of(worker: WorkerConfig) -> AbstractContextManager[Admin]:
    """Return an admin client of the worker's cluster, as :func:`admin_for` does."""
    return admin_for(worker.admin_settings(), worker.client_id(MIGRATE_CLIENT_ID))


def read_records(
    worker: WorkerConfig, ranges: Sequence[OffsetRange], isolation: Isolation, *, with_headers: bool = False
) -> Iterator[Record]:
    """Yield the records of offset ranges of the worker's cluster, as :func:`read_messages` does."""
    for batch in read_messages(worker, ranges, isolation):
        yield from map(to_whole_record if with_headers else to_record, batch)


def read_messages(worker: WorkerConfig, ranges: Sequence[OffsetRange], isolation: Isolation) -> Iterator[list[Message]]:
    """Yield the messages of offset ranges of the worker's cluster in batches, in offset order within each partition.

    Readers of committed records get what lies behind the first open transaction, too: it may count when that has ended.
    Whoever must not take it for committed asks :func:`require_no_open_transaction` before. What was aborted nobody wrote.
    """
    ranges = [part for part in ranges if part.end > part.start]
    parts = [(ranges, isolation)]
    if isolation is Isolation.READ_COMMITTED:
        with admin_of(worker) as admin:
            stable = admin.end_offsets([part[:2] for part in ranges], isolation)
        seen = [part._replace(end=min(part.end, stable[part[:2]])) for part in ranges]
        behind = [part._replace(start=max(part.start, stable[part[:2]])) for part in ranges]
        parts = [(seen, isolation), (behind, Isolation.READ_UNCOMMITTED)]
    for part, level in parts:
        yield from Reader.of(worker, level).batches(part)


def count_aborted(
    worker: WorkerConfig,
    ranges: Sequence[OffsetRange],
    isolation: Isolation,
    takes: Callable[[bytes | None], bool],
    seen: int | None = None,
) -> int:
    """Return how many records with keys that are taken such a reader leaves out: those of aborted transactions.

    ``seen``: how many it gets, if it has read them already.
    """
    if isolation is Isolation.READ_UNCOMMITTED:
        return 0

    def count(level: Isolation) -> int:
        return sum(takes(message.key()) for batch in read_messages(worker, ranges, level) for message in batch)

    if seen is None:
        seen = count(isolation)
    return max(0, count(Isolation.READ_UNCOMMITTED) - seen)  # the cleaner takes some meanwhile


def require_topic(facts: dict[str, TopicFacts], topic: str, *, remedy: str) -> TopicFacts:
    """Return the facts of a topic that has to exist."""
    if topic not in facts:
        raise TopicMissingError(f"topic {topic} does not exist; {remedy}", topic=topic)
    return facts[topic]


def config_facts(worker: WorkerConfig, *, expected: bool = False) -> TopicFacts | None:
    """Return the facts of a worker's config topic as it is now, ``None``: it does not exist."""
    topic = worker.topic(TopicType.CONFIG)
    with admin_of(worker) as admin:
        return read_facts(admin, {topic}, expected=expected).get(topic)


def require_keys_of(
    worker: WorkerConfig, groups: Collection[ClusterGroupId | None], config: TopicFacts | None
) -> dict[ClusterGroupId, int]:
    """Read a config topic as a start does, before anything is written: a worker file may have lost its group's keys.

    Of other groups than its own a worker file says nothing. ``config``: ``None`` where the topic does not exist. Returns the
    groups without keys here of which every living value looks sealed, and how many these are.

    Raises:
        SealedGroupError: most of what a group has there looks sealed, and the worker file does not say whether it is.
        ConfigError: nothing of the worker file's group opens, or it says itself that it uses a key that is not in the file.
    """
    if config is None or not any(groups):
        return {}
    seals = {group: TopicSeals(TopicType.CONFIG, group, None, says_sealing=False) for group in groups if group}
    own = worker.cluster_group_id
    if own in seals and worker.keys_in_use is not None:
        seals[own] = worker.seals(TopicType.CONFIG)
    isolation = worker.isolation_of(own if own in seals else next(iter(seals)), TopicType.CONFIG)
    for record in read_records(worker, config.ranges(), isolation):
        owner = split_key(TopicType.CONFIG, record.key)
        if owner is not None and owner[0] in seals:
            seals[owner[0]].open(record)
    looks = {group: each.looks for group, each in seals.items()}
    for group, each in seals.items():
        if group != own or worker.keys_in_use is not None or not worker.says_sealing:
            each.end_start(starts=False)
    return {group: sealed for group, (sealed, living) in looks.items() if sealed == living > 0}


def require_own_keys(worker: WorkerConfig, config: TopicFacts | None = None) -> None:
    """Check that what the own group has opens; by default up to the end of now.

    A group announces a key on the config topic before it uses it. So what was read before under an unknown id is a
    stranger's. Raises as :func:`require_keys_of` and :func:`require_some_plain`.
    """
    sealed = require_keys_of(worker, [worker.cluster_group_id], config or config_facts(worker, expected=True))
    require_some_plain(worker.topic(TopicType.CONFIG), sealed)


def require_some_plain(topic: str, sealed: Mapping[ClusterGroupId, int]) -> None:
    """Refuse groups of which all is sealed, and no keys are here (``ConfigError``): nothing would be seen of them."""
    for group, count in sealed.items():
        raise ConfigError(
            f"{topic}: all {count:,} value(s) of {group} are sealed, but its worker file has no keys: give it those in "
            f"{KEYS_PROPERTY}",
            property_name=KEYS_PROPERTY,
        )


def check_destination(admin: Admin, worker: WorkerConfig, topic_type: TopicType, found: TopicFacts) -> None:
    """Check a destination topic: its policy, and how many partitions it has."""
    spec = topic_spec(worker, topic_type)
    check_cleanup_policy(admin, spec, may_be_fenced=True)
    check_partition_count(spec, len(found.ends))


def require_no_open_transaction(admin: Admin, facts: TopicFacts, *, wait_s: float | None = None) -> None:
    """Refuse a topic with a transaction open in front of the ends taken before.

    Those that are open now are waited for, ``wait_s`` seconds, by default as long as those of a healthy worker may last.

    Raises:
        OpenTransactionError: a transaction is open in front of an end. A reader of committed records would stop
            there; another reader would take records that may be aborted.
    """
    longest_s = min(BUSY_TOPIC_WAIT_S, longest_wait_s(BUSY_TOPIC_WAIT_S)) if wait_s is None else wait_s
    deadline = Deadline.after(longest_s)
    with Awaited(f"open transactions of topic {facts.topic} to end"):
        while True:
            # The ends were read before: what is appended meanwhile can only raise the last stable offset.
            stable = admin.end_offsets([(facts.topic, number) for number in facts.ends], Isolation.READ_COMMITTED)
            behind = [(number, at) for (_, number), at in stable.items() if at < facts.ends[number]]
            if not behind:
                return
            if not deadline.remaining_s():
                break
            time.sleep(_ASK_AGAIN_S)
    number, last_stable_offset = behind[0]
    end = facts.ends[number]
    whose = owners_of_open(admin, admin.settings, (facts.topic, number), client_id=MIGRATE_CLIENT_ID)
    raise OpenTransactionError(
        f"{facts.topic}[{number}]: a transaction is open, the last stable offset is {last_stable_offset} but the end is "
        f"{end}; wait until it ends, or abort it, then try again: {' '.join(whose) or 'it has just ended'}",
        topic=facts.topic,
        partition=number,
        last_stable_offset=last_stable_offset,
        end_offset=end,
    )


def require_no_open_for(worker: WorkerConfig, admin: Admin, types: Iterable[TopicType] = TopicType) -> None:
    """Refuse as :func:`require_no_open_transaction` does what the worker reads committed, after a wait."""
    read = [worker.topic(each) for each in types if worker.isolation(each) is Isolation.READ_COMMITTED]
    for facts in gather_facts(admin, read).values():
        require_no_open_transaction(admin, facts)


def require_no_live_workers(admin: Admin, group_id: str, *, side: str) -> None:
    """Refuse while workers of a Connect group are alive."""
    members = len(admin.connect_members(group_id).get(group_id, ()))
    if members:
        raise LiveMembersError(
            f"{members} worker(s) of the {side} group {group_id} are alive: stop them all, and keep them "
            "stopped, then try again"
        )
