"""Run Kafka's own integration tests of Connect with the jar and topic sharing in every worker.

Needs Maven and a JDK. Exit code 0: all is as it has to be; 1: something is not; 2: usage.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Final

from spark_jobs import command_line
from tests.lab.compatibility.course import machine
from tests.lab.compatibility.result import save_document
from tests.lab.embedded.artifacts import locked, locked_sets
from tests.lab.peers.page import page
from tests.lab.peers.result import Mode, Result, Run
from tests.lab.peers.suite import LOCK_FILE, Suite, test_classes

_LOGS: Final = Path("build/peers")
MUTANT_CLASS: Final = "ExampleConnectIntegrationTest"
"""The class that a mutant fails by default: the soonest."""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    versions = [name.removeprefix("peers-") for name in sorted(locked_sets(LOCK_FILE))]
    parser = argparse.ArgumentParser(prog="python -m tests.lab.peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kafka", nargs="+", choices=versions, default=versions, help="versions; default: all")
    parser.add_argument(
        "--modes", nargs="+", type=Mode, choices=list(Mode), default=list(Mode), help="default: all of them"
    )
    parser.add_argument("--classes", nargs="+", default=(), metavar="CLASS", help="names; default: all of them")
    parser.add_argument("--result", type=Path, required=True, metavar="FILE", help="JSON; kept and gone on with")
    parser.add_argument("--report", type=Path, required=True, metavar="FILE", help="page of all runs, Markdown")
    parser.add_argument("--again", action="store_true", help="run what was run before and held, too")
    return parser.parse_args(argv)


def run(options: argparse.Namespace) -> int:
    """Run what is asked for; 0 if all of it is as it has to be."""
    result = Result.load(options.result)
    troubles = []
    for kafka, mode in product(options.kafka, options.modes):
        every = test_classes(kafka)
        there = () if options.again else [name for name, one in result.of(kafka, mode).items() if not one.troubles]
        for name in options.classes or ([MUTANT_CLASS] if mode is Mode.MUTANT else every):
            if name in there:
                continue
            load = round(os.getloadavg()[0], 1)
            found = Suite(kafka, mode, name, _LOGS.resolve() / kafka / mode / name).run()
            one = Run(
                kafka=kafka,
                mode=mode,
                test_class=name,
                found=found,
                measured_on=datetime.now(UTC).date().isoformat(),
                load=load,
                product=version("connect-share"),
                machine=machine(),
            )
            with locked("peers"):  # two runs of other classes side by side may have one file
                result = Result.load(options.result).with_run(one, every)
                save_document(options.result, result.model_dump(mode="json", exclude_defaults=True))
            print(
                f"{kafka} {mode} {name}: {found.passed} of {len(found.tests)} passed in {found.seconds} s", flush=True
            )
            troubles += [f"{kafka} {mode} {name}: {trouble}" for trouble in one.troubles]
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(page(result), encoding="utf-8")
    for trouble in troubles:
        print(trouble, file=sys.stderr)
    return 1 if troubles else 0


def main(argv: Sequence[str]) -> int:
    """Run the program."""
    return command_line.run(parse(argv), run)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no JVM is left behind
    command_line.exit_with(main)
