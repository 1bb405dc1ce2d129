"""Waiting for a condition; the error has what was seen last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from connect_share.errors import BrokerError
from tests.lab.embedded.errors import EmbeddedError

_Seen = TypeVar("_Seen")
_POLL_S: Final = 0.1


def until(ask: Callable[[], _Seen], accept: Callable[[_Seen], bool], *, what: str, timeout_s: float) -> _Seen:
    """Ask until the answer is accepted, and return it."""
    deadline_s = time.monotonic() + timeout_s
    while not accept(seen := ask()):
        if time.monotonic() > deadline_s:
            raise EmbeddedError(f"waited {timeout_s:g} s for {what}; last seen: {seen}")
        time.sleep(_POLL_S)
    return seen


def holds(condition: Callable[[], bool]) -> bool:
    """Return whether a condition holds; ``False`` while the cluster cannot answer.

    Raises:
        BrokerError: one that is not retriable.
    """
    try:
        return condition()
    except BrokerError as exc:
        if not exc.retriable:
            raise
        return False
