"""Fault points of a migration: it writes as many records as a file allows, so that what is done then never comes too late.

As a program, ``python -m tests.support.held_copies WHAT ALLOWED ...`` runs a command that is held:
``small``, ``bulk`` and ``backup`` run ``connect-share-migrate``, ``spark`` the Spark job ``apply_plan``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from unittest.mock import patch

from connect_share.backup.record_file import RecordBlock, RecordFileWriter
from connect_share.kafka.write import CheckedWriter, Outgoing
from migrator.copy.copy_job import CopyJob, SliceEvidence

QUARTER = 5_000
"""Records of a copy of :class:`tests.support.migration_faults.Busy`; more than half of its config topic is left."""
ALL = 1_000_000_000


class Allowed:
    """The file that says how many records each process that writes may write; as long as it is missing, none."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def set(self, records: int) -> None:
        self.path.write_text(str(records))

    def now(self) -> int:
        return int(self.path.read_text() or 0) if self.path.exists() else 0

    def await_more(self, than: int) -> int:
        """Wait until more is allowed; end with the process that this one was started by."""
        parent = os.getppid()
        while (allowed := self.now()) <= than:
            if os.getppid() != parent:
                os._exit(1)
            time.sleep(0.01)
        return allowed


@contextmanager
def held_copy(allowed: Allowed) -> Iterator[None]:
    """Hold what this process writes to topics."""
    write_all, written = CheckedWriter.write_all, 0

    def write_held(writer: CheckedWriter, records: Sequence[Outgoing]) -> None:
        nonlocal written
        left = records
        while left:
            room = allowed.await_more(written) - written
            write_all(writer, left[:room])
            written += len(left[:room])
            left = left[room:]

    with patch.object(CheckedWriter, "write_all", write_held):
        yield


@contextmanager
def held_backup(allowed: Allowed) -> Iterator[None]:
    """Hold what this process writes to files of records, before the block that is too much."""
    write_block, written = RecordFileWriter.write_block, 0

    def write_held(writer: RecordFileWriter, block: RecordBlock) -> None:
        nonlocal written
        allowed.await_more(written)
        write_block(writer, block)
        written += block.records

    with patch.object(RecordFileWriter, "write_block", write_held):
        yield


def copy_in_held_task(allowed: Allowed, job: CopyJob) -> SliceEvidence:
    """Copy a slice in a Spark task; each is allowed so many records."""
    from spark_jobs.tasks import copy_in_task

    with held_copy(allowed):
        return copy_in_task(job)


def command(what: str, allowed: Allowed, *words: str) -> list[str]:
    """Return the command line of a program that is held."""
    return [sys.executable, "-m", "tests.support.held_copies", what, str(allowed.path), *words]


def main(what: str, allowed: Allowed, words: Sequence[str]) -> int:
    if what == "spark":
        from spark_jobs import apply_plan

        with patch.object(apply_plan, "copy_in_task", partial(copy_in_held_task, allowed)):
            return apply_plan.main(words)
    from migrator.cli.__main__ import main as migrate

    hold = held_backup if what == "backup" else held_copy
    with hold(allowed), patch("migrator.copy.local_engine._BULK", 0) if what == "bulk" else nullcontext():
        return migrate(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Allowed(Path(sys.argv[2])), sys.argv[3:]))
