"""Tasks that run: a thread each, which reads or writes, commits offsets, and says how it is."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from connect_share.errors import BrokerError, ConnectShareError, StoreClosedError, UsageError, refusal, safe_text
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Deadline, TopicPartition, callback
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.limited_log import LimitedLog
from connect_share.model.records import ConnectorTaskId, Record, now_ms
from connect_share.model.status import State, TopicStatus
from connect_share.storage import ConnectStorage
from connect_share.stores.connector_offsets import connector_client_settings
from connect_share.stores.offsets import OffsetStorageWriter
from connect_share.stores.task_offset_writer import more_of_record
from connect_share.tasks.connectors import (
    RetriableError,
    SinkTask,
    SourceRecord,
    SourceTask,
    Task,
    TaskContext,
    TopicPartitionId,
)
from connect_share.worker_config import Isolation, WorkerConfig
from connect_share.worker_config.override_policy import client_overrides

_logger = logging.getLogger(__name__)

_IDLE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 60.0
_LONGEST_TRACE: Final = 16_384
_OF_MEMBERS: Final = ("auto.offset.reset", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms")
# The group goes on without this member: what it has put is given again.
_REBALANCES: Final = frozenset({"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"})


@dataclass(frozen=True, slots=True)
class Assignment:
    """One task as it is to run: configurations have their references resolved, and statuses do not have the secrets."""

    task_id: ConnectorTaskId
    kind: type[Task]
    config: Mapping[str, str]
    connector_config: Mapping[str, str]
    secrets: Sequence[str]
    storage: ConnectStorage
    worker: WorkerConfig


def trace_of(error: BaseException, secrets: Sequence[str]) -> str:
    """Return the trace of an exception as a status has it, without secrets that are known."""
    text = "".join(traceback.format_exception(error))
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[hidden]").replace(repr(secret)[1:-1], "[hidden]")
    return text[-_LONGEST_TRACE:]


_NO_RETRY: Final = ("", 0.25, 0.0)
"""Why a task could not do its call, the pause since, and until when it is not called again."""


class RunningTask(threading.Thread):
    """A task that runs until it is stopped or fails; one that was abandoned has not ended in time, and writes no more."""

    def __init__(
        self, assignment: Assignment, call: Callable[..., Any], on_state: Callable[[State, str | None], None]
    ) -> None:
        super().__init__(name=f"task-{assignment.task_id}", daemon=True)
        self.stopping, self.paused, self.abandoned = threading.Event(), threading.Event(), False
        self._at, self._call, self._on_state = assignment, partial(call, self.stopping), on_state
        self.commit: int | None = None  # the number of that of its configuration
        self._topics: set[str] = set()
        self._writer: Any = None  # of a source
        self._memory = getattr(assignment.storage, "kafka", None)  # in place of a cluster
        self._flush_every_s = assignment.worker.offset_flush_interval_ms / 1000
        self._flushed_s = time.monotonic()
        self._said = LimitedLog(_logger)
        self._retry = _NO_RETRY

    def stop(self, timeout_s: float) -> bool:
        """End it; return whether it has ended in time. It writes nothing after that."""
        self.stopping.set()
        self.join(timeout_s)
        if self.is_alive():
            self.abandoned = True
            if self._writer is not None:
                self._writer.close()
        return not self.abandoned

    def run(self) -> None:
        """Run the task; whatever it raises is its status."""
        try:
            self._work(self._at.kind())
        except BaseException as error:  # noqa: BLE001 - also what would end this thread
            _logger.warning("Task %s has failed: %s", self._at.task_id, safe_text(error))
            self._say(State.FAILED, trace_of(error, self._at.secrets))

    def _work(self, task: Any) -> None:
        """Make the clients, start the task, and work until it is to end."""
        raise NotImplementedError

    @contextmanager
    def _open_task(self, task: Task) -> Iterator[None]:
        try:
            self._call(task.start, self._at.config)
            self._say(State.RUNNING)
            yield
        finally:
            self._try(task.stop)

    def _try(self, method: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a method that fails no task, as in Java; return what it returned, or nothing if it raised."""
        try:
            return [self._call(method, *arguments)]
        except UsageError:  # of the one who runs it: a coroutine without a loop
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is
            self._said.warning("Task %s: its %s has failed: %s", self._at.task_id, method.__name__, safe_text(error))
            return []

    def _call_again(self, method: str, error: RetriableError) -> None:
        reason = f"{method} is called again: {safe_text(error)}"
        known, pause_s, _ = self._retry
        if reason != known:
            self._said.warning("Task %s: %s", self._at.task_id, reason)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._retry = reason, pause_s, time.monotonic() + pause_s

    def _say(self, state: State, trace: str | None = None) -> None:
        if not self.stopping.is_set():
            self._on_state(state, trace)

    def _is_paused(self, *, was: bool) -> bool:
        paused = self.paused.is_set()
        if paused != was:
            self._say(State.PAUSED if paused else State.RUNNING)
        return paused

    def _flush_is_due(self) -> bool:
        due = time.monotonic() - self._flushed_s >= self._flush_every_s
        if due:
            self._flushed_s = time.monotonic()
        return due

    def _note_topic(self, topic: str) -> None:
        """Let the group know that the connector uses a topic; that of a source is made if it is not there."""
        if topic in self._topics:
            return
        self._topics.add(topic)
        task_id, given = self._at.task_id, self._at.worker.originals
        makes = given.get("topic.creation.enable", "").strip().lower() in ("", "true")
        while makes and self._at.kind.kind == "source" and self._memory is None:
            try:
                with Admin(self._client_settings("admin"), client_id=f"connector-adminclient-{task_id}") as admin:
                    if not admin.describe_topics([topic]):
                        admin.create_topic(NewTopicRequest(topic, -1, -1))
                break
            except BrokerError as error:  # another task may have made it
                if error.name != client.ALREADY_EXISTS and (not error.retriable or self.stopping.wait(_IDLE_S)):
                    raise
                self._said.warning("Task %s looks for its topic again: %s", task_id, error)
        if self._at.worker.topic_tracking_enable:
            self._at.storage.status.put(TopicStatus(topic, task_id.connector, task_id.task, now_ms()))

    def _client_settings(self, kind: Any) -> client.ClientSettings:
        return connector_client_settings(self._at.worker, self._at.task_id.connector, self._at.connector_config, kind)


