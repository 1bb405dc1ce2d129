"""The user's cache folder, for downloads and for the folders of runs."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Final

from connect_share.files import lock


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/connect-share``, by default ``~/.cache/connect-share``."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "connect-share"


_OWNER: Final = ".owner"
_held: Final[dict[Path, int]] = {}
"""Descriptors, not file objects: they are meant to stay open until the process ends."""
_held_lock: Final = threading.Lock()


def run_folder(name: str) -> Path:
    """Return a new folder for one run of a broker, worker or session; the caller removes it.

    Folders of processes that were killed before they could do so are removed first.
    """
    parent = cache_folder() / "run"
    parent.mkdir(parents=True, exist_ok=True)
    with _held_lock:
        _remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
    # Held for as long as this process lives; renamed once it is locked, so that no process finds it without.
    fresh = folder / f"{_OWNER}.new"
    owner = os.open(fresh, os.O_WRONLY | os.O_CREAT, 0o600)
    lock(owner)
    with _held_lock:
        fresh.rename(folder / _OWNER)
        _held[folder] = owner
    return folder


def _remove_abandoned(parent: Path) -> None:
    for folder in [folder for folder in _held if not folder.exists()]:
        os.close(_held.pop(folder))
    for owner_file in parent.glob(f"*/{_OWNER}"):
        if owner_file.parent in _held:
            continue
        # Never made anew: a process that is just removing its folder would find it not empty.
        with contextlib.suppress(OSError), owner_file.open("rb") as owner:
            lock(owner)  # fails while its process lives
            shutil.rmtree(owner_file.parent, ignore_errors=True)
