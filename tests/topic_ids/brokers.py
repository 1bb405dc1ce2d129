"""Log dirs as brokers leave them, for repairs of files: lock files, settings, logs with batches, a broker that runs."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from connect_share.cli.__main__ import main
from connect_share.topic_ids.scan import scanner
from tests.topic_ids.trees import Tree

_HOLD: str = """
import fcntl, sys
files = [open(name, "r+b") for name in sys.argv[1:]]
for file in files:
    fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
_KILLED: str = """
import os, pkgutil, signal, sys
from connect_share.cli.__main__ import main
owner, names, left = pkgutil.resolve_name(sys.argv[1]), sys.argv[2].split(), int(sys.argv[3])
def dying(real):
    def call(*arguments, **named):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)
    return call
for name in names:
    setattr(owner, name, dying(getattr(owner, name)))
sys.exit(main(sys.argv[4:]))
"""
LOG = "00000000000000000000.log"


def batch(offset: int, epoch: int, crc: int, size: int = 100) -> bytes:
    """Return the bytes of a batch, as far as anybody looks at them here."""
    return struct.pack(">qiibI", offset, size - 12, epoch, 2, crc) + bytes(range(256))[: size - 21]


class Brokers:
    """A tree whose brokers have settings and lock files; ``options`` are for all repairs."""

    def __init__(self, tree: Tree, *options: str) -> None:
        self.tree = tree
        self.options = options
        self.ids = (1, 2, 3)
        for broker in self.ids:
            log_dirs = sorted(tree.folder.glob(f"broker-{broker}/*"))
            for log_dir in log_dirs:
                (log_dir / ".lock").touch()
            text = f"broker.id={broker}\nlog.dirs={','.join(map(str, log_dirs))}\n"
            self.settings(broker).write_text(text)

    def settings(self, broker: int) -> Path:
        return self.tree.folder / f"server-{broker}.properties"

    def backup(self, broker: int) -> Path:
        return self.tree.folder / f"backup-{broker}"

    def words(self, step: str, broker: int, *more: str) -> list[str]:
        return self._repair(broker, "--step", step, "--backup", str(self.backup(broker)), *more)

    def undo(self, broker: int, *more: str) -> list[str]:
        return self._repair(broker, "--undo", str(self.backup(broker)), *more)

    def _repair(self, broker: int, *more: str) -> list[str]:
        return ["repair", "topic-ids", "--server-properties", str(self.settings(broker)), *self.options, *more]

    def write_log(self, directory: str, data: bytes) -> None:
        (self.tree.folder / directory / LOG).write_bytes(data)

    def contents(self, broker: int) -> dict[str, bytes]:
        """All files of a broker, as they are."""
        home = self.tree.folder / f"broker-{broker}"
        return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}

    def refuses(self, capsys: pytest.CaptureFixture[str], words: list[str], reason: str, code: int = 1) -> None:
        """Run a command that has to say this, and to change no file."""
        before = list(map(self.contents, self.ids))
        assert main(words) == code
        captured = capsys.readouterr()
        assert reason in captured.err + captured.out
        assert list(map(self.contents, self.ids)) == before

    @contextmanager
    def running(self, broker: int) -> Iterator[None]:
        """Hold the locks as a running broker does."""
        with holding(self.tree.folder.glob(f"broker-{broker}/*/.lock")):
            yield

    def scans(self, seconds: float = 2.0) -> list[str]:
        """Scan all brokers, at a time that many seconds from now; return the options."""
        words = []
        for broker in self.ids:
            number, log_dirs, tiered = scanner.server_settings(str(self.settings(broker)))
            path = self.tree.folder / f"broker-{broker}.scan"
            first, *rest = scanner.scan(log_dirs, number, tiered)
            first["started"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
            path.write_text("".join(json.dumps(one) + "\n" for one in (first, *rest)))
            words += ["--scan", str(path)]
        return words


@contextmanager
def holding(locks: Iterable[Path]) -> Iterator[None]:
    """Have another process hold lock files."""
    command, pipe = [sys.executable, "-I", "-S", "-c", _HOLD, *map(str, locks)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            yield
        finally:
            assert holder.stdin is not None
            holder.stdin.close()


def killed(words: list[str], after: int, owner: str = "os", names: str = "rename replace") -> bool:
    """Run a command that is killed before a later call of these functions; return whether it came to that call."""
    command = [sys.executable, "-c", _KILLED, owner, names, str(after), *words]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False, env={**os.environ, "COLUMNS": "100"})
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0
