"""What is asked of the cluster: topics and their ids, offsets, settings, Connect groups.

A question is asked again while the answer may change, and fails with the reason when there is none: the client library
waits without a word where ``security.protocol`` does not fit the listener.
"""

from __future__ import annotations

import base64
import contextlib
import re
import socket
import ssl
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Self, TypeVar

from connect_share.errors import AuthorizationError, BrokerError, BrokerTimeoutError, BrokerUnavailableError
from connect_share.kafka import client
from connect_share.kafka.callbacks import uninterrupted
from connect_share.kafka.client import Deadline, TopicRight, admin_client, is_unknown_topic, translate
from connect_share.kafka.descriptions import (
    BrokerDescription,
    GroupMember,
    HeldRights,
    LogEnd,
    NewTopicRequest,
    PartitionDescription,
    TopicDescription,
    worker_id_of,
)
from connect_share.kafka.waits import ANSWER_S, CHANGES, Awaited, kept_admin, longest_wait_s
from connect_share.worker_config import ClientSettings, Isolation

_TIMEOUT_S: Final = 1.0
_AGAIN_S: Final = 0.3
_BROKER: Final = re.compile(r"(?:\A|//)([^\s/]+)/\d+: ")
"""How the library names a broker that has told its address; one of bootstrap.servers is ``.../bootstrap``."""
NO_ANSWER: Final = (
    "if they are, this may be no Kafka listener (Connect's REST API?), or one that wants a login: security.protocol SASL_SSL "
    "or SASL_PLAINTEXT"
)


def advice(error: client.KafkaError, bootstrap_servers: str) -> str | None:
    """Return what to do about an error of a connection; ``None``: nothing special is known."""
    name, text = str(error.name()), str(error.str())
    told = _BROKER.search(text)
    address = told[1] if told is not None else ""
    if address and name in ("_RESOLVE", "_TRANSPORT") and address not in bootstrap_servers.split(","):
        return (
            f"a broker answered, and {address}, the address that it tells its clients (advertised.listeners), cannot be "
            "reached from here: run this where it can, or use a listener that is made for clients outside"
        )
    if name == "_RESOLVE":
        return "no such host is known here: correct it in bootstrap.servers"
    if name == "_TRANSPORT" and "refused" in text:
        return "nothing listens there: correct the port in bootstrap.servers, or start the brokers"
    if name in ("_SSL", "_TRANSPORT") and "certificate" in text:
        return (
            "let ssl.truststore.location name a store with the certificate of the brokers' CA, and name the host as their "
            "certificates do"
        )
    if name == "_AUTHENTICATION" and "not valid in current SASL state" in text:
        return "this listener takes no login: set security.protocol to PLAINTEXT or SSL"
    if name == "_BAD_MSG":
        return "what listens there is no Kafka broker, or wants TLS"
    return None


def wrong_protocol(settings: ClientSettings) -> str | None:
    """Return how ``security.protocol`` has to be changed; ``None``: it may be right, or nothing listens.

    One TLS handshake, with the first address that takes a connection; nothing is sent, and no answer is trusted.
    """
    protocol = settings.properties.get("security.protocol", "plaintext").lower()
    wants_tls = protocol.endswith("ssl")
    for address in settings.bootstrap_servers.split(","):
        host, _, port = address.strip().rpartition("://")[2].rpartition(":")
        speaks_tls = _speaks_tls(host, int(port)) if port.isdigit() else None
        if speaks_tls is False and wants_tls:
            time.sleep(_AGAIN_S)  # a broker that is just going down ends handshakes too
            speaks_tls = _speaks_tls(host, int(port))
        if speaks_tls is (not wants_tls):
            speaks, use = ("plaintext", "PLAINTEXT, or SASL_PLAINTEXT") if wants_tls else ("TLS", "SSL, or SASL_SSL")
            return (
                f"security.protocol is {protocol.upper()} and {host}:{port} speaks {speaks}; set security.protocol to {use} "
                f"that needs a login"
            )
        if speaks_tls is not None:
            return None
    return None


def _speaks_tls(host: str, port: int) -> bool | None:
    """Try a handshake; ``None``: nothing listens, or it does not answer."""
    host = host.strip("[]")  # of an address of IPv6
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # who it is does not matter here
    with contextlib.suppress(OSError), socket.create_connection((host, port), _TIMEOUT_S) as raw:
        try:
            with context.wrap_socket(raw, server_hostname=host):
                return True
        except (ssl.SSLEOFError, ConnectionResetError, ssl.SSLZeroReturnError):
            return False  # as a broker does that reads the handshake as the length of a request
        except ssl.SSLError as error:
            # Any other is an answer in TLS, such as for a missing certificate.
            return error.reason != "WRONG_VERSION_NUMBER"
    return None


def note_trouble(trouble: deque[client.KafkaError], error: client.KafkaError) -> None:
    """Keep the newest error of a client's connections; it is forgotten with the next answer."""
    if error.name() != "_ALL_BROKERS_DOWN":  # all others were reported before that one
        trouble.append(error)


T = TypeVar("T")

FIRST_TRY_S: Final = 3.0
_FIRST_OF_ALL_S: Final = 1.5
_LONGEST_TRY_S: Final = 10.0
_RETRY_S: Final = 0.1
_FIRST_RETRY_S: Final = 0.01
"""A broker that has just been told of a new topic leads its partitions some ten milliseconds later."""
_GRACE_S: Final = 0.5
_LOOK_S: Final = 1.0
_PROTOCOL_S: Final = 3.0


def unanswered(doing: str, timeout_s: float) -> BrokerTimeoutError:
    """Return the error of a question to which no answer came."""
    return BrokerTimeoutError(f"{doing} failed: no answer within {timeout_s:g} s", name="_TIMED_OUT", retriable=True)


def result_of(
    future: Future[Any], doing: str, needs: TopicRight | None = None, *, missing_ok: bool = False, timeout_s: float
) -> Any:
    """Return the answer once it is there, with errors as ours; ``missing_ok``: ``None`` for a topic that does not exist."""
    try:
        # The library's own limit does not hold in every phase, such as the search for a leader without brokers, and a
        # client that is closed while a broker has its question never answers.
        return future.result(timeout_s + _GRACE_S)
    except TimeoutError as exc:
        raise unanswered(doing, timeout_s) from exc
    except client.KafkaException as exc:
        if missing_ok and exc.args[0].name() in client.UNKNOWN_TOPIC:
            return None
        raise translate(exc, doing, needs) from exc


