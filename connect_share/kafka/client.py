"""The only door to confluent-kafka: clients with forced settings, deadlines, errors and messages translated once."""

from __future__ import annotations

import contextlib
import logging
import operator
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
    libversion,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from connect_share.errors import (
    AuthorizationError,
    BrokerError,
    BrokerTimeoutError,
    BrokerUnavailableError,
    ConfigError,
    FencedError,
    UsageError,
    refusal,
)
from connect_share.kafka.callbacks import callback, uninterrupted
from connect_share.kafka.waits import CHANGES
from connect_share.model.records import Headers, Record, quick_record
from connect_share.worker_config import ClientSettings, Isolation
from connect_share.worker_config.secret_values import is_secret_property


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point of the monotonic clock, handed down to each step that has to end by then.

    Attributes:
        timeout_s: the seconds that all steps have together, for texts.
        clock: gives the time now.
    """

    timeout_s: float
    at_s: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> Self:
        """Return the deadline so many seconds from now; what is no such number would fail somewhere on the way."""
        if not isinstance(timeout_s, int | float) or not timeout_s <= threading.TIMEOUT_MAX:
            raise UsageError(f"a time limit has to be a number of seconds, not {timeout_s}")
        return cls(timeout_s, clock() + timeout_s, clock)

    def remaining_s(self, at_least_s: float = 0.0) -> float:
        """Return the seconds that are left, and never less than ``at_least_s``."""
        return max(at_least_s, self.at_s - self.clock())

    def is_within(self, seconds: float = 0.0) -> bool:
        """Return whether it is over in so many seconds from now."""
        return self.clock() + seconds > self.at_s


T = TypeVar("T")

_log = logging.getLogger(__name__)


class _LibraryLog:
    """Logs the C library's own lines at DEBUG: what matters comes back as an error, and a dead broker is repeated."""

    _log = logging.getLogger(__name__ + ".librdkafka")

    @callback
    def log(self, level: int, text: str, *arguments: object) -> None:
        if arguments and arguments[0] == "CONF":
            # With debug=conf the library writes down its settings, and hides fewer of them than it should.
            arguments = tuple(_SETTING.sub(_hidden, str(argument)) for argument in arguments)
        self._log.debug("[%s] " + text, logging.getLevelName(level), *arguments)


def _hidden(setting: re.Match[str]) -> str:
    return f"{setting[1]} = [hidden]" if is_secret_property(setting[1]) else setting[0]


_library_log: Any = _LibraryLog()
_SETTING: Final = re.compile(r"([a-z.]+) = .*", re.DOTALL)

TRANSACTION_TIMEOUT_MS: Final = "60000"  # Java's default, and librdkafka's
# In a longer flush the library goes on after a fatal error, and hands out acknowledgements with the exception still set:
# the callback then ends with SystemError.
_FLUSH_ROUND_S: Final = 0.1
_QUEUE_FULL_S: Final = 0.1
_FENCED_AT_ONCE: Final = 8  # each takes a client of its own, and a fifth of a second of waiting
_PURGED_S: Final = 5.0  # returns at once; nothing else ends the futures, however slow the machine is
_NAMED_PROPERTY: Final = re.compile(r'property:? "([^"]+)"')

# Settings that no caller may change, with the reason.
_EVERY_CLIENT: Final[Mapping[str, str]] = {
    "log.connection.close": "false",  # idle connections come and go; that is not news
}
_CONSUMER: Final[Mapping[str, str]] = {
    "enable.auto.commit": "false",  # progress is the log itself; a committed offset would be a second truth
    "enable.auto.offset.store": "false",
    "allow.auto.create.topics": "false",  # a missing topic is an error, not an invitation
}
_CONSUMER_DEFAULTS: Final[Mapping[str, str]] = {
    "auto.offset.reset": "error",  # an offset out of range means lost records, never "start again"
}
_PRODUCER: Final[Mapping[str, str]] = {
    "partitioner": "murmur2_random",  # where Java puts keys; elsewhere compaction never merges the copies
    "acks": "all",  # an acknowledged record survives the loss of a broker
    "message.max.bytes": "104857600",  # the topic's max.message.bytes decides, not this client
}
_PLAIN_PRODUCER: Final[Mapping[str, str]] = {
    "enable.idempotence": "false",  # as Java's stores: works on brokers and ACLs without that right
    # As Java's. It does not keep the order where a request is sent again: see connect_share/log/writer.py.
    "max.in.flight.requests.per.connection": "1",
}
_IDEMPOTENT_PRODUCER: Final[Mapping[str, str]] = {
    "enable.idempotence": "true",  # a retried batch is written once
    "max.in.flight.requests.per.connection": "5",  # the most with which idempotence keeps the order
}
_PRODUCER_DEFAULTS: Final[Mapping[str, str]] = {
    "linger.ms": "0",  # every write is waited for; a worker file may say otherwise
    "message.timeout.ms": "0",  # as Java's delivery.timeout.ms of these stores: the caller's deadline decides
}

