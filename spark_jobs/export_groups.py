"""Export groups with Spark: tasks read, encode and compress slices of partitions, the driver writes them to one file.

Or the tasks write them, each a file of a new folder that driver and executors share. ``connect-share restore`` puts back
either, as it does what ``connect-share export`` writes.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from connect_share.backup.backup_file import (
    PART,
    BackupContents,
    BackupFile,
    BackupLayout,
    SectionPart,
    SectionRead,
    write_backup,
    write_sections,
)
from connect_share.backup.export import Export
from connect_share.backup.record_file import writing_records
from connect_share.console.options import add_worker_file, groups_asked
from connect_share.console.output import Output, ProgressLine, Result, plural
from connect_share.errors import RecordFileError
from connect_share.files import Progress, Silent, sync_folder
from connect_share.model.records import size_of
from connect_share.worker_config import TopicSet
from migrator.bystanders import bundles
from spark_jobs import command_line
from spark_jobs.session import spark_session, task_slots
from spark_jobs.tasks import run_as_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB: Final = "export_groups"
_SLICE: Final = 250_000
"""Offsets that one task reads: some six megabytes of compressed source offsets come back to the driver."""
_WAVES: Final = 2
"""Tasks for each core whose results are in the driver's memory at once."""


def slices(reads: Sequence[SectionRead]) -> list[SectionRead]:
    """Return reads of at most 250,000 offsets of one partition, in the same order."""
    return [
        replace(read, ranges=[part._replace(start=start, end=min(part.end, start + _SLICE))])
        for read in reads
        for part in read.ranges
        for start in range(part.start, part.end, _SLICE)
    ]


def read_slice(read: SectionRead) -> list[SectionPart]:
    """Read one slice; runs in a task."""
    return list(read.parts(lambda _: None))


def read_with(spark: SparkSession, reads: Sequence[SectionRead], progress: Progress) -> Iterator[SectionPart]:
    """Yield what reads give, in their order; a wave of tasks at a time, so that the driver's memory is bounded."""
    left = iter(slices(reads))
    while wave := [*itertools.islice(left, _WAVES * task_slots(spark))]:
        for parts in run_as_tasks(spark, wave, read_slice, progress=Silent(), what="reading slices"):
            yield from parts
        progress.advance(sum(map(_offsets, wave)))


def _offsets(read: SectionRead) -> int:
    return sum(map(size_of, read.ranges))


Part = tuple[Path, BackupContents, list[list[SectionRead]]]


def _parts(folder: Path, layout: BackupLayout, run_id: str) -> Iterator[Part]:
    contents, sections = layout.contents(run_id).model_copy(update={"what": PART}), range(len(layout.sections))
    reads = [(number, read) for number in sections for read in slices(layout.reads(number, folder))]
    together = bundles(reads, lambda each: _offsets(each[1]), _SLICE) or [[]]
    for number, some in enumerate(together, 1):
        name = f"{number:06d}-of-{len(together):06d}.avro"
        by_section = [[read for section, read in some if section == each] for each in sections]
        yield folder / name, contents.model_copy(update={"part": (number, len(together))}), by_section


def write_part(part: Part) -> BackupFile:
    """Write a file under a name of its own, in a task: an attempt that was given up may go on."""
    path, contents, reads = part
    return write_sections(path.with_name(f"{path.name}.{uuid.uuid4().hex}"), contents, reads, Silent())


def leave_trace(trial: Path) -> Path:
    """Leave a file beside one of the driver, in a task that sees that one; return it."""
    trace = trial.with_name(uuid.uuid4().hex)
    with suppress(OSError):
        if trial.exists():
            trace.touch(mode=0o600)
    return trace


def write_folder(
    spark: SparkSession, folder: Path, layout: BackupLayout, run_id: str, progress: Progress
) -> BackupFile:
    """Write an export in parts to a new folder, after a try whether executors have it; a failure leaves nothing there.

    The hash is that of the parts' hashes.
    """
    began_s, parts, trial = time.monotonic(), [*_parts(folder, layout, run_id)], folder / run_id
    with writing_records(folder):
        folder.mkdir(mode=0o700)
    with ExitStack() as failed:
        failed.callback(shutil.rmtree, folder, ignore_errors=True)
        trial.touch(mode=0o600)
        places = [trial] * task_slots(spark)
        traces = run_as_tasks(spark, places, leave_trace, progress=Silent(), what="trying the folder")
        if not all(trace.exists() for trace in traces):
            raise RecordFileError(
                f"{folder} is not the same to driver and executors: give a folder on a file system that all of them have, "
                "and where the same user may write. Nothing was exported",
                path=str(folder),
            )
        for each in (trial, *traces):
            each.unlink()
        files = run_as_tasks(spark, parts, write_part, progress=progress, what="writing parts")
        for (path, _, _), file in zip(parts, files, strict=True):
            (folder / file.file).rename(path)
        sync_folder(folder)
        failed.pop_all()
    counts = {name: sum((Counter(getattr(each, name)) for each in files), Counter()) for name in ("topics", "left_out")}
    return BackupFile(
        file=folder.name,
        records=sum(each.records for each in files),
        **counts,
        size_bytes=sum(each.size_bytes for each in files),
        sha256=hashlib.sha256("".join(each.sha256 for each in files).encode()).hexdigest(),
        seconds=round(time.monotonic() - began_s, 3),
        left_out_first=next(filter(None, (each.left_out_first for each in files)), None),
    )


def _body(options: argparse.Namespace) -> int:
    out = Output(JOB, options.output, program=JOB)
    topic_set = TopicSet.from_worker_file(options.worker_config)
    groups = groups_asked(options, topic_set)
    asked = Export(topic_set, None if groups is None else frozenset(groups))
    path: Path = options.file or options.folder.absolute()
    with ProgressLine() as progress, ExitStack() as stack:
        # Spark is started when there is something to read.
        spark = cache(lambda: stack.enter_context(spark_session("connect-share export_groups")))

        def write(path: Path, layout: BackupLayout, run_id: str, reported: Progress) -> BackupFile:
            if options.folder is not None:
                return write_folder(spark(), path, layout, run_id, reported)
            return write_backup(path, layout, run_id, reported, lambda *reads: read_with(spark(), *reads))

        file, there = asked.write(path, progress, out.note, by=write)
    members = {**file.model_dump(mode="json"), "file": str(path), "groups": there}
    line = f"{path}: {plural(file.records, 'record')} of {plural(len(there), 'group')}, {file.size_bytes:,} bytes"
    return out.show(Result(members, [line]))


def main(argv: Sequence[str]) -> int:
    """Write one file, or a folder. 0 done, 1 failed, 2 usage."""
    parser = command_line.parser(JOB, __doc__ or "")
    add_worker_file(parser, "a worker's file")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", dest="file", metavar="FILE", type=Path, help="the file to write")
    where.add_argument(
        "--folder", metavar="DIR", type=Path, help="a new folder that driver and executors share, where tasks write"
    )
    parser.add_argument("--group", dest="groups", metavar="ID", action="append", help="this group, may be repeated")
    parser.add_argument("--all-groups", action="store_true", help="every group; the worker's own by default")
    parser.refuse("--all-groups", beside="--group")
    command_line.add_timeout(parser)
    return command_line.run(parser.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
