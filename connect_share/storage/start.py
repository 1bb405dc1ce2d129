"""The life of a storage, and its start: one admin round, one client that reads, each store in a thread."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from connect_share.errors import (
    BrokerError,
    ConnectShareError,
    GroupMovedError,
    NotStartedError,
    PlainTopicsError,
    StoreClosedError,
    command_line,
    safe_text,
)
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Deadline
from connect_share.kafka.create import GONE, check_cleanup_policy, lost_topics, topic_spec
from connect_share.kafka.facts import TopicFacts, read_facts, read_records, with_ends
from connect_share.kafka.read import Reader
from connect_share.log.first_read import OffsetsMissing, SharedReader, StartContext
from connect_share.log.kafka_based_log import KafkaBasedLog
from connect_share.log.memory import MemoryKafka
from connect_share.log.protocol import STOP_TIMEOUT_S, CompactedLog, KeyWatch, RecordFeed
from connect_share.log.tail import OnFailed, OwnerProcess
from connect_share.log.threads import BackgroundThread
from connect_share.model.keys import split_key
from connect_share.model.records import TopicType
from connect_share.sealing import load_library
from connect_share.sealing.cipher import removes
from connect_share.storage.checkpoint import (
    Checkpoint,
    CheckpointRejected,
    CheckpointWriter,
    NotUsed,
    own_checkpoint,
    proven,
)
from connect_share.storage.live_members import AllowLiveMembers, LiveMembersGuard
from connect_share.stores.base import KafkaTopicBasedBackingStore, StoreOptions, WriteGuard, kafka_based_log
from connect_share.stores.config import ConfigUpdateListener, KafkaConfigBackingStore
from connect_share.stores.connector_offsets import ConnectorOffsetStores
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.status import KafkaStatusBackingStore
from connect_share.stores.task_offset_writer import SourceTasks
from connect_share.worker_config import Isolation, WorkerConfig, WorkerConfigTransformer

_logger = logging.getLogger(__name__)
_ALLOW_EMPTY: Final = "; or, if the group is meant to start empty, use allow_empty=True"


class StorageLife:
    """What threads that start, use and close a storage have to know of each other.

    ``on_failed`` is called once, in a thread of its own, when the log of a store has failed.

    Attributes:
        ended: everything that ran was stopped: another start has a life of its own.
    """

    def __init__(self, on_failed: OnFailed | None) -> None:
        self._on_failed = on_failed
        self.process: OwnerProcess = OwnerProcess("this ConnectStorage")
        self._lock = threading.Lock()
        self._starter: int | None = None
        self._start_ended = threading.Event()
        self._aborts: list[Callable[[], object]] = []
        self._close_by: Deadline | None = None
        self._failure: ConnectShareError | None = None
        self.ended = False

    @property
    def failure(self) -> ConnectShareError | None:
        """What ended the first log that ended; in a forked process, that it is one."""
        try:
            self.process.check()
        except StoreClosedError as error:
            return error
        return self._failure

    @property
    def is_new(self) -> bool:
        """Whether nothing was started with it so far."""
        return self._starter is None and not self.ended

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Guard the start: there is one, and it fails if the storage is closed meanwhile."""
        self.process.check()
        with self._lock:
            if self._starter is not None:
                raise NotStartedError("this ConnectStorage was started before, and not stopped since")
            self._starter = threading.get_ident()
        try:
            yield
        except ConnectShareError:
            self.check_not_closed()
            raise
        finally:
            self._start_ended.set()

    def on_abort(self, abort: Callable[[], object]) -> None:
        """Have this called if the storage is closed while it starts."""
        with self._lock:
            self._aborts.append(abort)
        self.check_not_closed()

    def check_not_closed(self) -> None:
        """Raise ``StoreClosedError`` if the storage was closed since its start began."""
        if self._close_by is not None:
            raise closed_meanwhile()

    def close(self, timeout_s: float) -> bool:
        """Begin to close, and end a start that is under way. Return whether there is anything to be closed here."""
        if self.process.forked:
            return False  # threads and clients are the other process's
        with self._lock:
            if self._starter is None:
                return False
            if self._close_by is None:
                self._close_by = Deadline.after(timeout_s)
            aborts = [] if self._start_ended.is_set() else list(self._aborts)
        for abort in aborts:
            abort()
        if self._starter != threading.get_ident():
            self._start_ended.wait(self._close_by.remaining_s())
        return True

    def left_s(self) -> float:
        """Seconds that are left for what has to be ended."""
        return STOP_TIMEOUT_S if self._close_by is None else self._close_by.remaining_s()

    def fail(self, error: ConnectShareError) -> None:
        """Note what ended a log; called by the thread that noticed, which is not kept waiting."""
        with self._lock:
            if self._failure is not None or self._close_by is not None:
                return
            self._failure = error
        if self._on_failed is not None:
            with suppress(RuntimeError):  # there may be no more threads; other groups depend on the one that noticed
                BackgroundThread("connect-storage-failed", partial(self._on_failed, error), lambda _: None).start()


