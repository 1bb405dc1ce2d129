"""Child processes that never outlive this one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from tests.lab.embedded.errors import EmbeddedError

_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
_SUPERVISOR_S: Final = 30.0
"""For the supervisor, beyond the grace."""


class ChildProcess:
    """A program that is stopped with us: on :meth:`stop`, at exit, after Ctrl-C and when we are killed.

    A small supervisor holds a pipe to this process; when the pipe closes, whatever the reason, it ends the program.

    ``grace_s`` are the seconds between the request to end and the kill.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log_path: Path,
        grace_s: float = 10.0,
        cwd: Path | None = None,
    ) -> None:
        self.log_path = log_path
        self._grace_s = grace_s
        arguments = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(grace_s), *map(str, command)]
        with log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=cwd,
                start_new_session=True,  # Ctrl-C reaches us only; we end it in order
            )
        line = self._process.stdout.readline() if self._process.stdout else b""
        if not line.strip().isdigit():
            self._process.kill()
            self._process.communicate()
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

    def log(self, begin: int = 0) -> str:
        """Return its log file, from a byte on."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(begin)
                return log.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def log_tail(self, characters: int = 4_000) -> str:
        """Return the end of its log file."""
        return self.log()[-characters:]

    def printed(self) -> str:
        """Return what it printed; the file may also have the output of earlier programs."""
        return self.log(self._log_start)


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


class LocalServer(ABC):
    """A server with a folder of its own; it lives as long as the ``with`` block, or this process."""

    _name: str

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._process: ChildProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start it, again if it ran before; return when it answers.

        Raise ``EmbeddedError`` if it did not come up; the message has the end of its log.
        """
        self._launch()
        try:
            self._await_start()
        except EmbeddedError:
            self.kill()
            raise

    @abstractmethod
    def _launch(self) -> None:
        """Start the process, on other ports than before if it may."""

    @abstractmethod
    def _await_start(self) -> None:
        """Wait until it answers, with :meth:`_await`."""

    def _await(self, ready: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait until it is ready; ``what`` says in a message what it was not."""
        deadline_s = time.monotonic() + timeout_s
        while not (self.running and ready()):
            if not self.running:
                raise EmbeddedError(f"the {self._name} ended with exit code {self.exit_code}: {self.log_tail(2_000)}")
            if time.monotonic() > deadline_s:
                raise EmbeddedError(f"the {self._name} was not {what} within {timeout_s:g} s: {self.log_tail(2_000)}")
            time.sleep(0.05)

    def _printed(self) -> str:
        return "" if self._process is None else self._process.printed()

    @property
    def running(self) -> bool:
        """Whether its process is alive."""
        return self._process is not None and self._process.running

    @property
    def exit_code(self) -> int | None:
        """Exit code once it has ended."""
        return None if self._process is None else self._process.exit_code

    def stop(self) -> None:
        """Shut it down in order (SIGTERM); it can be started again."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """Crash it (SIGKILL); it can be started again."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def log(self, begin: int = 0) -> str:
        """Return everything it has logged, from a byte on."""
        return "" if self._process is None else self._process.log(begin)

    def log_tail(self, characters: int = 4_000) -> str:
        """Return the end of its log."""
        return self.log()[-characters:]
