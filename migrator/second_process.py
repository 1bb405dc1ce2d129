"""A second process for a part of the work, since Python runs one thread at a time.

It is a fork. It has to be made before any client is opened, because the threads of a client do not exist in a fork. It
ends with this process, however that ends.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

from migrator.errors import CopyError

WORTH_IT: Final = 200_000
"""Fewer records are handled faster by one process: a fork costs some hundredths of a second."""
_ENDED: Final = "the second process was ended: connect-share-migrate resume continues from there"


def is_worth_it(records: int) -> bool:
    """Return whether two processes handle so many records faster on this machine."""
    return records >= WORTH_IT and (os.cpu_count() or 1) > 1 and sys.platform == "linux"


class SecondProcess:
    """The fork: it runs generator functions one after the other and sends back what they yield.

    Args:
        pipe: to the fork.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._running = 0
        self._failed: BaseException | None = None

    def begin(self, function: Callable[..., Iterable[Any]], *arguments: Any) -> None:
        """Run a function there after those that were begun before.

        Args:
            function: importable by name; what it yields is pickled, as are its arguments.
            arguments: of the function.

        Raises:
            CopyError: the process has ended.
        """
        try:
            self._pipe.send((function, arguments))
        except OSError as error:
            raise CopyError(_ENDED) from error
        self._running += 1

    def answers(self, *, wait: bool) -> Iterator[Any]:
        """Yield what the functions have yielded since, with ``wait`` until all have ended.

        Raises:
            CopyError: the process has ended.
            BaseException: a function raised it; it is raised again at each call.
        """
        if self._failed is not None:
            raise self._failed
        while self._running and (wait or self._pipe.poll()):
            try:
                failed, yielded = self._pipe.recv()
            except (EOFError, OSError) as error:
                raise CopyError(_ENDED) from error
            if failed is not None:
                self._failed = failed
                raise failed
            if yielded is None:
                self._running -= 1
            else:
                yield yielded


@contextmanager
def second_process(*, wanted: bool) -> Iterator[SecondProcess | None]:
    """Yield a fork that lives as long as the block, or ``None`` if it is not wanted."""
    if not wanted:
        yield None
        return
    context = multiprocessing.get_context("fork")
    with ExitStack() as stack:
        mine, theirs = context.Pipe()
        read, write = os.pipe()
        stack.callback(mine.close)
        stack.callback(os.close, write)
        process = context.Process(target=_serve, args=(theirs, read, mine, write), daemon=True)
        # The fork starts with this process's handlers, but Ctrl-C is for the first process alone.
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        stack.callback(process.join)
        stack.callback(process.kill)
        theirs.close()
        os.close(read)
        yield SecondProcess(mine)


def _serve(pipe: Connection, alive: int, other_pipe: Connection, other_alive: int) -> None:
    gc.freeze()  # objects from before the fork are not collected here: one may be a client
    other_pipe.close()
    os.close(other_alive)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which ends this one
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    while True:
        function, arguments = pipe.recv()
        try:
            for yielded in function(*arguments):
                pipe.send((None, yielded))
            pipe.send((None, None))
        except BaseException as error:  # noqa: BLE001 - raised again in the first process
            pipe.send((error, None))


def _end_with(alive: int) -> None:
    os.read(alive, 1)  # returns when the first process ends: it holds the other end and never writes
    os.kill(os.getpid(), signal.SIGKILL)
