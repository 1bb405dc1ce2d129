"""Waiting for a condition, with a deadline that reports what was seen last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def await_that(ask: Callable[[], T], accept: Callable[[T], bool] = bool, *, what: str, timeout_s: float = 60.0) -> T:
    """Ask again and again until the answer is accepted; fail with the last answer."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        last = ask()
        if accept(last):
            return last
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not {what} within {timeout_s:g} s; last seen: {last!r}")
        time.sleep(0.02)
