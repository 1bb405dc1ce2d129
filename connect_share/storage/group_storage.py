"""The storage of one of many groups, over topics that are read for all of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, Self

from connect_share.admin import Admin
from connect_share.errors import ConnectShareError, NotStartedError
from connect_share.log import OnFailed, RecordSink, RoutedLog, TopicHub
from connect_share.log.protocol import STOP_TIMEOUT_S
from connect_share.records import TopicType
from connect_share.storage.connect_storage import ConnectStorage
from connect_share.storage.dispatcher import Dispatcher
from connect_share.storage.life import StorageLife
from connect_share.storage.live_members import AllowLiveMembers, LiveMembersGuard
from connect_share.storage.plain_topics import PlainTopicsCheck
from connect_share.storage.startup import StorageStartup, StoreStartup
from connect_share.storage.storage_start import RunningStorage, source_parts
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.stores.config_listener import ConfigUpdateListener
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.status import KafkaStatusBackingStore
from connect_share.stores.topic_based import KafkaTopicBasedBackingStore, StoreOptions, WriteGuard
from connect_share.worker_config import WorkerConfig

_NOT_MEASURED: Final = 0.0


@dataclass(frozen=True)
class ReadTopics:
    """The topics that are read for all groups, and what groups share beside them."""

    hubs: Mapping[TopicType, TopicHub]
    admin: Admin
    guard: LiveMembersGuard
    plain_topics: PlainTopicsCheck


class Topics(Protocol):
    """What a storage needs of ``SharedTopics``."""

    def read(self, storage: GroupStorage) -> ReadTopics:
        """Return the topics, read to their ends for all groups that were asked for so far."""

    def forget(self, storage: GroupStorage) -> None:
        """Take note that a storage was stopped."""


class GroupStorage(ConnectStorage):
    """The storage of one of many groups; see ``SharedTopics.storage``."""

    def __init__(
        self,
        topics: Topics,
        worker: WorkerConfig,
        *,
        allow_empty: bool,
        allow_live_members: AllowLiveMembers,
        update_listener: ConfigUpdateListener | None,
        on_failed: OnFailed | None,
    ) -> None:
        super().__init__(worker, allow_empty=allow_empty, allow_live_members=allow_live_members, on_failed=on_failed)
        self._topics = topics
        self._listener = update_listener
        self._dispatcher: Dispatcher | None = None
        self._stores: tuple[KafkaConfigBackingStore, KafkaStatusBackingStore, KafkaOffsetBackingStore] | None = None
        self._routed: dict[TopicType, RoutedLog] = {}
        self._guard: WriteGuard = _no_guard

    def __enter__(self) -> Self:
        return self  # started when it is used: until then other groups can join the read

    def fail(self, error: ConnectShareError) -> None:
        """Take note of what ended the reader of all groups."""
        self._life.fail(error)

    def prepare(self, topics: ReadTopics) -> None:
        """Make the stores; they take records from now on."""
        if self._stores is not None:
            return
        worker = self._worker_config
        if self._options.allow_live_members is not True:
            self._guard = topics.guard.of(worker.group_id, self._options.allow_live_members)

        def options(topic_type: TopicType) -> StoreOptions:
            return {
                "log": partial(self._log_of, topics.hubs[topic_type], topic_type),
                "admin": topics.admin,
                "write_guard": self._guard,
            }

        self._dispatcher = None if self._listener is None else Dispatcher(self._listener, worker.group_id)
        self._stores = (
            KafkaConfigBackingStore(worker, update_listener=self._dispatcher, **options(TopicType.CONFIG)),
            KafkaStatusBackingStore(worker, **options(TopicType.STATUS)),
            KafkaOffsetBackingStore(worker, **options(TopicType.OFFSET)),
        )
        for store in self._stores:
            store.prepare()

    @property
    def stores(self) -> tuple[KafkaConfigBackingStore, KafkaStatusBackingStore, KafkaOffsetBackingStore]:
        """The stores that were made, started or not.

        Raises:
            NotStartedError: none were made.
        """
        if self._stores is None:
            raise NotStartedError(f"the storage of group {self._worker_config.group_id} has no stores; call start()")
        return self._stores

    def _log_of(self, hub: TopicHub, topic_type: TopicType, sink: RecordSink) -> RoutedLog:
        log = self._routed[topic_type] = hub.log_of(sink, self._life.fail)
        return log

    def _start_parts(self, life: StorageLife, stack: ExitStack) -> RunningStorage:
        began = time.monotonic()
        stack.callback(self._let_go)
        topics = self._topics.read(self)
        self.prepare(topics)
        config, status, offsets = self.stores
        stores: tuple[KafkaTopicBasedBackingStore, ...] = self.stores
        for store in stores:
            stack.callback(lambda store: store.stop(life.left_s()), store)
        if self._dispatcher is not None:
            self._dispatcher.start()
            stack.callback(self._dispatcher.stop)
        for store in stores:
            store.start()
        if not self._options.allow_empty:
            topics.plain_topics.refuse(self._worker_config)
        connector_offsets, source_tasks = source_parts(
            self._worker_config, config=config, offsets=offsets, write_guard=self._guard, life=life, stack=stack
        )
        startup = self._startup(topics, time.monotonic() - began)
        return RunningStorage(config, status, offsets, connector_offsets, source_tasks, None, startup)

    def _startup(self, topics: ReadTopics, seconds: float) -> StorageStartup:
        of = {
            topic_type: StoreStartup(
                topic=hub.log.topic,
                partitions=hub.log.partition_count,
                seconds=seconds,
                own_records=self._routed[topic_type].own,
                foreign_records=self._routed[topic_type].foreign_records,
                first_record_seconds=_NOT_MEASURED,
                apply_seconds=_NOT_MEASURED,
            )
            for topic_type, hub in topics.hubs.items()
        }
        return StorageStartup(
            seconds=seconds,
            admin_seconds=_NOT_MEASURED,
            config=of[TopicType.CONFIG],
            status=of[TopicType.STATUS],
            offsets=of[TopicType.OFFSET],
            connect_seconds=_NOT_MEASURED,
            read_seconds=_NOT_MEASURED,
            from_checkpoint=False,
            full_read_reason=None,
        )

    def _let_go(self) -> None:
        """Take no more records; a start after this makes other stores."""
        for log in self._routed.values():
            log.stop(0.0)
        self._stores, self._routed = None, {}

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what was put and stop these stores; the other groups go on."""
        super().stop(timeout_s)
        self._let_go()  # where it was prepared for the read, and never started
        self._topics.forget(self)

    close = stop

    @property
    def _running(self) -> RunningStorage:
        if self._parts is None and self._life.is_new:
            self.start()
        return super()._running


def _no_guard(within_s: float = 0.0, *, at_once: bool = False) -> None:
    """Let every write through."""
