"""Waiting for a condition, with a deadline that reports what was seen last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from connect_share.errors import BrokerTimeoutError, ReadToEndTimeoutError

T = TypeVar("T")


def await_that(ask: Callable[[], T], accept: Callable[[T], bool] = bool, *, what: str, timeout_s: float = 180.0) -> T:
    """Ask again and again until the answer is accepted; fail with the last answer.

    The longer it takes, the less often: asking may keep busy what is waited for.
    """
    began_s = time.monotonic()
    while True:
        waited_s = time.monotonic() - began_s  # before it asks: who was held up looks once more
        last = ask()
        if accept(last):
            return last
        if waited_s > timeout_s:
            raise AssertionError(f"not {what} within {timeout_s:g} s; last seen: {last!r}")
        time.sleep(min(0.02 + waited_s / 10, 0.3))


def error_at_deadline(
    read: Callable[[float], object], accept: Callable[[ReadToEndTimeoutError], bool]
) -> ReadToEndTimeoutError:
    """Read with a short limit, then with longer ones until the read came as far as it can.

    Args:
        read: given the limit in seconds.
        accept: whether the error is that of a read that came as far as it can.
    """
    last: Exception | None = None
    for timeout_s in (0.5, 5.0, 50.0):
        try:
            read(timeout_s)
        except ReadToEndTimeoutError as error:
            if accept(error):
                return error
            last = error
        except BrokerTimeoutError as error:
            last = error
        else:
            raise AssertionError("the read ended before its deadline")
    raise AssertionError(f"another error than expected: {last!r}")
