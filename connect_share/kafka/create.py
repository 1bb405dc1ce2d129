"""Creating a topic: with the replicas asked for, all of them in sync, or not at all (KIP-115).

What a topic must look like is here, too: the settings that a worker asks for, what makes an existing topic useless, and the
right settings of a shared topic, each with its reason. One that is gone while others of its set have records is lost, not
empty: nothing makes it anew unasked. Source: ``TopicAdmin``, ``KafkaTopicBasedBackingStore``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, NamedTuple

from connect_share.errors import (
    AuthorizationError,
    BrokerError,
    ConfigError,
    LostTopicError,
    PartitionCountError,
    ReplicationFactorError,
    StoreClosedError,
    TopicMissingError,
    TopicNotCompactedError,
    command_line,
    refusal,
)
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import ALREADY_EXISTS, Deadline, is_unknown_topic, is_unsupported
from connect_share.kafka.descriptions import NewTopicRequest, TopicDescription
from connect_share.kafka.waits import Awaited, longest_wait_s
from connect_share.model.records import TopicType
from connect_share.worker_config import TOPIC_PROPERTIES, ClientSettings, TopicSet, WorkerConfig
from connect_share.worker_config.secret_values import is_secret_property

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
TOMBSTONES_MS: Final = 86_400_000
"""Kafka's default of ``delete.retention.ms``, and our advice: a reader that pauses for less than a day misses no removal."""
_MIB: Final = 1 << 20
_SEGMENT_BYTES: Final = {TopicType.CONFIG: 16 * _MIB, TopicType.OFFSET: 8 * _MIB, TopicType.STATUS: 8 * _MIB}
SEGMENT_MS: Final = 3_600_000
DIRTY_RATIO: Final = 0.1
_AT_MOST: Final = frozenset({"segment.bytes", "segment.ms", "min.cleanable.dirty.ratio"})
"""The smaller, the sooner the cleaner comes; ``check startup`` advises less where a topic gains by it."""


@dataclass(frozen=True, slots=True)
class VettedSetting:
    """One topic setting; ``from_worker_file`` if the worker's file asks for it, which wins."""

    name: str
    value: str
    why: str
    from_worker_file: bool = False

    def is_met_by(self, actual: str) -> bool:
        """Return whether a topic with this value needs no change."""
        if self.name in _AT_MOST and not self.from_worker_file:
            with suppress(ValueError):
                return float(actual) <= float(self.value)
        return actual == self.value

    @property
    def shown_value(self) -> str:
        """The value for people; what could be a secret that ended up here by mistake is hidden."""
        return "[hidden]" if is_secret_property(self.name) else self.value

    @property
    def given_up(self) -> str:
        """What is said if the cluster refuses it."""
        return (
            f"{self.name}={self.shown_value} is refused by the cluster and left to it; what is lost by that: {self.why}"
        )


_POLICY: Final = VettedSetting(
    "cleanup.policy", "compact", "only the newest record of a key counts, and it is never deleted by age"
)
_SAME_FOR_ALL: Final = (
    VettedSetting(
        "segment.ms", str(SEGMENT_MS), "a topic with little traffic is compacted after an hour, too, not after a week"
    ),
    VettedSetting(
        "min.cleanable.dirty.ratio",
        str(DIRTY_RATIO),
        "compacted once a tenth is superseded: a start reads little more than what is valid; Kafka waits for half",
    ),
    VettedSetting(
        "delete.retention.ms", str(TOMBSTONES_MS), "removals stay readable for a day, for readers that paused"
    ),
    VettedSetting(UNCLEAN_ELECTION, "false", "no leader for a while is better than one without the last records"),
)


def safe_min_isr(replicas: int) -> int:
    """Return the ``min.insync.replicas`` with which one broker may fail: one less than the replicas."""
    return max(1, replicas - 1)


def stops_with_one_broker(min_isr: str, replicas: int) -> bool:
    """Return whether every write of a topic stops as soon as one of its several replicas is down."""
    return min_isr.isdigit() and replicas > 1 and int(min_isr) > safe_min_isr(replicas)