def closed_meanwhile() -> StoreClosedError:
    """Return the error of a start during which its storage was stopped."""
    return StoreClosedError("the storage was closed while it started")


class PlainTopicsCheck:
    """What kinds of keys the topics hold; once a prefixed one was seen in any of them, there is nothing left to learn."""

    def __init__(self) -> None:
        self._prefixed_seen = False
        self._plain_topics: set[TopicType] = set()

    def watch(self, topic_type: TopicType) -> KeyWatch:
        """Return what notes the keys of one topic."""
        return partial(self._note, topic_type)

    def _note(self, topic_type: TopicType, keys: Sequence[bytes | None]) -> bool:
        for key in keys:
            if self._prefixed_seen:
                break
            parts = split_key(topic_type, key)
            if parts is not None and parts[0] is not None:
                self._prefixed_seen = True
            elif parts is not None:
                self._plain_topics.add(topic_type)
        return not self._prefixed_seen

    def refuse(self, worker: WorkerConfig) -> None:
        """Raise ``PlainTopicsError`` if the topics hold plain keys, and no prefixed one."""
        if self._prefixed_seen or not self._plain_topics:
            return
        topics = ", ".join(worker.topic(topic_type) for topic_type in TopicType if topic_type in self._plain_topics)
        move = command_line("connect-share-migrate", "plan", "-w", "OLD", "--to-worker-config", "NEW", "-o", "PLAN")
        raise PlainTopicsError(
            f"sharing is enabled for cluster group {worker.cluster_group_id!r}, but {topics} hold only plain records, which "
            "no cluster group may read: the group would look empty. Move the records first "
            f"({move}, then apply), or, if the group is meant to start empty beside a plain cluster, use allow_empty=True"
        )


@dataclass(frozen=True, slots=True)
class StoreStartup:
    """What the start of one store took, and what it met; ``None``: not measured, as for one of many groups.

    Attributes:
        seconds: from the common start of all three until this store was ready.
        own_records: records under the group's prefix; without sharing, all records.
        foreign_records: records of others, recognised by their keys alone.
        first_record_seconds: from the begin of reading until its first record came; 0 if there was none.
        apply_seconds: in which the own records were parsed and folded.
    """

    topic: str
    partitions: int
    seconds: float
    own_records: int
    foreign_records: int
    first_record_seconds: float | None = None
    apply_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StorageStartup:
    """What the start of all three stores took; ``None``: not measured, as for one of many groups.

    Attributes:
        seconds: from entering the context until everything was ready.
        admin_seconds: of which: finding the topics and their ends.
        connect_seconds: of which: making the clients that read.
        read_seconds: of which: waiting for the client's records.
        from_checkpoint: only what is new since a checkpoint was read.
        full_read_reason: why not, if a checkpoint file was named.
        full_read_kind: the same as one word of a fixed list, for counters.
    """

    seconds: float
    admin_seconds: float | None
    config: StoreStartup
    status: StoreStartup
    offsets: StoreStartup
    connect_seconds: float | None = None
    read_seconds: float | None = None
    from_checkpoint: bool = False
    full_read_reason: str | None = None
    full_read_kind: NotUsed | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """What a ``ConnectStorage`` was made with; see there."""

    worker: WorkerConfig
    allow_empty: bool
    allow_live_members: AllowLiveMembers
    update_listener: ConfigUpdateListener | None
    config_transformer: WorkerConfigTransformer | None
    checkpoint: Path | None
    checkpoint_every_s: float


@dataclass(frozen=True, slots=True)
class Stores:
    """The three stores of one group.

    Attributes:
        write_guard: called before anything is written, to other topics, too.
        kafka: where the topics are, if not on brokers.
    """

    worker: WorkerConfig
    config: KafkaConfigBackingStore
    status: KafkaStatusBackingStore
    offsets: KafkaOffsetBackingStore
    write_guard: WriteGuard | None
    kafka: MemoryKafka | None

    @classmethod
    def over(
        cls,
        log_of: Callable[[TopicType, RecordFeed], CompactedLog],
        options: StorageOptions,
        admin: Admin | None,
        write_guard: WriteGuard | None,
        kafka: MemoryKafka | None = None,
    ) -> Self:
        """Make the stores over logs, which are made when the stores start."""

        def common(topic_type: TopicType) -> StoreOptions:
            return {"log": partial(log_of, topic_type), "admin": admin, "write_guard": write_guard, "kafka": kafka}

        config = KafkaConfigBackingStore(
            options.worker,
            update_listener=options.update_listener,
            config_transformer=options.config_transformer,
            **common(TopicType.CONFIG),
        )
        status = KafkaStatusBackingStore(options.worker, **common(TopicType.STATUS))
        offsets = KafkaOffsetBackingStore(options.worker, **common(TopicType.OFFSET))
        status.leave_keys_to_config()
        offsets.leave_keys_to_config()
        return cls(options.worker, config, status, offsets, write_guard, kafka)

    def by_topic(self) -> dict[TopicType, KafkaTopicBasedBackingStore]:
        """Return the stores by the type of their topics."""
        return {TopicType.CONFIG: self.config, TopicType.STATUS: self.status, TopicType.OFFSET: self.offsets}


@dataclass(frozen=True, slots=True)
class RunningStorage:
    """What is there while a storage runs."""

    stores: Stores
    connector_offsets: ConnectorOffsetStores
    source_tasks: SourceTasks
    checkpoint_writer: CheckpointWriter | None
    startup: StorageStartup

    @classmethod
    def of(
        cls,
        stores: Stores,
        startup: StorageStartup,
        life: StorageLife,
        stack: ExitStack,
        checkpoint_writer: CheckpointWriter | None = None,
    ) -> Self:
        """Make what source connectors need beside the stores; ``stack`` closes it."""
        connector_offsets = ConnectorOffsetStores(
            worker_config=stores.worker,
            config=stores.config,
            offsets=stores.offsets,
            write_guard=stores.write_guard,
            left_s=life.left_s,
            kafka=stores.kafka,
        )
        source_tasks = SourceTasks(connector_offsets)
        stack.callback(connector_offsets.close)
        stack.callback(source_tasks.close)
        return cls(stores, connector_offsets, source_tasks, checkpoint_writer, startup)


