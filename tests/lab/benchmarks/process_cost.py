"""The cost of processes: CPU time and memory of a program and of everything it starts, from Linux' ``/proc``."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Final

from connect_share.files import repeated
from spark_jobs.benchmark.starts import AS_INSTALLED
from tests.lab.embedded.errors import EmbeddedError

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_CPU_EVERY_S: Final = 0.1
_ASKS_MEMORY: Final = (True, False, False)
"""Memory is asked for less often: the kernel walks the page tables of the process to answer."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a program and its children.

    Attributes:
        wall_s: from start to end, or to what was waited for.
        cpu_s: user and system time of all processes.
        peak_bytes: highest sum of memory seen, shared pages counted once (PSS).
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int


def _stat(pid: int) -> tuple[int, int, float] | None:
    """Session, start time and CPU seconds of a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[3]), int(fields[19]), (int(fields[11]) + int(fields[12])) * _TICK_S


def _memory(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class Family:
    """The processes of a session, looked at again and again; what ended ones have used stays in the sum.

    Args:
        pid: of one of them.
    """

    def __init__(self, pid: int) -> None:
        self._session = os.getsid(pid)
        self._seconds: dict[tuple[int, int], float] = {}
        self._lock = threading.Lock()
        self.peak_bytes = 0

    def look(self, *, memory: bool = False) -> float:
        """Return the CPU seconds that they have used so far."""
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        found = {pid: stat for pid in pids if (stat := _stat(pid)) is not None and stat[0] == self._session}
        if memory:
            self.peak_bytes = max(self.peak_bytes, sum(map(_memory, found)))
        with self._lock:
            self._seconds |= {(pid, started): seconds for pid, (_, started, seconds) in found.items()}
            return sum(self._seconds.values())


@contextmanager
def watched(pid: int) -> Iterator[Family]:
    """Look at the processes of a session in a thread of its own until the block ends."""
    family, asks_memory = Family(pid), cycle(_ASKS_MEMORY)
    with repeated(_CPU_EVERY_S, lambda: family.look(memory=next(asks_memory))):
        yield family


def measured(command: Sequence[str], *, codes: Sequence[int] = (0,)) -> tuple[Cost, str]:
    """Run a program to its end; return its cost and what it printed. Other exit codes than these are an error."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        began_s = time.perf_counter()
        env = {**os.environ, **AS_INSTALLED}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=env, start_new_session=True
        )
        try:
            with watched(process.pid) as family:
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                wall_s = time.perf_counter() - began_s
                seen_s = family.look()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        out.seek(0)
        errors.seek(0)
        if process.returncode not in codes:
            detail = (out.read() + errors.read()).decode("utf-8", "replace")[-4_000:]
            raise EmbeddedError(f"{' '.join(command[:4])} ended with {process.returncode}: {detail}")
        # The kernel's own sum knows the children that were waited for, the looks those that were not.
        cpu_s = max(used.ru_utime + used.ru_stime, seen_s)
        # Its maximum of memory is of no use: before the program was loaded the process had our own.
        return Cost(wall_s, cpu_s, family.peak_bytes), out.read().decode("utf-8", "replace")