def vetted_settings(
    spec: TopicSpec, replicas: int | None, broker_max_message_bytes: int | None = None
) -> tuple[VettedSetting, ...]:
    """Return the settings of a new topic, the worker file's own included.

    If the replicas are not known, the brokers' ``min.insync.replicas`` is left alone.
    """
    largest = number_of(spec.configs, "max.message.bytes") or broker_max_message_bytes or 0
    segment_bytes = max(_SEGMENT_BYTES[spec.topic_type], largest)
    each = "" if spec.topic_type is TopicType.CONFIG else " in each partition"
    reason = f"the newest segment is never compacted and every start reads it whole{each}; Kafka's default is 1 GiB"
    settings = [_POLICY, VettedSetting("segment.bytes", str(segment_bytes), reason), *_SAME_FOR_ALL]
    if replicas is not None:
        why = f"acknowledged means on {safe_min_isr(replicas)} of {replicas} brokers, and one may fail without a stop"
        if replicas == 1:
            why = "with one replica there is nothing to choose"
        settings.append(VettedSetting(MIN_ISR, str(safe_min_isr(replicas)), why))
    own = {
        name: VettedSetting(name, value, spec.setting_name(name), from_worker_file=True)
        for name, value in sorted(spec.configs.items())
        if name != "cleanup.policy"
    }
    merged = [own.pop(setting.name, setting) for setting in settings]
    return (*merged, *own.values())


def refuse_illegal(spec: TopicSpec, settings: Mapping[str, str], replicas: int | None) -> None:
    """Refuse settings, all that a topic would get, that Kafka accepts and that fail later."""
    in_sync = number_of(settings, MIN_ISR)
    if in_sync is not None and replicas is not None and in_sync > safe_min_isr(replicas):
        effect = "every write would stop as soon as one broker is down"
        if in_sync > replicas:
            effect = "writes need more replicas than there are"
        raise refusal(
            spec.setting_name(MIN_ISR),
            f"is {in_sync} and topic {spec.topic!r} has {replicas} replica{'' if replicas == 1 else 's'}: {effect}; "
            f"set it to {safe_min_isr(replicas)}, or {spec.setting_name('replication.factor')} to {in_sync + 1}",
        )
    segment, largest = number_of(settings, "segment.bytes"), number_of(settings, "max.message.bytes")
    if segment is not None and largest is not None and segment < largest:
        raise refusal(
            spec.setting_name("segment.bytes"),
            f"is smaller than {spec.setting_name('max.message.bytes')}: the broker would refuse large records that fit "
            f"no segment; set it to {largest} at least",
        )


def number_of(settings: Mapping[str, str], name: str) -> int | None:
    """Return the value of a numeric setting; anything else is left for the broker to refuse."""
    text = settings.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() else None


_log = logging.getLogger(__name__)

_DEFAULT_PARTITIONS: Final = {TopicType.CONFIG: 1, TopicType.OFFSET: 25, TopicType.STATUS: 5}


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One of the three topics as a worker wants it.

    Attributes:
        partitions, replication_factor: used when the topic is created; -1 is the broker's default.
        configs: topic settings asked for at creation; ``cleanup.policy=compact`` always comes on top.
        automatic: a store makes the topic if it is missing (KIP-1209); commands that are asked to make it do so in any case.
    """

    topic: str
    topic_type: TopicType
    partitions: int = 1
    replication_factor: int = 3
    configs: Mapping[str, str] = field(default_factory=dict)
    automatic: bool = True

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
        config.topic(topic_type),
        topic_type,
        partitions,
        replication_factor,
        config.topic_settings(topic_type),
        automatic=config.internal_topics_automatic_creation_enable,
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


FENCE: Final[Mapping[str, str]] = {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of a config topic whose groups were moved away: Java workers and our stores end on it, and nothing is deleted.

They are set in one request: between two, records could be deleted.
"""
_FENCED_POLICY: Final = frozenset({"compact", "delete"})
FENCE_TEXT: Final = ", ".join(f"{name}={value}" for name, value in FENCE.items())
KEEPS_ALL: Final = {name: value for name, value in FENCE.items() if value == "-1"}
ONE_PARTITION: Final = (
    "export its groups, name a new config topic in their worker files, create topics --although-lost, restore --only config, "
    "check order"
)
LIFTS_FENCE: Final = (
    f"{command_line('connect-share-migrate', 'unseal', 'PLAN')} or rollback, with the plan of the move, lifts the fence"
)
OLD_TOPICS: Final = (
    "keep the old topics as long as rollback is to be possible, and as long as an old worker file is left: rollback and "
    "unseal need them, and an old worker that finds none makes empty ones; then delete them"
)


