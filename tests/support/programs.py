"""Python programs that tests run to their end, in a process of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any


def python(*words: object, timeout: float = 180, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the interpreter with these words; return its exit code and what it printed."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)


def killed(script: str, *words: object) -> None:
    """Run a script that has to end itself by ``kill -9``."""
    done = python("-c", script, *words)
    assert done.returncode == -signal.SIGKILL, done.stderr
