"""The lines of a worker file that lead to a cluster, and say how many replicas its topics have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from connect_share.worker_config import WorkerConfig

SERVERS: Final = "bootstrap.servers"
_SECURITY: Final = re.compile(r"((producer|consumer|admin)\.)?(security|ssl|sasl)\..+")
_PLACE: Final = re.compile(
    rf"((producer|consumer|admin)\.)?({re.escape(SERVERS)}|client\.dns\.lookup)"
    r"|(config|offset|status)\.storage\.replication\.factor"
)

Connection = Mapping[str, str]
"""Properties of a worker file, at least :data:`SERVERS`; may hold secrets."""


def connection_from(worker_file: Path) -> Connection:
    """Read the connection of a worker file; references to config providers are resolved.

    Raises:
        ConfigError, InvalidClusterGroupIdError: as :meth:`WorkerConfig.from_file`.
    """
    found = WorkerConfig.from_file(worker_file).originals
    return {name: value for name, value in found.items() if _PLACE.fullmatch(name) or _SECURITY.fullmatch(name)}


def is_secured(connection: Connection) -> bool:
    """Return whether a client needs more than the address of the brokers."""
    return any(_SECURITY.fullmatch(name) for name in connection)
