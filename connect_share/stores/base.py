"""What the three stores have in common: one topic, one group's keys, one log that is followed."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Final, Literal, Protocol, TypedDict, TypeVar, Unpack

from connect_share.errors import ConfigError, ConnectShareError, NotStartedError, StoreClosedError
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Deadline
from connect_share.kafka.create import topic_spec
from connect_share.kafka.read import Reader
from connect_share.log.first_read import StartContext
from connect_share.log.kafka_based_log import KafkaBasedLog
from connect_share.log.memory import MemoryKafka
from connect_share.log.protocol import STOP_TIMEOUT_S, CompactedLog, RecordFeed, RecordMetadata
from connect_share.log.tail import OnFailed
from connect_share.log.threads import SafeFuture
from connect_share.model.fold import Fold
from connect_share.model.keys import ClusterGroupId, SkipKind, prefix_of
from connect_share.model.records import Record, TopicType, now_ms
from connect_share.worker_config import SHARING_PROPERTY, ClientSettings, WorkerConfig

_logger = logging.getLogger(__name__)

T = TypeVar("T")


class NotGiven(Enum):
    """Default of ``cluster_group_id``, because ``None`` says something: plain keys."""

    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return self.name


NOT_GIVEN: Final = NotGiven.NOT_GIVEN

GivenGroup = str | Literal[NotGiven.NOT_GIVEN] | None
"""A cluster group id, ``None`` for plain keys, or nothing said."""


def agreed_group(
    given: GivenGroup,
    own: ClusterGroupId | None,
    *,
    whose: str,
    other: str,
    argument: str = "cluster_group_id",
    optional: str = "cluster_group_id",
    property_name: str | None = None,
) -> ClusterGroupId | None:
    """Return ``own``, the group of what a call stands on, if the call does not say something else.

    ``whose`` says in the error what has that group, ``other`` what would have to be another one; ``argument`` is where the
    caller said it, ``optional`` what may be left out.

    Raises:
        ConfigError: ``given`` is another group, or plain keys where ``own`` is a group, or the reverse.
        InvalidClusterGroupIdError: ``given`` cannot be a cluster group id.
    """
    if isinstance(given, NotGiven):
        return own
    wanted = None if given is None else ClusterGroupId(given)
    if wanted != own:
        raise ConfigError(
            f"{argument}={wanted!r}, but {whose}: leave {optional} out, or use another {other}",
            property_name=property_name,
        )
    return own


def group_of_worker(
    worker_config: WorkerConfig,
    given: GivenGroup,
    *,
    argument: str = "cluster_group_id",
    optional: str = "cluster_group_id",
) -> ClusterGroupId | None:
    """Return the group of a worker file, as :func:`agreed_group`."""
    switch = "enabled" if worker_config.sharing_enabled else "disabled"
    return agreed_group(
        given,
        worker_config.cluster_group_id,
        whose=f"the worker file says {SHARING_PROPERTY}={switch} and group.id={worker_config.group_id!r}",
        other="worker file",
        argument=argument,
        optional=optional,
        property_name=SHARING_PROPERTY,
    )


LogFactory = Callable[[RecordFeed], CompactedLog]

REFRESH_TIMEOUT_S: Final = 30.0
FENCE_GUARD_S: Final = 30.0
"""How long a claim or a fencing waits for the write guard: those it would fence may be alive."""
# Connect sets delivery.timeout.ms of the config and offset producers to the largest int: a write waits as
# long as its caller does, and is never given up behind the caller's back. 0 is librdkafka's "no limit".
_ENDLESS_DELIVERY: Final = {"message.timeout.ms": "0"}
# The status store retries itself, because a status that is outdated meanwhile must not be written any more.
_NO_RETRIES: Final = {"message.send.max.retries": "0", "message.timeout.ms": "120000"}
# Java's default. A record larger than this is sent alone; the broker refuses whole batches, and librdkafka's
# batches of a megabyte would let one record too large for the topic take others with it.
_SMALL_BATCHES: Final = {"batch.size": "16384"}
# Only the leader's producer has transactions.
_NEVER_ORDINARY: Final = frozenset({"transactional.id", "transaction.timeout.ms"})

_CLIENT_SUFFIXES: Final = {
    TopicType.CONFIG: "configs",
    TopicType.STATUS: "statuses",
    TopicType.OFFSET: "offsets",
}


def kafka_based_log(
    worker_config: WorkerConfig,
    topic_type: TopicType,
    feed: RecordFeed,
    *,
    admin: Admin,
    context: StartContext | None = None,
    on_failed: OnFailed | None = None,
) -> KafkaBasedLog:
    """Make the log of one of the three topics, with the client settings Connect gives it.

    The policy of a topic whose facts are in ``context`` is checked by the caller.
    """
    producer = worker_config.producer_settings()
    ordinary = {name: value for name, value in producer.properties.items() if name not in _NEVER_ORDINARY}
    delivery = _NO_RETRIES if topic_type is TopicType.STATUS else _ENDLESS_DELIVERY
    return KafkaBasedLog(
        topic_spec(worker_config, topic_type),
        feed=feed,
        admin=admin,
        reader=Reader(
            worker_config.consumer_settings(),
            worker_config.client_id(_CLIENT_SUFFIXES[topic_type]),
            worker_config.isolation(topic_type),
        ),
        producer_settings=ClientSettings({**_SMALL_BATCHES, **ordinary, **delivery}),
        context=context or StartContext(),
        on_failed=on_failed,
    )


class WriteGuard(Protocol):
    """Called before anything is written; what it raises is raised by the write."""

    def __call__(self, within_s: float = 0.0, *, at_once: bool = False) -> None:
        """Refuse, or return.

        Args:
            within_s: how long it may ask; 0: what it knows counts, as for a write that is queued while brokers are away.
            at_once: only what it learns now will do, as before others are fenced.
        """


class StoreOptions(TypedDict, total=False):
    """Rare options of the three stores.

    Attributes:
        log: makes the log that feeds the store; by default a ``KafkaBasedLog`` on the topic.
        admin: shared with others and left open; by default one of the store's own.
        write_guard: called before anything is written; what it raises is raised by the write.
        kafka: where producers with transactions come from, if not from the client library.
    """

    log: LogFactory | None
    admin: Admin | None
    write_guard: WriteGuard | None
    kafka: MemoryKafka | None


class KafkaTopicBasedBackingStore:
    """A store over one compacted internal topic; the three stores derive from it.

    Source: ``KafkaTopicBasedBackingStore``.
    """

    _fold: Fold
    _state_lock: AbstractContextManager[Any]

    def __init__(
        self,
        worker_config: WorkerConfig,
        topic_type: TopicType,
        *,
        cluster_group_id: GivenGroup,
        **options: Unpack[StoreOptions],
    ) -> None:
        self._worker_config = worker_config
        self._topic_type = topic_type
        self._group = group_of_worker(worker_config, cluster_group_id)
        self._key_prefix = prefix_of(self._group)
        self._topic = worker_config.topic(topic_type)
        self._seals = worker_config.seals(topic_type)
        self._log_factory = options.get("log") or self._kafka_based_log
        self._shared_admin = options.get("admin")
        self._own_admin: Admin | None = None
        self._write_guard = options.get("write_guard")
        self._compacted_log: CompactedLog | None = None
        self._sent_again: dict[bytes, Future[RecordMetadata]] = {}
        self._insists = True
        self._was_started = False
        self._stopped = False
        self._lifecycle = threading.Lock()

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self._topic

    @property
    def cluster_group_id(self) -> ClusterGroupId | None:
        """Group whose keys are read and written, ``None`` for plain keys."""
        return self._group

    def positions(self) -> Mapping[int, int]:
        """Return the next offset to be read of each partition: the consumer's progress, foreign records included."""
        return self._log.positions()

    def skipped(self) -> dict[SkipKind, int]:
        """Count the records that changed nothing, by reason.

        Those of other groups are ``SkipKind.FOREIGN``, those that the group has not sealed ``SkipKind.REFUSED``.
        """
        with self._at_rest():
            counts = Counter(self._fold.skipped)
        if self._compacted_log is not None:
            counts[SkipKind.FOREIGN] += self._compacted_log.foreign_records
        counts[SkipKind.REFUSED] += self._seals.refused.total()
        counts[SkipKind.REPEATED] += self._seals.repeated
        return {kind: count for kind, count in counts.items() if count}

    def start(self) -> None:
        """Make sure of the topic and read it to its end.

        Raises:
            TopicError: the topic is missing or not as Connect demands.
            ReadToEndTimeoutError: the end was not reached in time.
            BrokerError: the cluster refused.
            ConfigError: a record of the group is sealed with a key that is not here.
        """
        _logger.info("Starting %s store on %s", self._topic_type.value, self.topic)
        with self._lifecycle:
            if self._stopped or self._was_started:
                raise self._started_before()
            self._was_started = True
            compacted_log = self.prepare()
        try:
            compacted_log.start()
            self._seals.end_start(insists=self._insists)
        except BaseException:
            self.stop()  # a store that did not start has nothing a caller could still use
            raise
        _logger.info("Started %s store on %s", self._topic_type.value, self.topic)

    def leave_keys_to_config(self) -> None:
        """Let the config store of the same worker say whether keys are missing, as where there are no other values."""
        self._insists = False

    def refresh(self, timeout_s: float = REFRESH_TIMEOUT_S) -> None:
        """Return once everything that is in the topic now was applied.

        Raises:
            ReadToEndTimeoutError: the end was not reached in time; a later call goes on from there.
            LogFailedError: the log died; stop this store and start another.
        """
        self._log.read_to_end(timeout_s)

    def restore(self, saved: Any) -> None:
        """Replace the state by a saved one, before the start; the log has to begin at the positions that were saved with it.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
            StoreClosedError: the store was started.
        """
        if self._compacted_log is not None:
            raise self._started_before()
        with self._state_lock:
            self._fold.restore(self._seals.restore(saved))

    def _started_before(self) -> StoreClosedError:
        return StoreClosedError(
            f"the {self._topic_type.value} store on {self.topic} was started before; make a new one"
        )

    def save(self, timeout_s: float) -> tuple[dict[int, int], Any]:
        """Return positions and the state at them, of one moment: all that was written before was applied.

        Raises:
            ReadToEndTimeoutError: not within ``timeout_s``.
            LogFailedError, StoreClosedError, NotStartedError: the store does not run.
        """
        return self._log.between_batches(lambda positions: (dict(positions), self.saved()), timeout_s)

    def saved(self) -> Any:
        """Return the state as plain values for JSON."""
        with self._state_lock:
            return self._seals.saved(self._fold.saved())

    def fail(self, error: BaseException) -> None:
        """End this store, as a failure of its log does: a thread on which it depends has ended."""
        if self._compacted_log is not None:
            self._compacted_log.fail(error)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what is under way, within ``timeout_s``, end the log's thread, close the clients; may be called twice."""
        deadline = Deadline.after(timeout_s)
        with self._lifecycle:
            self._stopped = True
            compacted_log, admin = self._compacted_log, self._own_admin
            self._own_admin = None
        try:
            if compacted_log is not None:
                compacted_log.stop(deadline.remaining_s())
        finally:
            if admin is not None:
                admin.close()

    @property
    def _log(self) -> CompactedLog:
        if self._stopped:
            raise StoreClosedError(f"the {self._topic_type.value} store on {self.topic} was stopped; make a new one")
        if self._compacted_log is None or not self._was_started:
            raise NotStartedError(f"the {self._topic_type.value} store on {self.topic} was not started; call start()")
        self._compacted_log.check_topic()
        return self._compacted_log

    def _partition_count(self) -> int:
        return 0 if self._compacted_log is None else len(self._compacted_log.positions())

    def _at_rest(self) -> AbstractContextManager[Any]:
        """Return what holds up whatever is to be applied; entered in one step, an exception cannot leave it locked.

        Raises as :meth:`LogState.check`: nothing is served of a topic that is gone.
        """
        if self._compacted_log is not None:
            self._compacted_log.check_topic()
        return self._state_lock

    def _apply(self, records: Sequence[Record]) -> None:
        """Apply the next records; called by the log, from one thread at a time."""
        with self._state_lock:
            for record in records:
                self._fold.apply(record)

    def prepare(self) -> CompactedLog:
        """Make the log before :meth:`start`: one that is read together with others takes records from now on."""
        if self._compacted_log is None:
            apply = self._apply_opened if self._seals.refuses else self._apply
            self._compacted_log = self._log_factory(RecordFeed(self._key_prefix, apply))
        return self._compacted_log

    def _apply_opened(self, records: Sequence[Record]) -> None:
        self._apply(list(self._seals.open_all(records)))
        overtaken, self._seals.overtaken = self._seals.overtaken, []
        if overtaken:
            self._sent_again = {key: sent for key, sent in self._sent_again.items() if not sent.done()}
        for key, value in overtaken:
            _logger.warning("A value on %s was overtaken by a newer one; it is written again", self.topic)
            self._sent_again[key] = self._send(key, value)

    def _admin(self) -> Admin:
        if self._shared_admin is not None:
            return self._shared_admin
        if self._own_admin is None:
            self._own_admin = Admin(
                self._worker_config.admin_settings(), client_id=self._worker_config.client_id("shared-admin")
            )
        return self._own_admin

    def _kafka_based_log(self, feed: RecordFeed) -> KafkaBasedLog:
        return kafka_based_log(self._worker_config, self._topic_type, feed, admin=self._admin())

    def _check_write_allowed(self, within_s: float = 0.0, *, at_once: bool = False) -> None:
        _ = self._log  # a store that does not run says so itself
        if self._write_guard is not None:
            self._write_guard(within_s, at_once=at_once)

    def _sealed(self, records: Iterable[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
        """Return records under wire keys with their values as they go to the topic."""
        return [(key, self._seals.seal(key, value)) for key, value in records]

    def _other_places(self, key: bytes) -> set[int]:
        """Return where else than murmur2 says a wire key has to be written now: see :meth:`KeyPlaces.others`."""
        with self._state_lock:
            places, original = self._fold.places, key[len(self._key_prefix) :]
            return places.others(original, places.placed(original, key), now_ms())

    def _send(self, key: bytes, value: bytes | None) -> Future[RecordMetadata]:
        """Send one record under a wire key, sealed where values are; every failure ends up in the future."""
        try:
            sealed = self._seals.seal(key, value, is_sent=True)
            log = self._compacted_log or self._log
            several = self._topic_type is not TopicType.CONFIG  # that has one partition
            places = self._other_places(key) if several else ()
            sent = [log.send(key, sealed), *(log.send(key, sealed, place) for place in places)]
            return sent[0] if len(sent) == 1 else joined(sent, sent[0].result)
        except ConnectShareError as error:
            future: Future[RecordMetadata] = Future()
            future.set_exception(error)
            return future


def when_all(futures: Collection[Future[Any]], end: Callable[[BaseException | None], None]) -> None:
    """Call ``end`` once: with the first error, or with ``None`` when all have a result."""
    lock = threading.Lock()
    missing, ended = len(futures), False

    def on_done(future: Future[Any]) -> None:
        nonlocal missing, ended
        error = future.exception()
        with lock:
            missing -= 1
            if ended or (error is None and missing):
                return
            ended = True
        end(error)  # without the lock: what is called may wait for the other futures

    for future in futures:
        future.add_done_callback(on_done)


def joined(futures: Collection[Future[Any]], result: Callable[[], T]) -> Future[T]:
    """Return a future that ends with what ``result`` returns when all have a result, or with the first error."""
    whole: Future[T] = SafeFuture()

    def end(error: BaseException | None) -> None:
        if error is None:
            whole.set_result(result())
        else:
            whole.set_exception(error)

    when_all(futures, end)
    return whole
