"""What is wrong with the topics of a Connect cluster, and what stands in the way of sharing them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connect_share.checks.finding import Finding, Severity, errors_first, named
from connect_share.console import Group
from connect_share.discover.joining import Cluster
from connect_share.errors import InvalidClusterGroupIdError
from connect_share.kafka.create import alter_command
from connect_share.kafka.descriptions import TopicDescription
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
_LOST: Final = {
    TopicType.CONFIG: "without it the other topics are of no use: connectors and tasks are defined there",
    TopicType.STATUS: "workers write statuses before anything runs, so there should be one",
    TopicType.OFFSET: "sinks have none, and of a source connector the position would be lost",
}


@dataclass(frozen=True)
class Place:
    """One topic as the brokers describe it; ``policy`` is empty where its settings may not be read."""

    description: TopicDescription
    policy: frozenset[str]

    @property
    def replicas(self) -> int:
        """Return the replicas of the partition with the fewest."""
        return min((len(partition.replicas) for partition in self.description.partitions), default=0)


@dataclass(frozen=True)
class KafkaFacts:
    """What else is known of the Kafka cluster.

    Attributes:
        empty: topics without a record that a cluster could have.
        members: worker ids by Connect group with live members.
    """

    bootstrap_servers: str
    brokers: int
    places: Mapping[str, Place]
    empty: Sequence[str]
    members: Mapping[str, Collection[str | None]]


def problems_of(cluster: Cluster, kafka: KafkaFacts) -> list[Finding]:
    """Return what is wrong with the topics of a cluster, errors first."""
    found = [
        *_of_settings(cluster, kafka),
        *_one_replica(cluster, kafka),
        *_of_two_clusters(cluster),
        *_missing(cluster, kafka),
        *_guessed(cluster),
    ]
    return errors_first(found)


def _of_settings(cluster: Cluster, kafka: KafkaFacts) -> Iterator[Finding]:
    names: dict[str, list[str]] = {}
    for topic_type, role in cluster.topics.items():
        names.setdefault(role.topic, []).append(topic_type.value)
    for topic, types in names.items():
        place = kafka.places[topic]
        partitions = len(place.description.partitions)
        if place.policy and place.policy != {"compact"}:
            yield Finding(
                "discover-cleanup-policy",
                _ERROR,
                topic,
                f"cleanup.policy is {','.join(sorted(place.policy))}",
                "records are deleted by age, those of connectors that run among them; no worker starts on such a topic",
                "set it to compact",
                alter_command(kafka.bootstrap_servers, topic, {"cleanup.policy": "compact"}),
            )
        if TopicType.CONFIG.value in types and partitions > 1:
            yield Finding(
                "discover-config-partitions",
                _ERROR,
                topic,
                f"a config topic with {partitions} partitions",
                "its records have no order, and no worker starts on it",
                "copy it to a topic with one partition",
            )
        if len(types) > 1:
            yield Finding(
                "discover-one-topic",
                _WARNING,
                topic,
                f"the {' and the '.join(types)} topic are one",
                "every reader of one reads the others, and their settings cannot differ",
                "give each a topic of its own",
            )


def _one_replica(cluster: Cluster, kafka: KafkaFacts) -> Iterator[Finding]:
    topics = [role.topic for role in cluster.topics.values() if kafka.places[role.topic].replicas == 1]
    if not topics:
        return
    several = kafka.brokers > 1
    yield Finding(
        "discover-one-replica",
        _WARNING if several else _NOTE,
        cluster.name,
        f"replication factor 1: {named(list(dict.fromkeys(topics)))}",
        "when its broker is lost, so is the topic" + ("" if several else "; there is one broker only"),
        "give it more replicas: connect-share check topics plans it" if several else "add brokers",
    )


def _of_two_clusters(cluster: Cluster) -> Iterator[Finding]:
    for role in cluster.topics.values():
        if role.watch.found is not None:
            yield Finding(
                "discover-two-plain-clusters",
                _ERROR,
                role.topic,
                role.watch.found.warning(role.topic),
                "each runs the other's connectors and overwrites its state",
                "take them apart, or give one of them topics of its own",
                "connect-share-migrate plan --assign FILE",
            )


def _missing(cluster: Cluster, kafka: KafkaFacts) -> Iterator[Finding]:
    for topic_type in TopicType:
        if topic_type in cluster.topics:
            continue
        empty = named(list(kafka.empty)) or "none"
        yield Finding(
            f"discover-no-{topic_type.value}-topic",
            _NOTE if topic_type is TopicType.OFFSET else _WARNING,
            cluster.name,
            f"no {topic_type.value} topic was found; empty compacted topics, of which one may be it: {empty}",
            _LOST[topic_type],
            f"look into the worker file; {topic_type.value}.storage.topic names it",
        )


def _guessed(cluster: Cluster) -> Iterator[Finding]:
    for topic_type, equal in cluster.guessed.items():
        yield Finding(
            "discover-guessed-topic",
            _NOTE,
            cluster.name,
            f"{len(equal)} {topic_type.value} topics fit equally well; "
            f"{cluster.topics[topic_type].topic} was taken by times and names: "
            f"{named(equal)}",
            "several clusters have connectors of the same names, so their topics may be taken for each other's",
            f"compare it with {topic_type.value}.storage.topic in the worker file",
        )


def obstacles(cluster: Cluster, group_ids: Mapping[Group, str | None], others: Collection[str]) -> Iterator[Finding]:
    """Yield what stands in the way of moving the plain cluster of these topics to a shared set.

    ``others`` are cluster group ids that are in use on other topics.
    """
    if None not in group_ids:
        return
    group_id = group_ids[None]
    if group_id is None:
        yield Finding(
            "sharing-group-unknown",
            _NOTE,
            cluster.name,
            "the group.id of its workers is not known",
            "plain keys do not say it, and no live worker of its statuses was found",
            "look into the worker file",
        )
    else:
        try:
            ClusterGroupId(group_id)
        except InvalidClusterGroupIdError as error:
            yield Finding(
                "sharing-group-id",
                _ERROR,
                cluster.name,
                str(error),
                "it is to stand before each key",
                "rename the group",
            )
        if group_id in others:
            yield Finding(
                "sharing-group-taken",
                _ERROR,
                cluster.name,
                f"a group {group_id} has records on a shared set already",
                "two clusters with one id would be one, or it was moved and these topics are left over",
                "compare them: connect-share get connectors --group",
            )
    for role in cluster.topics.values():
        if role.watch.found is not None:
            yield Finding(
                "sharing-two-plain-clusters",
                _ERROR,
                role.topic,
                "two clusters write here with plain keys",
                "whose a record is cannot be known from the topics",
                "say for each connector whose it is",
                "connect-share-migrate plan --assign FILE",
            )
    for topic_type in (TopicType.CONFIG, TopicType.STATUS):
        if topic_type not in cluster.topics:
            yield Finding(
                "sharing-topic-missing",
                _ERROR,
                cluster.name,
                f"its {topic_type.value} topic was not found",
                "a move needs all three topics",
                "name it in the worker file that the move is given",
            )
