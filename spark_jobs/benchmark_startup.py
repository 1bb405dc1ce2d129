"""The time that a start of our stores takes on shared topics, beside bare clients that only read the records.

Reproduces the workload of KIP-1173 (20 clusters of 5 sink jobs; config topic 32 MB, status topic 3 MB) on your cluster and
extends it: more and fewer groups, records, bytes, other settings, many starts at once. Every round measures each contender
once, in turn, so that a machine whose speed drifts harms all alike. The result's file is written after each part: a run that
was stopped continues where it was, a whole one has nothing left to measure.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Final

from connect_share.console.options import add_profile, add_worker_file, output_file
from connect_share.console.output import Output, ProgressLine, Result, printable
from connect_share.console.program import confirmed
from connect_share.errors import ConfigError
from connect_share.files import run_folder
from spark_jobs import command_line
from spark_jobs.benchmark.results import StartupResult, describe_machine, load, median, versions
from spark_jobs.benchmark.starts import RUNS, Run
from spark_jobs.benchmark.suite import Suite
from spark_jobs.benchmark.topics import PLANS, SUITES, Connection, announcement, chosen, connection_from, look_at

_QUICK_ROUNDS: Final = 3
_STORMS: Final = {"full": (20, 100, 200), "quick": (20,), "kip": (20, 100)}
_SETTLE_S: Final = 20.0
"""Longer than the brokers' own 15 seconds between two looks of the log cleaner."""


def measure(
    options: argparse.Namespace,
    runs: Mapping[str, Run] = RUNS,
    *,
    used: Mapping[str, str] | None = None,
    own: Callable[[ExitStack], Connection] | None = None,
    settle_s: float = _SETTLE_S,
    also: Callable[[Suite], None] = lambda _: None,
) -> StartupResult | None:
    """Measure what is not yet in the result's file; return all, or ``None`` if the user does not want it.

    Args:
        options: of :func:`add_options`.
        runs: the contenders that can be measured.
        used: versions of what is measured, beside ours.
        own: makes a cluster for this run alone, when one is first needed; ``None``: that of the options, after a question.
        settle_s: how long a compacted topic has to stay as it is to count as clean.
        also: measures more.

    Raises:
        ConnectShareError: the options are wrong, or a part failed; what was measured before it is kept.
    """
    rounds = _QUICK_ROUNDS if options.rounds is None and options.suite == "quick" else options.rounds
    if rounds is not None and rounds < 1:
        raise ConfigError("--rounds has to be at least 1")
    storms = () if options.no_storm else options.storm or _STORMS[options.suite]
    plans = chosen(options.suite, options.scenarios)
    runs = {name: run for name, run in runs.items() if name in options.contenders}
    connection: Connection = {}
    cluster: dict[str, object] = {"cluster": "embedded"}
    if own is None:
        connection = connection_from(options.worker_config, options.bootstrap_servers, options.profile)
        cluster, left = look_at(connection)
        print(*announcement(connection, plans, runs, left), sep="\n", file=sys.stderr)
    known = None if options.again else options.result
    before = load(known, {**describe_machine(), **cluster}, {**versions(), **(used or {})})
    if own is None and not options.yes and not confirmed("Run the benchmark there?"):
        return None
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressLine())
        folder = run_folder("benchmark")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        suite = Suite(
            plans,
            runs,
            rounds,
            cache(lambda: connection if own is None else own(stack)),
            folder,
            progress,
            before,
            options.result,
            storms=storms,
            settle_s=settle_s,
            say=partial(print, file=sys.stderr, flush=True),
        )
        suite.run()
        also(suite)
        return suite.result


def startup_table(result: StartupResult) -> Iterator[str]:
    """Yield the result as lines for a terminal: milliseconds, ratios to our start, storms."""
    for scenario in result.scenarios:
        starts = [each for each in result.starts if each.scenario == scenario.name]
        ours = {each.warmth: median(each.seconds) for each in starts if each.contender == "python"}
        yield printable(scenario.title)
        yield f"  {'milliseconds, median (min-max)':<32}{'all three':>24}{'x ours':>9}"
        for each in starts:
            if middle := median(each.seconds):
                own = ours.get(each.warmth)
                spread = f"{middle * 1e3:,.3g} ({min(each.seconds) * 1e3:,.3g}-{max(each.seconds) * 1e3:,.3g})"
                times = f"{middle / own:.2f}" if own else ""
                yield printable(f"  {each.contender + ', ' + each.warmth:<32}{spread:>24}{times:>9}").rstrip()
        yield ""
    for storm in result.storms:
        how = "one after another" if storm.at_once == 1 else f"{storm.at_once:,} at once"
        yield f"storm of {storm.starts:,}, {how}: {storm.wall_seconds:,.1f} s, {storm.failed:,} failed"


def _body(options: argparse.Namespace) -> int:
    result = measure(options)
    if result is None:
        return 1
    shown = Result(result.model_dump(mode="json"), startup_table(result))
    return Output("benchmark_startup", options.output).show(shown)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _contenders(known: Collection[str], text: str) -> frozenset[str]:
    names = frozenset(_names(text))
    if not names or not names <= set(known):
        raise argparse.ArgumentTypeError(f"only {', '.join(known)}")
    return names


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of an option."""
    found = tuple(int(name) for name in _names(text) if name.isdecimal())
    if not found or min(found) < 1 or len(found) < len(_names(text)):
        raise argparse.ArgumentTypeError("a comma list of numbers, at least 1")
    return found


def add_options(arguments: argparse.ArgumentParser, contenders: Collection[str]) -> argparse._MutuallyExclusiveGroup:
    """Add what :func:`measure` reads; return the group of options that say where."""
    where = arguments.add_mutually_exclusive_group()
    where.add_argument("-B", "--bootstrap-servers", help="on this cluster, in topics of its own that are deleted after")
    text = "the same on the cluster of a worker file, with its security settings and replication factors"
    add_worker_file(where, text, required=False)
    add_profile(arguments)
    arguments.add_argument("--yes", action="store_true", help="do not ask before your cluster is used")
    arguments.add_argument("--suite", choices=tuple(SUITES), default="kip", help="which scenarios; default kip")
    arguments.add_argument("--scenarios", type=_names, help=f"instead: comma list of {', '.join(PLANS)}")
    arguments.add_argument("--rounds", type=int, help="default 6, of the KIP's workload 24; quick: 3")
    arguments.add_argument(
        "--contenders",
        type=partial(_contenders, contenders),
        default=frozenset(contenders),
        help=f"comma list of {', '.join(contenders)}; all by default, each on the scenarios where it is of interest",
    )
    arguments.add_argument("--storm", type=numbers, metavar="N,..", help="numbers of starts at once; full: 20,100,200")
    arguments.add_argument("--no-storm", action="store_true", help="no storms")
    text = "JSON file of all figures; a later run continues it"
    arguments.add_argument("--result", type=partial(output_file, makes_folder=True), metavar="FILE", help=text)
    arguments.add_argument("--again", action="store_true", help="forget what is in that file")
    return where


def main(argv: Sequence[str]) -> int:
    """Measure starts. 0 done (whatever the figures), 1 failed, 2 usage."""
    arguments = command_line.parser("benchmark_startup", __doc__ or "")
    add_options(arguments, RUNS)
    arguments.refuse("--storm", beside="--no-storm")
    arguments.refuse("--again", without="--result")
    options = arguments.parse_args(argv)
    with terminated_as_interrupted():
        return command_line.run(options, _body)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
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
