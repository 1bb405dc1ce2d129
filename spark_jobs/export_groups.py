"""Export groups with Spark: tasks read, encode and compress slices of partitions, the driver writes them to one file.

The file is the one that ``connect-share export`` writes, and ``connect-share restore`` puts it back.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from connect_share.backup.backup_file import SectionPart, SectionRead
from connect_share.backup.export import Export
from connect_share.console import DEFAULT_TIMEOUT_S, Output, ProgressLine, groups_of, plural
from connect_share.files import Progress, Silent
from connect_share.worker_config import TopicSet
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
    jobs, width = slices(reads), _WAVES * task_slots(spark)
    for first in range(0, len(jobs), width):
        wave = jobs[first : first + width]
        for parts in run_as_tasks(spark, wave, read_slice, progress=Silent(), what="reading slices"):
            yield from parts
        progress.advance(sum(part.end - part.start for job in wave for part in job.ranges))


def _body(options: argparse.Namespace) -> int:
    out = Output(JOB, options.output, program=JOB)
    topic_set = TopicSet.from_worker_file(options.worker_config)
    groups = groups_of(options.groups) or (None if options.all_groups else topic_set.worker_group)
    asked = Export(topic_set, None if groups is None else frozenset(groups))
    with ProgressLine(sys.stderr) as progress, ExitStack() as stack:
        # Spark is started when there is something to read.
        spark = cache(lambda: stack.enter_context(spark_session("connect-share export_groups")))

        def engine(reads: Sequence[SectionRead], reported: Progress) -> Iterator[SectionPart]:
            return read_with(spark(), reads, reported)

        done = asked.write(options.file, progress, out.note, timeout_s=options.timeout, engine=engine)
    file = done.file
    if out.is_json:
        out.json({**file.model_dump(mode="json"), "file": str(options.file), "groups": list(done.groups)})
    else:
        out.lines(
            f"{options.file}: {plural(file.records, 'record')} of {plural(len(done.groups), 'group')}, "
            f"{file.size_bytes:,} bytes"
        )
    return 0


def main(argv: Sequence[str]) -> int:
    """Write one file. 0 done, 1 failed, 2 usage."""
    parser = command_line.parser(JOB, __doc__ or "")
    parser.add_argument("-w", "--worker-config", metavar="FILE", type=Path, required=True, help="a worker's file")
    parser.add_argument("-o", dest="file", metavar="FILE", type=Path, required=True, help="the file to write")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--group", dest="groups", metavar="ID", action="append", help="this group, may be repeated")
    which.add_argument("--all-groups", action="store_true", help="every group; the worker's own by default")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=DEFAULT_TIMEOUT_S, help="longest wait")
    return command_line.run(parser.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
