"""Many groups in one process, over one reader of the topics that they share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Self, Unpack

from connect_share.errors import ConfigError, ConnectShareError, NotStartedError
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Deadline
from connect_share.log.hub import RoutedLog, Router
from connect_share.log.protocol import STOP_TIMEOUT_S, RecordFeed
from connect_share.log.tail import OnFailed
from connect_share.log.threads import JobThread
from connect_share.model.config import ConfigEvent
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.storage.connect_storage import ConnectStorage, StorageArguments, spelled_out
from connect_share.storage.live_members import LiveMembersGuard
from connect_share.storage.start import (
    PlainTopicsCheck,
    RunningStorage,
    StorageLife,
    StorageStartup,
    Stores,
    StoreStartup,
    TopicsStart,
)
from connect_share.stores.base import group_of_worker
from connect_share.stores.config import ConfigUpdateListener, KafkaConfigBackingStore
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig


@dataclass(frozen=True)
class ReadTopics:
    """The topics that are read for all groups, and what groups share beside them."""

    routers: Mapping[TopicType, Router]
    admin: Admin
    guard: LiveMembersGuard
    plain_topics: PlainTopicsCheck


class GroupStorage(ConnectStorage):
    """The storage of one of many groups; see ``SharedTopics.storage``."""

    def __init__(self, topics: SharedTopics, worker: WorkerConfig, arguments: StorageArguments) -> None:
        super().__init__(worker, **arguments)
        self._topics = topics
        self._stores: Stores | None = None
        self._logs: dict[TopicType, RoutedLog] = {}

    def __enter__(self) -> Self:
        return self  # started when it is used: until then other groups can join the read

    def fail(self, error: ConnectShareError) -> None:
        """Take note of what ended the reader of all groups."""
        self._life.fail(error)

    def prepare(self, topics: ReadTopics) -> Stores:
        """Make the stores, unless they are there; they get records from now on."""
        if self._stores is not None:
            return self._stores
        write_guard = topics.guard.of(self._worker_config.group_id, self._options.allow_live_members)
        self._stores = Stores.over(partial(self._log_of, topics), self._options, topics.admin, write_guard)
        for store in self._stores.by_topic().values():
            store.prepare()
        return self._stores

    def _log_of(self, topics: ReadTopics, topic_type: TopicType, feed: RecordFeed) -> RoutedLog:
        log = self._logs[topic_type] = topics.routers[topic_type].log_of(feed, self._life.fail)
        return log

    def _start_parts(self, life: StorageLife, stack: ExitStack) -> RunningStorage:
        began = time.monotonic()
        stack.callback(self.let_go)
        topics = self._topics.read(self)
        stores = self.prepare(topics)
        for store in stores.by_topic().values():
            stack.callback(lambda store: store.stop(life.left_s()), store)
        stack.callback(lambda thread: thread.stop(life.left_s()), self._with_own_listener_thread(stores.config))
        for store in stores.by_topic().values():
            store.start()
        if not self._options.allow_empty:
            topics.plain_topics.refuse(self._worker_config)
        seconds = time.monotonic() - began
        found = {
            topic_type: StoreStartup(
                topic=router.log.topic,
                partitions=router.log.partition_count,
                seconds=seconds,
                own_records=self._logs[topic_type].feed.own,
                foreign_records=self._logs[topic_type].foreign_records,
            )
            for topic_type, router in topics.routers.items()
        }
        config, status, offsets = (found[topic_type] for topic_type in TopicType)
        return RunningStorage.of(stores, StorageStartup(seconds, None, config, status, offsets), life, stack)

    def _with_own_listener_thread(self, config: KafkaConfigBackingStore) -> JobThread:
        """Let the reader of all groups wait for no listener.

        An event that waits already is not added again: who hears that a connector has changed reads the snapshot. So as few
        wait as there are connectors.
        """
        thread = JobThread(f"listener-{self._worker_config.group_id}", config.fail)

        def dispatch(event: ConfigEvent, listener: ConfigUpdateListener) -> None:
            thread.add((event, id(listener)), partial(config.tell, event, listener))

        config.dispatch = dispatch
        return thread

    def let_go(self) -> None:
        """Take no more records; a start after this makes other stores."""
        for log in self._logs.values():
            log.stop(0.0)
        self._stores, self._logs = None, {}

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what was put and stop these stores; the other groups go on."""
        super().stop(timeout_s)
        self.let_go()  # where it was prepared for the read, and never started
        self._topics.forget(self)

    close = stop

    @property
    def _running(self) -> RunningStorage:
        if self._parts is None and self._life.is_new:
            self.start()
        return super()._running


