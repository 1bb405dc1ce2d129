"""Many groups in one process, over one reader of the topics that they share."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import Self

from connect_share.admin import Admin
from connect_share.errors import ConfigError, ConnectShareError, NotStartedError
from connect_share.keys import ClusterGroupId
from connect_share.log import OnFailed, Router, StartContext, TopicHub, with_ends
from connect_share.log.protocol import STOP_TIMEOUT_S
from connect_share.records import TopicType
from connect_share.storage.connect_storage import ConnectStorage
from connect_share.storage.group_storage import GroupStorage, ReadTopics
from connect_share.storage.life import StorageLife
from connect_share.storage.live_members import AllowLiveMembers, LiveMembersGuard
from connect_share.storage.plain_topics import PlainTopicsCheck
from connect_share.storage.storage_start import run_together, shared_reader
from connect_share.stores.config_listener import ConfigUpdateListener
from connect_share.stores.given_group import group_of_worker
from connect_share.stores.topic_based import kafka_based_log
from connect_share.topics import check_known_policy, topic_spec
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig


class SharedTopics:
    """One reader for the stores of many groups on one set of topics, as a context manager.

    The topics are read once for all groups that were asked for by then, when the first of them is used or started, and are
    followed once. A group that is asked for later reads once more, for itself alone. Records of a group reach its stores
    alone; a group whose listener is slow or raises, or whose stores fail, holds up no other.

    Args:
        worker_config: topics, connection, and all that groups do not have of their own; sharing has to be enabled.
        on_failed: called once if following a topic has failed, on a thread of its own; each storage is told as well.

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
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def storage(
        self,
        group_id: str,
        *,
        worker_config: WorkerConfig | None = None,
        allow_empty: bool = False,
        allow_live_members: AllowLiveMembers = False,
        update_listener: ConfigUpdateListener | None = None,
        on_failed: OnFailed | None = None,
    ) -> ConnectStorage:
        """Return the storage of a group. It starts when it is used first, or by ``start()``, and ends with these topics.

        Args:
            group_id: the group.
            worker_config: of this group, for what it has of its own, such as keys or exactly-once; the topics are the same.
            allow_empty: as of ``ConnectStorage``.
            allow_live_members: the same.
            update_listener: the same, but called on a thread of this group's own.
            on_failed: called once if a store of this group has failed, or what is read for all groups.

        Raises:
            InvalidClusterGroupIdError: ``group_id`` cannot be one.
            ConfigError: ``worker_config`` is of another group, or names other topics.
            NotStartedError: these topics were stopped.
        """
        storage = GroupStorage(
            self,
            self._worker_of(group_id, worker_config),
            allow_empty=allow_empty,
            allow_live_members=allow_live_members,
            update_listener=update_listener,
            on_failed=on_failed,
        )
        with self._lock:
            self._check_open()
            self._storages.append(storage)
        return storage

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop every storage, then the reader; may be called twice."""
        deadline_s = time.monotonic() + timeout_s
        with self._lock:
            self._closed = True
            storages, self._storages = self._storages, []
        for storage in storages:
            storage.stop(max(0.0, deadline_s - time.monotonic()))
        with self._lock:
            self._stack.close()

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
                with ExitStack() as stack:
                    self._topics = self._read(stack)
                    self._stack = stack.pop_all()
            return self._topics

    def forget(self, storage: GroupStorage) -> None:
        """Take note that a storage was stopped; storages call it."""
        with self._lock:
            if storage in self._storages:
                self._storages.remove(storage)

    def _read(self, stack: ExitStack) -> ReadTopics:
        worker, asked_s = self._worker, time.monotonic()
        admin = stack.enter_context(Admin(worker.admin_settings(), client_id=worker.client_id("shared-admin")))
        descriptions = admin.describe_topics(worker.topic(topic_type) for topic_type in TopicType)
        settings = admin.settings_of_topics(descriptions)
        for spec in (topic_spec(worker, topic_type) for topic_type in TopicType):
            if spec.topic in descriptions:
                check_known_policy(spec, settings[spec.topic], admin.bootstrap_servers)
        starts = {topic: {part.id: 0 for part in found.partitions} for topic, found in descriptions.items()}
        reader, all_read = shared_reader(worker, starts, stack), threading.Event()
        stack.callback(all_read.set)
        context = StartContext(with_ends(admin, descriptions, asked_s), reader, all_read)
        plain_topics, guard = PlainTopicsCheck(), LiveMembersGuard(admin, None)
        stack.callback(guard.stop)
        hubs = {topic_type: self._hub(topic_type, context, admin, plain_topics) for topic_type in TopicType}
        topics = ReadTopics(hubs, admin, guard, plain_topics)
        for storage in self._storages:
            storage.prepare(topics)
        for hub in hubs.values():
            stack.callback(hub.log.stop)

        def stop_all() -> None:
            for hub in hubs.values():
                hub.log.stop()

        run_together(
            [*(hub.log.start for hub in hubs.values()), guard.start],
            stop=stop_all,
        )
        if reader is not None:
            reader.release()
        all_read.set()
        return topics

    def _hub(
        self, topic_type: TopicType, context: StartContext, admin: Admin, plain_topics: PlainTopicsCheck
    ) -> TopicHub:
        worker, router = self._worker, Router(plain_topics.watch(topic_type))
        log = kafka_based_log(
            worker, topic_type, sink=router.nothing, admin=admin, context=context, feed=router, on_failed=self._fail
        )
        return TopicHub(log, router, worker.consumer_settings(), worker.isolation(topic_type))

    def _fail(self, error: ConnectShareError) -> None:
        for storage in list(self._storages):
            storage.fail(error)
        self._life.fail(error)  # last: whoever hears of it asks the storages
