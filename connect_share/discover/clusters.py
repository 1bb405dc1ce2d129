"""Which config, status and offset topics belong together: by the groups and connectors that are in them.

What is wrong with the topics of a Connect cluster, and what stands in the way of sharing them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Final

from connect_share.checks.collisions import two_plain_clusters
from connect_share.checks.finding import Finding, Severity, errors_first, named, policy_finding
from connect_share.console.options import Group, group_order
from connect_share.discover.evidence import GroupEvidence, TopicEvidence, TypeEvidence
from connect_share.errors import InvalidClusterGroupIdError, command_line
from connect_share.kafka.create import LOSSES, ONE_PARTITION, policy_fault
from connect_share.kafka.descriptions import TopicDescription
from connect_share.model.config_state import closed_by
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.model.status import TAKE_APART
from connect_share.worker_config import ClientSettings

_SAME: Final = 1e-6
_LEAST_OFFSETS: Final = 0.1
_MOST_PART: Final = 0.5


@dataclass
class Cluster:
    """The topics of one Connect cluster with plain keys, or of all that share a set of topics.

    Attributes:
        own_offsets: offsets topics that connectors of it have for themselves.
        guessed: types whose topic was chosen by times and names among several that fit equally well: all of those.
    """

    topics: dict[TopicType, TypeEvidence]
    own_offsets: list[str] = field(default_factory=list)
    guessed: dict[TopicType, list[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the topic by which it is named."""
        return next(self.topics[each].topic for each in TopicType if each in self.topics)

    @property
    def groups(self) -> list[Group]:
        """Return all groups of which a value is real, the plain cluster first."""
        found = {group for role in self.topics.values() for group, each in role.groups.items() if each.is_real}
        return sorted(found, key=group_order)

    @property
    def configs(self) -> Mapping[Group, GroupEvidence]:
        """Return what each group has on the config topic."""
        return self.topics[TopicType.CONFIG].groups if TopicType.CONFIG in self.topics else {}

    @property
    def is_shared(self) -> bool:
        """Return whether a group has its id in keys."""
        return any(group is not None for group in self.groups)

    def of_group(self, group: Group) -> dict[TopicType, GroupEvidence]:
        """Return what a group has in each topic where it has something."""
        return {topic_type: role.groups[group] for topic_type, role in self.topics.items() if group in role.groups}

    def plain_workers(self) -> set[str]:
        """Return the ids of workers that wrote statuses with plain keys."""
        return {worker for found in self.of_group(None).values() for worker in found.workers}


@dataclass
class JoinedTopics:
    """All that was found.

    Attributes:
        unclaimed: topics with the form of source offsets, of which no cluster has a connector.
    """

    clusters: list[Cluster]
    unclaimed: list[str]


def join(topics: Iterable[TopicEvidence]) -> JoinedTopics:
    """Return the clusters whose topics these are."""
    roles: dict[TopicType, list[TypeEvidence]] = {topic_type: [] for topic_type in TopicType}
    for topic in topics:
        for role in topic.roles:
            roles[role.topic_type].append(role)
    clusters = [Cluster({TopicType.CONFIG: role}) for role in roles[TopicType.CONFIG]]
    alone = _attach(clusters, TopicType.STATUS, roles[TopicType.STATUS])
    clusters += [Cluster({TopicType.STATUS: role}) for role in alone]
    for role in roles[TopicType.STATUS]:
        _attach_to_more(clusters, TopicType.STATUS, role)
    offsets = _without_own_topics(clusters, roles[TopicType.OFFSET])
    unclaimed = _attach(clusters, TopicType.OFFSET, offsets)
    for role in offsets:
        _attach_to_more(clusters, TopicType.OFFSET, role)
    return JoinedTopics(sorted(clusters, key=lambda each: each.name), sorted(role.topic for role in unclaimed))