_AUTHORIZATION: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - the library names its own codes with an underscore
    }
)
_FENCED: Final = frozenset(
    {KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._FENCED, KafkaError.PRODUCER_FENCED}  # noqa: SLF001
)
_TIMEOUT: Final = frozenset(
    {
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
    }
)
_UNAVAILABLE: Final = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._SSL,  # noqa: SLF001
        KafkaError._DESTROY_BROKER,  # noqa: SLF001 - it was asked, and is not one of the brokers any more
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
    }
)
_RETRIABLE: Final = (
    _TIMEOUT
    | _UNAVAILABLE
    | frozenset(
        {
            KafkaError.LEADER_NOT_AVAILABLE,
            KafkaError.NOT_LEADER_FOR_PARTITION,
            KafkaError.REPLICA_NOT_AVAILABLE,
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError.NOT_COORDINATOR,
            KafkaError.NOT_CONTROLLER,
            KafkaError.NOT_ENOUGH_REPLICAS,
            KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            KafkaError.KAFKA_STORAGE_ERROR,
            KafkaError.FENCED_LEADER_EPOCH,
            KafkaError.UNKNOWN_LEADER_EPOCH,
            KafkaError.OFFSET_NOT_AVAILABLE,
            KafkaError.THROTTLING_QUOTA_EXCEEDED,
        }
    )
)
_RIGHTS: Final[Mapping[int, str]] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the principal lacks a right on the topic; workers need CREATE, DESCRIBE, "
    "DESCRIBE_CONFIGS, READ and WRITE",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the principal needs READ on the group, and to delete it DELETE",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the principal lacks a right on the cluster, such as CREATE or DESCRIBE",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the principal needs WRITE and DESCRIBE on the transactional id",
}


TopicRight = Literal["ALTER_CONFIGS", "CREATE", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"]
"""What an operation needs to be allowed to do with a topic: Kafka's own names."""


@callback
def _on_error(error: KafkaError) -> None:
    # Connection trouble; what matters comes back as the error of an operation.
    _log.debug("client error %s", error.name())


def consumer(
    settings: ClientSettings,
    *,
    client_id: str,
    isolation: Isolation,
    overrides: Mapping[str, str] | None = None,
) -> Consumer:
    """Make a consumer that stores no offsets by itself.

    A ``group.id`` in the settings is kept, else a private one is made up. ``overrides`` are further librdkafka settings,
    such as fetch sizes; forced settings win over them.
    """
    defaults = {"group.id": f"connect-share-{uuid.uuid4().hex[:12]}", **_CONSUMER_DEFAULTS}
    forced = {**_EVERY_CLIENT, **_CONSUMER, "client.id": client_id, "isolation.level": isolation.value}
    return _made(Consumer, {**defaults, **settings.properties, **(overrides or {}), **forced})


def producer(
    settings: ClientSettings,
    *,
    client_id: str,
    overrides: Mapping[str, str] | None = None,
    idempotent: bool = False,
    only_failures: bool = False,
    on_error: Callable[[KafkaError], None] | None = None,
) -> Producer:
    """Make a producer that places keys where Java does and waits for all replicas.

    With ``idempotent`` a retried batch is written once, for bulk writers; stores do without, as Java's, but where
    ``overrides`` have a ``transactional.id``. With ``only_failures`` the callback of a record is called only if the record
    was not delivered. ``on_error`` hears of connection trouble, while the client is polled.
    """
    CHANGES["clients"] += not idempotent  # else who writes counts what is acknowledged
    merged = {**_PRODUCER_DEFAULTS, **settings.properties, **(overrides or {})}
    forced: dict[str, str | bool] = {**_EVERY_CLIENT, **_PRODUCER, "client.id": client_id}
    if only_failures:
        forced["delivery.report.only.error"] = True
    forced.update(_IDEMPOTENT_PRODUCER if idempotent or "transactional.id" in merged else _PLAIN_PRODUCER)
    if "transactional.id" in merged and "socket.timeout.ms" in merged:
        # The library refuses a request that may outlast the transaction; Java lets the coordinator abort it.
        limit_ms = int(merged.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))
        forced["socket.timeout.ms"] = str(min(int(merged["socket.timeout.ms"]), limit_ms))
    return _made(Producer, {**merged, **forced}, on_error)