class _AcknowledgedWriter:
    """In place of a ``TaskOffsetWriter``, without transactions: offsets are stored behind records that were acknowledged."""

    def __init__(self, producer: client.Producer, offsets: OffsetStorageWriter) -> None:
        self._producer, self.offset, self._flush = producer, offsets.offset, offsets.flush
        self._failures: list[ConnectShareError] = []

    def send(self, topic: str, value: bytes | None, key: bytes | None, **more: Any) -> None:
        more = more_of_record("a record of this task", topic, value, key, **more) | {"on_delivery": self._on_delivery}
        while True:  # as with Java's workers that takes as long as it takes, and so does what follows
            self._check()
            with suppress(BufferError):
                return client.produce(self._producer, Deadline.after(0), topic, value, key, **more)
            self._producer.poll(_IDLE_S)

    def commit(self) -> None:
        while len(self._producer):
            self._check()
            client.flush(self._producer, _IDLE_S)
        self._check()
        self._flush(threading.TIMEOUT_MAX)

    def close(self) -> None:
        self._failures.append(StoreClosedError("the producer of a task was closed"))  # by another thread, too
        client.give_up(self._producer)

    def _check(self) -> None:
        if self._failures:
            raise self._failures[0]

    @callback
    def _on_delivery(self, error: client.KafkaError | None, sent: client.Message) -> None:
        if error is not None:
            self._failures.append(client.translate(error, f"writing {len(sent):,} bytes to {sent.topic()}", "WRITE"))


