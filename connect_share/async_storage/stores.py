"""The three stores with awaitable writes; errors, deadlines and what is written are those of the stores behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, overload

from connect_share.async_storage.config_events import ConfigEvents, FanOut
from connect_share.async_storage.driver import Driver
from connect_share.records import ConnectorTaskId
from connect_share.state import (
    ClusterConfigState,
    ConnectorStatus,
    OffsetSnapshot,
    RestartRequest,
    SessionKey,
    StatusSnapshot,
    TargetState,
    TaskStatus,
    TopicStatus,
)
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.stores.config_listener import ConfigUpdateListener, check_listener
from connect_share.stores.offset_reader import OffsetStorageReader
from connect_share.stores.offset_writer import OffsetStorageWriter
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.status import FLUSH_TIMEOUT_S, KafkaStatusBackingStore
from connect_share.stores.topic_based import REFRESH_TIMEOUT_S

# No connector has an empty name: what belongs to none is carried out in one order, too.
_NO_CONNECTOR: Final = ""


class AsyncConfigStore:
    """The config store: methods as of ``KafkaConfigBackingStore``, writes awaitable."""

    def __init__(self, store: KafkaConfigBackingStore, driver: Driver, listeners: FanOut) -> None:
        self._store = store
        self._driver = driver
        self._listeners = listeners

    def snapshot(self) -> ClusterConfigState:
        """Return what is configured, as read so far."""
        return self._store.snapshot()

    def contains(self, connector: str) -> bool:
        """Return whether a connector of this name is configured."""
        return self._store.contains(connector)

    def set_update_listener(self, listener: ConfigUpdateListener | None) -> None:
        """Call a listener with changes from now on, on the thread that follows the topic; beside :meth:`events`."""
        if listener is not None:
            check_listener(listener)
        self._listeners.inner = listener or ConfigUpdateListener()

    def events(self) -> ConfigEvents:
        """Return the changes from now on, for ``async for``; several may listen."""
        return self._listeners.listen()

    async def refresh(self, timeout_s: float = REFRESH_TIMEOUT_S) -> None:
        """Return once everything that is in the topic now was applied."""
        await self._driver.read(self._store.refresh, timeout_s)

    async def put_connector_config(
        self, connector: str, properties: Mapping[str, str | None], target_state: TargetState | None = None
    ) -> None:
        """Write a connector's configuration, and read it back."""
        steps = self._store.put_connector_config.steps
        await self._driver.perform(connector, partial(steps, connector, properties, target_state))

    async def remove_connector_config(self, connector: str) -> None:
        """Remove a connector, and read that back."""
        await self._driver.perform(connector, partial(self._store.remove_connector_config.steps, connector))

    async def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        """Write the configurations of all tasks of a connector, commit them, and read that back."""
        await self._driver.perform(connector, partial(self._store.put_task_configs.steps, connector, configs))

    async def remove_task_configs(self, connector: str) -> None:
        """Raise ``UsageError``: Connect's store does not support it either."""
        self._store.remove_task_configs(connector)

    async def put_target_state(self, connector: str, state: TargetState) -> None:
        """Write what is wanted of a connector."""
        await self._driver.perform(connector, partial(self._store.put_target_state.steps, connector, state))

    async def put_task_count_record(self, connector: str, task_count: int) -> None:
        """Write how many tasks the next generation may have started, and read it back."""
        await self._driver.perform(connector, partial(self._store.put_task_count_record.steps, connector, task_count))

    async def put_session_key(self, session_key: SessionKey) -> None:
        """Write the key that workers sign internal requests with, and read it back."""
        await self._driver.perform(_NO_CONNECTOR, partial(self._store.put_session_key.steps, session_key))

    async def put_restart_request(self, request: RestartRequest) -> None:
        """Write a request to restart a connector, and read it back."""
        await self._driver.perform(_NO_CONNECTOR, partial(self._store.put_restart_request.steps, request))

    async def put_logger_level(self, namespace: str, level: str) -> None:
        """Write the level of a logger."""
        await self._driver.perform(_NO_CONNECTOR, partial(self._store.put_logger_level.steps, namespace, level))

    async def claim_write_privileges(self) -> None:
        """In exactly-once mode become the one writer, and fence the writer before."""
        await self._driver.perform(_NO_CONNECTOR, self._store.claim_write_privileges.steps)


