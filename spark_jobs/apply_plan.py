"""Apply a migration plan with Spark: tasks consume, rewrite and produce in order, each a large partition or small ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from connect_share.files import Progress
from connect_share.kafka.write import Producers
from connect_share.model.records import size_of
from migrator.bystanders import bundles
from migrator.cli.apply import APPLY, RESUME
from migrator.cli.options import add_plan
from migrator.copy.copy_job import BULK, SPARK_ENGINE, TOGETHER, CopyJob, Engine, SliceEvidence, Wave, copy_all
from spark_jobs import command_line
from spark_jobs.session import require_single_attempts, spark_session, task_slots
from spark_jobs.tasks import copy_in_task, run_as_tasks

_BUNDLES: Final = 2
"""Tasks of a wave for each core: a resume reads the destination behind the last wave, and a wave waits for its last task."""
_TASKS: Final = 4
"""Tasks for each core, if there is enough to copy."""
_AT_ONCE: Final = 200_000
"""Offsets that a task copies at most, or one partition: what has failed begins anew, and is read again."""


def _offsets(job: CopyJob) -> int:
    return size_of(job.slice_.offset_range)


def copy_engine(progress: Progress) -> Engine:
    """Return the engine that copies slices in tasks; the session lives until the copy has ended."""
    with ExitStack() as stack:
        spark = stack.enter_context(spark_session("connect-share apply_plan"))
        require_single_attempts(spark)
        session = stack.pop_all()

    def engine(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence | Wave]:
        with session:
            # This process reads what an interrupted wave has left, once; each task would have to read all of it.
            yield from copy_all([job for job in jobs if job.resumed], Producers(once=True), progress)
            slots, offsets = task_slots(spark), sum(map(_offsets, jobs))
            at_once = max(TOGETHER, min(_AT_ONCE, offsets // (_TASKS * slots)))
            together = iter(bundles([job for job in jobs if not job.resumed], _offsets, at_once))
            copy = partial(copy_in_task, bulk=offsets > BULK)
            # Executors come while others work.
            while some := [*itertools.islice(together, _BUNDLES * task_slots(spark))]:
                yield (wave := Wave.of(itertools.chain.from_iterable(some), jobs))
                begun = [[wave.begun(job, resumed=False) for job in bundle] for bundle in some]
                copied = run_as_tasks(spark, begun, copy, progress=progress, what="copying partitions")
                yield from itertools.chain.from_iterable(copied)

    return engine


def main(argv: Sequence[str]) -> int:
    """Copy what a plan says; writes the manifest beside it. 0 done, 1 failed or refused, 2 usage."""
    parser = command_line.parser("apply_plan", __doc__ or "")
    add_plan(parser)
    parser.add_argument("--resume", action="store_true", help="continue a run that did not end")
    parser.add_argument("--isolation-proof", action="store_true", help="note first what others have there")
    parser.add_argument("--no-backup", action="store_true", help="write no backup first")
    parser.refuse("--isolation-proof --no-backup", beside="--resume")
    parser.set_defaults(engine=SPARK_ENGINE, yes=True, dry_run=False, follow=False)
    options = parser.parse_args(argv)
    return command_line.run_command(RESUME if options.resume else APPLY, options)


if __name__ == "__main__":
    command_line.exit_with(main)
