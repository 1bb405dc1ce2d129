"""Producers of the tasks of source connectors with exactly-once: made, and fenced, as Connect's workers do."""

from __future__ import annotations

import threading
import weakref
from contextlib import ExitStack
from typing import Any

from connect_share.errors import StoreClosedError, StoreError, TaskCountError, UsageError, ValueFormatError
from connect_share.kafka import client
from connect_share.model.config_state import MOST_TASKS, ClusterConfigState
from connect_share.model.keys import is_integer, shown
from connect_share.model.records import ConnectorTaskId
from connect_share.stores.base import FENCE_GUARD_S
from connect_share.stores.connector_offsets import OWN_TOPIC_PROPERTY, ConnectorOffsetStores, own_offsets_worker_config
from connect_share.stores.task_offset_writer import TaskOffsetWriter
from connect_share.stores.transactional_writer import Producers, TransactionalWriter, fence_all
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.override_policy import client_overrides


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
        self._check_enabled(connector)
        _check_connector(connector)
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
        self._check_enabled(connector)
        _check_connector(connector)
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
        self._check_enabled(connector)
        _check_connector(connector)
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
            now = self._config.snapshot()
            if now.task_config_generation(connector) != state.task_config_generation(connector):
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

    def _check_enabled(self, connector: object) -> None:
        if self._worker_config.exactly_once_source_support != "enabled":
            raise UsageError(
                f"tasks of connector {shown(str(connector))} have no transactional producers: exactly.once.source.support is "
                "not enabled in the worker file"
            )

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


def _check_connector(connector: object) -> None:
    if not isinstance(connector, str) or not connector:
        raise ValueFormatError("the name of a connector has to be a text that is not empty")
