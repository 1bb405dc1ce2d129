"""The inspection of the topics that Connect clusters depend on, Kafka's own two included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from connect_share.admin import Admin, NewTopicRequest, TopicDescription
from connect_share.errors import AuthorizationError, BrokerError
from connect_share.records import TopicType
from connect_share.topics.creation import largest_setting
from connect_share.topics.findings import ClusterFacts, TopicFinding, WatchedTopic, find, plan_replicas
from connect_share.topics.reassignment import PartitionReplicas
from connect_share.topics.shared_set import TopicDifference, setting_differences
from connect_share.topics.spec import TopicSpec
from connect_share.topics.vetted import UNCLEAN_ELECTION

_OWN: Final = (
    (
        "__consumer_offsets",
        "offsets.topic.replication.factor",
        "all consumer groups wait without an error, those of sink connectors included",
    ),
    (
        "__transaction_state",
        "transaction.state.log.replication.factor",
        "no transaction can begin, those of exactly-once workers included",
    ),
)
"""Kafka's own topics: name, the brokers' setting for the replicas, the effect if it is missing."""


@dataclass(frozen=True)
class Inspection:
    """The result of :func:`inspect_topics`.

    Attributes:
        reassignment: partitions that should get other replicas.
        differences: of existing topics from how ``create topics`` would make them; none of them is a finding.
        notes: what could not be seen, for stderr.
    """

    topics: tuple[str, ...]
    findings: tuple[TopicFinding, ...]
    reassignment: tuple[PartitionReplicas, ...]
    differences: tuple[tuple[str, TopicDifference], ...] = ()
    notes: tuple[str, ...] = ()


def inspect_topics(admin: Admin, specs: Sequence[TopicSpec]) -> Inspection:
    """Check the topics of a worker, and ``__consumer_offsets`` and ``__transaction_state`` against the brokers' settings.

    Raises:
        BrokerError: not reachable, or not allowed to describe the topics.
    """
    notes: list[str] = []
    settings: dict[int, dict[str, str]] = {}
    try:
        settings = admin.broker_settings()
    except AuthorizationError as exc:
        notes.append(f"the replication factors that the brokers are set to were not checked: {exc}")
    for name in ("default.replication.factor", *(factor for _, factor, _ in _OWN)):
        values = {found.get(name) for found in settings.values()} - {None}
        if len(values) > 1:
            shown = ", ".join(f"{found.get(name)} on broker {broker}" for broker, found in sorted(settings.items()))
            notes.append(f"the brokers differ in {name} ({shown}); the largest is what is checked")
    watched = [_watched(spec, largest_setting(settings, "default.replication.factor")) for spec in specs]
    watched += [
        WatchedTopic(topic, largest_setting(settings, factor), factor, stops, "", internal=True)
        for topic, factor, stops in _OWN
    ]
    looked_at = tuple(topic.topic for topic in watched)
    facts, watched = _asked(admin, watched, notes)
    watched = [topic for topic in watched if not _granted_anyway(admin, facts, topic, notes)]
    findings, reassignment = find(facts, watched), plan_replicas(facts, watched)
    return Inspection(looked_at, findings, reassignment, tuple(_differences(facts, specs, watched)), tuple(notes))


def _differences(
    facts: ClusterFacts, specs: Sequence[TopicSpec], watched: Sequence[WatchedTopic]
) -> Iterator[tuple[str, TopicDifference]]:
    wanted = {topic.topic: topic.replicas for topic in watched}
    for spec in specs:
        if spec.topic in facts.configs:
            has = min((len(partition.replicas) for partition in facts.topics[spec.topic].partitions), default=0)
            for difference in setting_differences(spec, wanted.get(spec.topic), facts.configs[spec.topic], has=has):
                if not difference.matters:  # those that matter are among the findings
                    yield spec.topic, difference


def _watched(spec: TopicSpec, default: int | None) -> WatchedTopic:
    factor = spec.setting_name("replication.factor")
    return WatchedTopic(
        spec.topic,
        spec.replication_factor if spec.replication_factor > 0 else default,
        factor if spec.replication_factor > 0 else f"default.replication.factor ({factor} is -1)",
        "workers without the right to create topics will not start",
        "make it with connect-share create topics",
        single_partition=spec.topic_type is TopicType.CONFIG,
        unclean_wanted=spec.configs.get(UNCLEAN_ELECTION) == "true",
    )


def _asked(admin: Admin, watched: Sequence[WatchedTopic], notes: list[str]) -> tuple[ClusterFacts, list[WatchedTopic]]:
    """Return the brokers' answers, and the topics that can be judged by them."""
    topics: dict[str, TopicDescription] = {}
    configs: dict[str, dict[str, str]] = {}
    seen = []
    for topic in watched:
        try:
            topics.update(admin.describe_topics([topic.topic]))
            seen.append(topic)
            if topic.topic in topics:
                configs[topic.topic] = admin.topic_configs(topic.topic)
        except AuthorizationError as exc:
            if not topic.internal and topic not in seen:
                raise
            notes.append(f"{topic.topic} was checked only in part: {exc}")
    return ClusterFacts(admin.brokers(), topics, configs, admin.bootstrap_servers), seen


def _granted_anyway(admin: Admin, facts: ClusterFacts, watched: WatchedTopic, notes: list[str]) -> bool:
    """Return whether Kafka would create its own topic although brokers are missing: on KRaft dead ones count."""
    if not watched.internal or watched.topic in facts.topics or (watched.replicas or 0) <= len(facts.brokers):
        return False
    try:
        admin.create_topic(NewTopicRequest(watched.topic, 1, watched.replicas or -1), validate_only=True)
    except BrokerError:  # Kafka would not, or the request is not allowed
        return False
    notes.append(f"{watched.topic} does not exist; if it is needed now it gets replicas on brokers that are down")
    return True