def is_fenced(configs: Mapping[str, str]) -> bool:
    """Return whether a topic has the settings of :data:`FENCE`."""
    return cleanup_policy(configs) == _FENCED_POLICY and KEEPS_ALL.items() <= configs.items()


class PolicyFault(NamedTuple):
    """Why no worker starts on a topic, or one does that should not, and what to do; ``kind`` is public."""

    kind: Literal["cleanup-policy", "fenced", "fence-lifted", "fence-deletes"]
    what: str
    remedy: str
    command: str | None


def policy_fault(
    topic_type: TopicType,
    topic: str,
    configs: Mapping[str, str],
    settings: ClientSettings,
    moved_by: str | None = None,
) -> PolicyFault | None:
    """Return what is wrong with the policy of a topic, as far as it can be seen; ``None``: it is compacted only.

    ``moved_by`` is the plan that has closed it. No command lifts a fence by mistake: what may be one is made whole.
    """
    alter = partial(alter_command, settings, topic)
    policy, keeps_all, close = cleanup_policy(configs), KEEPS_ALL.items() <= configs.items(), alter(FENCE)
    if policy and moved_by is not None and not is_fenced(configs):
        what = f"was closed to old workers by {moved_by}, and its settings were changed since"
        remedy = f"close it again: {close}"
        if policy == {"compact"}:
            return PolicyFault("fence-lifted", f"{what}: old workers start on it", remedy, close)
        happens = "it is compacted no more" if keeps_all else "its records are deleted by age or size"
        return PolicyFault("fence-deletes", f"{what}: no worker starts on it, but {happens}", remedy, close)
    if policy in ({"compact"}, set()):
        return None
    loses = "which compacts nothing" if keeps_all else "which loses records sooner or later"
    what = f"has cleanup.policy={','.join(sorted(policy))}"
    if topic_type is not TopicType.CONFIG or not (keeps_all or policy == _FENCED_POLICY):
        compact = alter({"cleanup.policy": "compact"})
        return PolicyFault("cleanup-policy", f"{what}, {loses}", compact, compact)
    remedy = f"if its group was moved away, start nothing here: {LIFTS_FENCE}"
    remedy += "; only if no move has fenced it, set cleanup.policy to compact"
    if is_fenced(configs):
        return PolicyFault("fenced", f"{what}, as the old side of a move: no worker starts on it", remedy, None)
    return PolicyFault("cleanup-policy", f"{what}, {loses}", f"let nothing be deleted: {close}; then, {remedy}", close)


def check_partition_count(spec: TopicSpec, partitions: int) -> None:
    """Refuse a config topic with more than one partition.

    Source: ``KafkaConfigBackingStore.start``.
    """
    if spec.topic_type is TopicType.CONFIG and partitions > 1:
        raise PartitionCountError(
            f"topic {spec.topic!r} of {spec.property_name} has {partitions} partitions but has to be a single partition: "
            f"its records need one order; name another topic or create it anew with one partition",
            topic=spec.topic,
        )


