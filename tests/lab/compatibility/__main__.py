"""Try out who can share topics with whom, against the versions you have.

Starts a broker of each version (or takes yours), and for each cell real Java workers beside Python groups on the same
three topics; both sides write, are restarted, killed, and have to be what their own writes imply. Results on standard
output, progress on standard error. Exit code 0: every cell shares; 1: one does not; 2: usage.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from connect_share.errors import ConfigError
from connect_share.model.keys import ClusterGroupId
from connect_share.worker_config import load_properties
from spark_jobs import command_line
from tests.lab.compatibility.cells import Plugin, planned
from tests.lab.compatibility.course import try_cell
from tests.lab.compatibility.page import page
from tests.lab.compatibility.result import CellResult, Matrix, Outcome, save_document
from tests.lab.compatibility.shared_topics import PREFIX, Place
from tests.lab.embedded.artifacts import locked_sets
from tests.lab.embedded.broker import BROKER_SET, DEFAULT_VERSION, LocalBroker

DEFAULT_FOREIGN: Final = 9_000
_KAFKA: Final = re.compile(r"\d+\.\d+(\.[A-Za-z0-9._-]+)?")
_WORKER_SET: Final = re.compile(r"kafka-(\d[\d.]*)")


def broker_versions() -> tuple[str, ...]:
    """Return the versions of Kafka of which a broker can be started."""
    separate = {name.removeprefix(BROKER_SET) for name in locked_sets() if name.startswith(BROKER_SET)}
    return tuple(sorted(separate | {DEFAULT_VERSION}))


def worker_versions() -> tuple[str, ...]:
    """Return the versions of Kafka of which a worker can be started."""
    found = [match[1] for name in locked_sets() if (match := _WORKER_SET.fullmatch(name))]
    return tuple(sorted(found))


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.compatibility", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--brokers", nargs="+", help=f"versions, default {' '.join(broker_versions())}")
    parser.add_argument("--workers", nargs="+", help=f"versions, default {' '.join(worker_versions())}")
    parser.add_argument("--plugin", nargs="+", type=Plugin, default=tuple(Plugin), help="plain, jar, or both (default)")
    parser.add_argument(
        "-B", "--bootstrap", metavar="HOST:PORT", help="your broker; --brokers then has one name, for the table"
    )
    parser.add_argument(
        "--prefix", default=PREFIX, help=f"with which names of topics and groups begin, default {PREFIX}"
    )
    parser.add_argument(
        "--client-properties", type=Path, metavar="FILE", help="lines for every client, such as security.protocol"
    )
    parser.add_argument(
        "--libs",
        action="append",
        default=[],
        metavar="VERSION=FOLDER",
        help="the jars of a Kafka of your own, for workers of that version; may be repeated",
    )
    parser.add_argument(
        "--foreign", type=int, default=DEFAULT_FOREIGN, help=f"records of further groups, default {DEFAULT_FOREIGN}"
    )
    parser.add_argument("--result", type=Path, metavar="FILE", help="JSON that is kept and gone on with")
    parser.add_argument("--report", type=Path, metavar="FILE", help="page that shows the whole result, Markdown")
    parser.add_argument("--again", action="store_true", help="measure what was measured before, too")
    return parser.parse_args(argv)


def _check(options: argparse.Namespace) -> None:
    ClusterGroupId(f"{options.prefix}-")
    options.libraries = {}
    for words in options.libs:
        name, _, folder = words.partition("=")
        if not _KAFKA.fullmatch(name) or not any(Path(folder).glob("connect-runtime-*.jar")):
            raise ConfigError(
                f"--libs {words}: has to be VERSION=FOLDER, Kafka's version and a folder with Kafka's jars"
            )
        options.libraries[name] = Path(folder)
    options.workers = options.workers or worker_versions()
    if options.bootstrap:
        options.brokers = options.brokers or ("given",)
        if len(options.brokers) != 1:
            raise ConfigError("--bootstrap is one broker: --brokers has one name then, for the table")
    else:
        options.brokers = options.brokers or broker_versions()
        _check_known("--brokers", options.brokers, broker_versions(), "or give your own broker: --bootstrap")
        if options.client_properties:
            raise ConfigError("--client-properties are for a broker of your own: give --bootstrap, too")
    known = (*worker_versions(), *options.libraries)
    _check_known("--workers", options.workers, known, "or give the jars of your own: --libs")


def _check_known(option: str, asked: Sequence[str], known: Sequence[str], otherwise: str) -> None:
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise ConfigError(f"{option} {','.join(unknown)}: there are {', '.join(known)}; {otherwise}")


def run(options: argparse.Namespace) -> int:
    """Measure what is asked for; 0 if every cell of it shares."""
    _check(options)
    cells = planned(options.brokers, options.workers, options.plugin)
    results = Matrix.load(options.result).cells if options.result else {}
    held = () if options.again else [name for name, found in results.items() if found.outcome is Outcome.SHARES]
    left = [cell for cell in cells if cell.name not in held]
    if len(left) < len(cells):
        _tell(
            f"{len(cells) - len(left)} of {len(cells)} cells were measured before and are kept (--again measures them)"
        )
    done = 0
    for broker in dict.fromkeys(cell.broker for cell in left):
        with ExitStack() as stack:
            place = _place(options, broker, stack)
            for cell in (cell for cell in left if cell.broker == broker):
                done += 1
                _tell(f"[{done}/{len(left)}] broker {cell.broker}, {cell.title}: ...")
                result = try_cell(cell, place, foreign=options.foreign, libraries=options.libraries)
                _tell(f"[{done}/{len(left)}] {result.outcome} after {result.seconds:.0f} s {result.reason}".rstrip())
                results[cell.name] = result
                # By broker; within one the order of the first measurement, which is that of the plan.
                results = dict(sorted(results.items(), key=lambda item: item[1].broker))
                _keep(options, results)
    _keep(options, results)
    asked = {cell: results[cell.name] for cell in cells}
    for cell, found in asked.items():
        print(f"broker {cell.broker:<8} {cell.title:<52} {found.outcome} {found.reason}".rstrip())
    return 1 if any(found.outcome is Outcome.FAILS for found in asked.values()) else 0


def _place(options: argparse.Namespace, broker: str, stack: ExitStack) -> Place:
    if options.bootstrap:
        given = load_properties(options.client_properties) if options.client_properties else {}
        return Place(options.bootstrap, given, replicas=-1, prefix=options.prefix)
    return Place(stack.enter_context(LocalBroker(version=broker)).bootstrap_servers, prefix=options.prefix)


def _keep(options: argparse.Namespace, results: dict[str, CellResult]) -> None:
    if options.result:
        save_document(options.result, Matrix(cells=results).model_dump(mode="json"))
    if options.report:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(page(results), encoding="utf-8")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    return command_line.run(parse(argv), run)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command_line.exit_with(main)
