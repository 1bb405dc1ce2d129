"""Waiting for a condition; the error has what was seen last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from connect_share.errors import BrokerError
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.rest import RestError

_Seen = TypeVar("_Seen")
_POLL_S: Final = 0.1
_REST_S: Final = 60.0


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


def when_possible(action: Callable[[], object], timeout_s: float = _REST_S, *, gone_is_fine: bool = False) -> None:
    """Send a request over REST until the group answers and does not rebalance (409; 500 or 503 of a killed leader).

    Args:
        action: the request; may be sent several times.
        timeout_s: limit of all tries.
        gone_is_fine: a later try may find that an earlier one has removed the connector.

    Raises:
        RestError: another answer.
        EmbeddedError: none was in time; has the last one.
    """
    tries = 0

    def attempt() -> str:
        nonlocal tries
        tries += 1
        try:
            action()
        except RestError as error:
            if gone_is_fine and tries > 1 and error.status == 404:
                return ""
            if error.status in (0, 409, 500, 503):
                return str(error)
            raise
        return ""

    until(attempt, lambda said: not said, what="REST to accept a change", timeout_s=timeout_s)
