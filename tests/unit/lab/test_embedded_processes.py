"""Whatever ends the parent, its children end too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.embedded import processes, supervisor
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.processes import ChildProcess
from tests.support.waiting import await_that

_DEADLINE_S = 90.0
_PARENT = """
import sys, time
from pathlib import Path
from tests.lab.embedded.processes import ChildProcess

folder = Path(sys.argv[1])
child = ChildProcess(["sleep", "300"], log_path=folder / "child.log", grace_s=5)
print(child.pid, flush=True)
if sys.argv[2] == "raise":
    raise RuntimeError("as in a bug")
while True:  # a signal that comes just before signal.pause() would not end that
    time.sleep(0.1)
"""


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"  # ended, and nobody asked how
    except OSError:
        return True


def _parent(folder: Path, how: str) -> tuple[subprocess.Popen[str], int]:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(folder), how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_child_ends_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    parent, child = _parent(tmp_path, "wait")
    with parent:
        assert not _is_gone(child)
        parent.send_signal(number)
        parent.communicate(timeout=_DEADLINE_S)
    await_that(lambda: _is_gone(child), what="gone")
    assert parent.returncode == -number


def test_a_child_ends_with_a_parent_killed_while_it_was_started(tmp_path: Path) -> None:
    """Nobody is left to be told the pid; the program must not be left either."""
    with _supervised(f"echo $$ > {tmp_path}/pid; exec sleep 300") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.close()
        process.wait(_DEADLINE_S)
    # Ended before it could write its pid, or gone now.
    assert all(_is_gone(int(pid)) for pid in _lines(tmp_path / "pid"))


def test_a_supervisor_that_is_asked_to_end_while_it_starts_its_program_ends_it(tmp_path: Path) -> None:
    """The program asks by itself: sooner than the supervisor can know that it runs."""
    with _supervised(f"kill -TERM $PPID; echo $$ > {tmp_path}/pid; exec sleep 300") as process:
        process.wait(_DEADLINE_S)
        assert process.returncode == 128 + signal.SIGTERM
    assert all(_is_gone(int(pid)) for pid in _lines(tmp_path / "pid"))


def _supervised(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__, "5", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def test_a_child_ends_with_a_parent_that_fails(tmp_path: Path) -> None:
    parent, child = _parent(tmp_path, "raise")
    with parent:
        _, errors = parent.communicate(timeout=_DEADLINE_S)
    assert "as in a bug" in errors
    await_that(lambda: _is_gone(child), what="gone")


def test_ctrl_c_reaches_the_parent_only(tmp_path: Path) -> None:
    """A terminal sends it to the whole foreground group: the parent has to be able to stop in order."""
    child = ChildProcess(["sleep", "300"], log_path=tmp_path / "log")
    try:
        assert os.getpgid(child.pid) != os.getpgid(0)
    finally:
        child.stop()


def test_stop_kills_what_does_not_listen(tmp_path: Path) -> None:
    script = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
    child = ChildProcess(["sh", "-c", script], log_path=tmp_path / "log", grace_s=0.2)
    await_that(lambda: "deaf" in child.log_tail(), what="ready")
    child.stop()
    assert _is_gone(child.pid)
    assert child.exit_code == 128 + signal.SIGKILL


def test_stop_leaves_nothing_of_a_supervisor_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_SUPERVISOR_S", 0.2)
    child = ChildProcess(["sleep", "300"], log_path=tmp_path / "log", grace_s=0.2)
    os.kill(child._process.pid, signal.SIGSTOP)
    child.stop()
    await_that(lambda: _is_gone(child.pid), what="gone")


def test_stop_lets_a_program_end_in_order(tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    child = ChildProcess(["sh", "-c", script], log_path=tmp_path / "log", grace_s=60)
    await_that(lambda: "ready" in child.log_tail(), what="ready")
    child.stop()
    child.stop()
    assert not child.running
    assert child.exit_code == 3
    assert child.log_tail().endswith("bye\n")


def test_kill_gives_no_chance(tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    child = ChildProcess(["sh", "-c", script], log_path=tmp_path / "log")
    await_that(lambda: "ready" in child.log_tail(), what="ready")
    child.kill()
    assert child.exit_code == 128 + signal.SIGKILL
    assert "bye" not in child.log_tail()


def test_a_program_that_ends_by_itself_tells_its_exit_code(tmp_path: Path) -> None:
    child = ChildProcess(["sh", "-c", "echo to stderr >&2; exit 7"], log_path=tmp_path / "log")
    await_that(lambda: not child.running, what="ended")
    assert child.exit_code == 7
    assert child.log_tail(5) == "derr\n"
    child.stop()


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="no-such-program could not be started"):
        ChildProcess(["/no-such-program"], log_path=tmp_path / "log")
