"""Which config, status and offset topics belong together: by the groups and connectors that are in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from connect_share.console import Group, group_order
from connect_share.discover.evidence import GroupEvidence, TopicEvidence, TypeEvidence
from connect_share.records import TopicType

_SAME = 1e-6
_MOST_PART = 0.5


@dataclass(frozen=True)
class Role:
    """A topic in one of its roles."""

    topic: str
    evidence: TypeEvidence = field(repr=False)

    @property
    def items(self) -> set[int]:
        """Return what it has of groups, connectors and tasks, comparable between topics."""
        return self.evidence.items


@dataclass
class Cluster:
    """The topics of one Connect cluster with plain keys, or of all that share a set of topics.

    Attributes:
        own_offsets: offsets topics that connectors of it have for themselves.
        by_name: types whose topic was chosen by its name among several that fit equally well: all of those.
    """

    topics: dict[TopicType, Role]
    own_offsets: list[str] = field(default_factory=list)
    by_name: dict[TopicType, list[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the topic by which it is named."""
        return next(self.topics[each].topic for each in TopicType if each in self.topics)

    @property
    def groups(self) -> list[Group]:
        """Return all groups, the plain cluster first."""
        found = {group for role in self.topics.values() for group in role.evidence.groups}
        return sorted(found, key=group_order)

    @property
    def is_shared(self) -> bool:
        """Return whether a group has its id in keys."""
        return self.groups[-1] is not None

    def of_group(self, group: Group) -> dict[TopicType, GroupEvidence]:
        """Return what a group has in each topic where it has something."""
        found = {topic_type: role.evidence.groups.get(group) for topic_type, role in self.topics.items()}
        return {topic_type: each for topic_type, each in found.items() if each is not None}

    def workers(self, group: Group) -> set[str]:
        """Return the ids of workers that wrote statuses with plain keys."""
        return {worker for found in self.of_group(group).values() for worker in found.workers}


@dataclass
class Joined:
    """All that was found.

    Attributes:
        unclaimed: topics with the form of source offsets, of which no cluster has a connector.
    """

    clusters: list[Cluster]
    unclaimed: list[str]


def join(topics: Iterable[TopicEvidence]) -> Joined:
    """Return the clusters whose topics these are."""
    roles: dict[TopicType, list[Role]] = {topic_type: [] for topic_type in TopicType}
    for topic in topics:
        for evidence in topic.roles:
            roles[evidence.topic_type].append(Role(topic.topic, evidence))
    clusters = [Cluster({TopicType.CONFIG: role}) for role in roles[TopicType.CONFIG]]
    alone = _attach(clusters, TopicType.STATUS, roles[TopicType.STATUS])
    clusters += [Cluster({TopicType.STATUS: role}) for role in alone]
    for role in roles[TopicType.STATUS]:
        _attach_to_more(clusters, TopicType.STATUS, role)
    offsets = _without_own_topics(clusters, roles[TopicType.OFFSET])
    unclaimed = _attach(clusters, TopicType.OFFSET, offsets)
    for role in offsets:
        _attach_to_more(clusters, TopicType.OFFSET, role)
    return Joined(sorted(clusters, key=lambda each: each.name), sorted(role.topic for role in unclaimed))


def _likeness(one: Role, other: Role) -> float:
    """Return how much of what two topics have is in both, 0 to 1; of an offset topic only its own part counts.

    Sinks have no source offsets, and connectors that are gone leave theirs behind.
    """
    both = len(one.items & other.items)
    if not both:
        return 0.0
    if other.evidence.topic_type is TopicType.OFFSET:
        return both / len(other.items)
    return both / len(one.items | other.items)


def _name_likeness(cluster: Cluster, role: Role) -> float:
    return max(SequenceMatcher(None, each.topic, role.topic).ratio() for each in cluster.topics.values())


def _attach(clusters: Sequence[Cluster], topic_type: TopicType, roles: Sequence[Role]) -> list[Role]:
    """Give each cluster the topic that has most in common with it, best pairs first; return the topics left over."""
    pairs: list[tuple[float, float, Cluster, Role]] = []
    for cluster in clusters:
        for role in roles:
            likeness = max(_likeness(each, role) for each in cluster.topics.values())
            if likeness:
                pairs.append((likeness, _name_likeness(cluster, role), cluster, role))
    pairs.sort(key=lambda pair: (-pair[0], -pair[1], pair[2].name, pair[3].topic))
    taken: set[str] = set()
    for likeness, _, cluster, role in pairs:
        if topic_type in cluster.topics or role.topic in taken:
            continue
        cluster.topics[topic_type] = role
        taken.add(role.topic)
        equal = [each for other, _, of, each in pairs if of is cluster and abs(other - likeness) < _SAME]
        if len(equal) > 1:
            cluster.by_name[topic_type] = sorted(each.topic for each in equal)
    return [role for role in roles if role.topic not in taken]


def _attach_to_more(clusters: Sequence[Cluster], topic_type: TopicType, role: Role) -> None:
    """Give a topic also to clusters without one, if their connectors are in it and those that have it do not have these."""
    owners = [each for each in clusters if each.topics.get(topic_type) is role]
    known = {
        item for owner in owners for kind, each in owner.topics.items() if kind is not topic_type for item in each.items
    }
    rest = role.items - known
    for cluster in clusters:
        if topic_type not in cluster.topics:
            own = {item for each in cluster.topics.values() for item in each.items}
            if own and len(own & rest) >= _MOST_PART * len(own):
                cluster.topics[topic_type] = role


def _without_own_topics(clusters: Sequence[Cluster], roles: Sequence[Role]) -> list[Role]:
    """Note the offsets topics that connectors name for themselves; return the others."""
    rest = []
    for role in roles:
        owners = [each for each in clusters if TopicType.CONFIG in each.topics and _names(each, role.topic)]
        for owner in owners:
            owner.own_offsets.append(role.topic)
        if not owners:
            rest.append(role)
    return rest


def _names(cluster: Cluster, topic: str) -> bool:
    return topic in cluster.topics[TopicType.CONFIG].evidence.named_topics