def produce(producer: Producer, deadline: Deadline, *record: Any, **more: Any) -> None:
    """Give ``Producer.produce`` a record; its queue may be full until the deadline, when ``BufferError`` is raised."""
    while True:
        try:
            producer.produce(*record, **more)
        except BufferError:
            if deadline.is_within():
                raise
            producer.poll(_QUEUE_FULL_S)
        else:
            producer.poll(0)
            return


def flush(producer: Producer, timeout_s: float) -> int:
    """Wait for acknowledgements, at most this long; return how many records are not acknowledged then.

    Raises:
        KafkaException: the client has a fatal error, such as a right that it lacks or another client with its id. Only the
            first call raises it.
    """
    deadline = Deadline.after(timeout_s)
    while True:
        left_s = deadline.remaining_s()
        left = int(producer.flush(min(left_s, _FLUSH_ROUND_S)))
        if not left or left_s <= _FLUSH_ROUND_S:
            return left


def give_up(producer: Producer) -> None:
    """Drop what a producer has queued or under way, and hand out that it was not delivered.

    Whoever lets a producer go calls this first. Where records were left in one that was fenced, librdkafka (2.16.0) freed
    memory twice, and the process was aborted some time later.
    """
    producer.purge()
    deadline = Deadline.after(_PURGED_S)
    while len(producer) and (left_s := deadline.remaining_s()):
        with contextlib.suppress(KafkaException):  # a fatal error, which only the first call raises
            flush(producer, left_s)


def fence(settings: ClientSettings, transactional_id: str, *, client_id: str, timeout_s: float = 30.0) -> None:
    """Take a transactional id over: its producer of before can write no more, its open transaction is aborted."""
    overrides = {"transactional.id": transactional_id, "transaction.timeout.ms": "10000"}
    try:
        producer(settings, client_id=client_id, overrides=overrides).init_transactions(timeout_s)
    except KafkaException as exc:
        raise translate(exc, f"fencing the transactional id {transactional_id}") from exc


def fence_together(fences: Iterable[Callable[[], object]], advance: Callable[[int], object] = lambda _: None) -> None:
    """Call what fences, several at a time; ``advance`` hears of each. After one that has failed no other begins."""
    with ThreadPoolExecutor(_FENCED_AT_ONCE, thread_name_prefix="fence") as pool:
        for _ in pool.map(operator.call, fences):
            advance(1)


def admin_client(
    settings: ClientSettings, *, client_id: str, on_error: Callable[[KafkaError], None] | None = None
) -> AdminClient:
    """Make an admin client. ``on_error`` hears of connection trouble, while the client is polled.

    Each stays in a list of ours until :func:`release_admin_clients`. librdkafka (2.16.0) aborts the process where a client
    ends in its own thread, the one that ends its futures, and Python's garbage collector may run in that thread.
    """
    release_admin_clients()
    made = _made(AdminClient, {**settings.properties, **_EVERY_CLIENT, "client.id": client_id}, on_error)
    _admin_clients.append(made)
    return made


_admin_clients: Final[list[object]] = [object()]
"""The first is no client: nothing else refers to it."""
_releasing: Final = threading.RLock()  # the garbage collector may close what holds a client while we look


def release_admin_clients() -> None:
    """End the admin clients that nothing refers to any more, unless this is a thread of librdkafka."""
    if isinstance(threading.current_thread(), threading._DummyThread):  # noqa: SLF001
        return
    with _releasing:
        unused = _unused_admin_clients()
    del unused  # outside of the lock: a client waits for its threads


def _unused_admin_clients() -> list[object]:
    listed = [*_admin_clients]
    least, *references = map(sys.getrefcount, listed)
    counted = zip(listed[1:], references, strict=True)
    # Not those that the garbage collector has let go of meanwhile, in a call inside this one.
    unused = [made for made, count in counted if count == least and made in _admin_clients]
    for made in unused:
        _admin_clients.remove(made)
    return unused


def _made(
    kind: Callable[..., T], properties: Mapping[str, str | bool], on_error: Callable[[KafkaError], None] | None = None
) -> T:
    """Construct a client; what the library says against a setting becomes a ``ConfigError`` without its value."""
    config: dict[str, Any] = {**properties, "error_cb": on_error or _on_error}
    for name, value in properties.items():
        if isinstance(value, str) and "\0" in value:  # the library would take what stands before it, as another id
            raise refusal(name, "has a zero byte in its value")
    try:
        return uninterrupted(lambda: kind(config, logger=_library_log))
    except KafkaException as exc:
        text = str(exc.args[0].str()).strip()
        named = _NAMED_PROPERTY.search(text)
        if named is None:
            raise ConfigError(f"the Kafka client refuses its settings: {text}") from exc
        name = named.group(1)
        # The library's own text has the value.
        if text.startswith("No such"):
            raise refusal(name, "is a setting neither of Java's clients nor of librdkafka") from None
        raise refusal(name, "has a value that the Kafka client does not take") from None


