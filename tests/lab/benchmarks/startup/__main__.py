"""The start-up benchmark with all contenders, side by side: our stores, Java's, whole Java workers, bare librdkafka.

``spark_jobs.benchmark_startup`` measures those in Python; here it is done beside Java's, on a local broker or on any cluster,
with puts into running stores, the pairs that the report compares, and the report.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Final

from connect_share.console.output import printable
from connect_share.errors import ConfigError
from spark_jobs import command_line
from spark_jobs.benchmark.results import Start
from spark_jobs.benchmark.starts import RUNS, SLOWER, Run
from spark_jobs.benchmark.suite import Suite
from spark_jobs.benchmark.topics import Connection, Files, Plan, announcement, connection_from
from spark_jobs.benchmark_startup import add_options, measure, numbers, startup_table, terminated_as_interrupted
from tests.lab.benchmarks.startup.contenders import ALL_RUNS
from tests.lab.benchmarks.startup.delay import DelayedBroker
from tests.lab.benchmarks.startup.latency import CONTENDERS, PUTS, measure_latency
from tests.lab.benchmarks.startup.report import latency_lines, pair_table, write_report
from tests.lab.benchmarks.startup.workers import KIP_GROUPS, measure_workers, worker_plan
from tests.lab.cluster import LocalCluster
from tests.lab.embedded.broker import DEFAULT_VERSION, LocalBroker

_PUTS: Final = {"full": PUTS, "quick": 40, "kip": 200}
_BROKER: Final = {"log.cleaner.backoff.ms": "500"}
"""The cleaner looks for work twice a second, or a compacted topic would have to be waited for."""

_SETTLE_S: Final = 4.0
_WORKERS: Final = (1, 20, 100)
_MOST_GROUPS: Final = 500
"""Last, for 15,500 partitions may be more than a broker is allowed to open."""

Cluster = LocalBroker | LocalCluster


def _connection(cluster: Callable[[], AbstractContextManager[Cluster]], stack: ExitStack) -> Connection:
    """Return how to get to a cluster, which is started for as long as the stack is open."""
    return connection_from(None, stack.enter_context(cluster()).bootstrap_servers, None)


def _groups(options: argparse.Namespace) -> tuple[int, ...]:
    """Return beside how many groups whole workers start."""
    return options.workers or (_WORKERS if options.suite == "full" else ())


def _changed(title: str) -> Plan:
    """Return the workers beside the KIP's groups with one thing changed; its first two words begin names of topics."""
    return worker_plan(KIP_GROUPS, "-".join(title.replace(",", "").split()[:2]), f", {title}")


def _workers(options: argparse.Namespace, suite: Suite) -> None:
    """Measure whole workers: of more groups, and with one setting changed where the KIP's 20 are."""
    if groups := _groups(options):
        measure_workers(suite, list(map(worker_plan, groups)), suite.connection)
    if options.suite != "full" or not options.embedded:
        return
    clusters: dict[str, Callable[[], AbstractContextManager[Cluster]]] = {
        f"{delay} ms in the way, each way": partial(DelayedBroker, delay) for delay in (0, 1, 5)
    }
    for title, cluster in {**clusters, "three brokers, acks=all": LocalCluster}.items():
        with ExitStack() as stack:
            measure_workers(suite, [_changed(title)], cache(partial(_connection, cluster, stack)))
    if not options.workers:
        measure_workers(suite, [worker_plan(_MOST_GROUPS)], suite.connection)


def _slower(text: str) -> tuple[str, str]:
    contender, _, share = text.partition("=")
    if contender not in RUNS or float(share) < 0:
        raise argparse.ArgumentTypeError(f"one of {', '.join(RUNS)}, and a share: python=0.2")
    return contender, share


def slowed(runs: Mapping[str, Run], contender: str, share: str) -> Mapping[str, Run]:
    """Return the contenders, one of them with starts that take so much longer."""

    def run(files: Files, warm: int) -> list[Start]:
        os.environ[SLOWER] = share
        try:
            return runs[contender](files, warm)
        finally:
            del os.environ[SLOWER]

    return {**runs, contender: run}


def _body(options: argparse.Namespace) -> int:
    puts = _PUTS[options.suite] if options.puts is None else options.puts
    if puts < 1:
        raise ConfigError("--puts has to be at least 1")
    puts = 0 if options.no_latency else puts
    if puts and not options.embedded:
        print("also: some writers of a few small records a second, for the times of puts", file=sys.stderr)
    if _groups(options) and not options.embedded:
        plans = list(map(worker_plan, _groups(options)))
        print("also, for whole Java workers, on shared topics and on those of each group:", file=sys.stderr)
        where = connection_from(options.worker_config, options.bootstrap_servers, options.profile)
        print(*announcement(where, plans, plans[0].contenders, []), sep="\n", file=sys.stderr)
    contenders = [each for each in CONTENDERS if any(name.startswith(each) for name in options.contenders)]

    def also(suite: Suite) -> None:
        if puts:
            measure_latency(suite, puts, contenders)
        _workers(options, suite)

    result = measure(
        options,
        ALL_RUNS if options.slower is None else slowed(ALL_RUNS, *options.slower),
        used={"kafka": DEFAULT_VERSION},
        own=partial(_connection, partial(LocalBroker, "bench", properties=_BROKER)) if options.embedded else None,
        **({"settle_s": _SETTLE_S} if options.embedded else {}),
        also=also,
    )
    if result is None:
        return 1
    if options.report is not None:
        for path in write_report(result, options.report):
            print(f"wrote {path}", file=sys.stderr)
    print(*map(printable, (*startup_table(result), *latency_lines(result), "", *pair_table(result))), sep="\n")
    return 0


def main(argv: Sequence[str]) -> int:
    """Measure starts and puts. 0 done (whatever the figures), 1 failed, 2 usage."""
    arguments = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.startup", description=__doc__)
    where = add_options(arguments, ALL_RUNS)
    where.add_argument("--embedded", action="store_true", help="on a local broker of its own")
    arguments.add_argument("--puts", type=int, help=f"into each store; default 200, full: {PUTS}, quick: 40")
    arguments.add_argument("--no-latency", action="store_true", help="no puts into running stores")
    arguments.add_argument(
        "--slower", type=_slower, metavar="CONTENDER=SHARE", help="to see that a comparison finds it"
    )
    arguments.add_argument(
        "--workers", type=numbers, metavar="N,..", help="whole Java workers beside so many groups; full: 1,20,100,500"
    )
    arguments.add_argument("--report", type=Path, metavar="DIR", help="folder for report.html and report.md")
    options = arguments.parse_args(argv)
    with terminated_as_interrupted():
        return command_line.run(options, _body)


if __name__ == "__main__":
    command_line.exit_with(main)
