"""What is started side by side ends together, also when the start itself is interrupted."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from connect_share.storage.start import run_together


def test_interrupted_before_all_have_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have begun may wait for the others, and have to be stopped."""
    submit, stopped = ThreadPoolExecutor.submit, threading.Event()
    stopped_in_time: list[bool] = []

    def interrupted(pool: ThreadPoolExecutor, task: Any) -> Future[Any]:
        if task is second:
            raise KeyboardInterrupt
        return submit(pool, task)

    def first() -> None:
        stopped_in_time.append(stopped.wait(120))

    def second() -> None:
        """Never begins."""

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_together([first, second], stop=stopped.set)
    assert stopped_in_time == [True]
