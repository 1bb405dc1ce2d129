"""Admin clients that a command makes once: each new one logs in again, which takes longer than most questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from connect_share.kafka.admin import Admin

_kept: ContextVar[tuple[dict[object, Admin], ExitStack] | None] = ContextVar("_kept", default=None)


@contextmanager
def admins_kept() -> Iterator[None]:
    """Keep what this thread makes with :func:`kept_admin` until the block ends."""
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
