"""Carries out operations on an event loop, with a few threads for what blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from connect_share.steps import Steps, Wait

T = TypeVar("T")

_READERS: Final = 4


class Driver:
    """One thread for calls that change something, in their order; four for reads that wait.

    Operations under one key, such as the name of a connector, are carried out one after the other. An operation whose caller
    was cancelled goes on to its end: what was sent cannot be called back, and what follows belongs to it.
    """

    def __init__(self) -> None:
        self._calls = ThreadPoolExecutor(1, thread_name_prefix="async-storage-calls")
        self._reads = ThreadPoolExecutor(_READERS, thread_name_prefix="async-storage-reads")
        self._last: dict[str, asyncio.Task[Any]] = {}

    async def perform(self, key: str, steps: Callable[[], Steps[T]]) -> T:
        """Carry out an operation behind those of the same key, and return its result."""
        before = self._last.get(key)
        task = asyncio.ensure_future(self._behind(before, steps))
        self._last[key] = task
        task.add_done_callback(lambda ended: self._forget(key, ended))
        return await asyncio.shield(task)

    async def _behind(self, before: asyncio.Task[Any] | None, steps: Callable[[], Steps[T]]) -> T:
        if before is not None:
            await asyncio.wait([before])
        return await self._carry_out(steps())

    async def _carry_out(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, Wait):
                        result = await asyncio.wait_for(asyncio.wrap_future(step.future), step.timeout_s)
                    else:
                        result = await self.call(step.function)
                except BaseException as error:  # noqa: BLE001 - the operation decides what it means
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as ended:
            result_of_all: T = ended.value
            return result_of_all

    def _forget(self, key: str, ended: asyncio.Task[Any]) -> None:
        if self._last.get(key) is ended:
            del self._last[key]
        if not ended.cancelled():
            ended.exception()  # it was raised where it was awaited, or nobody awaits it any more

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call what blocks and changes something; calls follow each other."""
        return await asyncio.get_running_loop().run_in_executor(self._calls, function, *arguments)

    async def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call what blocks and only reads."""
        return await asyncio.get_running_loop().run_in_executor(self._reads, function, *arguments)

    async def wait_for_all(self) -> None:
        """Wait until the operations that have begun are through."""
        while self._last:
            await asyncio.wait(list(self._last.values()))

    def close(self) -> None:
        """Let the threads end when they are through."""
        self._calls.shutdown(wait=False)
        self._reads.shutdown(wait=False)
