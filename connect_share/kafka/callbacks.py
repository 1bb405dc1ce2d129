"""Interruptions that the Kafka library would lose: what a signal's handler raises inside it, or in what it calls back."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from types import CodeType, FrameType, FunctionType
from typing import Final, TypeVar

T = TypeVar("T")

_callbacks: Final[set[CodeType]] = set()


def callback(function: T) -> T:
    """Mark a function that the C library calls."""
    if isinstance(function, FunctionType):
        _callbacks.add(function.__code__)
    return function


def is_in_callback(frame: FrameType | None) -> bool:
    """Return whether this frame runs inside a callback of the C library."""
    while frame is not None and frame.f_code not in _callbacks:
        frame = frame.f_back
    return frame is not None


def uninterrupted(call: Callable[[], T]) -> T:
    """Return what a call of the C library returns, made where no handler of a signal runs, and no exception is handled.

    While it converts texts, the library (2.16.1) puts a ``TypeError`` or ``ValueError`` of its own in the place of what such
    a handler raises. The waiting main thread raises that itself; what the call returns is dropped then. And where a call
    raises, the library keeps for ever the exception that is being handled, with the frames of its trace, and their clients.
    """
    if threading.current_thread() is not threading.main_thread() and sys.exc_info()[1] is None:
        return call()
    outcome: SimpleQueue[Future[T]] = SimpleQueue()

    def run() -> None:
        made: Future[T] = Future()
        try:
            made.set_result(call())
        except BaseException as exc:  # noqa: BLE001 - raised again by the caller
            made.set_exception(exc)
        outcome.put(made)

    # One of threading waits for its start on a condition, which an interruption spoils.
    _thread.start_new_thread(run, ())
    return outcome.get().result()
