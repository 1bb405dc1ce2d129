"""Looking at every topic of a Kafka cluster: which may be Connect's, a sample of those, and all of those that are.

What was found as members for JSON; the text is made of the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share.console.options import Group
from connect_share.contents.workers import ANY_GROUP, live_worker_ids, not_seen
from connect_share.discover.clusters import (
    Cluster,
    JoinedTopics,
    KafkaFacts,
    Place,
    join,
    moved_by,
    obstacles,
    problems_of,
)
from connect_share.discover.evidence import TopicEvidence
from connect_share.errors import BrokerError
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import is_unknown_topic
from connect_share.kafka.create import cleanup_policy
from connect_share.kafka.descriptions import TopicDescription
from connect_share.kafka.read import BoundedReader, Partition, batches
from connect_share.model.records import TopicType

SAMPLE: Final = 100
"""Records from the beginning, and as many offsets before the end, of each partition that is looked at."""
SAMPLED_PARTITIONS: Final = 4
_TOPICS_AT_ONCE: Final = 250
_PARTITIONS_AT_ONCE: Final = 2_000
_MOST_LOOK_ALIKES: Final = 1_000
_SMALL: Final = 10_000
_LAST: Final = 20
"""Offsets before the end that are looked at of topics that are not compacted; a closed one ends with what closed it."""
_KAFKAS_OWN: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata"}
)


@dataclass
class Discovered:
    """All that was found.

    Attributes:
        found: the topics of ``joined`` with their evidence.
        look_alikes: topics with some of Connect's keys that are no topics of Connect.
        unreadable: for each topic that may not be read, or has no leader, why.
        not_whole: topics of clusters of which not all was read; what is said of their sizes is too little.
        topics: how many there are; those that were looked at are in ``kafka``.
        notes: what limits what was found, for people.
    """

    joined: JoinedTopics
    found: dict[str, TopicEvidence]
    look_alikes: list[TopicEvidence]
    unreadable: dict[str, str]
    not_whole: list[str]
    topics: int
    kafka: KafkaFacts
    notes: list[str] = field(default_factory=list)


@dataclass
class _Look:
    """One look at a Kafka cluster, as far as it is; ``bounds``: the first offset and the end of each partition."""

    admin: Admin
    places: dict[str, Place] = field(default_factory=dict)
    bounds: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    uncompacted: set[str] = field(default_factory=set)

    def look_at_all(self) -> int:
        """Describe what may be a topic of Connect, and ask for its offsets; return how many topics there are.

        What a broker does not know is gone, or new to it: all of that is asked for again at once, and waited for once.
        """
        names = self.admin.topic_names() - _KAFKAS_OWN
        described = self.admin.describe_topics(names)
        unknown = self._look_at(described) | (names - described.keys())
        self._look_at(self.admin.describe_topics(unknown, expected=True))
        if hidden := sum(not place.settings for place in self.places.values()):
            self.notes.append(
                f"the settings of {hidden:,} topics may not be read, so these were all looked at: "
                "the right DESCRIBE_CONFIGS on them makes this faster"
            )
        return len(names)

    def _look_at(self, described: Mapping[str, TopicDescription]) -> set[str]:
        """Find compacted topics and those whose settings may not be read; return what a broker does not know."""
        unknown, at = set[str](), list[Partition]()
        for names in batches(sorted(described), _TOPICS_AT_ONCE):
            for topic, found in self.admin.settings_of_topics(names, expected=False).items():
                if isinstance(found, BrokerError) and is_unknown_topic(found):
                    unknown.add(topic)
                    continue
                settings = {} if isinstance(found, BrokerError) else found
                if settings and "compact" not in cleanup_policy(settings):
                    self.uncompacted.add(topic)
                partitions = described[topic].partitions
                if topic not in self.uncompacted or len(partitions) == 1:  # it may be a config topic
                    self.places[topic] = Place(described[topic], settings)
                    self.unreadable.pop(topic, None)
                    at += [(topic, partition.id) for partition in partitions if partition.leader is not None]
                    if any(partition.leader is None for partition in partitions):
                        self.unreadable[topic] = "a partition has no leader"
        for some in batches(at, _PARTITIONS_AT_ONCE):
            try:
                self.bounds |= self.admin.bounds(some)
            except BrokerError:
                for topic in {topic for topic, _ in some}:
                    try:
                        self.bounds |= self.admin.bounds([each for each in some if each[0] == topic])
                    except BrokerError as error:
                        self.unreadable[topic] = str(error)
        gone = {topic for topic, _ in set(at) - self.bounds.keys()} - self.unreadable.keys()
        self.unreadable |= dict.fromkeys(gone, "brokers do not know it any more")
        return unknown | gone

    def filled(self, topics: Iterable[str]) -> dict[str, list[Partition]]:
        """Return the partitions of topics in which there may be records."""
        found: dict[str, list[Partition]] = {topic: [] for topic in topics}
        for at, (start, end) in self.bounds.items():
            if start < end and at[0] in found:
                found[at[0]].append(at)
        return found


def survey(admin: Admin, reader: Callable[[int], BoundedReader], *, most: int) -> Discovered:
    """Find the clusters.

    So many records at most are read whole of the topics of clusters; the samples are bounded by the number of partitions.
    """
    look = _Look(admin)
    topics = look.look_at_all()
    filled = look.filled(look.places)
    sampled = _sampled(look, filled, reader)
    found = [topic for topic, evidence in sampled.items() if evidence.roles]
    for topic in look.uncompacted.difference(found):
        known: MutableMapping[str, Any]
        for known in (look.places, filled, sampled):
            known.pop(topic, None)
    whole, not_whole = _whole(look, found, filled, reader(most))
    if not_whole:
        look.notes.append(
            f"{len(not_whole)} of the topics that were found were read in part only, so there may be more groups and records "
            f"in them than are shown: {', '.join(sorted(not_whole)[:3])}{' ...' if len(not_whole) > 3 else ''}"
        )
    kept = {topic: whole[topic] if whole[topic].roles else sampled[topic] for topic in found}
    empty = [
        topic
        for topic, partitions in filled.items()
        if topic not in look.unreadable and not (partitions and sampled[topic].records)
    ]
    joined, members = join(kept.values()), dict[str, tuple[str | None, ...]]()
    prefixes = {str(group) for cluster in joined.clusters for group in cluster.groups if group is not None}
    try:
        members = live_worker_ids(admin, {*prefixes, ANY_GROUP})
        look.notes += not_seen(prefixes - members.keys())
    except BrokerError as error:
        look.notes.append(f"whether workers live is not known: {error}")
    sees_all = members.pop(ANY_GROUP, None) is not None
    kafka = KafkaFacts(admin.settings, admin.broker_count(), look.places, empty, members, sees_all)
    look_alikes = [evidence for evidence in sampled.values() if evidence.keys and not evidence.roles]
    return Discovered(
        joined,
        kept,
        look_alikes[:_MOST_LOOK_ALIKES],
        look.unreadable,
        sorted(not_whole),
        topics,
        kafka,
        look.notes,
    )


def _sampled(
    look: _Look, filled: Mapping[str, list[Partition]], reader: Callable[[int], BoundedReader]
) -> dict[str, TopicEvidence]:
    """Read the beginning and the end of some partitions of each topic."""
    sampled = {topic: TopicEvidence(topic) for topic, partitions in filled.items() if partitions}
    heads = {at: look.bounds[at] for topic in sampled for at in _spread(filled[topic])}
    heads |= {at: (max(start, end - _LAST), end) for at, (start, end) in heads.items() if at[0] in look.uncompacted}
    tails = {at: (end - SAMPLE, end) for at, (start, end) in heads.items() if end - start > 2 * SAMPLE}
    source = reader(2 * SAMPLE * len(heads) + 1)
    for record in itertools.chain(source.records(heads, SAMPLE), source.records(tails, SAMPLE)):
        sampled[record.topic].add(record)
    look.unreadable |= {topic: str(error) for topic, error in source.refused.items()}
    look.unreadable |= {topic: "gave no record in time" for topic in source.unread if not sampled[topic].records}
    return sampled


def _spread(partitions: Sequence[Partition]) -> Sequence[Partition]:
    """Return some of the partitions, from all over them."""
    step = max(1, len(partitions) // SAMPLED_PARTITIONS)
    return sorted(partitions)[::step][:SAMPLED_PARTITIONS]


def _whole(
    look: _Look, topics: Sequence[str], filled: Mapping[str, list[Partition]], source: BoundedReader
) -> tuple[dict[str, TopicEvidence], set[str]]:
    """Read topics whole, small ones first; return also those of which something is left."""
    whole = {topic: TopicEvidence(topic) for topic in topics}
    sizes = {topic: sum(look.bounds[at][1] - look.bounds[at][0] for at in filled[topic]) for topic in topics}
    # A client of its own for what is large, so that a limit is reached there.
    small = [topic for topic in topics if sizes[topic] <= _SMALL]
    large = sorted(set(topics) - set(small), key=sizes.__getitem__)
    for together in (small, *([topic] for topic in large)):
        for record in source.records({at: look.bounds[at] for topic in together for at in filled[topic]}):
            whole[record.topic].add(record)
    cut = {topic for topic, found in whole.items() if any(each.is_cut for each in found.types.values())}
    return whole, source.unread | cut | {topic for topic in topics if topic in source.refused}


Row = dict[str, Any]


def members_of(discovered: Discovered) -> Row:
    """Return everything; names are stable."""
    clusters, kafka = discovered.joined.clusters, discovered.kafka
    prefixes = {str(group) for cluster in clusters for group in cluster.groups if group is not None}
    candidates = sorted(kafka.members.keys() - prefixes)
    group_ids = [_group_ids(cluster, candidates, kafka) for cluster in clusters]
    known = {group_id for ids in group_ids for group_id in ids.values() if group_id is not None}
    elsewhere = {group: kafka.members[group] for group in sorted(kafka.members) if group not in known}
    holders: dict[str, dict[int, Cluster]] = {}
    for number, ids in enumerate(group_ids):
        for group_id in filter(None, ids.values()):
            holders.setdefault(group_id, {})[number] = clusters[number]
    rows = []
    for cluster, ids in zip(clusters, group_ids, strict=True):
        named = filter(None, ids.values())
        others = {each: there for each in named for there in holders[each].values() if there is not cluster}
        plan = moved_by(cluster)
        unsure = any(discovered.found[topic].confidence != "certain" for topic in _names(cluster))
        rows.append(
            {
                "topics": {
                    kind.value: cluster.topics[kind].topic if kind in cluster.topics else None for kind in TopicType
                },
                "connector_offset_topics": cluster.own_offsets,
                "groups": [_group_row(cluster, group, ids[group], kafka, elsewhere=bool(elsewhere)) for group in ids],
                "shared": cluster.is_shared,
                "confidence": "likely" if unsure or cluster.guessed else "certain",
                "why": {topic: discovered.found[topic].why for topic in _names(cluster)},
                "complete": not set(_names(cluster)) & set(discovered.not_whole),
                **_sizes(cluster, kafka),
                "problems": [finding.to_dict() for finding in problems_of(cluster, kafka, ids, others)],
                "moved": plan and {"plan": plan, "to": _now_at(cluster, clusters)},
                "in_the_way": [] if plan else [finding.to_dict() for finding in obstacles(cluster, ids)],
            }
        )
    for row in rows:
        live = [group["live_members"] for group in row["groups"]]
        row["live_members"] = None if None in live else sum(live)
    return {
        "clusters": rows,
        "savings": _savings(rows),
        "look_alikes": [{"topic": each.topic, "why": each.why} for each in discovered.look_alikes],
        "unclaimed_offset_topics": discovered.joined.unclaimed,
        "unreadable": [{"topic": topic, "why": why} for topic, why in sorted(discovered.unreadable.items())],
        "groups_elsewhere": [{"group": group, "live_members": len(found)} for group, found in elsewhere.items()],
        "topics_seen": discovered.topics,
        "topics_looked_at": len(kafka.places),
        "notes": discovered.notes,
    }


def _now_at(cluster: Cluster, clusters: Sequence[Cluster]) -> Row | None:
    """Return the one place that has all connectors of a cluster that was moved away."""
    connectors = {connector for each in cluster.configs.values() for connector in each.connectors}
    places = [
        {"config": there.topics[TopicType.CONFIG].topic, "group": group}
        for there in clusters
        for group, each in there.configs.items()
        if each.moved is None and connectors and connectors <= each.connectors
    ]
    return places[0] if len(places) == 1 else None


def _names(cluster: Cluster) -> list[str]:
    return list(dict.fromkeys(role.topic for role in cluster.topics.values()))


def _group_ids(cluster: Cluster, candidates: Sequence[str], kafka: KafkaFacts) -> dict[Group, str | None]:
    """Return the Connect group of each group: its id, and of the plain cluster the one with a worker that wrote there.

    ``candidates`` are the live Connect groups that are no prefix on any topic.
    """
    ids: dict[Group, str | None] = {group: group for group in cluster.groups}
    if None in ids:
        workers = cluster.plain_workers()
        ids[None] = next((each for each in candidates if workers.intersection(kafka.members[each])), None)
    return ids


def _group_row(cluster: Cluster, group: Group, group_id: str | None, kafka: KafkaFacts, *, elsewhere: bool) -> Row:
    found = cluster.of_group(group)
    config = found.get(TopicType.CONFIG)
    seen = kafka.members.get(group_id or "")
    live = None if seen is None else len(seen)
    if group_id is None and kafka.sees_all and not elsewhere:
        live = 0  # else workers may live whose topics are not known
    return {
        "group": group,
        "group_id": group_id,
        "connectors": None if config is None else len(config.connectors),
        "records": {kind.value: found[kind].records if kind in found else 0 for kind in cluster.topics},
        "bytes": {kind.value: found[kind].size_bytes if kind in found else 0 for kind in cluster.topics},
        "live_members": live,
    }


def _sizes(cluster: Cluster, kafka: KafkaFacts) -> Row:
    places = [kafka.places[topic] for topic in _names(cluster)]
    partitions = [partition for place in places for partition in place.description.partitions]
    return {
        "topic_count": len(places),
        "partitions": len(partitions),
        "replicas": sum(len(partition.replicas) for partition in partitions),
    }


def _savings(rows: Sequence[Row]) -> Row:
    """Return what is saved when all clusters move to the topics of the one that has most groups, then most partitions."""
    now = {of: sum(row[member] for row in rows) for of, member in _MEASURES.items()}
    complete = [row for row in rows if all(row["topics"].values())]
    if not complete:
        kept, after = None, now
    else:
        kept = max(complete, key=lambda row: (len(row["groups"]), row["partitions"]))
        after = {of: kept[member] for of, member in _MEASURES.items()}
    return {
        "now": now,
        "shared": after,
        **{of: now[of] - after[of] for of in _MEASURES},
        "on": None if kept is None else kept["topics"],
    }


_MEASURES = {"topics": "topic_count", "partitions": "partitions", "replicas": "replicas"}
