"""What a command waits for, and for how long at most: one bound for what it asks and reads; the clients that it asks with.

Without a program that has set one, each wait has a limit of its own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from connect_share.kafka.admin import Admin

CHANGES: Final = Counter[str]()
"""What this process has begun to change: records acknowledged, clients of stores and fences, requests about topics."""
ANSWER_S: Final = 30.0
"""The longest wait for an answer, without another bound."""
_limits: Final[list[float]] = []
"""Of what runs in this process, in all its threads; the newest is the last."""
_waits: Final[dict[int, Awaited]] = {}


@contextmanager
def longest_wait(limit_s: float) -> Iterator[None]:
    """Let each wait of this process end after ``limit_s`` without an answer."""
    _limits.append(limit_s)
    try:
        yield
    finally:
        _limits.remove(limit_s)


def longest_wait_s(own: float) -> float:
    """Return the bound of the command that runs, or a wait's own limit."""
    return _limits[-1] if _limits else own


class Awaited(AbstractContextManager["Awaited"]):
    """Something that is waited for while the block runs."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.since_s = time.monotonic()

    def __enter__(self) -> Self:
        _waits[id(self)] = self
        return self

    def over(self, *_: object) -> None:
        """It has come; may be called twice."""
        _waits.pop(id(self), None)

    __exit__ = over


def newest_wait(least_s: float) -> tuple[str, float] | None:
    """Return what is waited for since ``least_s`` at least, and for how long; of a wait within another the inner one."""
    now_s = time.monotonic()
    late = [wait for wait in [*_waits.values()] if now_s - wait.since_s >= least_s]
    newest = max(late, key=lambda wait: wait.since_s, default=None)
    return None if newest is None else (newest.what, now_s - newest.since_s)


_kept: ContextVar[tuple[dict[object, Admin], ExitStack] | None] = ContextVar("_kept", default=None)


@contextmanager
def admins_kept() -> Iterator[None]:
    """Keep what this thread makes with :func:`kept_admin` until the block ends.

    Each new client logs in again, which takes longer than most questions.
    """
    with ExitStack() as stack:
        token = _kept.set(({}, stack))
        try:
            yield
        finally:
            _kept.reset(token)


def kept_admin(key: object, make: Callable[[], Admin]) -> AbstractContextManager[Admin]:
    """Return the client that was made for a key, or a new one, which is closed behind the block if none are kept."""
    kept = _kept.get()
    if kept is None:
        return closing(make())
    admins, stack = kept
    if key not in admins:
        admins[key] = stack.enter_context(closing(make()))
    return nullcontext(admins[key])
