"""What Connect demands of its three topics, and how they are created (KIP-115: never with fewer replicas).

Source: ``TopicAdmin``, ``KafkaTopicBasedBackingStore``.
"""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_share.admin import Admin, NewTopicRequest, TopicDescription
from connect_share.client import is_unknown_topic, is_unsupported
from connect_share.errors import (
    AuthorizationError,
    BrokerError,
    ConfigError,
    PartitionCountError,
    ReplicationFactorError,
    StoreClosedError,
    TopicMissingError,
    TopicNotCompactedError,
)
from connect_share.records import TopicType
from connect_share.worker_config.worker_config import TOPIC_PROPERTIES, WorkerConfig

_log = logging.getLogger(__name__)

CREATE_TIMEOUT_S: Final = 60.0
"""Java's ``default.api.timeout.ms``: how long a creation that cannot be satisfied yet is tried again."""

_FIRST_RETRY_S: Final = 0.1
_LAST_RETRY_S: Final = 1.0
# The broker may become able to do it: a replica's broker is starting, a controller is being elected.
_TRY_AGAIN: Final = frozenset({"INVALID_REPLICATION_FACTOR", "REQUEST_TIMED_OUT", "_TIMED_OUT", "NOT_CONTROLLER"})


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


def topic_spec(config: WorkerConfig, topic_type: TopicType) -> TopicSpec:
    """Give what a worker's file wants of one of its topics; the config topic always has one partition."""
    partitions, replication_factor = {
        TopicType.CONFIG: (1, config.config_storage_replication_factor),
        TopicType.OFFSET: (config.offset_storage_partitions, config.offset_storage_replication_factor),
        TopicType.STATUS: (config.status_storage_partitions, config.status_storage_replication_factor),
    }[topic_type]
    return TopicSpec(
        config.topic(topic_type), topic_type, partitions, replication_factor, config.topic_settings(topic_type)
    )


def ensure_topic(
    admin: Admin,
    spec: TopicSpec,
    *,
    timeout_s: float = CREATE_TIMEOUT_S,
    known: TopicDescription | None = None,
    stopping: threading.Event | None = None,
) -> bool:
    """Create a topic unless it exists, and make sure that an existing one can be used.

    A new topic has exactly the replicas asked for, all in sync, or this fails: too few live brokers is tried again until
    ``timeout_s`` is over.

    Args:
        admin: client of the cluster.
        spec: what is wanted.
        timeout_s: limit for the creation, retries included.
        known: description of the existing topic, if the caller has just asked for it.
        stopping: ends the wait for brokers when it is set.

    Returns:
        Whether it was created by this call.

    Raises:
        ReplicationFactorError: not enough brokers, or replicas that did not come into sync, in time.
        TopicNotCompactedError: an existing topic's ``cleanup.policy`` is not exactly ``compact``.
        PartitionCountError: an existing config topic has more than one partition.
        TopicMissingError: it does not exist and may not be created.
        StoreClosedError: ``stopping`` was set.
        ConfigError: the broker does not accept a topic setting of the worker file.
        BrokerError: anything else the cluster refused.
    """
    description = known or admin.describe_topics([spec.topic]).get(spec.topic)
    created = False
    if description is None:
        deadline_s = time.monotonic() + timeout_s
        outcome = _create(admin, spec, deadline_s, timeout_s, stopping or threading.Event())
        created = outcome is _Creation.CREATED
        if outcome is _Creation.EXISTS:
            description = _await_visible(admin, spec, deadline_s)
    if not created:
        description = description or admin.describe_topics([spec.topic]).get(spec.topic)
        check_cleanup_policy(admin, spec)
    if description is not None:
        check_partition_count(spec, len(description.partitions))
    return created


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
    try:
        configs = admin.topic_configs(spec.topic)
    except AuthorizationError:
        _log.info("The cleanup.policy of topic %s could not be verified: not allowed to describe it", spec.topic)
        return
    except BrokerError as exc:
        if is_unsupported(exc) or is_unknown_topic(exc):
            _log.info("The cleanup.policy of topic %s could not be verified", spec.topic)
            return
        raise
    policy = {part.strip().lower() for part in configs.get("cleanup.policy", "").split(",") if part.strip()}
    if policy and policy != {"compact"}:
        actual = ",".join(sorted(policy))
        raise TopicNotCompactedError(
            f"topic {spec.topic!r} of {spec.property_name} has to have cleanup.policy=compact but has {actual!r}, "
            f"which loses records sooner or later; set it with: kafka-configs --alter --entity-type topics "
            f"--entity-name {spec.topic} --add-config cleanup.policy=compact",
            topic=spec.topic,
        )