def _likeness(items: set[int], groups: set[Group], role: TypeEvidence) -> float:
    """Return how much of what two topics have is in both; of an offset topic only its own part counts.

    Sinks have no source offsets, and connectors that are gone leave theirs behind.
    """
    is_offset = role.topic_type is TopicType.OFFSET
    both = len(items & role.items.keys())
    alike = both / max(1, len(role.items) if is_offset else len(items | role.items.keys()))
    if alike < (_LEAST_OFFSETS if is_offset else _SAME):
        return 0.0
    return alike + len(groups & role.groups.keys()) / len(groups | role.groups.keys())


def _time_likeness(cluster: Cluster, role: TypeEvidence) -> float:
    """Return whether the same things were written at the same time, in tenths: a worker writes to all its topics."""
    best = 0.0
    for each in cluster.topics.values():
        both = each.items.keys() & role.items.keys()
        near = sum(1_000 / (1_000 + abs(each.items[item] - role.items[item])) for item in both)
        best = max(best, near / len(both) if both else 0.0)
    return round(best, 1)


def _attach(clusters: Sequence[Cluster], topic_type: TopicType, roles: Sequence[TypeEvidence]) -> list[TypeEvidence]:
    """Give each cluster the topic that has most in common with it, best pairs first; return the topics left over."""
    pairs: list[tuple[tuple[float, ...], Cluster, TypeEvidence]] = []
    for cluster in clusters:
        items = {item for each in cluster.topics.values() for item in each.items}
        groups = {group for each in cluster.topics.values() for group in each.groups}
        for role in roles:
            likeness = _likeness(items, groups, role)
            if likeness:
                known = cluster.topics.values()
                # How many values in source partitions are those of properties of their connectors: tables, files, names.
                texts = max(len(each.texts & role.texts) / max(1, len(role.texts)) for each in known)
                names = max(SequenceMatcher(None, each.topic, role.topic).ratio() for each in known)
                content = (round(likeness, 6), round(texts, 6))
                pairs.append(((*content, _time_likeness(cluster, role), names), cluster, role))
    pairs.sort(key=lambda pair: ([-each for each in pair[0]], pair[1].name, pair[2].topic))
    taken: set[str] = set()
    for rank, cluster, role in pairs:
        if topic_type in cluster.topics or role.topic in taken:
            continue
        cluster.topics[topic_type] = role
        taken.add(role.topic)
        equal = [each.topic for other, of, each in pairs if of is cluster and other[:2] == rank[:2]]
        if len(equal) > 1:
            cluster.guessed[topic_type] = sorted(equal)
    return [role for role in roles if role.topic not in taken]


def _attach_to_more(clusters: Sequence[Cluster], topic_type: TopicType, role: TypeEvidence) -> None:
    """Give a topic also to clusters without one, if their connectors are in it and those that have it do not have these."""
    owners = [each for each in clusters if each.topics.get(topic_type) is role]
    known = {
        item for owner in owners for kind, each in owner.topics.items() if kind is not topic_type for item in each.items
    }
    rest = role.items.keys() - known
    for cluster in clusters:
        if topic_type not in cluster.topics:
            own = {item for each in cluster.topics.values() for item in each.items}
            if own and len(own & rest) >= _MOST_PART * len(own):
                cluster.topics[topic_type] = role


def _without_own_topics(clusters: Sequence[Cluster], roles: Sequence[TypeEvidence]) -> list[TypeEvidence]:
    """Note the offsets topics that connectors name for themselves; return the others."""
    rest = []
    for role in roles:
        config_topics = ((each, each.topics.get(TopicType.CONFIG)) for each in clusters)
        owners = [each for each, config in config_topics if config is not None and role.topic in config.named_topics]
        for owner in owners:
            owner.own_offsets.append(role.topic)
        if not owners:
            rest.append(role)
    return rest


_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


@dataclass(frozen=True)
class Place:
    """One topic as the brokers describe it; ``settings`` are empty where they may not be read."""

    description: TopicDescription
    settings: Mapping[str, str]


