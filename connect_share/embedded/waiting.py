"""Waiting for what has to come, with what was seen last if it does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from connect_share.errors import BrokerError, EmbeddedError

_Seen = TypeVar("_Seen")
_POLL_S: Final = 0.1


def until(ask: Callable[[], _Seen], accept: Callable[[_Seen], bool], *, what: str, timeout_s: float) -> _Seen:
    """Ask until the answer is accepted; gives it.

    Raises:
        EmbeddedError: none was in time; has the last answer.
    """
    deadline_s = time.monotonic() + timeout_s
    while not accept(seen := ask()):
        if time.monotonic() > deadline_s:
            raise EmbeddedError(f"waited {timeout_s:g} s for {what}; last seen: {seen}")
        time.sleep(_POLL_S)
    return seen


def holds(condition: Callable[[], bool]) -> bool:
    """Ask once; a cluster that cannot answer now says no.

    Raises:
        BrokerError: one that does not pass by itself.
    """
    try:
        return condition()
    except BrokerError as exc:
        if not exc.retriable:
            raise
        return False
