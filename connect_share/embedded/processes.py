"""Child processes that never outlive this one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from connect_share.embedded.errors import EmbeddedError

_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
_TAIL_CHARS: Final = 4_000
_SUPERVISOR_S: Final = 30.0
"""For the supervisor beyond the grace: removing a broker's folder takes seconds on a busy disk."""


class ChildProcess:
    """A program that is stopped with us: on :meth:`stop`, at exit, after Ctrl-C and when we are killed.

    A small supervisor holds a pipe to this process; when the pipe closes, whatever the reason, it ends the program.

    Args:
        command: program and arguments.
        log_path: file that gets all its output.
        grace_s: seconds between the request to end and the kill.
        remove: folder to remove afterwards.
        env: environment, by default ours.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log_path: Path,
        grace_s: float = 10.0,
        remove: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.log_path = log_path
        self._grace_s = grace_s
        arguments = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(grace_s), str(remove or "-"), *map(str, command)]
        with log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,  # Ctrl-C reaches us only; we end it in order
            )
        line = self._process.stdout.readline() if self._process.stdout else b""
        if not line.strip().isdigit():
            self._process.kill()
            self._process.wait()
            self._close_pipes()
            raise EmbeddedError(f"{command[0]} could not be started; see {log_path}: {self.log_tail(500)}")
        self.pid = int(line)
        self._finalizer = weakref.finalize(self, _end, self._process, grace_s)

    @property
    def running(self) -> bool:
        """Whether the program is alive."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Exit code, 128 plus the signal's number if it was killed; ``None`` while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask it to end, kill it after the grace; may be called twice."""
        self._finalizer()

    def kill(self) -> None:
        """End it at once with SIGKILL, as a crash would."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.stop()

    def log_tail(self, characters: int = _TAIL_CHARS) -> str:
        """Return the end of its log file."""
        try:
            return self.log_path.read_bytes()[-characters:].decode("utf-8", "replace")
        except OSError:
            return ""

    def printed(self) -> str:
        """Return what it printed; the file may also have the output of earlier programs."""
        try:
            return self.log_path.read_bytes()[self._log_start :].decode("utf-8", "replace")
        except OSError:
            return ""

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(grace_s + _SUPERVISOR_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the session of its own: the program must not outlive who would end it
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