class RunningSource(RunningTask):
    """A source: records and offsets in one transaction where the worker says so, else offsets behind records."""

    def _work(self, task: SourceTask) -> None:
        task_id, storage = self._at.task_id, self._at.storage
        exactly_once = self._at.worker.exactly_once_source_support == "enabled"
        if exactly_once:
            if self._at.connector_config.get("transaction.boundary", "poll").lower() != "poll":
                raise refusal("transaction.boundary", "has to be poll here")
            self._flush_every_s = 0.0
            self._writer = storage.task_offset_writer(task_id.connector, task_id.task)
        else:
            settings, name = self._client_settings("producer"), f"connector-producer-{task_id}"
            make = (self._memory or client).producer
            producer = make(settings, client_id=name, idempotent=True, only_failures=True)
            self._writer = _AcknowledgedWriter(producer, storage.offset_writer(task_id.connector))
        self._sent: list[SourceRecord] = []
        with closing(self._writer):
            if self.stopping.is_set():
                return  # to make the task took too long: it may run anew by now, and must not be fenced
            if exactly_once:
                self._writer.claim()  # no earlier producer of this task can write any more: the offsets are final
            task.context = TaskContext(task_id, self.stopping, storage.offset_reader(task_id.connector).offset)
            with self._open_task(task):
                try:
                    self._copy(task)
                except BaseException:
                    if not exactly_once:
                        self._commit(task)  # what was read before is not read again
                    raise
                self._commit(task)

    def _copy(self, task: SourceTask) -> None:
        paused = False
        while not self.stopping.is_set():
            paused = self._is_paused(was=paused)
            records = self._poll(task) if not paused and self._retry[-1] <= time.monotonic() else ()
            for each in records:
                self._note_topic(each.topic)
                more = {"partition": each.partition, "timestamp_ms": each.timestamp_ms, "headers": each.headers}
                self._writer.send(each.topic, each.value, each.key, **more)
                self._writer.offset(each.source_partition, each.source_offset)
            self._sent.extend(records)
            if paused or self._flush_is_due():
                self._commit(task)
            if not records:
                self.stopping.wait(_IDLE_S)

    def _poll(self, task: SourceTask) -> Sequence[SourceRecord]:
        try:
            records = [*(self._call(task.poll) or ())]  # of a generator, too
        except RetriableError as error:
            self._call_again("poll", error)
            return ()
        except CancelledError:  # an event loop's, when the task is to end
            if not self.stopping.is_set():
                raise
            return ()
        self._retry = _NO_RETRY
        return records

    def _commit(self, task: SourceTask) -> None:
        sent, self._sent = self._sent, []
        if sent and not self.abandoned:
            self._writer.commit()
            if type(task).commit_record is not SourceTask.commit_record:
                for record in sent:
                    self._try(task.commit_record, record)
            self._try(task.commit)


