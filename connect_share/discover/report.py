"""What was found as members for JSON; the text is made of the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connect_share.console import Group
from connect_share.discover.findings import KafkaFacts, obstacles, problems_of
from connect_share.discover.joining import Cluster
from connect_share.discover.survey import Discovered
from connect_share.model.records import TopicType

Row = dict[str, Any]


def members_of(discovered: Discovered) -> Row:
    """Return everything; names are stable."""
    clusters, kafka = discovered.joined.clusters, discovered.kafka
    group_ids = [_group_ids(cluster, clusters, kafka) for cluster in clusters]
    known = {group_id for ids in group_ids for group_id in ids.values() if group_id is not None}
    elsewhere = {group: kafka.members[group] for group in sorted(kafka.members) if group not in known}
    rows = []
    for cluster, ids in zip(clusters, group_ids, strict=True):
        prefixes = {str(group) for other in clusters if other is not cluster for group in other.groups if group}
        rows.append(
            {
                "topics": {kind.value: _topic_of(cluster, kind) for kind in TopicType},
                "connector_offset_topics": cluster.own_offsets,
                "groups": [_group_row(cluster, group, ids[group], kafka, elsewhere=bool(elsewhere)) for group in ids],
                "shared": cluster.is_shared,
                "confidence": _confidence(cluster, discovered),
                "why": {topic: discovered.found[topic].why for topic in _names(cluster)},
                "complete": not set(_names(cluster)) & set(discovered.not_whole),
                **_sizes(cluster, kafka),
                "problems": [finding.to_dict() for finding in problems_of(cluster, kafka)],
                "in_the_way": [finding.to_dict() for finding in obstacles(cluster, ids, prefixes)],
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
        "topics_looked_at": discovered.candidates,
        "notes": discovered.notes,
    }


def _topic_of(cluster: Cluster, kind: TopicType) -> str | None:
    return cluster.topics[kind].topic if kind in cluster.topics else None


def _names(cluster: Cluster) -> list[str]:
    return list(dict.fromkeys(role.topic for role in cluster.topics.values()))


def _confidence(cluster: Cluster, discovered: Discovered) -> str:
    found = {discovered.found[topic].confidence for topic in _names(cluster)}
    return "certain" if found == {"certain"} and not cluster.guessed else "likely"


def _group_ids(cluster: Cluster, clusters: Sequence[Cluster], kafka: KafkaFacts) -> dict[Group, str | None]:
    """Return the Connect group of each group: its id, and of the plain cluster the one with a worker that wrote there."""
    prefixes = {str(group) for each in clusters for group in each.groups if group is not None}
    ids: dict[Group, str | None] = {group: group for group in cluster.groups}
    if None in ids:
        workers = cluster.workers(None)
        candidates = sorted(kafka.members.keys() - prefixes)
        ids[None] = next((each for each in candidates if workers.intersection(kafka.members[each])), None)
    return ids


def _group_row(cluster: Cluster, group: Group, group_id: str | None, kafka: KafkaFacts, *, elsewhere: bool) -> Row:
    found = cluster.of_group(group)
    config = found.get(TopicType.CONFIG)
    live: int | None = len(kafka.members.get(group_id, ())) if group_id is not None else 0
    if group_id is None and elsewhere:
        live = None  # workers live whose topics are not known: they may be this cluster's
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
