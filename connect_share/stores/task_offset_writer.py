"""The transactional producers of source tasks: records and their offsets go together, or not at all.

They are made, and fenced, as Connect's workers do.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, Self

from connect_share.errors import (
    ConnectShareError,
    FencedError,
    NotStartedError,
    PrivilegedWriteError,
    StoreClosedError,
    StoreError,
    TaskCountError,
    UsageError,
    ValueFormatError,
    WriteError,
)
from connect_share.kafka import client
from connect_share.kafka.callbacks import callback
from connect_share.kafka.client import Deadline
from connect_share.log.protocol import RecordMetadata
from connect_share.model.config_state import MOST_TASKS, ClusterConfigState
from connect_share.model.keys import is_integer, shown
from connect_share.model.offsets import partition_identity
from connect_share.model.records import ConnectorTaskId
from connect_share.model.writable import require_connector_name
from connect_share.stores.base import FENCE_GUARD_S
from connect_share.stores.connector_offsets import ConnectorOffsetStores, own_offsets_worker_config
from connect_share.stores.offsets import OffsetBackingStore, serialised_offset
from connect_share.stores.transactional_writer import (
    ABORT_TIMEOUT_S,
    Outgoing,
    Producers,
    TransactionalWriter,
    fence_all,
)
from connect_share.worker_config import ClientSettings, WorkerConfig
from connect_share.worker_config.override_policy import OWN_TOPIC_PROPERTY, client_overrides
from connect_share.worker_config.worker import is_topic_name

SEND_TIMEOUT_S: Final = 60.0
_PARTITIONS: Final = range(1 << 31)
_TIMESTAMPS: Final = range(1, 1 << 63)

_Map = Mapping[str, Any]


class TaskOffsetWriter:
    """Writes the records of one source task, and the offsets behind them, in transactions of the task's producer.

    :meth:`claim` (or ``with``) fences earlier producers of the task, wherever they run. The first :meth:`send` or offset
    begins a transaction; :meth:`commit` writes the offsets into it and ends it. Records and offsets of one transaction are
    read both, or neither, by consumers with ``isolation.level=read_committed``.

    After an error of :meth:`send`, :meth:`commit` or :meth:`abort` the producer is closed and nothing of the open
    transaction stays, unless a commit was not answered: then the brokers decide. Make a new writer or claim again, read the
    offsets, and go on from them.

    Thread-safe; one thread sends. Made by ``ConnectStorage.task_offset_writer``.

    Source: ``ExactlyOnceWorkerSourceTask``.

    >>> from connect_share import ConnectStorage
    >>> with ConnectStorage(worker_config) as storage:
    ...     storage.config.claim_write_privileges()
    ...     storage.config.put_connector_config("c", {"name": "c"})
    ...     storage.config.put_task_configs("c", [{"file": "in.txt"}])
    ...     with storage.task_offset_writer("c", 0) as writer:
    ...         writer.offset({"file": "in.txt"}, {"position": 5})
    ...         writer.commit()
    ...     storage.offset_reader("c").offset({"file": "in.txt"})
    {'position': 5}
    """

    def __init__(
        self,
        store: OffsetBackingStore,
        task: ConnectorTaskId,
        *,
        settings: ClientSettings,
        client_id: str,
        transactional_id: str,
        is_current: Callable[[], bool],
        producers: Producers = client,
    ) -> None:
        self._store = store
        self._task = task
        self._shown = shown(str(task))
        self._record = f"a record of task {self._shown}"
        self._is_current = is_current
        self._offsets: dict[bytes, tuple[bytes, bytes | None]] = {}
        self._producer = _TaskProducer(
            settings, client_id=client_id, transactional_id=transactional_id, topic=store.topic, producers=producers
        )

    @property
    def task(self) -> ConnectorTaskId:
        """Whose records these are."""
        return self._task

    def claim(self) -> None:
        """Make the producer; earlier producers of this task can write no more, and their open transaction is aborted.

        Nothing happens if it is there already.

        Raises:
            FencedError: the connector has got new task configurations since this writer was made.
            LiveMembersError: Java workers of the group are alive; nothing was fenced.
            StoreError: the claim failed, or the config topic was not read to its end.

        Source: ``ExactlyOnceWorkerSourceTask.prepareToInitializeTask``, ``DistributedHerder.verifyTaskGeneration..``.
        """
        if self._producer.claimed:
            return
        self._offsets.clear()
        self._store.claim(self._producer)
        try:
            current = self._is_current()
        except BaseException:
            self.close()
            raise
        if not current:
            self.close()
            raise FencedError(
                f"task {self._shown} has new configurations since its writer was made: it must not run any more"
            )

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Hand a record to the producer; returns before it is acknowledged, which :meth:`commit` waits for.

        Args:
            topic: any but the one of the task's offsets, which could not be read while this transaction is open.
            value: bytes, ``None`` for a tombstone.
            key: bytes; without a partition it decides where the record goes, as with Java's producer.
            partition: number, or the producer's choice.
            timestamp_ms: milliseconds since the epoch, 1 or more; ``None``: now.
            headers: names and bytes.

        Raises:
            UsageError: the topic is the one of the task's offsets.
            ValueFormatError: that is no record; the transaction stays as it is.
            FencedError: another producer of this task has taken over.
            WriteError: the producer failed, took nothing for 60 s, or its transaction took too long; names the topic.
            NotStartedError: not claimed.
        """
        if topic == self._store.topic:
            raise UsageError(
                f"{self._record} cannot go to the topic of the task's own offsets: with exactly-once Connect refuses it"
            )
        given = {"partition": partition, "timestamp_ms": timestamp_ms, "headers": headers}
        more = more_of_record(self._record, topic, value, key, **given)
        try:
            self._producer.send(topic, value, key, more)
        except WriteError as error:
            raise self._failure(error) from error.__cause__

    def offset(self, partition: _Map | None, offset: _Map | None) -> None:
        """Remember the newest offset of a source partition for the next commit; ``None`` as offset forgets the partition.

        Call it after the record was sent.

        Raises:
            ValueFormatError: partition or offset is not a map that Connect can write; the transaction stays as it is.
        """
        serialised = serialised_offset(self._task.connector, self._store.cluster_group_id, partition, offset)
        self._offsets[partition_identity(partition)] = serialised

    def commit(self) -> None:
        """Write the offsets into the transaction, and commit it; then they can be read. Nothing to write: nothing happens.

        With an own offsets topic of the connector, the copies in the worker's topic are written as its store does it.

        Raises:
            FencedError: another producer of this task has taken over; nothing was written.
            LiveMembersError: Java workers of the group are alive; nothing was written.
            WriteError: not committed, or not known to be, within 60 s, or the transaction took too long; names the topic.
            NotStartedError: not claimed.
        """
        values = dict(self._offsets.values())
        self._producer.check_claimed()  # what was sent before a close() is gone, which is not nothing to write
        if not values and not self._producer.open:
            return
        try:
            if values:
                self._store.set_in_transaction(values, self._producer)
            else:
                self._producer.write([])
        except PrivilegedWriteError as error:
            raise self._failure(error) from error.__cause__
        except BaseException:
            self.close()
            raise
        self._offsets.clear()

    def abort(self, *, keep_offsets: bool = False) -> None:
        """Drop all records of the open transaction; nothing happens if there is none, as after an error.

        Args:
            keep_offsets: the next commit writes the offsets all the same, so that the source does not give these records
                again, as Connect does where a connector asks for an abort.

        Raises:
            FencedError, WriteError: as :meth:`send`.
        """
        if not keep_offsets or not self._producer.claimed:
            self._offsets.clear()
        if not self._producer.open:
            return
        try:
            self._producer.abort()
        except WriteError as error:
            raise self._failure(error) from error.__cause__

    def close(self, timeout_s: float = ABORT_TIMEOUT_S) -> None:
        """Abort what is open and let go of the producer; may be called twice, and from any thread."""
        self._producer.close(timeout_s)

    def __enter__(self) -> Self:
        self.claim()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _failure(self, error: WriteError) -> ConnectShareError:
        """Return what a failure of the producer means for the task; its offsets are read again."""
        self._offsets.clear()
        if isinstance(error.__cause__, FencedError):
            return FencedError(
                f"task {self._shown} cannot write any more: {error.__cause__}; nothing of it was written",
                code=error.__cause__.code,
                name=error.__cause__.name,
            )
        return WriteError(
            f"task {self._shown}: {error.__cause__ or error}; claim again and go on from the stored offsets"
        )