def check_cleanup_policy(
    admin: Admin, spec: TopicSpec, known: Mapping[str, str] | BrokerError | None = None, *, may_be_fenced: bool = False
) -> None:
    """Refuse a topic that is not compacted; one whose policy cannot be seen is accepted, as Connect does.

    ``known``: its settings as they were read before, or the error of that read. ``may_be_fenced``: accept a fenced config
    topic: no worker is to start on it now.

    Source: ``TopicAdmin.verifyTopicCleanupPolicyOnlyCompact``.
    """
    settings = admin.settings_of_topics([spec.topic])[spec.topic] if known is None else known
    if isinstance(settings, BrokerError):
        if not (isinstance(settings, AuthorizationError) or is_unsupported(settings) or is_unknown_topic(settings)):
            raise settings
        _log.info("The cleanup.policy of topic %s could not be verified: %s", spec.topic, settings)
        return
    fault = policy_fault(spec.topic_type, spec.topic, settings, admin.settings)
    if fault is not None and not (fault.kind == "fenced" and may_be_fenced):
        remedy = f"set it with: {fault.remedy}" if fault.remedy == fault.command else fault.remedy
        raise TopicNotCompactedError(
            f"topic {spec.topic!r} of {spec.property_name} has to have cleanup.policy=compact but {fault.what}; {remedy}",
            topic=spec.topic,
        )


def alter_command(settings: ClientSettings, topic: str, changes: Mapping[str, str | None]) -> str:
    """Return the command with which Kafka's own tool changes settings of a topic; ``None`` takes one back."""
    values = {name: value for name, value in changes.items() if value is not None}
    added = ",".join(f"{name}=[{value}]" if "," in value else f"{name}={value}" for name, value in values.items())
    deleted = ",".join(name for name, value in changes.items() if value is None)
    words = ["--add-config", added] if added else []
    words += ["--delete-config", deleted] if deleted else []
    return settings.kafka_tool("kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", topic, *words)


CREATE_TIMEOUT_S: Final = 60.0
"""Java's ``default.api.timeout.ms``: how long a creation that cannot be satisfied yet is tried again."""

_FIRST_RETRY_S: Final = 0.1
_LAST_RETRY_S: Final = 1.0
_LONGEST_TRY_S: Final = 10.0
TOO_FEW: Final = "INVALID_REPLICATION_FACTOR"
POLICY_VIOLATION: Final = "POLICY_VIOLATION"
# These errors can pass: a replica's broker is starting, or a controller is being elected.
_TRY_AGAIN: Final = frozenset({TOO_FEW, "REQUEST_TIMED_OUT", "_TIMED_OUT", "NOT_CONTROLLER"})


def ensure_topic(
    admin: Admin,
    spec: TopicSpec,
    *,
    timeout_s: float | None = None,
    known: TopicDescription | None = None,
    stopping: threading.Event | None = None,
    may_be_fenced: bool = False,
) -> bool:
    """Create a topic unless it exists, and make sure that an existing one can be used.

    A new topic has exactly the replicas asked for, all in sync, or this fails: too few live brokers is tried again until
    ``timeout_s`` is over.

    ``known`` is the description of the existing topic, if the caller has just asked for it. Setting ``stopping`` ends
    the wait for brokers; ``may_be_fenced`` as of :func:`check_cleanup_policy`. Return whether this call created it.

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
        attempt = _Attempt(admin, spec, timeout_s or longest_wait_s(CREATE_TIMEOUT_S), stopping or threading.Event())
        with Awaited(f"topic {spec.topic} to be created"):
            created = attempt.create()
    if not created:
        description = description or admin.describe_topics([spec.topic]).get(spec.topic)
        check_cleanup_policy(admin, spec, may_be_fenced=may_be_fenced)
    if description is not None:
        check_partition_count(spec, len(description.partitions))
    return created


def creation_request(spec: TopicSpec) -> NewTopicRequest:
    """Return the request to the controller; the topic is compacted whatever the settings say."""
    configs = {name: value for name, value in spec.configs.items() if name != "cleanup.policy"}
    return NewTopicRequest(
        spec.topic, spec.partitions, spec.replication_factor, {**configs, "cleanup.policy": "compact"}
    )


def refused_setting(spec: TopicSpec, error: BrokerError) -> ConfigError | None:
    """Turn the controller's refusal of a topic setting into an error about the worker file; ``None`` for other errors."""
    if error.name not in ("INVALID_CONFIG", POLICY_VIOLATION):
        return None
    return ConfigError(
        f"topic {spec.topic!r} of {spec.property_name} cannot be created: {error}", property_name=spec.property_name
    )


