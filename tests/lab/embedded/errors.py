"""The error of local brokers, workers and programs."""

from __future__ import annotations

from connect_share.errors import ConnectShareError


class EmbeddedError(ConnectShareError):
    """A local broker, worker or artifact could not be had."""
