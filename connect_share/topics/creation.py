"""Creating a topic: with the replicas asked for, all of them in sync, or not at all (KIP-115)."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import Final

from connect_share.admin import Admin, NewTopicRequest, TopicDescription
from connect_share.client import is_unsupported
from connect_share.errors import (
    AuthorizationError,
    BrokerError,
    ConfigError,
    ReplicationFactorError,
    StoreClosedError,
    TopicMissingError,
)
from connect_share.topics.spec import TopicSpec, check_cleanup_policy, check_partition_count

_log = logging.getLogger(__name__)

CREATE_TIMEOUT_S: Final = 60.0
"""Java's ``default.api.timeout.ms``: how long a creation that cannot be satisfied yet is tried again."""

_FIRST_RETRY_S: Final = 0.1
_LAST_RETRY_S: Final = 1.0
_LONGEST_TRY_S: Final = 10.0
TOO_FEW: Final = "INVALID_REPLICATION_FACTOR"
# These errors can pass: a replica's broker is starting, or a controller is being elected.
_TRY_AGAIN: Final = frozenset({TOO_FEW, "REQUEST_TIMED_OUT", "_TIMED_OUT", "NOT_CONTROLLER"})


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

    ``known`` is the description of the existing topic, if the caller has just asked for it. Setting ``stopping`` ends
    the wait for brokers. Return whether this call created it.

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
        created = _Attempt(admin, spec, timeout_s, stopping or threading.Event()).create()
    if not created:
        description = description or admin.describe_topics([spec.topic]).get(spec.topic)
        check_cleanup_policy(admin, spec)
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
    if error.name not in ("INVALID_CONFIG", "POLICY_VIOLATION"):
        return None
    return ConfigError(
        f"topic {spec.topic!r} of {spec.property_name} cannot be created: {error}", property_name=spec.property_name
    )


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
    deadline_s: float,
    stopping: threading.Event | None = None,
) -> None:
    """Wait for every replica of a new topic: on KRaft a broker that is registered but dead is granted as one, too.

    ``replicas`` and ``partitions`` are what it was asked to have; ``None`` and -1: whatever it was given.
    ``deadline_s`` is on the monotonic clock.

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
                f"topic {topic!r} was created with {fewest} replicas although {replicas} were asked for: this cluster "
                f"chose the number itself; set the replication factor to {fewest} to accept it, or delete the topic",
                topic=topic,
            )
        short = [partition for partition in found if partition.leader is None or partition.missing]
        if found and not short and partitions in (-1, len(found)):
            return
        if time.monotonic() + pause_s > deadline_s:
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
        self._timeout_s = timeout_s
        self._deadline_s = time.monotonic() + timeout_s
        self._stopping = stopping
        self._await_in_sync = partial(await_in_sync, admin, spec.topic, deadline_s=self._deadline_s, stopping=stopping)
        self._wanted: int | None = None
        self._is_logged = False

    def create(self) -> bool:
        """Return whether this created the topic, once the brokers know one that exists."""
        pause_s, unsure = _FIRST_RETRY_S, False
        while True:
            try:
                self._ask()
            except AuthorizationError as exc:
                if self._describe() is not None:
                    return False
                raise TopicMissingError(
                    f"topic {self._spec.topic!r} of {self._spec.property_name} does not exist and may not be created: "
                    f"{exc}",
                    topic=self._spec.topic,
                ) from exc
            except BrokerError as exc:
                if exc.name == "TOPIC_ALREADY_EXISTS":
                    if unsure:  # perhaps by our own request, whose answer did not arrive in time
                        self._await_in_sync(replicas=None)
                    self._await_visible()
                    return False
                if is_unsupported(exc):
                    # As Connect does: the topic may exist already; if not, the checks that follow fail.
                    return False
                self._check_passing(exc, pause_s)
                unsure = unsure or exc.name != TOO_FEW
                if self._stopping.wait(pause_s):
                    raise StoreClosedError(f"stopped before topic {self._spec.topic} could be created") from exc
                pause_s = min(pause_s * 2, _LAST_RETRY_S)
            else:
                self._await_in_sync(replicas=self._wanted, partitions=self._spec.partitions)
                _log.info("Created topic %s with %d partitions", self._spec.topic, self._spec.partitions)
                return True

    def _describe(self) -> TopicDescription | None:
        return self._admin.describe_topics([self._spec.topic]).get(self._spec.topic)

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
        left_s = min(_LONGEST_TRY_S, self._deadline_s - time.monotonic())
        self._admin.create_topic(creation_request(self._spec), timeout_s=left_s)

    def _check_passing(self, error: BrokerError, pause_s: float) -> None:
        """Raise what is final: an error that does not pass, or any once time is up."""
        refused = refused_setting(self._spec, error)
        if refused is not None:
            raise refused from error
        if error.name not in _TRY_AGAIN:
            raise error
        remaining_s = self._deadline_s - time.monotonic()
        if error.name == TOO_FEW and not self._is_logged:
            self._is_logged = True
            _log.info(
                "Topic %s needs %s brokers, %s up; trying again for %.0f s",
                self._spec.topic,
                "more" if self._wanted is None else self._wanted,
                counted(self._admin.broker_count()),
                max(0.0, remaining_s),
            )
        if remaining_s < pause_s:
            raise self._not_created(error) if error.name == TOO_FEW else error

    def _not_created(self, error: BrokerError) -> ReplicationFactorError:
        default = self._spec.replication_factor < 0
        count = "all" if self._wanted is None else str(self._wanted)
        replicas = f"{count} replicas (the brokers' default.replication.factor)" if default else f"{count} replicas"
        return ReplicationFactorError(
            f"topic {self._spec.topic!r} could not be created with {replicas} within {self._timeout_s:.0f} s, "
            f"{counted(self._admin.broker_count(), ' broker')} up; start more brokers or set "
            f"{self._spec.setting_name('replication.factor')} lower ({error.name}). "
            f"It is never created with fewer replicas",
            topic=self._spec.topic,
        )

    def _await_visible(self) -> None:
        """Wait until the brokers describe a topic which the controller says exists, or the deadline is over."""
        pause_s = 0.01
        while self._describe() is None and time.monotonic() + pause_s <= self._deadline_s:
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LAST_RETRY_S)
