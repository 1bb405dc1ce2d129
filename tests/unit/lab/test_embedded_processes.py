"""Whatever ends the parent, its children end too; and what else would make tests fail by chance."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.embedded import processes
from tests.lab.embedded.ports import free_ports
from tests.lab.embedded.processes import ChildProcess
from tests.support.waiting import await_that

_DEADLINE_S = 90.0
_PARENT = """
import sys, time
from pathlib import Path
from tests.lab.embedded.processes import ChildProcess

child = ChildProcess(["sleep", "300"], log_path=Path(sys.argv[1]) / "child.log", grace_s=5)
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


@pytest.mark.parametrize("how", ["raise", signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_child_ends_with_its_parent(tmp_path: Path, how: signal.Signals | str) -> None:
    command = [sys.executable, "-c", _PARENT, str(tmp_path), str(how)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        if isinstance(how, signal.Signals):
            assert not _is_gone(child)
            parent.send_signal(how)
        parent.communicate(timeout=_DEADLINE_S)
    await_that(lambda: _is_gone(child), what="gone")
    assert parent.returncode == (-how if isinstance(how, signal.Signals) else 1)


def test_stop_lets_end_in_order_and_kills_what_does_not_listen_or_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    child = ChildProcess(["sh", "-c", script], log_path=tmp_path / "orderly", grace_s=60)
    await_that(child.log_tail, what="ready")
    child.stop()
    assert child.exit_code == 3
    script = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
    child = ChildProcess(["sh", "-c", script], log_path=tmp_path / "log", grace_s=0.2)
    assert os.getpgid(child.pid) != os.getpgid(0)  # Ctrl-C reaches the parent only, which then stops in order
    await_that(lambda: "deaf" in child.log_tail(), what="ready")
    child.stop()
    assert _is_gone(child.pid)
    assert child.exit_code == 128 + signal.SIGKILL
    monkeypatch.setattr(processes, "_SUPERVISOR_S", 0.2)
    child = ChildProcess(["sleep", "300"], log_path=tmp_path / "log", grace_s=0.2)
    os.kill(child._process.pid, signal.SIGSTOP)
    child.stop()
    await_that(lambda: _is_gone(child.pid), what="gone")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a port be kept for somebody else")
def test_a_server_gets_its_port_and_nobody_else_does() -> None:
    first, second = free_ports(2)
    assert first != second
    for _ in range(2):  # a server that is started again, too
        with socket.socket() as stranger, pytest.raises(OSError, match="in use") as refused:
            stranger.bind(("127.0.0.1", first))
        assert refused.value.errno == errno.EADDRINUSE
        with (
            socket.create_server(("127.0.0.1", first)) as server,  # with SO_REUSEADDR, as Java's
            socket.create_connection(("127.0.0.1", first), timeout=30) as client,
        ):
            server.accept()[0].close()
            assert client.recv(1) == b""
