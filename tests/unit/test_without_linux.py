"""The core runs where there is nothing but what Python has on every system: what only Linux has is hidden from it."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from connect_share.backup.export import locked_folder
from connect_share.errors import AlreadyAppliedError, ConfigError, UsageError
from connect_share.files import lock, lock_alone
from connect_share.worker_config import config_providers
from migrator.run import only_one
from tests.support.long_forms import LONG
from tests.support.programs import python

EVERY_MODULE: Final = "tests/unit/test_secrets_are_not_shown.py::test_no_field_that_can_hold_a_secret_is_shown"
SOME: Final = ("tests/unit/storage/test_checkpoint_file.py", EVERY_MODULE)
MORE: Final = tuple(f"tests/unit/{part}" for part in ("model", "sealing", "stores", "storage", "worker_config"))
# What docs/embedding.md says of other systems: commands of config providers, owners of files, pipes.
LEFT_OUT: Final = (
    "--ignore=tests/unit/worker_config/test_command_provider.py",
    "--deselect=tests/unit/storage/test_checkpoint_file.py::test_what_others_could_have_written_is_not_believed",
    "--deselect=tests/unit/worker_config/test_config_transformer.py::test_hostile_configurations_end_soon",
    "--deselect=tests/unit/worker_config/test_worker_config_clients.py::test_a_store_that_is_no_file_is_refused_at_once",
)
CONTRACT: Final = ("test_config_store", "test_exactly_once", "test_offset_store", "test_status_store")


def test_the_core_runs_without_what_only_linux_has() -> None:
    hidden = ("-p", "tests.support.without_linux", "-p", "no:xdist", "-p", "no:randomly", "-p", "no:cacheprovider")
    tests = (*SOME, "tests/contract", *(("tests/runtime/unit/test_tasks.py", *MORE) if LONG else ()))
    in_memory = ("-k", f"memory or not ({' or '.join(CONTRACT)})")
    options = ("-q", "--timeout-method=thread", *LEFT_OUT, *hidden, *in_memory)
    done = python("-m", "pytest", *options, *tests, timeout=1_800)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr


def test_what_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.delattr(os, "killpg")
    with (
        (tmp_path / "file").open("wb") as file,
        pytest.raises(UsageError, match="files cannot be locked on this system"),
    ):
        lock(file)
    with pytest.raises(ConfigError, match="commands run on Linux and macOS only"):
        config_providers._printed(["true"])
    monkeypatch.undo()
    flock = fcntl.flock

    def of_what_is_written(file: Any, operation: int) -> None:  # as on NFS
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(file, operation)

    monkeypatch.setattr("fcntl.flock", of_what_is_written)
    with (tmp_path / "file").open("rb") as read, pytest.raises(UsageError, match="file system does not lock it"):
        lock_alone(read, "reads it")
    for locked in (partial(only_one, tmp_path / "file"), partial(locked_folder, tmp_path)):
        with locked(), pytest.raises(AlreadyAppliedError, match="another process"), locked():
            pass
