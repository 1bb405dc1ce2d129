"""The error of the repair of topic ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from connect_share.errors import ConnectShareError


class TopicIdRepairError(ConnectShareError):
    """A repair of topic ids was refused, or stopped on its way; the message says what was written."""


@contextmanager
def explained(what: str, then: str = "") -> Iterator[None]:
    """Raise :class:`TopicIdRepairError` for an ``OSError``; the message is what failed, the reason, and what then."""
    try:
        yield
    except OSError as exc:
        raise TopicIdRepairError(f"{what}: {exc.strerror}{then}") from exc