@dataclass(frozen=True)
class KafkaFacts:
    """What else is known of the Kafka cluster.

    Attributes:
        empty: topics without a record that a cluster could have.
        members: worker ids by Connect group: of each with live members, and of those of the topics that may be seen.
        sees_all: no group with live members is hidden.
    """

    client: ClientSettings
    brokers: int
    places: Mapping[str, Place]
    empty: Sequence[str]
    members: Mapping[str, Collection[str | None]]
    sees_all: bool = True


def problems_of(
    cluster: Cluster, kafka: KafkaFacts, group_ids: Mapping[Group, str | None], others: Mapping[str, Cluster]
) -> list[Finding]:
    """Return what is wrong with the topics of a cluster, errors first; ``others``: ids in use elsewhere, and where."""
    found = [
        *_on_two_sets(cluster, kafka, group_ids, others),
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
        partitions, config = len(place.description.partitions), TopicType.CONFIG.value in types
        fault = policy_fault(
            TopicType.CONFIG if config else TopicType.OFFSET,
            topic,
            place.settings,
            kafka.client,
            moved_by(cluster) if config else None,
        )
        if fault is not None:
            yield policy_finding("discover", topic, fault)
        if config and partitions > 1:
            yield Finding(
                "discover-config-partitions",
                _ERROR,
                topic,
                f"a config topic with {partitions} partitions",
                "its records have no order, and no worker starts on it",
                ONE_PARTITION,
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


def moved_by(cluster: Cluster) -> str | None:
    """Return the plan that has closed the config topic, if every group of it was moved away."""
    return closed_by(cluster.configs[each].moved for each in cluster.groups if each in cluster.configs)


def _on_two_sets(
    cluster: Cluster, kafka: KafkaFacts, group_ids: Mapping[Group, str | None], others: Mapping[str, Cluster]
) -> Iterator[Finding]:
    for group, group_id in group_ids.items():
        config = cluster.configs.get(group)
        if group_id is None or group_id not in others or (config is not None and config.moved is not None):
            continue
        live, here, there = (
            {*kafka.members.get(group_id, ())},
            cluster.plain_workers(),
            others[group_id].plain_workers(),
        )
        yield Finding(
            "discover-two-sets",
            _ERROR if live & (here - there) and live & (there - here) else _WARNING,
            cluster.name,
            f"group {group_id} has records here and on {others[group_id].name}",
            "workers of one group have the same three topics: with two sets in use they rebalance for ever, and their logs "
            "repeat 'behind group assignment'",
            "if one set is left over, remove its records there; if both are in use, give one of the two clusters another "
            "group.id",
            command_line("connect-share", "get", "workers", *kafka.client.reached_by, f"--group-id={group_id}"),
            group=group_id if group is not None else None,
        )


def _one_replica(cluster: Cluster, kafka: KafkaFacts) -> Iterator[Finding]:
    described = {role.topic: kafka.places[role.topic].description for role in cluster.topics.values()}
    topics = [topic for topic, description in described.items() if description.fewest_replicas == 1]
    if not topics:
        return
    several = kafka.brokers > 1
    yield Finding(
        "discover-one-replica",
        _WARNING if several else _NOTE,
        cluster.name,
        f"replication factor 1: {named(topics)}",
        "when its broker is lost, so is the topic" + ("" if several else "; there is one broker only"),
        "give it more replicas: check topics plans it" if several else "add brokers",
    )


def _of_two_clusters(cluster: Cluster) -> Iterator[Finding]:
    for role in cluster.topics.values():
        if (found := role.watch.found) is not None:
            yield replace(two_plain_clusters(role.topic, found.warning(role.topic)), id="discover-two-plain-clusters")


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
            LOSSES[topic_type],
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


def obstacles(cluster: Cluster, group_ids: Mapping[Group, str | None]) -> Iterator[Finding]:
    """Yield what stands in the way of moving the plain cluster of these topics to a shared set."""
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
    for role in cluster.topics.values():
        if role.watch.found is not None:
            yield Finding(
                "sharing-two-plain-clusters",
                _ERROR,
                role.topic,
                "two clusters write here with plain keys",
                "whose a record is cannot be known from the topics",
                "say for each connector whose it is, in a file OWNERS",
                TAKE_APART,
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
