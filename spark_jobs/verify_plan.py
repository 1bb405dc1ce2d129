"""Verify a migration with Spark: tasks read partitions, the driver adds up digests, tasks compare what may differ.

A partition is never split: the newest record of a key, and the order of configurations, are known to who reads all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from connect_share.files import Progress
from migrator.bystanders import bundles
from migrator.cli.cutover import VERIFY
from migrator.cli.options import add_plan
from migrator.copy.copy_job import SPARK_ENGINE, TOGETHER
from migrator.verify.equality import PairHash, StateDifference
from migrator.verify.verification import AT_ONCE, Digests, Reading, VerifyEngine, VerifyJob, merged, verify_with
from spark_jobs import command_line
from spark_jobs.session import spark_session, task_slots, workers_hash_alike
from spark_jobs.tasks import run_as_tasks

_TASKS: Final = 4
"""Tasks for each core, if there is enough to read."""

Part = tuple[int, Reading]
"""Number of a reading, and a part of it."""


def read_parts(parts: Sequence[Part]) -> list[tuple[int, Digests]]:
    """Read in a task, and return a digest for each key space of each reading."""
    numbers = dict.fromkeys(number for number, _ in parts)
    return [(number, merged(part.digests() for which, part in parts if which == number)) for number in numbers]


def verify_in_tasks(
    jobs: Sequence[VerifyJob],
    run: Callable[[Sequence[Any], Callable[[Any], Any], str], list[Any]],
    slots: int,
    *,
    alike: bool = False,
) -> Iterable[list[StateDifference]]:
    """Compare jobs by ``run``, which calls a function for each of some items and says what it is; ``slots`` at once.

    ``alike``: ``hash`` has one seed in all workers. Where it has not, all seems to differ, and is read again to compare it.
    """

    def digest(readings: Sequence[Reading]) -> list[Digests]:
        offsets = sum(reading.side.offsets for reading in readings)
        at_once = min(AT_ONCE, max(TOGETHER, offsets // (_TASKS * slots)))
        parts = [(number, part) for number, reading in enumerate(readings) for part in reading.parts(at_once)]
        found: list[list[Digests]] = [[] for _ in readings]
        for each in run(bundles(parts, lambda part: part[1].side.offsets, at_once), read_parts, "reading partitions"):
            for number, digests in each:
                found[number].append(digests)
        return [merged(each) for each in found]

    def compare(folded: Sequence[VerifyJob]) -> list[list[StateDifference]]:
        return run(folded, VerifyJob.run, "comparing topics")

    return verify_with(jobs, digest=digest, compare=compare, hash_of=PairHash(anywhere=not alike))


def verify_engine(progress: Progress) -> VerifyEngine:
    """Return the engine that reads and compares in tasks."""

    def engine(jobs: Sequence[VerifyJob]) -> list[list[StateDifference]]:
        with spark_session("connect-share verify_plan") as spark:

            def run(items: Sequence[Any], function: Callable[[Any], Any], what: str) -> list[Any]:
                return run_as_tasks(spark, items, function, progress=progress, what=what)

            return [*verify_in_tasks(jobs, run, task_slots(spark), alike=workers_hash_alike(spark))]

    return engine


def main(argv: Sequence[str]) -> int:
    """Compare both sides of an applied plan. 0 equal, 1 different or failed, 2 usage."""
    parser = command_line.parser("verify_plan", __doc__ or "")
    add_plan(parser)
    parser.set_defaults(engine=SPARK_ENGINE, isolation=False)
    return command_line.run_command(VERIFY, parser.parse_args(argv))


if __name__ == "__main__":
    command_line.exit_with(main)
