"""The migration benchmark, with as little as shows that every figure is there."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import pytest

from tests.lab.benchmarks import process_cost
from tests.lab.benchmarks.process_cost import measured

pytestmark = pytest.mark.broker


_GRANDCHILD = """
import fcntl, sys, time
data = bytearray(60_000_000)
while time.process_time() < 0.5:
    data[-1] = 1
print("worked", flush=True)
fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)
"""


def test_costs_are_those_of_the_whole_family(tmp_path: Path) -> None:
    """A grandchild that is not waited for works a while: its time and memory count."""
    lock = tmp_path / "lock"
    command = f"[sys.executable, '-c', {_GRANDCHILD!r}, {str(lock)!r}]"
    parent = f"import subprocess, sys; print(subprocess.Popen({command}, stdout=-1).stdout.readline())"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # the grandchild is still there when its parent has ended
        cost, printed = measured([sys.executable, "-c", parent])
    assert printed == "b'worked\\n'\n"
    assert cost.cpu_s > 0.4
    assert cost.peak_bytes > 60_000_000
    assert cost.wall_s > 0.4


def test_a_program_that_is_measured_ends_with_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after Ctrl-C, which only the measurement may have got."""
    begun: list[int] = []

    def interrupted(pid: int) -> None:
        begun.append(pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(process_cost, "watched", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measured(["sleep", "300"])
    with pytest.raises(ProcessLookupError):
        os.kill(begun[0], 0)