class TopicsStart:
    """The start of the logs of the three topics, which one client reads: of one worker's stores, or of many groups.

    The topics are found, by their ids, and fetching begins; then their ends are asked for, the logs are made, and
    :meth:`read`. In this order, records of a topic that is deleted at that moment are not taken for those of its successor.

    Args:
        group_id: whose live members are asked for; ``None``: those of all groups.

    Attributes:
        guard: refuses writes while members of a group are alive, and to topics that are refused.
        connect_s: in which the client was made that reads.
    """

    def __init__(
        self, worker: WorkerConfig, admin: Admin, stack: ExitStack, *, group_id: str | None, began_s: float
    ) -> None:
        self._worker = worker
        self._admin = admin
        self._is_many, self._group = group_id is None, worker.cluster_group_id
        self._stack = stack
        self._began_s = began_s
        self._all_read = threading.Event()
        self._context = StartContext()
        self._policies: Future[None] = Future()
        self.guard: LiveMembersGuard = LiveMembersGuard(admin, group_id, self._policies)
        self.connect_s: float = 0.0
        stack.callback(self.guard.stop)

    def find(self, *, allow_lost: bool, checkpoint: Path | None = None) -> None:
        """Find the topics and begin to fetch them from the beginning; their ends are asked for meanwhile.

        Raises:
            LostTopicError: one is missing, and the group, or any of many, has records in the others, or it was there when a
                ``checkpoint`` was taken; unless that is allowed.
        """
        asked_s = time.monotonic()
        names = [self._worker.topic(topic_type) for topic_type in TopicType]
        descriptions = self._admin.describe_topics(names, expected=checkpoint is not None, together=True)
        missing = {each: name for each in TopicType if (name := self._worker.topic(each)) not in descriptions}
        others = (self._has_own(each) for each in TopicType if each not in missing)
        if missing and not allow_lost and (checkpoint is not None or any(others)):
            what = GONE if checkpoint is None else f"does not exist, and did when checkpoint {checkpoint} was taken"
            raise lost_topics(missing, what, _ALLOW_EMPTY)
        starts = {
            topic: {partition.id: 0 for partition in description.partitions}
            for topic, description in descriptions.items()
        }
        reader = self._reader(starts, from_the_beginning=True)
        self._set_context(with_ends(self._admin, descriptions, asked_s), reader)

    def _has_own(self, topic_type: TopicType) -> bool:
        """Read a topic for keys that live; what is not committed yet counts, too."""
        living: dict[bytes, bool] = {}
        for facts in read_facts(self._admin, [self._worker.topic(topic_type)], expected=True).values():
            for record in read_records(self._worker, facts.ranges(), self._worker.isolation(topic_type)):
                owner = split_key(topic_type, record.key)
                if record.key is not None and owner is not None and (self._is_many or owner[0] == self._group):
                    living[record.key] = not removes(topic_type, record.value)
        return any(living.values())

    def find_since(self, checkpoint: Checkpoint) -> None:
        """Begin to fetch what is new since a checkpoint, while it is proven that this is as good as reading everything.

        ``CheckpointRejected``: it is not.
        """
        starts = {self._worker.topic(topic_type): checkpoint.of(topic_type).positions for topic_type in TopicType}
        reader = self._reader(starts, from_the_beginning=False)
        facts = proven(checkpoint, self._worker, read_facts(self._admin, starts, expected=True))
        self._set_context(facts, reader, gapless=True)

    def _reader(self, starts: Mapping[str, Mapping[int, int]], *, from_the_beginning: bool) -> SharedReader | None:
        """Make a reader of those topics that exist and are read with the same isolation; the others are read alone."""
        alike: dict[Isolation, dict[str, Mapping[int, int]]] = {}
        for topic_type in TopicType:
            topic = self._worker.topic(topic_type)
            if topic in starts:
                alike.setdefault(self._worker.isolation(topic_type), {})[topic] = starts[topic]
        if not alike:
            return None
        isolation, most = max(alike.items(), key=lambda item: len(item[1]))
        how = Reader(self._worker.consumer_settings(), self._worker.client_id("shared-start"), isolation)
        reader = SharedReader(most, how, from_the_beginning=from_the_beginning)
        self._stack.callback(reader.close)
        self.connect_s = reader.connect_s
        return reader

    def _set_context(
        self, facts: Mapping[str, TopicFacts], reader: SharedReader | None, *, gapless: bool = False
    ) -> None:
        self._context = StartContext(facts, reader, self._all_read, gapless)
        self._stack.callback(self._all_read.set)

    def log_of(self, topic_type: TopicType, feed: RecordFeed, on_failed: OnFailed) -> KafkaBasedLog:
        """Make the log of a topic, of those that are read together."""
        return kafka_based_log(
            self._worker, topic_type, feed, admin=self._admin, context=self._context, on_failed=on_failed
        )

    def read(
        self,
        logs: Mapping[TopicType, KafkaTopicBasedBackingStore | KafkaBasedLog],
        *,
        asks_for_members: bool,
        on_abort: Callable[[Callable[[], object]], None] = lambda _stop: None,
    ) -> dict[TopicType, float]:
        """Start logs, or stores over them, each in a thread; return how many seconds after the begin each was ready.

        ``on_abort`` is given what stops them before they are ready.
        """
        seconds: dict[TopicType, float] = {}

        def stop_all() -> None:
            """Also when one of them is interrupted: the others would read on, and be waited for."""
            with ExitStack() as each:
                for log in logs.values():
                    each.callback(log.stop)
                each.callback(self.guard.stop)

        def start(topic_type: TopicType) -> None:
            try:
                logs[topic_type].start()
            except GroupMovedError:
                self._policies.result()  # that the topic is closed is said first, whichever is known first
                raise
            seconds[topic_type] = time.monotonic() - self._began_s

        on_abort(stop_all)
        # The check first: a store may wait for it, and whether all of them begin is not certain.
        tasks: list[Callable[[], None]] = [self._check_policies, *(partial(start, topic_type) for topic_type in logs)]
        if asks_for_members:
            tasks.append(lambda: self.guard.start(lambda error: [log.fail(error) for log in logs.values()]))
        run_together(tasks, stop=stop_all)
        return seconds

    def _check_policies(self) -> None:
        """Runs beside the reads; the policy of a topic that is made now is right."""
        found = self._context.facts
        try:
            known = self._admin.settings_of_topics(found)
            for spec in [topic_spec(self._worker, topic_type) for topic_type in TopicType]:
                if spec.topic in found:
                    check_cleanup_policy(self._admin, spec, known[spec.topic])
        except BaseException as error:
            self._policies.set_exception(error)
            raise
        self._policies.set_result(None)

    def follow(self) -> None:
        """Let go of the client that has read, and let the logs be followed."""
        if self._context.reader is not None:
            self._context.reader.release()
        # Last: those who follow make their clients now, and each keeps this thread waiting for a millisecond or two.
        self._all_read.set()