MUST_HOLD: Final = frozenset({"cleanup.policy", "max.message.bytes", MIN_ISR, UNCLEAN_ELECTION})
"""Of what a worker file asks for: without them records could be lost, or would be refused later."""


def accepted(admin: Admin, spec: TopicSpec, must_hold: Collection[str] = MUST_HOLD) -> TopicSpec | None:
    """Return a topic without the settings that the cluster refuses, as managed ones do; each is tried, nothing is made.

    ``None``: another one has made it meanwhile. ``ConfigError``: what must hold is refused, or it is not a setting that is.
    """
    kept = {name: value for name, value in spec.configs.items() if name in must_hold}
    others = [(name, value) for name, value in spec.configs.items() if name not in must_hold]
    for more in ({}, *({name: value} for name, value in others)):
        try:
            admin.create_topic(creation_request(replace(spec, configs={**kept, **more})), validate_only=True)
        except BrokerError as error:
            if error.name == ALREADY_EXISTS:
                return None
            refused = refused_setting(spec, error)
            if refused is None or not more:
                raise refused or error from error
        else:
            kept |= more
    return replace(spec, configs=kept)


def broker_defaults(admin: Admin) -> tuple[int | None, int | None]:
    """Return the brokers' replication factor and largest message in bytes, as far as they are known."""
    try:
        settings = admin.broker_settings()
    except AuthorizationError:
        return None, None
    return largest_setting(settings, "default.replication.factor"), largest_setting(settings, "message.max.bytes")


def largest_setting(settings: dict[int, dict[str, str]], name: str) -> int | None:
    """Return the largest value that a broker has for a number; they should all have the same."""
    values = [int(found[name]) for found in settings.values() if found.get(name, "").isdigit()]
    return max(values, default=None)


def counted(number: int, thing: str = "") -> str:
    """Return a count with its verb: ``1 broker is``, ``2 brokers are``."""
    return f"{number}{thing} is" if number == 1 else f"{number}{thing and thing + 's'} are"


def await_in_sync(
    admin: Admin,
    topic: str,
    *,
    replicas: int | None,
    partitions: int = -1,
    deadline: Deadline,
    stopping: threading.Event | None = None,
) -> None:
    """Wait for every replica of a new topic: on KRaft a broker that is registered but dead is granted as one, too.

    ``replicas`` and ``partitions`` are what it was asked to have; ``None`` and -1: whatever it was given.

    Raises:
        ReplicationFactorError: it has fewer replicas, or they did not come into sync in time; names the partitions.
        StoreClosedError: ``stopping`` was set.
    """
    stopping = stopping or threading.Event()
    pause_s = 0.01
    while True:
        description = admin.describe_topics([topic]).get(topic)
        found = description.partitions if description is not None else ()
        fewest = min((len(partition.replicas) for partition in found), default=0)
        if found and replicas is not None and fewest < replicas:
            raise ReplicationFactorError(
                f"topic {topic!r} was created with {fewest} of the {replicas} replicas that were asked for: this cluster "
                f"chose the number itself; set the replication factor to {fewest} to accept it, or delete the topic",
                topic=topic,
            )
        short = [partition for partition in found if partition.leader is None or partition.missing]
        if found and not short and partitions in (-1, len(found)):
            return
        if deadline.is_within(pause_s):
            where = ", ".join(f"{topic}[{partition.id}]" for partition in short) or topic
            missing = sorted({broker for partition in short for broker in partition.missing})
            brokers = f" on brokers {', '.join(map(str, missing))}" if missing else ""
            raise ReplicationFactorError(
                f"topic {topic!r} was created, but not all replicas came into sync in time: {where}{brokers}; "
                f"bring the brokers up, or delete the topic",
                topic=topic,
            )
        if stopping.wait(pause_s):
            raise StoreClosedError(f"stopped before topic {topic} had all its replicas")
        pause_s = min(pause_s * 2, _LAST_RETRY_S)