class AsyncStatusStore:
    """The status store: methods as of ``KafkaStatusBackingStore``. A put waits for nothing there, and for nothing here."""

    def __init__(self, store: KafkaStatusBackingStore, driver: Driver) -> None:
        self._store = store
        self._driver = driver

    async def put(self, status: ConnectorStatus | TaskStatus | TopicStatus) -> None:
        """Write a status whatever was written before."""
        self._store.put(status)

    async def put_safe(self, status: ConnectorStatus | TaskStatus) -> None:
        """Write a status unless another worker has written a newer generation."""
        self._store.put_safe(status)

    async def delete_topic(self, connector: str, topic: str) -> None:
        """Forget that a connector uses a topic."""
        self._store.delete_topic(connector, topic)

    @overload
    def get(self, subject: str) -> ConnectorStatus | None: ...

    @overload
    def get(self, subject: ConnectorTaskId) -> TaskStatus | None: ...

    def get(self, subject: str | ConnectorTaskId) -> ConnectorStatus | TaskStatus | None:
        """Return the status of a connector or task, as last read."""
        return self._store.get(subject)

    def get_all(self, connector: str) -> list[TaskStatus]:
        """Return the statuses of all tasks of a connector, as last read."""
        return self._store.get_all(connector)

    def get_topic(self, connector: str, topic: str) -> TopicStatus | None:
        """Return what is known of a connector's use of a topic, as last read."""
        return self._store.get_topic(connector, topic)

    def get_all_topics(self, connector: str) -> list[TopicStatus]:
        """Return all topics a connector uses, as last read."""
        return self._store.get_all_topics(connector)

    def connectors(self) -> frozenset[str]:
        """Name the connectors that have a status."""
        return self._store.connectors()

    def snapshot(self) -> StatusSnapshot:
        """Return what was read so far, immutable."""
        return self._store.snapshot()

    async def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Wait until everything put so far is acknowledged or has failed once."""
        await self._driver.read(self._store.flush, timeout_s)

    async def refresh(self, timeout_s: float = REFRESH_TIMEOUT_S) -> None:
        """Return once everything that is in the topic now was applied."""
        await self._driver.read(self._store.refresh, timeout_s)


class AsyncOffsetStore:
    """The offset store: methods as of ``KafkaOffsetBackingStore``, reads and writes awaitable."""

    def __init__(self, store: KafkaOffsetBackingStore, driver: Driver) -> None:
        self._store = store
        self._driver = driver

    async def get(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        """Read to the end, then look up wire keys."""
        return await asyncio.wrap_future(self._store.get(keys))

    async def set(self, values: Mapping[bytes, bytes | None]) -> None:
        """Write values under wire keys, ``None`` as tombstone."""
        await asyncio.shield(asyncio.wrap_future(self._store.set(values)))

    def connector_partitions(self, connector: str) -> list[dict[str, Any]]:
        """List the source partitions for which the connector has offsets, as last read."""
        return self._store.connector_partitions(connector)

    def snapshot(self) -> OffsetSnapshot:
        """Return what was read so far, immutable."""
        return self._store.snapshot()

    async def refresh(self, timeout_s: float = REFRESH_TIMEOUT_S) -> None:
        """Return once everything that is in the topic now was applied."""
        await self._driver.read(self._store.refresh, timeout_s)


class AsyncOffsetReader:
    """Reads the offsets of one connector; methods as of ``OffsetStorageReader``."""

    def __init__(self, reader: OffsetStorageReader, driver: Driver) -> None:
        self._reader = reader
        self._driver = driver

    async def offset(self, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Look up one source partition."""
        return await self._driver.read(self._reader.offset, partition)

    async def offsets(
        self, partitions: Iterable[Mapping[str, Any] | None]
    ) -> list[tuple[Mapping[str, Any] | None, dict[str, Any] | None]]:
        """Look up several source partitions at once."""
        return await self._driver.read(self._reader.offsets, list(partitions))

    def close(self) -> None:
        """End reads that wait, and refuse later ones."""
        self._reader.close()


class AsyncOffsetWriter:
    """Writes the offsets of one task; methods as of ``OffsetStorageWriter``."""

    def __init__(self, writer: OffsetStorageWriter) -> None:
        self._writer = writer

    def offset(self, partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> None:
        """Set the offset of a source partition, for the next flush."""
        self._writer.offset(partition, offset)

    def will_flush(self) -> bool:
        """Return whether a flush is under way."""
        return self._writer.will_flush()

    def begin_flush(self) -> bool:
        """Take what was set so far; ``False``: there is nothing to flush."""
        return self._writer.begin_flush()

    async def do_flush(self) -> None:
        """Write what was taken, and return when it is acknowledged.

        Raises:
            ConnectShareError: it was not written; :meth:`cancel_flush` keeps the offsets for the next flush.
        """
        errors: list[BaseException] = []
        written = self._writer.do_flush(lambda error: None if error is None else errors.append(error))
        if written is None:
            raise errors[0]
        await asyncio.shield(asyncio.wrap_future(written))

    def cancel_flush(self) -> None:
        """Give up the flush under way; its offsets stay, under newer ones."""
        self._writer.cancel_flush()
