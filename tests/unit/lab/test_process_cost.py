"""What a program costs, with all that it starts."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

from tests.lab.benchmarks.process_cost import measured

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