_ISOLATION: Final = {
    Isolation.READ_UNCOMMITTED: client.IsolationLevel.READ_UNCOMMITTED,
    Isolation.READ_COMMITTED: client.IsolationLevel.READ_COMMITTED,
}
_EARLIEST: Final = client.OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final = client.OffsetSpec.latest()  # type: ignore[no-untyped-call]
_STALE_LEADER: Final = ("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "NOT_LEADER_FOR_PARTITION")

_SPREAD_S: Final = 5.0
"""A broker may hear of a topic so much later than another one; one with ZooKeeper that has just started took 2.2 s."""


def topic_id_text(uuid: Any) -> str | None:
    """Write a topic id as Kafka's own tools do; the client library prints another base64 alphabet."""
    if uuid is None:
        return None
    mask = (1 << 64) - 1
    high, low = int(uuid.get_most_significant_bits()) & mask, int(uuid.get_least_significant_bits()) & mask
    raw = high.to_bytes(8, "big") + low.to_bytes(8, "big")
    return None if raw == bytes(16) else base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


class Admin:
    """Admin client of one cluster; thread-safe.

    ``timeout_s`` is the limit of each call, retries of retriable errors included, by default that of the command that runs,
    else ``ANSWER_S``; some calls take one of their own, where the caller has a deadline. Every call raises
    ``BrokerError``: no broker is reachable, a topic that was named is missing, or the principal is not allowed to ask.
    """

    def __init__(self, settings: ClientSettings, *, client_id: str, timeout_s: float | None = None) -> None:
        self.bootstrap_servers: str = settings.bootstrap_servers
        self.settings = settings
        self._timeout_s = longest_wait_s(ANSWER_S) if timeout_s is None else timeout_s
        # The client refers to this, and not to us: it would keep us for ever, and we keep it.
        self._trouble: deque[client.KafkaError] = deque(maxlen=1)
        self._answered = False
        self._new_until_s: dict[str, float] = {}
        self._open: client.AdminClient | None = admin_client(
            settings, client_id=client_id, on_error=partial(note_trouble, self._trouble)
        )

    def __enter__(self) -> Self:
        return self

    def close(self, *_: object) -> None:
        """Let go of the connections; may be called twice."""
        self._open = None
        client.release_admin_clients()

    __exit__ = close

    @property
    def _client(self) -> client.AdminClient:
        """The client; another thread may close this at any moment."""
        if (found := self._open) is None:
            raise BrokerUnavailableError(f"the admin client of {self.bootstrap_servers} was closed")
        return found

    def _no_answer(self, error: BrokerError) -> BrokerError:
        """Return why there was no answer: the operation only knows that time is up, the connections know the reason."""
        self._client.poll(0)
        known = [*self._trouble]  # other threads note and forget it at any moment
        if not known:
            hint = "" if self._answered else f"; {NO_ANSWER}"
            text = f"no answer from {self.bootstrap_servers}: {error}{hint}"
            return type(error)(text, code=error.code, name=error.name, retriable=True)
        reason = translate(known[0], "connecting", remedy=advice(known[0], self.bootstrap_servers))
        refused = isinstance(reason, AuthorizationError)
        return (AuthorizationError if refused else BrokerUnavailableError)(
            f"no answer from {self.bootstrap_servers}: {reason}",
            code=reason.code,
            name=reason.name,
            retriable=not refused,
        )

    def _wrong_protocol(self, limit_s: float) -> str | None:
        """Return how ``security.protocol`` is wrong, if it is; asked in a thread, for names may take their time."""
        found: list[str | None] = []
        asking = threading.Thread(target=lambda: found.append(wrong_protocol(self.settings)), daemon=True)
        asking.start()
        asking.join(max(0.0, min(_PROTOCOL_S, limit_s)))
        return found[0] if found else None

    def _look_around(self, limit_s: float = _LOOK_S) -> None:
        """Ask any broker who is there.

        The library sends most calls to the controller, on KRaft to some broker that was named as such, and goes on waiting
        for that one when it has died.
        """
        with contextlib.suppress(client.KafkaException):  # the call itself says what is wrong
            uninterrupted(lambda: self._client.list_topics(timeout=max(0.1, min(_LOOK_S, self._timeout_s, limit_s))))

    def _retried(self, ask: Callable[[float], T], timeout_s: float | None = None) -> T:
        with Awaited(f"an answer of {self.bootstrap_servers}"):
            return self._asked(ask, timeout_s)

    def _asked(self, ask: Callable[[float], T], timeout_s: float | None) -> T:
        """Repeat a call until its deadline while it fails with an error that passes: brokers restart, leaders move.

        ``timeout_s`` is a caller's deadline. Without one, brokers of which none ever answered are given up earlier: the
        address may be wrong. So is, with or without, who is refused twice, trusts no certificate of theirs, or speaks another
        protocol than the listener.

        A first try is short, because it may wait for a broker that has died: see :meth:`_look_around`. It leaves time for a
        second one, however short the limit is: without a look around, every call would wait for the dead one again. The very
        first is shorter: the connections know what is wrong long before it ends.
        """
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = Deadline.after(limit_s)
        try_s = min(FIRST_TRY_S if self._answered else _FIRST_OF_ALL_S, limit_s / 2)
        cut_off = refused = unknown = 0
        last: client.KafkaError | None = None
        pause_s = _FIRST_RETRY_S
        while True:
            try:
                answer = ask(max(0.1, min(try_s, deadline.remaining_s())))
            except (BrokerTimeoutError, BrokerUnavailableError) as exc:
                if self._open is None:
                    raise
                error = self._no_answer(exc)
                seen, last = last, next(iter([*self._trouble]), None)
                untrusted = error.name in ("_SSL", "_TRANSPORT") and "certificate" in str(error)
                # The library says the same error of a connection only once: it stays the reason, and may have passed.
                refused = refused + (last is not seen) if untrusted or isinstance(error, AuthorizationError) else 0
                cut_off = cut_off + 1 if isinstance(exc, BrokerUnavailableError) else 0
                unknown = unknown + 1 if error.name == "_RESOLVE" else 0
                hopeless = timeout_s is None and not self._answered and max(cut_off, unknown) > 1
                explained = self._answered or refused or unknown
                if not explained and (mistake := self._wrong_protocol(deadline.remaining_s() / 2)):
                    raise BrokerUnavailableError(f"no answer from {self.bootstrap_servers}: {mistake}") from exc
                if refused > 1 or hopeless or deadline.is_within(_RETRY_S):
                    raise error from exc
                time.sleep(_RETRY_S)
                self._look_around(deadline.remaining_s() / 2)
                try_s = try_s if refused or unknown else min(2 * try_s, _LONGEST_TRY_S)
            except BrokerError as exc:
                if not exc.retriable or deadline.is_within(_RETRY_S):
                    raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _RETRY_S)
            else:
                self._answered = True
                self._trouble.clear()
                return answer

    def describe_topics(
        self, names: Iterable[str], *, expected: bool = False, together: bool = False, timeout_s: float | None = None
    ) -> dict[str, TopicDescription]:
        """Describe topics; those that do not exist are absent.

        A broker that has just started, or has old metadata, does not know topics that exist. Those that were there, which
        are ``expected``, are gone only when that was said for a while; so are those made ``together`` with one that is there.
        """
        wanted, answered_s = sorted(set(names)), 0.0
        found: dict[str, TopicDescription] = {}
        if not wanted:
            return found

        def ask(timeout_s: float) -> dict[str, TopicDescription]:
            nonlocal answered_s
            missing = client.TopicCollection([name for name in wanted if name not in found])
            futures = self._client.describe_topics(missing, request_timeout=timeout_s)
            for name, future in futures.items():
                description = result_of(
                    future, f"describing topic {name}", "DESCRIBE", missing_ok=True, timeout_s=timeout_s
                )
                if description is not None:
                    ordered = sorted(description.partitions, key=lambda partition: partition.id)
                    partitions = tuple(
                        PartitionDescription(
                            partition.id,
                            None if partition.leader is None or partition.leader.id < 0 else partition.leader.id,
                            tuple(node.id for node in partition.replicas),
                            tuple(node.id for node in partition.isr),
                        )
                        for partition in ordered
                    )
                    found[name] = TopicDescription(name, topic_id_text(description.topic_id), partitions)
            now_s = time.monotonic()
            answered_s = answered_s or now_s  # not when it was asked: the brokers may have been away
            doubted = (expected or (together and found)) and now_s - answered_s < _SPREAD_S
            for name in wanted:
                if name not in found and (doubted or self._new_until_s.get(name, 0) > now_s):
                    self._look_around(timeout_s)  # which leads to another broker
                    raise BrokerError(f"a broker does not know topic {name} yet", retriable=True)
            return found

        return self._retried(ask, timeout_s)

    def end_offsets(
        self,
        partitions: Iterable[tuple[str, int]],
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        *,
        timeout_s: float | None = None,
    ) -> dict[tuple[str, int], int]:
        """Return the end of each partition: the high watermark, or with read_committed the last stable offset."""
        return {at: end.offset for at, end in self.log_ends(partitions, isolation, timeout_s=timeout_s).items()}

    def log_ends(
        self,
        partitions: Iterable[tuple[str, int]],
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        *,
        timeout_s: float | None = None,
    ) -> dict[tuple[str, int], LogEnd]:
        """Return what :meth:`end_offsets` returns, with the epochs of the leaders."""
        return self._offsets(partitions, _LATEST, isolation, "end", timeout_s)

    def start_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the first offset kept of each partition."""
        found = self._offsets(partitions, _EARLIEST, Isolation.READ_UNCOMMITTED, "start")
        return {at: start.offset for at, start in found.items()}

    def bounds(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the first offset and the end of each partition; a topic is absent as soon as one broker does not know it."""
        starts = self._offsets(partitions, _EARLIEST, Isolation.READ_UNCOMMITTED, "start", expected=False)
        ends = self._offsets(starts, _LATEST, Isolation.READ_UNCOMMITTED, "end", expected=False)
        return {at: (starts[at].offset, end.offset) for at, end in ends.items()}

    def offsets_at(self, partitions: Iterable[tuple[str, int]], since_ms: int) -> dict[tuple[str, int], int]:
        """Return the first offset of each partition whose record is not older; partitions without one are absent."""
        spec = client.OffsetSpec.for_timestamp(since_ms)
        found = self._offsets(partitions, spec, Isolation.READ_UNCOMMITTED, "first recent")
        return {at: start.offset for at, start in found.items() if start.offset >= 0}

    def _offsets(
        self,
        partitions: Iterable[tuple[str, int]],
        spec: Any,
        isolation: Isolation,
        what: str,
        timeout_s: float | None = None,
        *,
        expected: bool = True,
    ) -> dict[tuple[str, int], LogEnd]:
        wanted = sorted(set(partitions))
        if not wanted:
            return {}
        spread = Deadline.after(_SPREAD_S if expected else 0.0)

        def ask(timeout_s: float) -> dict[tuple[str, int], LogEnd]:
            deadline = Deadline.after(timeout_s)
            if not self._answered:  # a client that is not connected yet may look for leaders only every three seconds
                self._cluster(timeout_s)
            futures = self._client.list_offsets(
                {client.TopicPartition(topic, partition): spec for topic, partition in wanted},
                isolation_level=_ISOLATION[isolation],
                request_timeout=deadline.remaining_s(0.1),
            )
            try:
                found = {}
                for at, future in futures.items():
                    doing = f"asking for the {what} offset of {at.topic}[{at.partition}]"
                    end = result_of(future, doing, "DESCRIBE", missing_ok=not expected, timeout_s=timeout_s)
                    if end is None:
                        continue
                    # librdkafka's, and no error, where the leader has not answered.
                    if end.offset == client.OFFSET_INVALID:
                        raise unanswered(doing, timeout_s)
                    epoch = end.leader_epoch
                    found[at.topic, at.partition] = LogEnd(end.offset, -1 if epoch is None else epoch)
            except BrokerError as exc:
                error = self._explained(exc, wanted, deadline.remaining_s(0.1))
                error.retriable = error.retriable or (is_unknown_topic(error) and not spread.is_within())
                raise error from exc
            return found

        return self._retried(ask, timeout_s)

    def _explained(self, error: BrokerError, partitions: Sequence[tuple[str, int]], timeout_s: float) -> BrokerError:
        """Return why no leader was found, which the client library calls ``_NOENT`` whatever the reason."""
        topics = {topic for topic, _ in partitions}
        if error.name in _STALE_LEADER:
            # The library would keep the leader, and the epoch, it knows for half a minute.
            for topic in topics:
                with contextlib.suppress(client.KafkaException):  # the next try says what is wrong
                    self._client.list_topics(topic, timeout=timeout_s)
        if error.name != "_NOENT":
            return error
        missing = sorted(topics - self.describe_topics(topics, timeout_s=timeout_s).keys())
        if missing:
            return BrokerError(f"{error}; topic {missing[0]} does not exist", code=3, name="UNKNOWN_TOPIC_OR_PART")
        return BrokerError(str(error), code=error.code, name="LEADER_NOT_AVAILABLE", retriable=True)

    def topic_configs(self, topic: str, *, own: bool = False) -> dict[str, str]:
        """Return the effective settings of a topic; ``own``: as :meth:`own_topic_configs`."""
        found = self.settings_of_topics([topic], own=own)[topic]
        if isinstance(found, BrokerError):
            raise found
        return found

    def own_topic_configs(self, topic: str) -> dict[str, str]:
        """Return the settings that were made for this topic; all others are the brokers' defaults."""
        return self.topic_configs(topic, own=True)

    def settings_of_topics(
        self, topics: Iterable[str], *, own: bool = False, expected: bool = True
    ) -> dict[str, dict[str, str] | BrokerError]:
        """Return the settings of several topics, asked for at once; for each that may not be read, why."""
        wanted = [client.ConfigResource(client.ResourceType.TOPIC, topic) for topic in sorted(set(topics))]
        if not wanted:
            return {}
        spread = Deadline.after(_SPREAD_S if expected else 0.0)

        def ask(timeout_s: float) -> dict[str, dict[str, str] | BrokerError]:
            found: dict[str, dict[str, str] | BrokerError] = {}
            answers = uninterrupted(lambda: self._client.describe_configs(wanted, request_timeout=timeout_s))
            for resource, future in answers.items():
                topic = str(resource.name)
                try:
                    doing = f"reading the settings of topic {topic}"
                    entries = result_of(future, doing, "DESCRIBE_CONFIGS", timeout_s=timeout_s)
                    found[topic] = _values(entries, own=own)
                except BrokerError as error:
                    error.retriable = error.retriable or (is_unknown_topic(error) and not spread.is_within())
                    if error.retriable:
                        raise
                    found[topic] = error
            return found

        return self._retried(ask)

    def broker_settings(self) -> dict[int, dict[str, str]]:
        """Return the effective settings of each broker that answers, by its id; secret ones are absent."""
        brokers = self.brokers()

        def ask(timeout_s: float) -> dict[int, dict[str, str]]:
            found: dict[int, dict[str, str]] = {}
            silent: BrokerError | None = None
            for broker in brokers:
                try:
                    found[broker.id] = self._settings_of_broker(broker.id, timeout_s)
                except (BrokerTimeoutError, BrokerUnavailableError) as exc:
                    silent = exc  # only this broker knows, and it may have died a moment ago
            if silent is not None and not found:
                raise silent
            return found

        return self._retried(ask)

    def _settings_of_broker(self, broker: int, timeout_s: float) -> dict[str, str]:
        resource = client.ConfigResource(client.ResourceType.BROKER, str(broker))
        answers = uninterrupted(lambda: self._client.describe_configs([resource], request_timeout=timeout_s))
        (future,) = answers.values()
        return _values(result_of(future, f"describing the settings of broker {broker}", timeout_s=timeout_s))

    def alter_topic_configs(
        self, topic: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Change settings of a topic, all of them or none; ``None`` takes a setting back to the brokers' default.

        What is not named stays as it is. Brokers may need a moment before they return the new values. With
        ``validate_only`` ask only whether they would be changed.

        Raises:
            BrokerError: not reachable, missing, not allowed, or a value that the broker does not take.
        """
        kinds = client.AlterConfigOpType
        entries = [
            client.ConfigEntry(name, value, incremental_operation=kinds.DELETE if value is None else kinds.SET)
            for name, value in changes.items()
        ]
        resource = client.ConfigResource(client.ResourceType.TOPIC, topic, incremental_configs=entries)

        def ask(timeout_s: float) -> None:
            answers = uninterrupted(
                lambda: self._client.incremental_alter_configs(
                    [resource], request_timeout=timeout_s, validate_only=validate_only
                )
            )
            (future,) = answers.values()
            doing = f"changing the settings of topic {topic}"
            result_of(future, doing, "ALTER_CONFIGS", timeout_s=timeout_s)

        CHANGES["topics"] += not validate_only
        if changes:
            self._retried(ask)

    def create_topic(
        self, request: NewTopicRequest, *, timeout_s: float | None = None, validate_only: bool = False
    ) -> None:
        """Ask for a new topic, once; with ``validate_only`` only whether it would be made.

        Raises:
            BrokerError: with Kafka's name for it, such as ``TOPIC_ALREADY_EXISTS`` or ``INVALID_REPLICATION_FACTOR``.
        """
        limit_s = self._timeout_s if timeout_s is None else max(timeout_s, 0.1)
        new = client.NewTopic(
            request.topic,
            num_partitions=request.partitions,
            replication_factor=request.replication_factor,
            config=dict(request.configs),
        )
        doing = f"creating topic {request.topic}"
        CHANGES["topics"] += not validate_only
        self._look_around()
        try:
            futures = uninterrupted(
                lambda: self._client.create_topics(
                    [new], operation_timeout=limit_s, request_timeout=limit_s, validate_only=validate_only
                )
            )
        except client.KafkaException as exc:
            raise translate(exc, doing, "CREATE") from exc
        result_of(futures[request.topic], doing, "CREATE", timeout_s=limit_s)
        if not validate_only:
            self._new_until_s[request.topic] = time.monotonic() + _SPREAD_S

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; those that do not exist are fine."""
        if names:
            self._look_around()
            limit_s = self._timeout_s
            futures = uninterrupted(
                lambda: self._client.delete_topics(
                    sorted(set(names)), operation_timeout=limit_s, request_timeout=limit_s
                )
            )
            for name, future in futures.items():
                self._new_until_s.pop(name, None)
                result_of(future, f"deleting topic {name}", "DELETE", missing_ok=True, timeout_s=limit_s)

    def topic_names(self) -> frozenset[str]:
        """Return the names of all topics one may see, Kafka's own included."""

        def ask(timeout_s: float) -> frozenset[str]:
            try:
                return frozenset(self._client.list_topics(timeout=timeout_s).topics)
            except client.KafkaException as exc:
                raise translate(exc, "asking for metadata") from exc

        return self._retried(ask)

    def connect_groups(self, group_id: str | None = None, *, timeout_s: float | None = None) -> dict[str, int]:
        """Return what :meth:`connect_members` returns, with the number of the members instead."""
        return {name: len(found) for name, found in self.connect_members(group_id, timeout_s=timeout_s).items()}

    def connect_members(
        self, group_id: str | None = None, *, timeout_s: float | None = None
    ) -> dict[str, tuple[GroupMember, ...]]:
        """Return the live members of the Connect groups that may be seen, or of just this one.

        Java workers form groups of protocol type ``connect``; calls about *consumer* groups hide them.

        Raises:
            BrokerError: not reachable, or a coordinator did not answer: then no member is known to be dead.
        """

        def ask(timeout_s: float) -> list[Any]:
            named = {} if group_id is None else {"group": group_id}
            try:
                groups = list(uninterrupted(lambda: self._list_groups(timeout=timeout_s, **named)))
            except client.KafkaException as exc:
                raise translate(exc, "listing Connect groups") from exc
            for group in groups:
                if group.error is not None:
                    error = translate(group.error, f"describing group {group.id}")
                    # Of all groups those of others are hidden, as they are without the right to list them.
                    if group_id is not None or not isinstance(error, AuthorizationError):
                        raise error
            return groups

        groups = self._retried(ask, timeout_s)
        return {
            str(group.id): tuple(
                GroupMember(
                    *(member.id, member.client_id, worker_id_of(member.metadata), group.protocol),
                    *(member.client_host.lstrip("/"), group.state, member.metadata or b"", member.assignment or b""),
                )
                for member in group.members
            )
            for group in groups
            if group.protocol_type == "connect"
        }

    def group_rights(self, group_ids: Iterable[str]) -> dict[str, HeldRights]:
        """Return what the principal may do with groups; of Connect groups with members only that it may see them."""
        ids = sorted(set(group_ids))

        def ask(timeout_s: float) -> dict[str, HeldRights]:
            asked = self._client.describe_consumer_groups(
                ids, include_authorized_operations=True, request_timeout=timeout_s
            )
            found = {}
            for name, future in asked.items():
                try:
                    group = result_of(future, f"describing group {name}", timeout_s=timeout_s)
                    found[name] = HeldRights.of(group.authorized_operations)
                except AuthorizationError:
                    found[name] = HeldRights()
                except BrokerError as error:
                    if error.name != "_INVALID_ARG":
                        raise
                    found[name] = HeldRights(frozenset({"DESCRIBE"}), complete=False)
            return found

        return self._retried(ask) if ids else {}

    def _list_groups(self, **arguments: Any) -> Any:
        try:
            return self._client.list_groups(**arguments)
        except (DeprecationWarning, ImportError):
            # The calls it recommends instead know consumer groups only. Where such a warning is an error it is silenced, but
            # not before: that is for all threads.
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "list_groups", DeprecationWarning)
                return self._client.list_groups(**arguments)

    def broker_count(self) -> int:
        """Return the number of brokers that are up."""
        return len(self._retried(self._cluster).nodes)

    def brokers(self) -> tuple[BrokerDescription, ...]:
        """Return the brokers that are up, by id; one that died counts until its session with the controller has ended."""
        nodes = sorted(self._retried(self._cluster).nodes, key=lambda node: node.id)
        return tuple(BrokerDescription(node.id, node.rack or None, (node.host, node.port)) for node in nodes)

    def cluster_id(self) -> str:
        """Return the id of the cluster."""
        return str(self._retried(self._cluster).cluster_id)

    def _cluster(self, timeout_s: float) -> Any:
        future = self._client.describe_cluster(request_timeout=timeout_s)
        return result_of(future, f"asking cluster {self.bootstrap_servers}", timeout_s=timeout_s)


def admin_for(settings: ClientSettings, client_id: str) -> contextlib.AbstractContextManager[Admin]:
    """Return an admin client for a block; while a command runs it is the same each time."""
    key = (client_id, frozenset(settings.properties.items()))
    return kept_admin(key, lambda: Admin(settings, client_id=client_id))


def _values(entries: Mapping[str, Any], *, own: bool = False) -> dict[str, str]:
    return {
        name: entry.value
        for name, entry in entries.items()
        if entry.value is not None and not (own and entry.source != client.ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    }
