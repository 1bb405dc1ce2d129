"""Doing several things at once, of which none makes sense when one has failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait


def side_by_side(tasks: Sequence[Callable[[], None]], stop: Callable[[], object]) -> None:
    """Run all tasks at once; the first failure stops the others and is raised."""
    with ThreadPoolExecutor(len(tasks), thread_name_prefix="connect-storage-start") as threads:
        try:
            running = [threads.submit(task) for task in tasks]
            done, _ = wait(running, return_when=FIRST_EXCEPTION)
            for ended in done:
                ended.result()
        except BaseException:
            stop()
            raise
