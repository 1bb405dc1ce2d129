"""Operations that wait, written once: a thread carries them out and blocks, or an event loop does and goes on meanwhile.

An operation is a generator. It yields what it waits for, and gets the result, or the error, where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for a future, so long at most; then ``TimeoutError``."""

    future: Future[Any] = field(repr=False)
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Call:
    """Call what blocks. Calls of one storage are made one after the other, in the order in which they come up."""

    function: Callable[[], Any] = field(repr=False)


Steps = Generator[Wait | Call, Any, T]


def run_blocking(steps: Steps[T]) -> T:
    """Carry out an operation in this thread, and return its result."""
    try:
        step = next(steps)
        while True:
            try:
                result = step.future.result(step.timeout_s) if isinstance(step, Wait) else step.function()
            except BaseException as error:  # noqa: BLE001 - the operation decides what it means
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as ended:
        result_of_all: T = ended.value
        return result_of_all


class Operation(Generic[S, P, T]):
    """A method of a store that waits. Called, it blocks; :meth:`BoundOperation.steps` are for an event loop."""

    def __init__(self, function: Callable[Concatenate[S, P], Steps[T]]) -> None:
        self._function = function
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __get__(self, instance: S, owner: type[S]) -> BoundOperation[P, T]:
        """Return the operation of one store."""

        def steps(*args: P.args, **kwargs: P.kwargs) -> Steps[T]:
            return self._function(instance, *args, **kwargs)

        return BoundOperation(steps)


class BoundOperation(Generic[P, T]):
    """An operation of one store."""

    __slots__ = ("steps",)

    def __init__(self, steps: Callable[P, Steps[T]]) -> None:
        self.steps = steps

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Carry it out and block."""
        return run_blocking(self.steps(*args, **kwargs))