def more_of_record(
    whose: str, topic: object, value: object, key: object, *, partition: object, timestamp_ms: object, headers: object
) -> dict[str, Any]:
    """Return what a producer is given beside topic, value and key; ``ValueFormatError``: these make no record."""
    if not isinstance(topic, str) or not is_topic_name(topic):
        raise ValueFormatError(f"{whose} has a topic that no topic can be named")
    if not all(part is None or isinstance(part, bytes) for part in (key, value)):
        raise ValueFormatError(f"key and value of {whose} have to be bytes or None")
    more: dict[str, Any] = {}
    for what, given, allowed in (("partition", partition, _PARTITIONS), ("timestamp", timestamp_ms, _TIMESTAMPS)):
        if given is not None and (not is_integer(given) or given not in allowed):
            raise ValueFormatError(f"the {what} of {whose} has to be a number from {allowed.start}")
        more |= {} if given is None else {what: given}
    if headers:
        if not isinstance(headers, Sequence) or not all(_is_header(each) for each in headers):
            raise ValueFormatError(f"headers of {whose} have to be pairs of text, and bytes or None")
        more["headers"] = list(headers)
    return more


def _is_header(given: object) -> bool:
    if not isinstance(given, tuple) or len(given) != 2:
        return False
    return isinstance(given[0], str) and (given[1] is None or isinstance(given[1], bytes))


