"""The creation of the three topics: a plan with reasons, differences of those that exist, then all or none."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from connect_share.errors import BrokerError, ReplicationFactorError
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import ALREADY_EXISTS, Deadline
from connect_share.kafka.create import (
    CREATE_TIMEOUT_S,
    LIFTS_FENCE,
    MIN_ISR,
    MUST_HOLD,
    POLICY_VIOLATION,
    TOO_FEW,
    UNCLEAN_ELECTION,
    TopicSpec,
    VettedSetting,
    accepted,
    broker_defaults,
    cleanup_policy,
    counted,
    creation_request,
    ensure_topic,
    is_fenced,
    number_of,
    refuse_illegal,
    refused_setting,
    stops_with_one_broker,
    vetted_settings,
)
from connect_share.kafka.descriptions import TopicDescription
from connect_share.kafka.waits import longest_wait_s
from connect_share.model.records import TopicType

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """A difference of an existing topic from how it would be created.

    Attributes:
        matters: records can be lost, or workers do not start or stop writing.
    """

    what: str
    wanted: str
    actual: str
    matters: bool

    def __str__(self) -> str:
        return f"{self.what} is {self.actual}, wanted {self.wanted}"


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """One topic of the set.

    Attributes:
        settings: all of those in ``spec``, with their reasons.
        given_up: settings that the cluster refuses; it gets its own values there.
        replicas: it would have; ``None``: the brokers' default, which may not be seen.
    """

    spec: TopicSpec
    settings: tuple[VettedSetting, ...]
    replicas: int | None
    exists: bool
    differences: tuple[TopicDifference, ...] = ()
    given_up: tuple[VettedSetting, ...] = ()

    @property
    def usable(self) -> bool:
        """It does not exist yet, or differs in nothing that matters."""
        return not any(difference.matters for difference in self.differences)

    def to_dict(self) -> dict[str, Any]:
        """Return the members for JSON."""
        return {
            "topic": self.spec.topic,
            "type": self.spec.topic_type.value,
            "exists": self.exists,
            "partitions": None if self.spec.partitions < 0 else self.spec.partitions,
            "replication_factor": self.replicas,
            "settings": [asdict(replace(each, value=each.shown_value)) for each in self.settings],
            "given_up": [asdict(replace(each, value=each.shown_value)) for each in self.given_up],
            "differences": [asdict(difference) for difference in self.differences],
        }


def plan_topics(
    admin: Admin, specs: Sequence[TopicSpec], known: Mapping[str, TopicDescription] | None = None
) -> tuple[PlannedTopic, ...]:
    """Find out what there is, if the caller has not just asked, and what would be made; changes nothing."""
    described = admin.describe_topics(spec.topic for spec in specs) if known is None else known
    default, largest = broker_defaults(admin)
    planned = []
    for spec in specs:
        replicas = spec.replication_factor if spec.replication_factor > 0 else default
        settings = vetted_settings(spec, replicas, largest)
        complete = replace(spec, configs={setting.name: setting.value for setting in settings})
        existing = described.get(spec.topic)
        if existing is None:
            refuse_illegal(spec, complete.configs, replicas)
            complete = _validated(admin, complete, [each.name for each in settings if each.from_worker_file])
        differences = () if existing is None else _differences(admin, spec, replicas, existing)
        kept = tuple(each for each in settings if each.name in complete.configs)
        given_up = tuple(each for each in settings if each not in kept)
        planned.append(PlannedTopic(complete, kept, replicas, existing is not None, differences, given_up))
    return tuple(planned)


def missing_brokers(admin: Admin, planned: Sequence[PlannedTopic]) -> tuple[int, int] | None:
    """Return how many brokers are up and how many are needed, if more are needed."""
    needed = max((topic.replicas or 1 for topic in planned if not topic.exists), default=0)
    up = admin.broker_count()
    return (up, needed) if up < needed else None


def create_planned(admin: Admin, planned: Sequence[PlannedTopic]) -> list[str]:
    """Make the topics that do not exist, wait until all replicas are in sync, and return their names.

    Raises:
        ReplicationFactorError: brokers were missing until the time was over; nothing was created then.
        TopicError, BrokerError: as :func:`~connect_share.kafka.create.ensure_topic`.
    """
    deadline = Deadline.after(longest_wait_s(CREATE_TIMEOUT_S))
    missing = sorted((topic for topic in planned if not topic.exists), key=lambda topic: -(topic.replicas or 0))
    for topic in missing:
        for setting in topic.given_up:
            _log.warning("Topic %s: %s", topic.spec.topic, setting.given_up)
    stopping = threading.Event()
    with ThreadPoolExecutor() as pool:
        try:
            # Side by side; those with the most replicas first: if brokers are missing, none is created.
            most = sum(topic.replicas == missing[0].replicas for topic in missing)
            specs = [topic.spec for topic in missing]
            make = partial(ensure_topic, admin, stopping=stopping)
            made = [*pool.map(partial(make, timeout_s=deadline.timeout_s), specs[:most])]
            made += pool.map(partial(make, timeout_s=deadline.remaining_s(1.0)), specs[most:])
        except BaseException:
            stopping.set()
            raise
    return [spec.topic for spec, is_new in zip(specs, made, strict=True) if is_new]


def too_few_brokers(up: int, needed: int) -> ReplicationFactorError:
    """Return the error that brokers are missing."""
    return ReplicationFactorError(
        f"{needed} replicas need {needed} brokers and {counted(up)} up; start more brokers or ask for "
        f"fewer replicas with --replication-factor"
    )


def _validated(admin: Admin, spec: TopicSpec, own: Collection[str]) -> TopicSpec:
    """Let the brokers validate the settings, and give up those that they refuse; ``own`` ones are the worker file's.

    Whether there are enough brokers is checked later.
    """
    for tried in (spec, replace(spec, replication_factor=1)):
        try:
            admin.create_topic(creation_request(tried), validate_only=True)
        except BrokerError as exc:
            if exc.name == TOO_FEW:
                continue  # brokers check the number of replicas first; the settings may be wrong too
            if exc.name == POLICY_VIOLATION:
                if tried is spec:
                    return accepted(admin, spec, MUST_HOLD.intersection(own) | {"cleanup.policy"}) or spec
            elif exc.name != ALREADY_EXISTS:
                raise refused_setting(spec, exc) or exc from exc
        break
    return spec


def _differences(
    admin: Admin, spec: TopicSpec, replicas: int | None, existing: TopicDescription
) -> tuple[TopicDifference, ...]:
    actual = admin.topic_configs(spec.topic)
    found = []
    policy = cleanup_policy(actual)
    if policy != {"compact"}:
        now = ",".join(sorted(policy)) or "-"
        fenced = spec.topic_type is TopicType.CONFIG and is_fenced(actual)
        now = f"{now}, as the old side of a move: {LIFTS_FENCE}" if fenced else now
        found.append(TopicDifference("cleanup.policy", "compact", now, True))
    partitions = len(existing.partitions)
    if spec.partitions not in (-1, partitions):
        found.append(
            TopicDifference("partitions", str(spec.partitions), str(partitions), spec.topic_type is TopicType.CONFIG)
        )
    has = existing.fewest_replicas
    if replicas is not None and has != replicas:
        found.append(TopicDifference("replicas", str(replicas), str(has), has < replicas))
    return (*found, *setting_differences(spec, replicas, actual, has=has))


def setting_differences(
    spec: TopicSpec, replicas: int | None, actual: Mapping[str, str], *, has: int | None = None
) -> tuple[TopicDifference, ...]:
    """Compare an existing topic's settings with those that it would be made with; all commands judge by this.

    ``replicas`` is ``None`` if not known; ``min.insync.replicas`` is not compared then. ``has`` is the number of
    replicas of the partition with the fewest.
    """
    found = []
    for setting in vetted_settings(spec, replicas, number_of(actual, "max.message.bytes")):
        name, now = setting.name, actual.get(setting.name, "-")
        if name == "cleanup.policy" or setting.is_met_by(now):
            continue
        stops = name == MIN_ISR and stops_with_one_broker(now, has or 0)
        loses = name == UNCLEAN_ELECTION and now == "true"
        shown = replace(setting, value=now).shown_value
        found.append(TopicDifference(name, setting.shown_value, shown, stops or loses))
    return tuple(found)
