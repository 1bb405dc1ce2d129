"""The error of the repair of topic ids."""

from __future__ import annotations

from connect_share.errors import ConnectShareError


class TopicIdRepairError(ConnectShareError):
    """A repair of topic ids was refused, or stopped on its way; the message says what was written."""
