"""A command that rewrites a stopped group, and is killed (``kill -9``) in the middle of its writes, or behind the last."""

from __future__ import annotations

import signal
import subprocess
import sys

_KILLED = """
import importlib, itertools, os, signal, sys
from connect_share.backup import rewrite
write = rewrite.write_records
def some(workers, records, **_):
    write(workers, itertools.islice(records, 4))
    os.kill(os.getpid(), signal.SIGKILL)
rewrite.write_records = some
importlib.import_module(sys.argv[1]).main(sys.argv[2:])
"""


def kill_in_the_rewrite(program: str, *arguments: object) -> None:
    """Run a command of ``connect_share`` or ``migrator`` until four of its records are acknowledged, and kill it."""
    command = [sys.executable, "-c", _KILLED, f"{program}.cli.__main__", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


_OVERTAKING = """
import importlib, os, signal, sys, time
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
program, module, file, connector, *words = sys.argv[1:]
module = importlib.import_module(module)
write = module.write_records
def some(workers, records, **more):
    def sending():
        with ConnectStorage(WorkerConfig.from_file(file)) as storage:
            writer = storage.offset_writer(connector, transactional=False)
            writer.offset({"n": 3}, {"position": 7})
            assert writer.flush(60)
        yield from records
    write(workers, sending(), **more)
    os.kill(os.getpid(), signal.SIGKILL)
module.write_records = some
importlib.import_module(program).main([*words, "--yes"])
"""


def kill_before_the_look(program: str, module: str, file: object, connector: str, *arguments: object) -> None:
    """Run a command whose records hide the offset that a store of this file commits meanwhile; kill it before it looks."""
    command = [
        sys.executable,
        "-c",
        _OVERTAKING,
        f"{program}.cli.__main__",
        module,
        *map(str, (file, connector, *arguments)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
