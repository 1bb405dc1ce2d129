"""What a runtime needs of its config and status store, whichever it is. Errors: the Kafka stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, overload

from connect_share.records import ConnectorTaskId
from connect_share.state import (
    ClusterConfigState,
    ConnectorStatus,
    RestartRequest,
    SessionKey,
    StatusSnapshot,
    TargetState,
    TaskStatus,
    TopicStatus,
)
from connect_share.stores.config_listener import ConfigUpdateListener


class ConfigBackingStore(Protocol):
    """Connectors, their tasks, and what is wanted of them. Source: ``ConfigBackingStore``."""

    def start(self) -> None:
        """Read what is there; called once before anything else."""

    def stop(self) -> None:
        """Let go of clients and threads; may be called twice."""

    def set_update_listener(self, listener: ConfigUpdateListener | None) -> None:
        """Call a listener with changes from now on, in place of the one before."""

    def snapshot(self) -> ClusterConfigState:
        """Return what is configured, immutable."""

    def contains(self, connector: str) -> bool:
        """Return whether a connector of this name is configured."""

    def refresh(self, timeout_s: float = ...) -> None:
        """Return once everything that was written before was applied."""

    def put_connector_config(
        self, connector: str, properties: Mapping[str, str | None], target_state: TargetState | None = None
    ) -> None:
        """Write a connector's configuration, and read it back."""

    def remove_connector_config(self, connector: str) -> None:
        """Remove a connector, and read that back."""

    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        """Write the configurations of all tasks of a connector, commit them, and read that back."""

    def put_target_state(self, connector: str, state: TargetState) -> None:
        """Write what is wanted of a connector."""

    def put_task_count_record(self, connector: str, task_count: int) -> None:
        """Write how many tasks the next generation may have started, and read it back."""

    def put_session_key(self, session_key: SessionKey) -> None:
        """Write the key that workers sign internal requests with, and read it back."""

    def put_restart_request(self, request: RestartRequest) -> None:
        """Write a request to restart a connector, and read it back."""

    def put_logger_level(self, namespace: str, level: str) -> None:
        """Write the level of a logger."""

    def claim_write_privileges(self) -> None:
        """Become the one writer, where that is asked for."""


class StatusBackingStore(Protocol):
    """How connectors and tasks are doing, and which topics they use. Source: ``StatusBackingStore``."""

    def start(self) -> None:
        """Read what is there; called once before anything else."""

    def stop(self) -> None:
        """Let go of clients and threads; may be called twice."""

    def put(self, status: ConnectorStatus | TaskStatus | TopicStatus) -> None:
        """Write a status whatever was written before."""

    def put_safe(self, status: ConnectorStatus | TaskStatus) -> None:
        """Write a status unless another worker has written a newer generation."""

    def delete_topic(self, connector: str, topic: str) -> None:
        """Forget that a connector uses a topic."""

    @overload
    def get(self, subject: str) -> ConnectorStatus | None: ...

    @overload
    def get(self, subject: ConnectorTaskId) -> TaskStatus | None: ...

    def get(self, subject: str | ConnectorTaskId) -> ConnectorStatus | TaskStatus | None:
        """Return the status of a connector or task."""

    def get_all(self, connector: str) -> list[TaskStatus]:
        """Return the statuses of all tasks of a connector."""

    def get_topic(self, connector: str, topic: str) -> TopicStatus | None:
        """Return what is known of a connector's use of a topic."""

    def get_all_topics(self, connector: str) -> list[TopicStatus]:
        """Return all topics a connector uses."""

    def connectors(self) -> frozenset[str]:
        """Name the connectors that have a status."""

    def snapshot(self) -> StatusSnapshot:
        """Return everything, immutable."""

    def refresh(self, timeout_s: float = ...) -> None:
        """Return once everything that was written before was applied."""

    def flush(self, timeout_s: float = ...) -> None:
        """Wait until everything put so far is acknowledged or has failed once."""