class SharedTopics:
    """One reader for the stores of many groups on one set of topics, as a context manager.

    The topics are read once for all groups that were asked for by then, when the first of them is used or started, and are
    followed once. A group that is asked for later reads once more, for itself alone. Records of a group reach its stores
    alone; a group whose listener is slow or raises, or whose stores fail, holds up no other.

    Args:
        worker_config: topics, connection, and all that groups do not have of their own; sharing has to be enabled.
        on_failed: called once if following a topic has failed, on a thread of its own; that of each storage as well.

    Raises (when the first group is started): as ``ConnectStorage``.

    >>> with SharedTopics(worker_config) as topics:
    ...     orders, billing = topics.storage("orders"), topics.storage("billing")
    ...     orders.config.put_connector_config("c", {"name": "c"})
    ...     orders.config.contains("c"), billing.config.contains("c")
    (True, False)
    """

    def __init__(self, worker_config: WorkerConfig, *, on_failed: OnFailed | None = None) -> None:
        if worker_config.cluster_group_id is None:
            raise ConfigError(
                f"groups share topics with {SHARING_PROPERTY}=enabled only: plain keys belong to one group",
                property_name=SHARING_PROPERTY,
            )
        self._worker = worker_config
        self._life = StorageLife(on_failed)
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._storages: list[GroupStorage] = []
        self._topics: ReadTopics | None = None
        self._aborts: list[Callable[[], object]] = []  # what ends a read that is under way
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @spelled_out(StorageArguments)
    def storage(
        self,
        group_id: str,
        *,
        worker_config: WorkerConfig | None = None,
        **arguments: Unpack[StorageArguments],
    ) -> ConnectStorage:
        """Return the storage of a group. It starts when it is used first, or by ``start()``, and ends with these topics.

        Args:
            group_id: the group.
            worker_config: of this group, for what it has of its own, such as keys or exactly-once; the topics are the same.
            arguments: as of ``ConnectStorage``. ``update_listener`` is called on a thread of this group's own, ``on_failed``
                also if what is read for all groups has failed.

        Raises:
            InvalidClusterGroupIdError: ``group_id`` cannot be one.
            ConfigError: ``worker_config`` is of another group, or names other topics.
            NotStartedError: these topics were stopped.
        """
        storage = GroupStorage(self, self._worker_of(group_id, worker_config), arguments)
        with self._lock:
            self._check_open()
            self._storages.append(storage)
        return storage

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop every storage, then the reader; may be called twice."""
        deadline = Deadline.after(timeout_s)
        self._closed = True
        for abort in [] if self._topics is not None else [*self._aborts]:
            abort()
        with self._lock:
            storages, self._storages = self._storages, []
        with self._stack as ending:  # all of it ends, also if a storage cannot
            for storage in storages:
                ending.callback(lambda each: each.stop(deadline.remaining_s()), storage)

    close = stop

    def _worker_of(self, group_id: str, given: WorkerConfig | None) -> WorkerConfig:
        ClusterGroupId(group_id)
        if given is None:
            return WorkerConfig.from_properties({**self._worker.originals, "group.id": group_id})
        group_of_worker(given, group_id, argument="group_id", optional="worker_config")
        for topic_type in TopicType:
            if given.topic(topic_type) != self._worker.topic(topic_type):
                raise ConfigError(
                    f"the {topic_type.value} topic of {group_id!r} is {given.topic(topic_type)}, and here it is "
                    f"{self._worker.topic(topic_type)}: these groups share one set of topics",
                    property_name=f"{topic_type.value}.storage.topic",
                )
        return given

    def _check_open(self) -> None:
        if self._closed:
            raise NotStartedError("these SharedTopics were stopped; make new ones")

    def read(self, storage: GroupStorage) -> ReadTopics:
        """Return the topics, read to their ends for all groups that were asked for so far; a storage that starts calls it.

        Raises:
            ConnectShareError: as entering a ``ConnectStorage``.
        """
        with self._lock:
            self._check_open()
            if storage not in self._storages:  # it was stopped before
                self._storages.append(storage)
            if self._topics is None:
                try:
                    with ExitStack() as stack:
                        self._topics = self._read(stack)
                        self._stack = stack.pop_all()
                except BaseException:
                    for each in self._storages:
                        each.let_go()  # also those that were prepared for this read and wait to be used
                    self._check_open()
                    raise
            return self._topics

    def forget(self, storage: GroupStorage) -> None:
        """Take note that a storage was stopped; storages call it."""
        with self._lock:
            if storage in self._storages:
                self._storages.remove(storage)

    def _read(self, stack: ExitStack) -> ReadTopics:
        worker, began_s = self._worker, time.monotonic()
        admin = stack.enter_context(Admin(worker.admin_settings(), client_id=worker.client_id("shared-admin")))
        self._aborts = [admin.close]
        start = TopicsStart(worker, admin, stack, group_id=None, began_s=began_s)
        start.find(allow_lost=False)
        plain_topics = PlainTopicsCheck()
        routers = {
            topic_type: Router(partial(start.log_of, topic_type, on_failed=self._fail), plain_topics.watch(topic_type))
            for topic_type in TopicType
        }
        topics = ReadTopics(routers, admin, start.guard, plain_topics)
        for storage in self._storages:
            storage.prepare(topics)
        logs = {topic_type: router.log for topic_type, router in routers.items()}
        for log in logs.values():
            stack.callback(log.stop)
        start.read(logs, asks_for_members=True, on_abort=self._aborts.append)
        start.follow()
        return topics

    def _fail(self, error: ConnectShareError) -> None:
        for storage in list(self._storages):
            storage.fail(error)
        self._life.fail(error)  # last: whoever hears of it asks the storages