class _TaskProducer(TransactionalWriter):
    """Keeps its transaction open from the first record on, until offsets are written or it is aborted."""

    open: bool = False  # records wait for a commit
    _undelivered: client.KafkaError | None = None

    def send(self, topic: str, value: bytes | None, key: bytes | None, more: Mapping[str, Any]) -> None:
        """Put one record into the transaction.

        Raises:
            WriteError: it failed; the producer is closed, the cause attached.
        """
        deadline = Deadline.after(SEND_TIMEOUT_S)

        def send(producer: client.Producer) -> None:
            self._begin(producer)
            client.produce(producer, deadline, topic, value, key, on_delivery=self._on_delivery, **more)

        self._do(send, f"writing to {topic}")

    def abort(self) -> None:
        """Drop the open transaction. Raises as :meth:`send`."""

        def abort(producer: client.Producer) -> None:
            producer.abort_transaction(ABORT_TIMEOUT_S)
            self.open = False

        self._do(abort, "aborting a transaction")

    def check_claimed(self) -> None:
        """Raise ``NotStartedError`` if there is no producer."""
        if self._producer is None:
            raise NotStartedError(
                "the producer of this task was not claimed, or was lost; call claim() and go on from the stored offsets"
            )

    def _do(self, action: Callable[[client.Producer], None], doing: str) -> None:
        with self._lock:
            self.check_claimed()
            failure = self._attempt(action, doing)
            if failure is None and self._given_up:
                self._abandon()
        if failure is not None:
            raise WriteError(str(failure)) from failure

    def _begin(self, producer: client.Producer) -> None:
        if not self.open:
            self._undelivered, self._doing = None, f"writing to {self._topic}"
            super()._begin(producer)
            self.open = True

    @callback
    def _on_delivery(self, error: client.KafkaError | None, message: client.Message) -> None:
        if self._undelivered is None and error is not None:
            self._undelivered, self._doing = error, f"writing to {message.topic()}"

    def _commit(
        self,
        producer: client.Producer,
        records: Sequence[Outgoing],
        written: list[RecordMetadata],
        deadline: Deadline,
    ) -> None:
        try:
            super()._commit(producer, records, written, deadline)
        except client.KafkaException as error:
            if self._undelivered is None or client.is_fenced(error):
                raise
            raise client.KafkaException(self._undelivered) from None  # the library only counts them
        self.open = False

    def _abandon(self, abort_s: float = ABORT_TIMEOUT_S) -> client.KafkaError | None:
        self.open = False
        return super()._abandon(abort_s)


