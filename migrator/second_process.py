"""A second process for a part of the work: Python runs one thread at a time, and a large move has two sides.

It is a fork, made while no client lives, for the threads of a client do not live on in a fork. It ends with this
process, however that ends.
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
"""Records from which on a second process pays: it costs some hundredths of a second."""
_ENDED: Final = "the second process was ended: resume goes on with what it left"


def is_worth_it(records: int) -> bool:
    """Tell whether so many records are to be handled by two processes here."""
    return records >= WORTH_IT and (os.cpu_count() or 1) > 1 and sys.platform == "linux"


class SecondProcess:
    """Runs generator functions in the fork, one after the other, and hands out what they yield.

    Args:
        pipe: to the fork.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._running = 0
        self._failed: BaseException | None = None

    def begin(self, function: Callable[..., Iterable[Any]], *arguments: Any) -> None:
        """Have a function run there behind those that were begun before.

        Args:
            function: importable by name; what it yields is pickled, as are its arguments.
            arguments: of the function.

        Raises:
            CopyError: the process is gone.
        """
        try:
            self._pipe.send((function, arguments))
        except OSError as error:
            raise CopyError(_ENDED) from error
        self._running += 1

    def answers(self, *, wait: bool) -> Iterator[Any]:
        """Give what was yielded since, with ``wait`` until all functions have ended.

        Raises:
            CopyError: the process is gone.
            BaseException: what a function has raised, as often as this is called.
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
    """Fork while the block runs; gives ``None`` when it is not wanted."""
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
        # The fork begins with a copy of this process's handlers, and Ctrl-C is for the first process alone.
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


def _serve(pipe: Connection, alive: int, not_mine: Connection, not_mine_either: int) -> None:
    """Be the second process."""
    gc.freeze()  # what was made before the fork is not collected here: it may be a client
    not_mine.close()
    os.close(not_mine_either)
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
    """Wait for the end of the first process, which alone can write here and never does."""
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGKILL)
