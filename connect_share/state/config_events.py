"""Events for a listener of the config store. Source: ``ConfigBackingStore.UpdateListener``."""

from __future__ import annotations

from dataclasses import dataclass

from connect_share.records import ConnectorTaskId
from connect_share.state.config_state import RestartRequest, SessionKey


@dataclass(frozen=True, slots=True)
class ConnectorConfigUpdated:
    """A connector is new or its configuration was written again."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorConfigRemoved:
    """A connector was removed."""

    connector: str


@dataclass(frozen=True, slots=True)
class TaskConfigsUpdated:
    """Task configs were committed; ``tasks`` may be empty (no tasks, or an incomplete commit)."""

    connector: str
    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """The target state of a known connector is another one than before."""

    connector: str


@dataclass(frozen=True, slots=True)
class SessionKeyUpdated:
    """A new session key was distributed."""

    session_key: SessionKey


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """Somebody wants a connector restarted."""

    request: RestartRequest


@dataclass(frozen=True, slots=True)
class LoggerLevelUpdated:
    """A logger's level was set for the whole cluster; ``level`` is not validated."""

    namespace: str
    level: str


ConfigEvent = (
    ConnectorConfigUpdated
    | ConnectorConfigRemoved
    | TaskConfigsUpdated
    | TargetStateChanged
    | SessionKeyUpdated
    | RestartRequested
    | LoggerLevelUpdated
)
