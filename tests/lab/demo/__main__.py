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
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from connect_share.console.output import Output
from migrator.cli.__main__ import main as migrate
from spark_jobs import apply_plan, command_line, verify_plan
from spark_jobs.benchmark.results import describe_machine, versions
from spark_jobs.session import spark_session
from tests.lab.demo.clusters import CLUSTERS
from tests.lab.demo.report import render_report, summary_lines
from tests.lab.demo.restart import compare_stores, look_at_sealed_group, look_at_shared_topics, run_again
from tests.lab.demo.result import DemoResult
from tests.lab.demo.workers import Captured, await_no_members, run_clusters
from tests.lab.embedded.artifacts import ensure_artifacts
from tests.lab.embedded.broker import DEFAULT_VERSION, LocalBroker
from tests.lab.embedded.errors import EmbeddedError


def run_demo(work: Path, output: Output) -> DemoResult:
    """Run everything; worker files, plan, manifest and logs stay in the folder."""
    began_s = time.monotonic()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    work.chmod(0o700)
    ensure_artifacts(f"kafka-{DEFAULT_VERSION}")
    ensure_artifacts("ecj")
    with contextlib.ExitStack() as stack:
        _say("starting a Kafka broker")
        broker = stack.enter_context(LocalBroker("bench"))
        admin = stack.enter_context(broker.admin(timeout_s=30.0))
        _say(f"running {len(CLUSTERS)} Java Connect clusters on dedicated topics")
        captured = run_clusters(broker.bootstrap_servers, admin, work, output.note)
        _say("waiting until the brokers miss the killed workers")
        await_no_members(admin, (cluster.group_id for cluster in CLUSTERS))
        verified_equal = _move(captured, work / "move.json")
        _say("starting the Python stores of every group")
        groups = tuple(map(compare_stores, captured))
        _say("starting the same Java workers again, on the shared topics with the jar")
        again = run_again(captured, admin, work, output.note)
        known = {**describe_machine(), **versions(), "pyspark": version("pyspark"), "kafka": DEFAULT_VERSION}
        return DemoResult(
            versions={name: str(value) for name, value in known.items()},
            seconds=round(time.monotonic() - began_s, 2),
            verified_equal=verified_equal,
            groups=groups,
            again=tuple(again),
            shared_topics=tuple(look_at_shared_topics(captured[0], admin)),
            sealed=look_at_sealed_group(captured, broker.data_folder),
        )


def _move(captured: Sequence[Captured], plan: Path) -> bool:
    """Plan, apply and verify with the commands that a user types; return whether both sides are equal."""
    _say("planning the move onto shared topics")
    sources = [str(each.worker_file) for each in captured]
    destinations = [str(each.shared_worker_file) for each in captured]
    _run(migrate, "plan", "-w", *sources, "--to-worker-config", *destinations, "-o", str(plan))
    with spark_session("connect-share demo"):  # both jobs use it
        _say("copying with Spark")
        _run(apply_plan.main, str(plan))
        _say("verifying with Spark")
        return verify_plan.main([str(plan)]) == 0


def _run(command: Callable[[Sequence[str]], int], *words: str) -> None:
    if code := command(words):
        raise EmbeddedError(f"{' '.join(words)} ended with {code}")


def _say(phase: str) -> None:
    print(f"== {phase}", file=sys.stderr, flush=True)


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
        output.lines(*summary_lines(result))
        return 0 if result.equal else 1

    return command_line.run(parser.parse_args(argv), body)


if __name__ == "__main__":
    command_line.exit_with(main)
