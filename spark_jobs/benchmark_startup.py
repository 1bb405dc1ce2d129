"""The time that a start takes on shared topics: our stores, Java's with and without the jar and plain clients, side by side.

Reproduces the table of KIP-1173 (20 clusters of 5 sink jobs; config topic 32 MB, status topic 3 MB) on a real broker and
extends it: more and fewer groups, records, bytes, other settings, many starts at once, and puts into running stores.
Every round measures each contender once, in turn, so that a machine whose speed drifts harms all alike. The result's file
is written after each part: a run that was stopped continues where it was, a whole one has nothing left to measure.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Final

from connect_share.console import NEEDS_YES, Output, ProgressLine, confirmed
from connect_share.console.options import add_profile
from connect_share.errors import ConfigError
from connect_share.jar.cache import run_folder
from spark_jobs import command_line
from spark_jobs.startup import latency, resume
from spark_jobs.startup.connection import SERVERS, announcement, connection_from, is_secured, look_at
from spark_jobs.startup.contenders import missing_contenders
from spark_jobs.startup.goals import Goal, goals
from spark_jobs.startup.machine import describe_machine
from spark_jobs.startup.report import startup_table, write_report
from spark_jobs.startup.result import StartupResult
from spark_jobs.startup.scenarios import CONTENDERS, PLANS, SUITES, chosen
from spark_jobs.startup.suite import Suite
from spark_jobs.startup.view import EMBEDDED
from tests.lab.embedded.broker import LocalBroker

_ROUNDS: Final = {"full": 5, "quick": 2, "kip": 5}
_PUTS: Final = {"full": latency.PUTS, "quick": 40, "kip": latency.PUTS}
_STORMS: Final = {"full": (20, 100, 200), "quick": (20,), "kip": (20, 100)}
_BROKER: Final = {"log.cleaner.backoff.ms": "500"}
"""The cleaner looks for work twice a second, or a compacted topic would have to be waited for."""

_SETTLE_S: Final = 4.0
_SETTLE_ELSEWHERE_S: Final = 20.0
"""Longer than the brokers' own 15 seconds between two looks."""


def _body(options: argparse.Namespace) -> int:
    connection = None
    if not options.embedded:
        connection = connection_from(options.worker_config, options.bootstrap_servers, options.profile)
    rounds = _ROUNDS[options.suite] if options.rounds is None else options.rounds
    puts = _PUTS[options.suite] if options.puts is None else options.puts
    if rounds < 1 or puts < 1:
        raise ConfigError("--rounds and --puts have to be at least 1")
    absent = missing_contenders(is_secured=connection is not None and is_secured(connection))
    missing = {name: why for name, why in absent.items() if name in options.contenders}
    plans = chosen(options.suite, options.scenarios)
    puts = 0 if options.no_latency else puts
    cluster: dict[str, object] = {"cluster": EMBEDDED}
    if connection is not None:
        cluster, left = look_at(connection)
        lines = announcement(connection, plans, options.contenders - missing.keys(), puts, left)
        print(*lines, sep="\n", file=sys.stderr)
    known = None if options.again else options.result
    before = resume.load(known, {**describe_machine(), **cluster}, resume.versions())
    if connection and not options.yes and not confirmed("Run the benchmark there?", otherwise=NEEDS_YES):
        return 1
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressLine(sys.stderr))
        folder = run_folder("benchmark")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        # A broker is started when one is first needed.
        own = partial(LocalBroker, "bench", properties=_BROKER)
        where = cache(lambda: connection or {SERVERS: stack.enter_context(own()).bootstrap_servers})
        result = Suite(
            plans,
            options.contenders - missing.keys(),
            rounds,
            where,
            folder,
            progress,
            before.model_copy(update={"missing": missing}),
            options.result,
            storms=() if options.no_storm else options.storm or _STORMS[options.suite],
            puts=puts,
            settle_s=_SETTLE_S if options.embedded else _SETTLE_ELSEWHERE_S,
            say=partial(print, file=sys.stderr, flush=True),
        ).run()
    _hand_out(result, options)
    return 0


def _hand_out(result: StartupResult, options: argparse.Namespace) -> None:
    if options.report is not None:
        for path in write_report(result, options.report):
            print(f"wrote {path}", file=sys.stderr)
    judged = goals(result)
    output = Output("benchmark_startup", options.output)
    if output.is_json:
        output.json({**json.loads(result.model_dump_json()), "goals": list(map(asdict, judged))})
    else:
        output.lines(
            *startup_table(result), *(f"{name} is not measured: {why}" for name, why in result.missing.items())
        )
        output.lines("", *(_line(goal) for goal in judged if goal.met is not None))
        output.lines(f"{sum(goal.met is None for goal in judged)} goals of {len(judged)} were not measured")


def _line(goal: Goal) -> str:
    return f"{'met   ' if goal.met else 'MISSED'} {goal.sentence}: {goal.measured} (goal: {goal.target})"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _contenders(text: str) -> frozenset[str]:
    names = frozenset(_names(text))
    if not names or not names <= set(CONTENDERS):
        raise argparse.ArgumentTypeError(f"only {', '.join(CONTENDERS)}")
    return names


def _numbers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(name) for name in _names(text))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError("a comma list of numbers, at least 1")
    return numbers


def main(argv: Sequence[str]) -> int:
    """Measure starts. 0 done (whatever the figures), 1 failed, 2 usage."""
    arguments = command_line.parser("benchmark_startup", __doc__ or "")
    _add_cluster(arguments)
    arguments.add_argument("--suite", choices=tuple(SUITES), default="kip", help="which scenarios; default kip")
    arguments.add_argument("--scenarios", type=_names, help=f"instead: comma list of {', '.join(PLANS)}")
    arguments.add_argument("--rounds", type=int, help="default 5, quick: 2")
    arguments.add_argument(
        "--contenders",
        type=_contenders,
        default=frozenset(CONTENDERS),
        help=f"comma list of {', '.join(CONTENDERS)}; all by default, each on the scenarios where it is of interest",
    )
    arguments.add_argument("--storm", type=_numbers, metavar="N,..", help="numbers of starts at once; full: 20,100,200")
    arguments.add_argument("--no-storm", action="store_true", help="no storms")
    arguments.add_argument("--puts", type=int, help=f"into each store; default {latency.PUTS}, quick: 40")
    arguments.add_argument("--no-latency", action="store_true", help="no puts into running stores")
    arguments.add_argument(
        "--result", type=Path, metavar="FILE", help="JSON file of all figures; a later run continues it"
    )
    arguments.add_argument("--again", action="store_true", help="forget what is in that file")
    arguments.add_argument("--report", type=Path, metavar="DIR", help="folder for report.html and report.md")
    arguments.add_argument("--output", choices=("text", "json"), default="text")
    options = arguments.parse_args(argv)
    with _terminated_as_interrupted():
        return command_line.run(options, _body)


def _add_cluster(arguments: argparse.ArgumentParser) -> None:
    where = arguments.add_mutually_exclusive_group()
    where.add_argument("--embedded", action="store_true", help="on a local broker of its own")
    where.add_argument("-B", "--bootstrap-servers", help="on this cluster, in topics of its own that are deleted after")
    where.add_argument(
        "-w",
        "--worker-config",
        type=Path,
        metavar="FILE",
        help="the same on the cluster of a worker file, with its security settings and replication factors",
    )
    add_profile(arguments)
    arguments.add_argument("--yes", action="store_true", help="do not ask before your cluster is used")


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Clean up on SIGTERM as on Ctrl-C: no topic is to stay on a user's cluster when a pipeline is stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    command_line.exit_with(main)