class RunningSink(RunningTask):
    """A sink, at least once: the offsets of its consumer group are committed behind what the task has flushed."""

    def _work(self, task: SinkTask) -> None:
        self._task = task
        self._put: dict[TopicPartitionId, tuple[int, int]] = {}  # since the last commit: the first, and behind the last
        self._batch: list[Record] = []  # what the task has not taken yet
        self._failure: BaseException | None = None
        task.context = self._context = TaskContext(self._at.task_id, self.stopping, lambda _: None)
        config = self._at.connector_config
        pattern = config.get("topics.regex", "").strip()
        names = filter(None, dict.fromkeys(map(str.strip, config.get("topics", "").split(","))))  # as Java, of "a,,a"
        topics = [f"^({pattern})$"] if pattern else [*names]
        given: dict[str, Any] = {"max.poll.records": 500, "isolation.level": "read_committed"}
        given |= {name[9:]: text for name, text in self._at.worker.originals.items() if name.startswith("consumer.")}
        given |= client_overrides(config, "consumer")
        self._most = int(given["max.poll.records"])
        self._consumer = consumer = client.consumer(
            self._client_settings("consumer"),
            client_id=f"connector-consumer-{self._at.task_id}",
            # Java's default is read_uncommitted, which gives a sink the records of transactions that were aborted.
            isolation=Isolation(given["isolation.level"]),
            overrides={"auto.offset.reset": "earliest"}
            | {name: given[name].replace("none", "error") for name in _OF_MEMBERS if name in given},
        )
        with closing(consumer), self._open_task(task):
            consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke)
            try:
                self._consume()
                self._commit(self._put)
            finally:
                self._leave(self._context.assignment)

    def _consume(self) -> None:
        paused = held = False
        while not self.stopping.is_set():
            paused = self._is_paused(was=paused)
            was, held = held, paused or bool(self._batch)
            if held:  # polled all the same, or the group goes on without it
                self._consumer.pause(self._consumer.assignment())
            elif was:
                self._consumer.resume(self._consumer.assignment())
            messages = self._consumer.consume(self._most, timeout=_IDLE_S)
            if self._failure is not None:
                raise self._failure
            self._batch += [record for message in messages if (record := self._record(message)) is not None]
            if self._batch and not paused and self._retry[-1] <= time.monotonic():
                self._put_batch()
            if self._flush_is_due() and not self._commit(self._put):
                for at, (first, _) in self._put.items():  # they are put again, as in Java
                    self._consumer.seek(TopicPartition(*at, first))
                self._batch = [each for each in self._batch if (each.topic, each.partition) not in self._put]
                self._put = {}

    def _put_batch(self) -> None:
        try:
            self._call(self._task.put, self._batch)
        except RetriableError as error:
            self._call_again("put", error)
        else:
            for record in self._batch:
                at = record.topic, record.partition
                self._put[at] = self._put.get(at, (record.offset,))[0], record.offset + 1
            self._batch, self._retry = [], _NO_RETRY

    def _record(self, message: client.Message) -> Record | None:
        error = message.error()
        if error is None:
            self._note_topic(message.topic() or "")
            return client.to_whole_record(message)
        failure = client.translate(error, "reading the topics of a sink", "READ")
        # A source may make the topic later; and a member that was too slow joins again.
        if not failure.retriable and not client.is_unknown_topic(failure) and failure.name != "_MAX_POLL_EXCEEDED":
            raise failure
        return None

    def _commit(self, partitions: Collection[TopicPartitionId]) -> bool:
        """Flush what was put of these partitions, and commit it; return whether the task could flush."""
        offsets = {at: end for at, (_, end) in self._put.items() if at in partitions}
        if offsets and not self.abandoned:
            knows = type(self._task).pre_commit is not SinkTask.pre_commit
            called = self._try(self._task.pre_commit if knows else self._task.flush, offsets)
            if not called:
                return False
            safe = called[0] if knows else offsets
            offsets = {at: safe[at] for at, offset in offsets.items() if at in safe and safe[at] <= offset}
        if not offsets or self.abandoned:
            return True
        try:
            wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
            self._consumer.commit(offsets=wanted, asynchronous=False)
        except client.KafkaException as error:
            failure = client.translate(error, "committing the offsets of a sink")
            if not failure.retriable and failure.name not in _REBALANCES:
                raise failure from error
            self._said.warning("Task %s commits its offsets later: %s", self._at.task_id, failure)
        else:
            left = ((at, offsets.get(at, first), end) for at, (first, end) in self._put.items())
            self._put = {at: (first, end) for at, first, end in left if first != end}
        return True

    def _leave(self, partitions: Collection[TopicPartitionId]) -> None:
        """Have the task close partitions that are another's from now on."""
        ending = self._context.assignment.intersection(partitions)
        self._context.assignment -= ending
        self._put = {at: each for at, each in self._put.items() if at not in ending}
        self._batch = [record for record in self._batch if (record.topic, record.partition) not in ending]
        if ending:
            self._call(self._task.close, sorted(ending))

    # The library calls these in consume() and close(), and forgets what they raise.

    @callback
    def _on_assign(self, _consumer: client.Consumer, partitions: list[TopicPartition]) -> None:
        added = sorted((each.topic, each.partition) for each in partitions)
        self._context.assignment |= set(added)
        if added:
            self._noting(self._call, self._task.open, added)

    @callback
    def _on_revoke(self, _consumer: client.Consumer, partitions: list[TopicPartition]) -> None:
        ending = {(each.topic, each.partition) for each in partitions}
        self._noting(self._commit, ending)
        self._noting(self._leave, ending)

    def _noting(self, action: Callable[..., object], *arguments: Any) -> None:
        try:
            action(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised by the loop
            self._failure = self._failure or error
