"""``python -m tests.lab.demo``: the whole move on what real Java workers wrote.

Real Connect clusters write dedicated topics, the Spark job moves them onto shared ones, the Python stores of every
cluster group have to show exactly what the Java workers said, and the same workers have to go on where they were, with
the jar. Everything runs on this machine and is stopped again.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Final

from connect_share.console.output import Output
from migrator.cli.cutover import verification_lines
from migrator.cli.options import plan_lines
from spark_jobs import command_line
from spark_jobs.benchmark.results import describe_machine, versions
from spark_jobs.session import spark_session
from tests.lab.demo.clusters import CLUSTERS
from tests.lab.demo.report import render_report, summary_lines
from tests.lab.demo.restart import look_at_sealed_group, look_at_shared_topics, run_again
from tests.lab.demo.result import DemoResult, Move, Phase
from tests.lab.demo.steps import apply_plan, make_plan, start_stores, verify_plan
from tests.lab.demo.workers import await_no_members, run_clusters
from tests.lab.embedded.artifacts import ensure_artifacts
from tests.lab.embedded.broker import DEFAULT_VERSION, LocalBroker

_SHOWN_DIFFERENCES: Final = 20


def run_demo(work: Path, output: Output) -> DemoResult:
    """Run everything; worker files, plan, manifest and logs stay in the folder."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    work.chmod(0o700)
    with contextlib.ExitStack() as stack:
        ensure_artifacts(f"kafka-{DEFAULT_VERSION}")
        ensure_artifacts("ecj")
        phases: list[Phase] = []
        phase = partial(_phase, phases)
        with phase("starting a Kafka broker"):
            broker = stack.enter_context(LocalBroker("bench"))
            admin = stack.enter_context(broker.admin(timeout_s=30.0))
        with phase(f"running {len(CLUSTERS)} Java Connect clusters on dedicated topics"):
            captured = run_clusters(broker.bootstrap_servers, admin, work, output.note)
        with phase("waiting until the brokers miss the killed workers"):
            await_no_members(admin, (cluster.group_id for cluster in CLUSTERS))
        plan_file = work / "move.json"
        with phase("planning the move onto shared topics"):
            output.lines(*plan_lines(make_plan(captured, plan_file)))
        with phase("starting Spark"):
            stack.enter_context(spark_session("connect-share demo"))
        with phase("copying with Spark"):
            apply_plan(plan_file)
        with phase("verifying with Spark"):
            found = verify_plan(plan_file)
            output.lines(*verification_lines(found, _SHOWN_DIFFERENCES))
        with phase("starting the Python stores of every group"):
            starts, groups = zip(*map(start_stores, captured), strict=True)
        with phase("starting the same Java workers again, on the shared topics with the jar"):
            again = run_again(captured, admin, work, output.note)
            shared_topics = look_at_shared_topics(captured[0], admin)
        with phase("looking for the sealed group's password on the broker's disk"):
            sealed = look_at_sealed_group(captured, broker.data_folder)
        known = {**describe_machine(), **versions(), "pyspark": version("pyspark"), "kafka": DEFAULT_VERSION}
        return DemoResult(
            versions={name: str(value) for name, value in known.items()},
            seconds=round(sum(each.seconds for each in phases), 2),
            phases=tuple(phases),
            move=Move(
                warnings=found.warnings, verified_equal=found.equal, differences=tuple(map(str, found.differences))
            ),
            starts=tuple(chain.from_iterable(starts)),
            groups=groups,
            again=tuple(again),
            shared_topics=tuple(shared_topics),
            sealed=sealed,
        )


@contextlib.contextmanager
def _phase(phases: list[Phase], name: str) -> Iterator[None]:
    print(f"== {name}", file=sys.stderr, flush=True)
    began_s = time.monotonic()
    yield
    phases.append(Phase(name=name, seconds=round(time.monotonic() - began_s, 2)))


def main(argv: Sequence[str]) -> int:
    """Run the demo. 0: everything equal, 1: not, or something failed, 2: usage."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.demo", description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=Path("build/demo"), help="folder for report.html and result.json"
    )
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # A terminated run has to stop what it started, just like one that was interrupted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def body(options: argparse.Namespace) -> int:
        output = Output("demo")
        result = run_demo(options.output / "work", output)
        file, page = options.output / "result.json", options.output / "report.html"
        file.write_text(result.model_dump_json(indent=2) + "\n", encoding="utf-8")
        page.write_text(render_report(result), encoding="utf-8")
        output.lines("", f"{page}, {file} ({result.seconds:.0f} s in all)", "")
        output.lines(*summary_lines(result.groups, result.again, result.shared_topics, result.sealed))
        return 0 if result.equal else 1

    return command_line.run(parser.parse_args(argv), body)


if __name__ == "__main__":
    command_line.exit_with(main)
