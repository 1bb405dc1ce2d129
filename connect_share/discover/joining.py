"""Which config, status and offset topics belong together: by the groups and connectors that are in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final

from connect_share.console import Group, group_order
from connect_share.discover.evidence import GroupEvidence, TopicEvidence, TypeEvidence
from connect_share.model.records import TopicType

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
    def is_shared(self) -> bool:
        """Return whether a group has its id in keys."""
        return any(group is not None for group in self.groups)

    def of_group(self, group: Group) -> dict[TopicType, GroupEvidence]:
        """Return what a group has in each topic where it has something."""
        found = {topic_type: role.groups.get(group) for topic_type, role in self.topics.items()}
        return {topic_type: each for topic_type, each in found.items() if each is not None}

    def workers(self, group: Group) -> set[str]:
        """Return the ids of workers that wrote statuses with plain keys."""
        return {worker for found in self.of_group(group).values() for worker in found.workers}


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
