"""Findings about the topics that clusters depend on, from the brokers' descriptions. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_share.admin import BrokerDescription, PartitionDescription, TopicDescription
from connect_share.topics.creation import counted
from connect_share.topics.reassignment import PartitionReplicas, one_rack, reassigned
from connect_share.topics.spec import alter_command, cleanup_policy
from connect_share.topics.vetted import MIN_ISR, UNCLEAN_ELECTION, safe_min_isr, stops_with_one_broker


class FindingKind(enum.Enum):
    """The kinds of findings; the values are public."""

    MISSING = "missing"
    CANNOT_BE_CREATED = "cannot-be-created"
    TOO_FEW_REPLICAS = "too-few-replicas"
    MIN_INSYNC_REPLICAS = "min-insync-replicas"
    ONE_RACK = "one-rack"
    UNDER_REPLICATED = "under-replicated"
    NO_LEADER = "no-leader"
    CLEANUP_POLICY = "cleanup-policy"
    UNCLEAN_ELECTION = "unclean-leader-election"
    PARTITION_COUNT = "partition-count"


@dataclass(frozen=True, slots=True)
class TopicFinding:
    """A fault of a topic, or of one of its partitions.

    Attributes:
        partition: ``None`` if it concerns the topic as a whole.
        what: without topic and partition: findings that differ in the partition only are shown together.
    """

    kind: FindingKind
    topic: str
    partition: int | None
    what: str
    remedy: str

    def to_dict(self) -> dict[str, Any]:
        """Return the members for JSON."""
        where = self.topic if self.partition is None else f"{self.topic}[{self.partition}]"
        return {
            "kind": self.kind.value,
            "topic": self.topic,
            "partition": self.partition,
            "message": f"{where} {self.what}",
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True)
class WatchedTopic:
    """A topic that is checked.

    Attributes:
        replicas: it should have; ``None`` if that cannot be seen.
        factor_from: setting that asks for these, for people.
        needed_by: the effect of a missing topic.
        internal: Kafka creates it when it is first used.
        unclean_wanted: the worker file asks for unclean elections.
    """

    topic: str
    replicas: int | None
    factor_from: str
    needed_by: str
    create: str
    internal: bool = False
    single_partition: bool = False
    unclean_wanted: bool = False

    def finding(self, kind: FindingKind, what: str, remedy: str, partition: int | None = None) -> TopicFinding:
        """Return a finding about this topic."""
        return TopicFinding(kind, self.topic, partition, what, remedy)


@dataclass(frozen=True)
class ClusterFacts:
    """The answers of the cluster.

    Settings in ``configs`` are effective ones; a topic is absent where they may not be seen.
    """

    brokers: Sequence[BrokerDescription]
    topics: Mapping[str, TopicDescription]
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    bootstrap_servers: str = "HOST:PORT"


def find(facts: ClusterFacts, watched: Sequence[WatchedTopic]) -> tuple[TopicFinding, ...]:
    """Return the findings, topics in the order given, partitions in order."""
    return tuple(finding for topic in watched for finding in _of_topic(facts, topic))


def plan_replicas(facts: ClusterFacts, watched: Sequence[WatchedTopic]) -> tuple[PartitionReplicas, ...]:
    """Return the partitions whose replicas have to change: there are too few, or all are in one rack."""
    wanted = {topic.topic: topic.replicas or 0 for topic in watched}
    partitions = [
        PartitionReplicas(topic, partition.id, partition.replicas)
        for topic, description in facts.topics.items()
        if topic in wanted
        for partition in description.partitions
    ]
    return reassigned(partitions, wanted, facts.brokers)


def _of_topic(facts: ClusterFacts, watched: WatchedTopic) -> Iterator[TopicFinding]:
    description = facts.topics.get(watched.topic)
    if description is None:
        yield from _missing(facts, watched)
        return

    def alter(name: str, value: str) -> str:
        return alter_command(facts.bootstrap_servers, watched.topic, {name: value})

    configs = facts.configs.get(watched.topic, {})
    policy = cleanup_policy(configs)
    if policy and policy != {"compact"}:
        what = f"has cleanup.policy={','.join(sorted(policy))}, which loses records sooner or later"
        yield watched.finding(FindingKind.CLEANUP_POLICY, what, alter("cleanup.policy", "compact"))
    if watched.single_partition and len(description.partitions) != 1:
        yield watched.finding(
            FindingKind.PARTITION_COUNT,
            f"has {len(description.partitions)} partitions, so its records have no order and no worker starts",
            "create a topic with one partition and move the groups to it with connect-share-migrate",
        )
    if not watched.internal and not watched.unclean_wanted and configs.get(UNCLEAN_ELECTION) == "true":
        yield watched.finding(
            FindingKind.UNCLEAN_ELECTION,
            f"has {UNCLEAN_ELECTION}=true: after a broker's failure workers may read an older state and continue from it",
            alter(UNCLEAN_ELECTION, "false"),
        )
    min_isr = configs.get(MIN_ISR, "")
    fewest = min((len(partition.replicas) for partition in description.partitions), default=0)
    if stops_with_one_broker(min_isr, fewest):
        yield watched.finding(
            FindingKind.MIN_INSYNC_REPLICAS,
            f"has {MIN_ISR}={min_isr} and {fewest} replicas: every write stops as soon as one broker is down",
            alter(MIN_ISR, str(safe_min_isr(fewest))),
        )
    racks = {broker.id: broker.rack for broker in facts.brokers}
    for partition in description.partitions:
        yield from _of_partition(facts, watched, partition, racks)


def _missing(facts: ClusterFacts, watched: WatchedTopic) -> Iterator[TopicFinding]:
    up = len(facts.brokers)
    if watched.replicas is not None and watched.replicas > up:
        yield watched.finding(
            FindingKind.CANNOT_BE_CREATED,
            f"does not exist and cannot be created: {watched.factor_from} is {watched.replicas} and "
            f"{counted(up, ' broker')} up; until then {watched.needed_by}",
            f"start more brokers, or set {watched.factor_from} to {up}",
        )
    elif not watched.internal:
        yield watched.finding(FindingKind.MISSING, f"does not exist: {watched.needed_by}", watched.create)


def _of_partition(
    facts: ClusterFacts, watched: WatchedTopic, partition: PartitionDescription, racks: Mapping[int, str | None]
) -> Iterator[TopicFinding]:
    if partition.leader is None:
        what = f"has no leader: nothing can be read or written; replicas on brokers {_list(partition.replicas)}"
        remedy = f"start {_of(partition.isr or partition.replicas)}"
        yield watched.finding(FindingKind.NO_LEADER, what, remedy, partition.id)
    elif partition.missing:
        down = [broker for broker in partition.missing if broker not in racks]
        missing = _of(partition.missing)
        what = f"has {len(partition.isr)} of {len(partition.replicas)} replicas in sync, missing {missing}"
        remedy = f"start {_of(down)}" if down else f"look at the logs of {missing}: it is up, but does not replicate"
        yield watched.finding(FindingKind.UNDER_REPLICATED, what, remedy, partition.id)
    count = len(partition.replicas)
    if watched.replicas is not None and count < watched.replicas:
        replicas = f"{watched.replicas} replica{'' if watched.replicas == 1 else 's'}"
        what = f"has {count} of the {replicas} that {watched.factor_from} asks for"
        remedy = "carry out the reassignment"
        if len(facts.brokers) < watched.replicas:
            remedy = f"start brokers, {watched.replicas} have to be up; then check again"
        yield watched.finding(FindingKind.TOO_FEW_REPLICAS, what, remedy, partition.id)
    rack = one_rack(partition.replicas, racks)
    if rack is not None and len({broker.rack for broker in facts.brokers} - {None}) > 1:
        what = f"has all replicas in rack {rack}"
        yield watched.finding(FindingKind.ONE_RACK, what, "carry out the reassignment", partition.id)


def _of(brokers: Sequence[int]) -> str:
    return f"broker{'' if len(brokers) == 1 else 's'} {_list(brokers)}"


def _list(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))
