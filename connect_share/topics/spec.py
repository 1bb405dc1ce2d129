"""One of the three topics as a worker wants it, and what makes an existing one useless.

Source: ``TopicAdmin``, ``KafkaTopicBasedBackingStore``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from connect_share.admin import Admin
from connect_share.client import is_unknown_topic, is_unsupported
from connect_share.errors import AuthorizationError, BrokerError, PartitionCountError, TopicNotCompactedError
from connect_share.records import TopicType
from connect_share.worker_config import TOPIC_PROPERTIES, TopicSet, WorkerConfig

_log = logging.getLogger(__name__)

_DEFAULT_PARTITIONS: Final = {TopicType.CONFIG: 1, TopicType.OFFSET: 25, TopicType.STATUS: 5}


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One of the three topics as a worker wants it.

    Attributes:
        partitions, replication_factor: used when the topic is created; -1 is the broker's default.
        configs: topic settings asked for at creation; ``cleanup.policy=compact`` always comes on top.
    """

    topic: str
    topic_type: TopicType
    partitions: int = 1
    replication_factor: int = 3
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def property_name(self) -> str:
        """Worker property that names the topic."""
        return TOPIC_PROPERTIES[self.topic_type]

    def setting_name(self, setting: str) -> str:
        """Worker property that gives a setting of the topic, such as ``config.storage.min.insync.replicas``."""
        return f"{self.property_name.removesuffix('topic')}{setting}"


def topic_spec(config: WorkerConfig, topic_type: TopicType) -> TopicSpec:
    """Return what a worker's file wants of one of its topics; the config topic always has one partition."""
    partitions, replication_factor = {
        TopicType.CONFIG: (1, config.config_storage_replication_factor),
        TopicType.OFFSET: (config.offset_storage_partitions, config.offset_storage_replication_factor),
        TopicType.STATUS: (config.status_storage_partitions, config.status_storage_replication_factor),
    }[topic_type]
    return TopicSpec(
        config.topic(topic_type), topic_type, partitions, replication_factor, config.topic_settings(topic_type)
    )


def topic_specs(topic_set: TopicSet, replication_factor: int | None = None) -> list[TopicSpec]:
    """Return what is wanted of each topic that is named: the worker file's counts and settings, or Connect's defaults.

    ``replication_factor`` wins over the worker file's; -1 is the brokers' default.
    """
    specs = [
        TopicSpec(topic_set.topics[topic_type], topic_type, partitions)
        if topic_set.worker is None
        else topic_spec(topic_set.worker, topic_type)
        for topic_type, partitions in _DEFAULT_PARTITIONS.items()
        if topic_type in topic_set.topics
    ]
    return specs if replication_factor is None else [replace(s, replication_factor=replication_factor) for s in specs]


def cleanup_policy(configs: Mapping[str, str]) -> frozenset[str]:
    """Return the ``cleanup.policy`` in a topic's settings, in lower case; empty if it cannot be seen."""
    return frozenset(part.strip().lower() for part in configs.get("cleanup.policy", "").split(",") if part.strip())


def check_partition_count(spec: TopicSpec, partitions: int) -> None:
    """Refuse a config topic with more than one partition.

    Raises:
        PartitionCountError: names topic, property and count.

    Source: ``KafkaConfigBackingStore.start``.
    """
    if spec.topic_type is TopicType.CONFIG and partitions > 1:
        raise PartitionCountError(
            f"topic {spec.topic!r} of {spec.property_name} has {partitions} partitions but has to be a single partition: "
            f"its records need one order; name another topic or create it anew with one partition",
            topic=spec.topic,
        )


def check_cleanup_policy(admin: Admin, spec: TopicSpec) -> None:
    """Refuse a topic that is not compacted; one whose policy cannot be seen is accepted, as Connect does.

    Raises:
        TopicNotCompactedError: names topic, property, required and actual policy.
        BrokerError: the broker did not answer.

    Source: ``TopicAdmin.verifyTopicCleanupPolicyOnlyCompact``.
    """
    check_known_policy(spec, admin.settings_of_topics([spec.topic])[spec.topic], admin.bootstrap_servers)


def check_known_policy(spec: TopicSpec, settings: Mapping[str, str] | BrokerError, bootstrap_servers: str) -> None:
    """Check as :func:`check_cleanup_policy` does, with settings that were read before, or the error of that read."""
    if isinstance(settings, AuthorizationError):
        _log.info("The cleanup.policy of topic %s could not be verified: not allowed to describe it", spec.topic)
        return
    if isinstance(settings, BrokerError):
        if is_unsupported(settings) or is_unknown_topic(settings):
            _log.info("The cleanup.policy of topic %s could not be verified", spec.topic)
            return
        raise settings
    policy = cleanup_policy(settings)
    if policy and policy != {"compact"}:
        actual = ",".join(sorted(policy))
        raise TopicNotCompactedError(
            f"topic {spec.topic!r} of {spec.property_name} has to have cleanup.policy=compact but has {actual!r}, "
            f"which loses records sooner or later; set it with: "
            f"{alter_command(bootstrap_servers, spec.topic, {'cleanup.policy': 'compact'})}",
            topic=spec.topic,
        )


def alter_command(bootstrap_servers: str, topic: str, changes: Mapping[str, str | None]) -> str:
    """Return the command with which Kafka's own tool changes settings of a topic; ``None`` takes one back.

    On a cluster with authentication it needs ``--command-config`` too.
    """
    values = {name: value for name, value in changes.items() if value is not None}
    added = ",".join(f"{name}=[{value}]" if "," in value else f"{name}={value}" for name, value in values.items())
    deleted = ",".join(name for name, value in changes.items() if value is None)
    words = ["kafka-configs", "--bootstrap-server", bootstrap_servers, "--alter", "--entity-type", "topics"]
    words += ["--entity-name", topic]
    words += ["--add-config", added] if added else []
    words += ["--delete-config", deleted] if deleted else []
    return " ".join(words)
