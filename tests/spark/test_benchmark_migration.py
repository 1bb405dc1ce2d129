"""The migration benchmark, with as little as shows that every figure is there."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from pathlib import Path

import pytest

from tests.lab.benchmarks import migration, process_cost
from tests.lab.benchmarks.process_cost import measured
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG

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

    monkeypatch.setattr(process_cost, "Watch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measured(["sleep", "300"])
    with pytest.raises(ProcessLookupError):
        os.kill(begun[0], 0)


@pytest.mark.skipif(not LONG, reason="a benchmark, that make bench runs whole: make soak")
def test_what_is_wrong_in_a_mirror_is_counted(
    broker: TestBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "bench" / "migration.json"
    options = ["-B", broker.bootstrap_servers, "--sizes", "300", "--rounds", "1", "--result", str(result)]
    assert migration.main([*options, "--contenders", "mirror-maker,bare,local"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("MirrorMaker 2") for line in lines)
    size = json.loads(result.read_text())["sizes"]["300"]
    assert size["records"] == 300 + 20 + 20
    assert set(size["contenders"]) == {
        "mirror_maker",
        "bare",
        "local_plan",
        "local_apply",
        "local_verify",
        "local_plan_apply",
        "local_apply_verify",
    }
    assert size["wrong"]["local_apply"] == {"misplaced": 0, "session_keys": 0, "duplicates": 0, "missing": 0}
    mirrored = size["wrong"]["mirror_maker"]
    assert mirrored["misplaced"] > 200
    assert mirrored["session_keys"] == 1
    assert mirrored["missing"] == 0
