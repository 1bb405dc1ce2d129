"""Where embedded parts keep what they download and what they run on: the user's cache folder, nothing else."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/connect-share``, by default ``~/.cache/connect-share``."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "connect-share"


def run_folder(name: str) -> Path:
    """Make a new folder for one run of a broker, worker or session; whoever asks removes it."""
    parent = cache_folder() / "run"
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold a lock that other processes of this user respect."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