def start_storage(options: StorageOptions, life: StorageLife, stack: ExitStack) -> RunningStorage:
    """Start the three stores, from a checkpoint where that is as good as reading everything; ``stack`` closes them."""
    began_s, worker = time.monotonic(), options.worker
    if worker.sealing_keys is not None:
        # Beside the first answers of the brokers, which take about as long.
        threading.Thread(target=load_library, name="connect-storage-sealing", daemon=True).start()
    admin = stack.enter_context(Admin(worker.admin_settings(), client_id=worker.client_id("shared-admin")))
    life.on_abort(admin.close)
    not_used = None
    if options.checkpoint is not None:
        try:
            with ExitStack() as attempt:
                running = StorageStart(options, life, attempt, admin, began_s).from_checkpoint(options.checkpoint)
                stack.enter_context(attempt.pop_all())
                return running
        except CheckpointRejected as rejected:
            not_used = rejected
            _logger.info(
                "Reading everything instead of restarting from checkpoint %s: %s (%s)",
                options.checkpoint,
                rejected,
                rejected.reason,
            )
    return StorageStart(options, life, stack, admin, began_s).from_the_beginning(not_used)


class StorageStart(TopicsStart):
    """One try to start the stores of one worker."""

    def __init__(
        self, options: StorageOptions, life: StorageLife, stack: ExitStack, admin: Admin, began_s: float
    ) -> None:
        super().__init__(options.worker, admin, stack, group_id=options.worker.group_id, began_s=began_s)
        self._options = options
        self._life = life
        self._plain_topics: PlainTopicsCheck | None = None
        self._logs: dict[TopicType, KafkaBasedLog] = {}

    def from_the_beginning(self, not_used: CheckpointRejected | None) -> RunningStorage:
        """Read everything; ``not_used``: why a checkpoint is not."""
        missing = not_used is not None and not_used.reason is NotUsed.TOPIC_MISSING
        self.find(allow_lost=self._options.allow_empty, checkpoint=self._options.checkpoint if missing else None)
        if self._worker.cluster_group_id is not None and not self._options.allow_empty:
            self._plain_topics = PlainTopicsCheck()
        return self._run(None, not_used)

    def from_checkpoint(self, path: Path) -> RunningStorage:
        """Read what is new since a checkpoint.

        Nothing that comes is applied until it is known that this is as good as reading everything. A checkpoint comes from a
        start that was not refused, so whether keys are plain is not asked again.

        Raises:
            CheckpointRejected: it is not, or going on from it failed: reading everything does without it, or says why not.
        """
        checkpoint = own_checkpoint(path, self._worker)
        self.find_since(checkpoint)
        try:
            return self._run(checkpoint, None)
        except OffsetsMissing as missing:
            raise CheckpointRejected(NotUsed.OFFSETS_MISSING, str(missing)) from missing
        except (BrokerError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            _logger.warning("Reading everything, restarting from checkpoint %s failed: %s", path, safe_text(error))
            raise CheckpointRejected(NotUsed.FAILED, "restarting from it failed") from error

    def _run(self, checkpoint: Checkpoint | None, not_used: CheckpointRejected | None) -> RunningStorage:
        admin_s = time.monotonic() - self._began_s - self.connect_s
        allowed, life, stack = self._options.allow_live_members, self._life, self._stack
        write_guard = self.guard.of(self._worker.group_id, allowed)
        stores = Stores.over(self._log_of, self._options, self._admin, write_guard)
        for topic_type, store in stores.by_topic().items():
            stack.callback(lambda store: store.stop(life.left_s()), store)
            if checkpoint is not None:
                store.restore(checkpoint.of(topic_type).state)
        seconds = self.read(stores.by_topic(), asks_for_members=allowed is not True, on_abort=life.on_abort)
        if self._plain_topics is not None:
            self._plain_topics.refuse(self._worker)
        path = None if self._options.allow_empty else self._options.checkpoint
        if path is not None and not_used is not None and not_used.reason is NotUsed.TOPIC_RECREATED:
            self._refuse_made_anew(path, stores)
        config, status, offsets = (self._store_startup(topic_type, seconds) for topic_type in TopicType)
        startup = StorageStartup(
            time.monotonic() - self._began_s,
            admin_s,
            config,
            status,
            offsets,
            connect_seconds=self.connect_s,
            read_seconds=max(log.caught_up.wait_s for log in self._logs.values() if log.caught_up is not None),
            from_checkpoint=checkpoint is not None,
            full_read_reason=None if not_used is None else str(not_used),
            full_read_kind=None if not_used is None else not_used.reason,
        )
        running = RunningStorage.of(stores, startup, life, stack, self._checkpoint_writer(stores.by_topic()))
        self.follow()
        return running

    def _refuse_made_anew(self, path: Path, stores: Stores) -> None:
        """Raise ``LostTopicError`` for a topic that was made anew and is empty: a checkpoint has something of it."""
        checkpoint = own_checkpoint(path, self._worker)
        for topic_type, store in stores.by_topic().items():
            saved, log = checkpoint.of(topic_type), self._logs[topic_type]
            is_empty = log.caught_up is not None and not log.caught_up.own
            if is_empty and saved.topic_id != log.topic_id and saved.state != json.loads(json.dumps(store.saved())):
                what = f"was made anew since checkpoint {path} was taken, and has nothing of the group"
                raise lost_topics({topic_type: log.topic}, what, _ALLOW_EMPTY)

    def _log_of(self, topic_type: TopicType, feed: RecordFeed) -> KafkaBasedLog:
        if self._plain_topics is not None:
            feed.key_watch = self._plain_topics.watch(topic_type)
        log = self._logs[topic_type] = self.log_of(topic_type, feed, self._life.fail)
        return log

    def _store_startup(self, topic_type: TopicType, seconds: Mapping[TopicType, float]) -> StoreStartup:
        log = self._logs[topic_type]
        found = log.caught_up
        assert found is not None  # noqa: S101 - the log has started
        return StoreStartup(
            topic=log.topic,
            partitions=log.partition_count,
            seconds=seconds[topic_type],
            own_records=found.own,
            foreign_records=found.foreign,
            first_record_seconds=found.first_record_s,
            apply_seconds=found.apply_s,
        )

    def _checkpoint_writer(self, stores: Mapping[TopicType, KafkaTopicBasedBackingStore]) -> CheckpointWriter | None:
        path = self._options.checkpoint
        if path is None:
            return None
        ids = {topic_type: log.topic_id for topic_type, log in self._logs.items()}
        writer = CheckpointWriter(path, self._worker, self._admin, stores, ids, self._options.checkpoint_every_s)
        self._stack.callback(lambda: writer.stop(self._life.left_s()))
        writer.start()
        return writer


def run_together(tasks: Sequence[Callable[[], None]], stop: Callable[[], object]) -> None:
    """Run all tasks at once; the first failure stops the others and is raised."""
    with ThreadPoolExecutor(len(tasks), thread_name_prefix="connect-storage-start") as threads:
        try:
            running = [threads.submit(task) for task in tasks]
            done, _ = wait(running, return_when=FIRST_EXCEPTION)
            for ended in done:
                ended.result()
        except BaseException:
            stop()
            raise
