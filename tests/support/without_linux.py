"""A pytest plugin that hides what Python has on Linux, and not on every system, from what is imported behind it."""

from __future__ import annotations

import asyncio
import multiprocessing.connection
import os
import select
import signal
import socketserver
import subprocess
import sys
import tempfile
from typing import Any

# These stand on what is hidden here, and on something else where it is not there.
STAYS = (asyncio, multiprocessing, socketserver, subprocess, tempfile)
MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
NAMES: dict[Any, tuple[str, ...]] = {
    os: (
        *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "chown", "fchmod", "fchown", "fork", "getegid"),
        *("geteuid", "getgid", "killpg", "mkfifo", "register_at_fork", "sched_getaffinity", "setsid"),
    ),
    select: ("epoll", "poll"),
    signal: ("ITIMER_REAL", "SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "pthread_sigmask", "setitimer", "sigwait"),
}


def no_proc(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith("/proc/"):
        raise FileNotFoundError(arguments[0])


def pytest_configure() -> None:
    for module in MODULES:
        sys.modules[module] = None  # type: ignore[assignment]
    for module, names in NAMES.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    sys.addaudithook(no_proc)