class _Creation(enum.Enum):
    CREATED = enum.auto()
    EXISTS = enum.auto()  # somebody was faster; the broker asked may not know it yet
    NOT_OURS = enum.auto()


def _create(admin: Admin, spec: TopicSpec, deadline_s: float, timeout_s: float, stopping: threading.Event) -> _Creation:
    configs = {name: value for name, value in spec.configs.items() if name != "cleanup.policy"}
    request = NewTopicRequest(
        spec.topic, spec.partitions, spec.replication_factor, {**configs, "cleanup.policy": "compact"}
    )
    pause_s, told = _FIRST_RETRY_S, False
    while True:
        remaining_s = deadline_s - time.monotonic()
        try:
            admin.create_topic(request, timeout_s=remaining_s)
        except AuthorizationError as exc:
            if admin.describe_topics([spec.topic]):
                return _Creation.NOT_OURS
            raise TopicMissingError(
                f"topic {spec.topic!r} of {spec.property_name} does not exist and may not be created: {exc}",
                topic=spec.topic,
            ) from exc
        except BrokerError as exc:
            if exc.name == "TOPIC_ALREADY_EXISTS":
                return _Creation.EXISTS
            if is_unsupported(exc):
                # As Connect does: hope that the topic is there already; if not, what follows says so.
                return _Creation.NOT_OURS
            if exc.name in ("INVALID_CONFIG", "POLICY_VIOLATION"):
                raise ConfigError(
                    f"topic {spec.topic!r} of {spec.property_name} cannot be created: {exc}",
                    property_name=spec.property_name,
                ) from exc
            if exc.name not in _TRY_AGAIN:
                raise
            if exc.name == "INVALID_REPLICATION_FACTOR" and not told:
                told = True
                _log.info(
                    "Topic %s needs %d brokers, %d are up; trying again for %.0f s",
                    spec.topic,
                    spec.replication_factor,
                    admin.broker_count(),
                    max(0.0, remaining_s),
                )
            if time.monotonic() + pause_s > deadline_s:
                if exc.name != "INVALID_REPLICATION_FACTOR":
                    raise
                raise _not_created(admin, spec, exc, timeout_s) from exc
            if stopping.wait(pause_s):
                raise StoreClosedError(f"stopped before topic {spec.topic} could be created") from exc
            pause_s = min(pause_s * 2, _LAST_RETRY_S)
        else:
            _await_in_sync(admin, spec, deadline_s)
            _log.info("Created topic %s with %d partitions", spec.topic, spec.partitions)
            return _Creation.CREATED


def _await_visible(admin: Admin, spec: TopicSpec, deadline_s: float) -> TopicDescription | None:
    """Wait until the brokers tell of a topic which the controller says exists."""
    pause_s = 0.01
    while True:
        description = admin.describe_topics([spec.topic]).get(spec.topic)
        if description is not None or time.monotonic() + pause_s > deadline_s:
            return description
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LAST_RETRY_S)


def _not_created(admin: Admin, spec: TopicSpec, error: BrokerError, timeout_s: float) -> ReplicationFactorError:
    name = spec.property_name.replace(".topic", ".replication.factor")
    return ReplicationFactorError(
        f"topic {spec.topic!r} could not be created with {spec.replication_factor} replicas within {timeout_s:.0f} s, "
        f"{admin.broker_count()} brokers are up; start more brokers or set {name} lower ({error.name}). "
        f"It is never created with fewer replicas",
        topic=spec.topic,
    )


def _await_in_sync(admin: Admin, spec: TopicSpec, deadline_s: float) -> None:
    """Wait for every replica: a broker that is registered but dead is granted as a replica."""
    pause_s = 0.01
    while True:
        description = admin.describe_topics([spec.topic]).get(spec.topic)
        partitions = description.partitions if description is not None else ()
        short = [
            partition.id
            for partition in partitions
            if partition.leader is None or len(partition.isr) < max(1, len(partition.replicas))
        ]
        if partitions and not short and (spec.partitions < 0 or len(partitions) == spec.partitions):
            return
        if time.monotonic() + pause_s > deadline_s:
            where = ", ".join(f"{spec.topic}[{partition}]" for partition in short) or spec.topic
            raise ReplicationFactorError(
                f"topic {spec.topic!r} was created, but not all replicas came into sync in time: {where}; "
                f"bring the brokers up, or delete the topic",
                topic=spec.topic,
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LAST_RETRY_S)
