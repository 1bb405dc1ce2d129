"""A command that rewrites a stopped group, and is killed (``kill -9``) in the middle of its writes."""

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