class _Attempt:
    """One topic that is to be created before a deadline."""

    def __init__(self, admin: Admin, spec: TopicSpec, timeout_s: float, stopping: threading.Event) -> None:
        self._admin = admin
        self._spec = spec
        self._deadline = Deadline.after(timeout_s)
        self._stopping = stopping
        self._await_in_sync = partial(await_in_sync, admin, spec.topic, deadline=self._deadline, stopping=stopping)
        self._wanted: int | None = None
        self._is_logged = False

    def create(self) -> bool:
        """Return whether this created the topic, once the brokers know one that exists."""
        pause_s, unsure = _FIRST_RETRY_S, False
        while True:
            try:
                self._ask()
            except AuthorizationError as exc:
                if self._await_visible():
                    return False
                raise TopicMissingError(
                    f"topic {self._spec.topic!r} of {self._spec.property_name} does not exist and may not be created: "
                    f"{exc}",
                    topic=self._spec.topic,
                ) from exc
            except BrokerError as exc:
                if exc.name == ALREADY_EXISTS:
                    if unsure:  # perhaps by our own request, whose answer did not arrive in time
                        self._await_in_sync(replicas=None)
                    self._await_visible()
                    return False
                if is_unsupported(exc):
                    # As Connect does: the topic may exist already; if not, the checks that follow fail.
                    return False
                self._check_passing(exc, pause_s)
                unsure = unsure or exc.name not in (TOO_FEW, POLICY_VIOLATION)
                if self._stopping.wait(pause_s):
                    raise StoreClosedError(f"stopped before topic {self._spec.topic} could be created") from exc
                pause_s = min(pause_s * 2, _LAST_RETRY_S)
            else:
                self._await_in_sync(replicas=self._wanted, partitions=self._spec.partitions)
                _log.info("Created topic %s with %d partitions", self._spec.topic, self._spec.partitions)
                return True

    def _await_visible(self) -> bool:
        """Return whether the brokers know the topic; they may hear of it later than the controller."""
        return bool(self._admin.describe_topics([self._spec.topic], expected=True))

    def _ask(self) -> None:
        """Ask for the topic unless brokers are missing: KRaft would count dead ones, and grant it."""
        if self._wanted is None:
            asked_for = self._spec.replication_factor
            self._wanted = asked_for if asked_for > 0 else broker_defaults(self._admin)[0]
        up = self._admin.broker_count()
        if self._wanted is not None and up < self._wanted:
            raise BrokerError(
                f"{self._wanted} replicas need as many brokers, {up} are up", name=TOO_FEW, retriable=True
            )
        # Not all of the time left: a broker that has just died never answers.
        left_s = min(_LONGEST_TRY_S, self._deadline.remaining_s())
        self._admin.create_topic(creation_request(self._spec), timeout_s=left_s)

    def _check_passing(self, error: BrokerError, pause_s: float) -> None:
        """Raise what is final: an error that does not pass, or any once time is up."""
        refused = refused_setting(self._spec, error)
        if refused is not None:
            spec = accepted(self._admin, self._spec) if error.name == POLICY_VIOLATION else self._spec
            if spec is None:
                return  # the next request will say so, too
            if spec.configs == self._spec.configs:
                raise refused from error
            names = ", ".join(sorted(self._spec.configs.keys() - spec.configs.keys()))
            _log.warning(
                "Topic %s is created without %s: the cluster refuses that, its own values hold", spec.topic, names
            )
            self._spec = spec
            return
        if error.name not in _TRY_AGAIN:
            raise error
        if error.name == TOO_FEW and not self._is_logged:
            self._is_logged = True
            _log.warning(
                "Topic %s needs %s brokers, %s up; trying again for %.0f s. With fewer brokers set %s",
                self._spec.topic,
                "more" if self._wanted is None else self._wanted,
                counted(self._admin.broker_count()),
                self._deadline.remaining_s(),
                self._spec.setting_name("replication.factor"),
            )
        if self._deadline.is_within(pause_s):
            raise self._not_created(error) if error.name == TOO_FEW else error

    def _not_created(self, error: BrokerError) -> ReplicationFactorError:
        default = self._spec.replication_factor < 0
        count = "all" if self._wanted is None else str(self._wanted)
        replicas = f"{count} replicas (the brokers' default.replication.factor)" if default else f"{count} replicas"
        return ReplicationFactorError(
            f"topic {self._spec.topic!r} could not be created with {replicas} within {self._deadline.timeout_s:.0f} s, "
            f"{counted(self._admin.broker_count(), ' broker')} up; start more brokers or set "
            f"{self._spec.setting_name('replication.factor')} lower ({error.name}). "
            f"It is never created with fewer replicas",
            topic=self._spec.topic,
        )