def is_end_of_partition(error: KafkaError) -> bool:
    """Return whether a message error only says that the partition's end was reached."""
    return bool(error.code() == KafkaError._PARTITION_EOF)  # noqa: SLF001


def is_fenced(error: KafkaException) -> bool:
    """Return whether an error says that another producer has taken over."""
    return error.args[0].code() in _FENCED


def is_unsupported(error: BrokerError) -> bool:
    """Return whether the broker is too old for what was asked."""
    return error.name in ("UNSUPPORTED_VERSION", "_UNSUPPORTED_FEATURE")


UNKNOWN_TOPIC: Final = ("UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "_UNKNOWN_TOPIC")
"""Names of the errors of a broker, or of the client library, that does not know the topic."""
ALREADY_EXISTS: Final = "TOPIC_ALREADY_EXISTS"


def is_unknown_topic(error: BrokerError) -> bool:
    """Return whether the broker, or the client library, does not know the topic."""
    return error.name in UNKNOWN_TOPIC


# The library gives such headers with holes and an exception beside them. A call in Python's own loop does not look for
# that exception once the interpreter has specialised it, and who touches a hole crashes; a call from C always looks.
ask_headers: Final[Callable[[Message], Any]] = operator.methodcaller("headers")
"""Returns a message's headers in the library's own form, nothing for none; ``SystemError`` if a name is not UTF-8."""


def headers_of(message: Message) -> Headers | None:
    """Return a message's headers, ``None`` if a name is not UTF-8. Ask once: the library's second answer has holes."""
    try:
        headers = ask_headers(message)
    except SystemError:
        return None
    return tuple((str(header[0]), header[1]) for header in headers) if headers else ()


def to_whole_record(message: Message) -> Record:
    """Return the C library's message as a record with its headers, for code that carries, compares or measures it."""
    return to_record(message, headers_of(message))


def to_record(message: Message, headers: Headers | None = ()) -> Record:
    """Return the C library's message as a record, by default without headers: Connect has none. It must not be an error."""
    return quick_record(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        message.key(),
        message.value(),
        headers,
    )


def translate(
    error: KafkaError | KafkaException | BaseException,
    doing: str,
    needs: TopicRight | None = None,
    *,
    remedy: str | None = None,
) -> BrokerError:
    """Return an error of the client library as one of ours, to be raised ``from`` it; it has no record contents.

    ``doing`` is the operation with the topic, such as ``"reading topic configs"``; ``needs`` the right on the topic that it
    needs, named if that is missing; ``remedy`` is said instead of the usual one.
    """
    if isinstance(error, KafkaException):
        error = error.args[0] if error.args else error
    if not isinstance(error, KafkaError):
        return BrokerError(f"{doing} failed: {type(error).__name__}: {error}")
    code, name = int(error.code()), str(error.name())
    kind: type[BrokerError] = BrokerError
    usual = ""
    if code in _AUTHORIZATION:
        kind = AuthorizationError
        usual = _RIGHTS.get(code, "check user, password and sasl.mechanism")
        # Brokers give no producer id to who may write to no topic at all, and call it a right on the cluster.
        may_not_write = code == KafkaError.CLUSTER_AUTHORIZATION_FAILED and needs == "WRITE"
        if needs is not None and (code == KafkaError.TOPIC_AUTHORIZATION_FAILED or may_not_write):
            usual = f"the principal needs the right {needs} on the topic"
    elif code == KafkaError.MSG_SIZE_TOO_LARGE:
        usual = "make the record smaller, or raise max.message.bytes of the topic"
    elif code in _FENCED:
        kind, usual = FencedError, "another producer with the same transactional id has taken over"
    elif code in _TIMEOUT:
        kind, usual = BrokerTimeoutError, "check that the brokers are up and reachable from here"
    elif code in _UNAVAILABLE:
        kind, usual = BrokerUnavailableError, "check bootstrap.servers, security.protocol and the network"
    text = f"{doing} failed: {name} ({error.str()})"
    if what_to_do := remedy or usual:
        text = f"{text}; {what_to_do}"
    return kind(text, code=code, name=name, retriable=code in _RETRIABLE or bool(error.retriable()))


def library_versions() -> dict[str, str]:
    """Versions of the client library, for reports."""
    import confluent_kafka

    return {"confluent_kafka": str(confluent_kafka.__version__), "librdkafka": str(libversion()[0])}
