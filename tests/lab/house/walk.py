"""Walks through the code, counted while they happen: run by :mod:`tests.lab.house` in a process of its own.

Uses nothing but public names and commands, so that old revisions can be walked too. Prints one JSON object: for each walk the
calls, functions, files and threads of the product that took part.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from inspect import CO_OPTIMIZED
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

import connect_share
from connect_share import ConnectStorage, Record, WorkerConfig, replay_config
from connect_share.cli.__main__ import main as console
from migrator.cli.__main__ import main as migrate

ROOT = Path(connect_share.__file__).parents[1]
PACKAGES = tuple(f"{ROOT / package}/" for package in ("connect_share", "migrator", "spark_jobs"))


class _Walk:
    """The calls of one walk, on every thread that was started after :func:`watch_new_threads`."""

    def __init__(self, recording: bool) -> None:
        self.recording = recording
        self.calls = 0
        self.functions: set[tuple[str, str, int]] = set()
        self.threads: set[int] = set()

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or not self.recording:
            return
        code = frame.f_code
        is_function = code.co_flags & CO_OPTIMIZED and not code.co_name.startswith("<")  # and no body of a class
        if not is_function or not code.co_filename.startswith(PACKAGES):
            return
        self.calls += 1
        self.functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))
        self.threads.add(threading.get_ident())

    def result(self) -> dict[str, int]:
        return {
            "calls": self.calls,
            "functions": len(self.functions),
            "files": len({file for file, _, _ in self.functions}),
            "threads": len(self.threads),
        }


@contextmanager
def walking(*, recording: bool = True) -> Iterator[_Walk]:
    """Count on this thread and on those that start meanwhile."""
    walk = _Walk(recording)
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        yield walk
    finally:
        walk.recording = False
        sys.setprofile(None)
        threading.setprofile(None)


def record_to_snapshot(_: Path) -> dict[str, int]:
    """One record of the config topic into a snapshot."""
    record = Record("configs", 0, 0, 0, b"group.connector-a", b'{"properties":{"name":"a"}}')
    with walking() as walk:
        assert replay_config([record], "group").connectors() == {"a"}
    return walk.result()


def start(worker_file: Path) -> dict[str, int]:
    """A storage on existing topics, from the constructor until it is ready."""
    with walking() as walk, ConnectStorage(WorkerConfig.from_file(worker_file), allow_empty=True):
        walk.recording = False
    return walk.result()


def put_connector_config(worker_file: Path) -> dict[str, int]:
    """One put into a running store, until it was read back."""
    with walking(recording=False) as walk, ConnectStorage(WorkerConfig.from_file(worker_file)) as storage:
        walk.recording = True
        storage.config.put_connector_config("b", {"name": "b"})
        walk.recording = False
    return walk.result()


def get_connectors(worker_file: Path) -> dict[str, int]:
    """``connect-share get connectors``."""
    with walking() as walk:
        assert console(["get", "connectors", "-w", str(worker_file)]) == 0
    return walk.result()


def apply(folder: Path) -> dict[str, int]:
    """``connect-share-migrate apply PLAN --yes`` with the local engine."""
    with walking() as walk:
        assert migrate(["apply", str(folder / "move.json"), "--yes"]) == 0
    return walk.result()


def main() -> None:
    """Walk; the folder has worker files ``old.properties`` and ``new.properties``."""
    logging.disable(logging.CRITICAL)
    folder = Path(sys.argv[1])
    old, new = folder / "old.properties", folder / "new.properties"
    walks: dict[str, tuple[Callable[[Path], dict[str, int]], Path]] = {
        "record -> snapshot": (record_to_snapshot, folder),
        "start of a storage": (start, old),
        "put_connector_config": (put_connector_config, old),
        "get connectors": (get_connectors, old),
        "apply": (apply, folder),
    }
    found = {}
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        with ConnectStorage(WorkerConfig.from_file(old)) as storage:
            storage.config.put_connector_config("a", {"name": "a"})
        for name, (walk, where) in walks.items():
            if name == "apply":
                files = ["--source-worker-config", str(old), "--destination-worker-config", str(new)]
                if migrate(["plan", *files, "-o", str(folder / "move.json")]) != 0:
                    raise SystemExit(said.getvalue())
            found[name] = walk(where)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
