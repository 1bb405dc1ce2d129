"""Runs plans one after the other in one process, with the local engine or with Spark tasks, and times the copies.

What is left out here is what a whole process pays once: imports, the session's start and, with the first run of an
engine, its workers. The benchmark of migrations starts it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from connect_share.files import Silent
from migrator.apply import apply_plan, now_ms
from migrator.copy.copy_job import CopyJob, SliceEvidence
from migrator.copy.local_engine import LOCAL_ENGINE, Engine, local_engine
from migrator.planner import make_plan
from migrator.run import locked_run
from spark_jobs import command_line
from spark_jobs.apply_plan import SPARK_ENGINE
from spark_jobs.session import spark_session
from spark_jobs.tasks import copy_in_task, run_as_tasks
from tests.lab.benchmarks.process_cost import Family


def _timed(engine: Engine, report: Callable[[float, float], None]) -> Engine:
    def run(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        family = Family(os.getpid())
        cpu_s, began_s = family.look(), time.perf_counter()
        done = list(engine(jobs))
        report(time.perf_counter() - began_s, family.look() - cpu_s)
        yield from done

    return run


def _engine(name: str, stack: ExitStack) -> Engine:
    if name == LOCAL_ENGINE:
        return local_engine(Silent())
    spark = stack.enter_context(spark_session("connect-share benchmark_migration"))
    return lambda jobs: run_as_tasks(spark, jobs, copy_in_task, progress=Silent(), what="copying partitions")


def _body(options: argparse.Namespace) -> int:
    with ExitStack() as stack:
        engine = _engine(options.engine, stack)
        for run, destination in enumerate(options.destinations):
            plan = destination.with_suffix(".plan.json")
            make_plan([options.source], [destination], now_ms=now_ms()).save(plan)
            times: list[tuple[float, float]] = []
            timed = _timed(engine, lambda wall_s, cpu_s, times=times: times.append((wall_s, cpu_s)))  # type: ignore[misc]
            with locked_run(plan) as locked:
                manifest = apply_plan(locked, engine=timed, engine_name=options.engine, backup=False)
            ((wall_s, cpu_s),) = times
            line = {"run": run, "wall_s": wall_s, "cpu_s": cpu_s, "records": manifest.records_written}
            sys.stdout.write(json.dumps(line) + "\n")
    return 0


def main(argv: Sequence[str]) -> int:
    """Copy the source to each destination; one JSON line a run. 0 done, 1 failed, 2 usage."""
    arguments = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.migration_probe", description=__doc__)
    arguments.add_argument("engine", choices=(LOCAL_ENGINE, SPARK_ENGINE))
    arguments.add_argument("source", type=Path, help="worker file")
    arguments.add_argument("destinations", type=Path, nargs="+", help="worker files")
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
