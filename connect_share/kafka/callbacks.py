"""The functions that the Kafka library calls back: it forgets what is raised there, an interruption included."""

from __future__ import annotations

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