LOST: Final = "lost-topic"
ALTHOUGH_LOST: Final = "--although-lost"
GONE: Final = "does not exist, and other topics of its set have records"
LOSSES: Final = {
    TopicType.CONFIG: "connectors and tasks are defined there: without it the other topics are of no use",
    TopicType.STATUS: "what runs and what failed is said there, and workers write that before anything runs",
    TopicType.OFFSET: "the positions of source connectors are there: without it they begin anew; sinks have none",
}


def way_back(topic_type: TopicType) -> str:
    """Return the steps after which nothing is lost."""
    saved, given = "", ""
    if topic_type is TopicType.CONFIG:
        saved = "save what a worker that still runs has (GET /connectors?expand=info), then "
        given = ", and give them what was saved (PUT /connectors/NAME/config)"
    restore = command_line("connect-share", "restore", "BACKUP", "-w", "FILE", "--only", topic_type.value)
    create = command_line("connect-share", "create", "topics", "-w", "FILE", ALTHOUGH_LOST)
    return (
        f"if {TOPIC_PROPERTIES[topic_type]} names the right one, remove nothing: {saved}stop all workers on these topics; "
        f"put back a backup ({restore}), or, without one, make the topic ({create}); start the workers{given}"
    )


def lost_topics(lost: Mapping[TopicType, str], what: str = GONE, then: str = "") -> LostTopicError:
    """Return the error that names topics, and the way back; ``then`` is what is to be done behind that."""
    texts = [f"topic {topic} is lost, not empty: it {what}; {way_back(kind)}{then}" for kind, topic in lost.items()]
    return LostTopicError("; ".join(texts), topic=next(iter(lost.values())))


def require_none_lost(admin: Admin, topics: Mapping[TopicType, str]) -> dict[str, TopicDescription]:
    """Return the topics that exist; refuse to go on, such as to make one that does not, where another one has records."""
    described = admin.describe_topics(topics.values(), together=True)
    places = [(name, part.id) for name, topic in described.items() for part in topic.partitions]
    missing = {topic_type: topic for topic_type, topic in topics.items() if topic not in described}
    if missing and places:
        starts = admin.start_offsets(places)
        if any(end > starts[place] for place, end in admin.end_offsets(places).items()):
            raise lost_topics(missing)
    return described


def require_topics(
    admin: Admin, topics: Mapping[TopicType, str], wanted: Collection[TopicType] = (), *, expected: bool = False
) -> dict[str, TopicDescription]:
    """Return the topics of a set that are wanted, by default all; each has to exist, ``expected``: and was there before.

    Raises:
        LostTopicError: one does not, and another one has records.
        TopicMissingError: one does not; names the property.
    """
    described = admin.describe_topics((topics[each] for each in wanted or topics), expected=expected)
    if any(topics[each] not in described for each in wanted or topics):
        with suppress(AuthorizationError):  # of the other topics, which were not asked for
            described |= require_none_lost(admin, topics)
    for topic_type in wanted or topics:
        if (topic := topics[topic_type]) not in described:
            raise TopicMissingError(
                f"topic {topic} does not exist; check {TOPIC_PROPERTIES[topic_type]} and the cluster's address",
                topic=topic,
            )
    return described
