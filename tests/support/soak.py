"""Faults of a soak, counted by kind, and the end of all its threads."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.worker import ConnectWorker

T = TypeVar("T")

FAULTS_A_MINUTE = 2
LEAST_STEPS = 6
_BETWEEN_S = (8.0, 30.0)
_AWAY_S = (0.0, 4.0)
_QUIET_S = 12.0


class Faults:
    """Counts of faults, and of operations that had to be repeated because of them; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._repeated: Counter[str] = Counter()

    def note(self, kind: str) -> None:
        with self._lock:
            self._counts[kind] += 1

    def note_repeated(self, what: str) -> None:
        """An operation failed, as it may while a broker is away, and was done again."""
        with self._lock:
            self._repeated[what] += 1

    @property
    def total(self) -> int:
        with self._lock:
            return self._counts.total()

    def by_kind(self) -> dict[str, int]:
        with self._lock:
            return dict(sorted(self._counts.items()))

    def repeated(self) -> dict[str, int]:
        with self._lock:
            return dict(sorted(self._repeated.items()))


class Soak:
    """The duration of a soak: so many minutes, and until there were two faults in each of them.

    The first thread that fails ends it for all.
    """

    def __init__(self, minutes: float, faults: Faults) -> None:
        self.faults = faults
        self._deadline_s = time.monotonic() + minutes * 60
        self._enough = int(minutes * FAULTS_A_MINUTE)
        self._failed = threading.Event()

    @property
    def over(self) -> bool:
        late = time.monotonic() > self._deadline_s
        return self._failed.is_set() or (late and self.faults.total >= self._enough)

    def over_after(self, steps: int) -> bool:
        """Return whether a group that has done so many steps may end; each does a few steps, also on a busy machine."""
        return self._failed.is_set() or (steps >= LEAST_STEPS and self.over)

    def wait(self, seconds: float) -> bool:
        """Wait, at most until a failure; return whether the soak is over."""
        return self._failed.wait(seconds) or self.over

    def run(self, body: Callable[[], T]) -> T:
        """Run one thread's part."""
        try:
            return body()
        except BaseException:
            self._failed.set()
            raise


def kill_broker(broker: LocalBroker, choose: random.Random, soak: Soak) -> int:
    """Kill the broker (``kill -9``) again and again, and start it on its data; return how often. It runs at the end."""
    kills = 0
    while not soak.wait(choose.uniform(*_BETWEEN_S)):
        broker.kill()
        kills += 1
        soak.faults.note("broker: kill -9")
        time.sleep(choose.uniform(*_AWAY_S))  # how long the broker is down; no condition to wait for
        broker.start()
        soak.wait(_QUIET_S)
    return kills


def keep_logs(workers: Iterable[ConnectWorker], folder: Path) -> None:
    """Copy the logs of workers to a folder that outlives the test."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, worker in enumerate(workers):
        (folder / f"worker-{number}.log").write_text(worker.log(), encoding="utf-8")


def clear(folder: Path) -> Path:
    """Remove a folder if it exists; return its path."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder
