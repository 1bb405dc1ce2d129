"""The start-up benchmark with all contenders, side by side: our stores, Java's with and without the jar, plain clients, kcat.

``spark_jobs.benchmark_startup`` measures those in Python; here it is done beside Java's stores, on a local broker or on any
cluster, with puts into running stores, the goals and the report.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

from connect_share.console import Output
from connect_share.errors import ConfigError
from spark_jobs import command_line
from spark_jobs.benchmark.suite import Suite
from spark_jobs.benchmark.topics import Connection, connection_from, is_secured
from spark_jobs.benchmark_startup import add_options, measure, startup_table, terminated_as_interrupted
from tests.lab.benchmarks.startup.contenders import ALL_RUNS, missing_contenders
from tests.lab.benchmarks.startup.goals import Goal, goals
from tests.lab.benchmarks.startup.latency import CONTENDERS, GROUPS, PUTS, has_latencies, measure_latency
from tests.lab.benchmarks.startup.report import latency_lines, write_report
from tests.lab.embedded.broker import DEFAULT_VERSION, LocalBroker

_PUTS: Final = {"full": PUTS, "quick": 40, "kip": PUTS}
_BROKER: Final = {"log.cleaner.backoff.ms": "500"}
"""The cleaner looks for work twice a second, or a compacted topic would have to be waited for."""

_SETTLE_S: Final = 4.0


def _own_broker(stack: ExitStack) -> Connection:
    return connection_from(None, stack.enter_context(LocalBroker("bench", properties=_BROKER)).bootstrap_servers, None)


def _latencies(puts: int, contenders: Sequence[str], suite: Suite) -> None:
    """Measure puts into running stores, if the result has not as many."""
    if not puts or has_latencies(suite.result, contenders, GROUPS, puts):
        return
    with suite.timed("latency"):
        found = measure_latency(
            suite.folder,
            suite.connection(),
            f"{suite.prefix}-latency",
            puts=puts,
            contenders=contenders,
            progress=suite.progress,
        )
        suite.keep(suite.result.model_copy(update={"latencies": found}))


def _body(options: argparse.Namespace) -> int:
    puts = _PUTS[options.suite] if options.puts is None else options.puts
    if puts < 1:
        raise ConfigError("--puts has to be at least 1")
    puts = 0 if options.no_latency else puts
    secured = False
    if not options.embedded:
        secured = is_secured(connection_from(options.worker_config, options.bootstrap_servers, options.profile))
        if puts:
            print("also: some writers of a few small records a second, for the times of puts", file=sys.stderr)
    absent = missing_contenders(is_secured=secured)
    result = measure(
        options,
        {name: run for name, run in ALL_RUNS.items() if name not in absent},
        used={"kafka": DEFAULT_VERSION},
        missing={name: why for name, why in absent.items() if name in options.contenders},
        own=_own_broker if options.embedded else None,
        **({"settle_s": _SETTLE_S} if options.embedded else {}),
        also=partial(_latencies, puts, [each for each in CONTENDERS if each in options.contenders]),
    )
    if result is None:
        return 1
    if options.report is not None:
        for path in write_report(result, options.report):
            print(f"wrote {path}", file=sys.stderr)
    judged = goals(result)
    output = Output("benchmark_startup", options.output)
    if output.is_json:
        output.json({**json.loads(result.model_dump_json()), "goals": list(map(asdict, judged))})
        return 0
    output.lines(*startup_table(result), *latency_lines(result))
    output.lines(*(f"{name} is not measured: {why}" for name, why in result.missing.items()))
    output.lines("", *(_line(goal) for goal in judged if goal.met is not None))
    output.lines(f"{sum(goal.met is None for goal in judged)} goals of {len(judged)} were not measured")
    return 0


def _line(goal: Goal) -> str:
    return f"{'met   ' if goal.met else 'MISSED'} {goal.sentence}: {goal.measured} (goal: {goal.target})"


def main(argv: Sequence[str]) -> int:
    """Measure starts and puts. 0 done (whatever the figures), 1 failed, 2 usage."""
    arguments = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.startup", description=__doc__)
    where = add_options(arguments, ALL_RUNS)
    where.add_argument("--embedded", action="store_true", help="on a local broker of its own")
    arguments.add_argument("--puts", type=int, help=f"into each store; default {PUTS}, quick: 40")
    arguments.add_argument("--no-latency", action="store_true", help="no puts into running stores")
    arguments.add_argument("--report", type=Path, metavar="DIR", help="folder for report.html and report.md")
    options = arguments.parse_args(argv)
    with terminated_as_interrupted():
        return command_line.run(options, _body)


if __name__ == "__main__":
    command_line.exit_with(main)