class SourceTasks:
    """Writers and fencing for the tasks of source connectors while a storage runs. Thread-safe.

    Writers that are open at the end are closed, so that no reader waits for their transactions: :meth:`close` does it, in the
    seconds that are left.

    Source: ``Worker.exactlyOnceSourceTaskProducerConfigs``, ``Worker.fenceZombies``, ``Worker.taskTransactionalId``.
    """

    def __init__(self, connector_offsets: ConnectorOffsetStores) -> None:
        self._producers: Producers = connector_offsets.kafka or client
        self._worker_config = connector_offsets.worker_config
        self._config = connector_offsets.config
        self._connector_offsets = connector_offsets
        self._lock = threading.Lock()
        self._closed = False
        self._writers: weakref.WeakSet[TaskOffsetWriter] = weakref.WeakSet()

    def first_task_writer(self, connector: str) -> TransactionalWriter | None:
        """Make what writes a connector's offsets as its first task does, and fences all; ``None`` without exactly-once.

        Raises:
            TaskCountError: more tasks would have to be fenced than a connector can have.

        Source: ``Worker.modifyConnectorOffsets``.
        """
        if self._worker_config.exactly_once_source_support != "enabled":
            return None
        self._check(connector)
        state = self._config.snapshot()
        worker = self._clients(connector, state)
        first, *others = state.tasks_to_fence(connector) or [ConnectorTaskId(connector, 0)]
        return TransactionalWriter(
            worker.producer_settings(),
            client_id=worker.client_id("offsets-leader"),
            transactional_id=self._transactional_id(first),
            topic=worker.offset_storage_topic,
            fences=[self._transactional_id(task) for task in others],
            producers=self._producers,
        )

    def offset_writer(self, connector: str, task: int) -> TaskOffsetWriter:
        """Make the writer of one task; see ``ConnectStorage.task_offset_writer``."""
        self._check(connector)
        if not is_integer(task) or not 0 <= task < MOST_TASKS:
            raise ValueFormatError(
                f"a task of connector {shown(connector)} has to be a number from 0 to {MOST_TASKS - 1}"
            )
        state = self._config.snapshot()
        worker, task_id = self._clients(connector, state), ConnectorTaskId(connector, task)
        generation = state.task_config_generation(connector)

        def is_current() -> bool:
            if self._closed:
                raise StoreClosedError(f"the storage was closed; {task_id} writes nothing any more")
            self._config.refresh()
            return self._config.snapshot().task_config_generation(connector) == generation

        writer = TaskOffsetWriter(
            self._connector_offsets.store_of(connector),
            task_id,
            settings=worker.producer_settings(),
            client_id=worker.client_id(f"connector-producer-{task_id}"),
            transactional_id=self._transactional_id(task_id),
            is_current=is_current,
            producers=self._producers,
        )
        with self._lock:
            self._writers.add(writer)
        return writer

    def fence(self, connector: str, count: int) -> None:
        """Fence tasks 0 to ``count - 1``; see ``ConnectStorage.fence_tasks``."""
        self._check(connector)
        if not is_integer(count) or count < 0:
            raise ValueFormatError(f"the number of tasks of connector {shown(connector)} to fence has to be 0 or more")
        if count > MOST_TASKS:
            raise TaskCountError(
                f"{count} tasks of connector {shown(connector)} are not fenced: more than {MOST_TASKS} are not accepted; "
                "find out who wrote that number"
            )
        worker = self._clients(connector, self._config.snapshot())
        if self._connector_offsets.write_guard is not None:
            self._connector_offsets.write_guard(FENCE_GUARD_S, at_once=True)
        fence_all(
            worker.producer_settings(),
            [self._transactional_id(ConnectorTaskId(connector, task)) for task in range(count)],
            client_id=worker.client_id(f"connector-worker-adminclient-{connector}"),
            producers=self._producers,
        )

    def fence_zombies(self, connector: str) -> None:
        """Do what the leader does before new tasks start; see ``ConnectStorage.fence_zombie_source_tasks``."""
        self._check(connector)
        self._config.refresh()
        state = self._config.snapshot()
        if not state.contains(connector):
            raise UsageError(f"there is no connector {shown(connector)}")
        if not state.pending_fencing(connector):
            return
        count, record = state.task_count(connector), state.task_count_record(connector)
        # One task alone is fenced by its successor.
        if record is not None and (record, count) != (1, 1):
            self.fence(connector, record)
            self._config.refresh()
            if self._config.snapshot().task_config_generation(connector) != state.task_config_generation(connector):
                raise StoreError(
                    f"connector {shown(connector)} got new task configurations while its tasks were fenced; fence them again"
                )
        self._config.put_task_count_record(connector, count)

    def close(self) -> None:
        """Close the writers that are open."""
        with self._lock:
            self._closed = True
            writers = list(self._writers)
        with ExitStack() as each:
            for writer in writers:
                each.callback(lambda writer: writer.close(self._connector_offsets.left_s()), writer)

    def _check(self, connector: object) -> None:
        if self._worker_config.exactly_once_source_support != "enabled":
            raise UsageError(
                f"tasks of connector {shown(str(connector))} have no transactional producers: exactly.once.source.support is "
                "not enabled in the worker file"
            )
        require_connector_name(connector)  # the client library would cut a transactional id at its zero byte

    def _transactional_id(self, task: ConnectorTaskId) -> str:
        return f"{self._worker_config.group_id}-{task}"

    def _clients(self, connector: str, state: ClusterConfigState) -> WorkerConfig:
        """Return the worker's configuration with a connector's own clients: those that read and write its records."""
        properties: dict[str, Any] = state.connector_config(connector) or {}
        own = own_offsets_worker_config(self._worker_config, connector, properties)
        if own is None and client_overrides(properties, "producer"):
            properties[OWN_TOPIC_PROPERTY] = self._worker_config.offset_storage_topic
            own = own_offsets_worker_config(self._worker_config, connector, properties)
        return own or self._worker_config
