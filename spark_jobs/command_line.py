"""Parts that the jobs' command lines share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from connect_share.console import program
from connect_share.console.options import DEFAULT_TIMEOUT_S, StrictParser, seconds
from connect_share.console.output import Output
from connect_share.console.program import Command, InterruptionError, files_named
from connect_share.errors import ConnectShareError
from connect_share.kafka.waits import longest_wait


def parser(job: str, description: str) -> StrictParser:
    """Make an argument parser with ``--output``, whose help says how the job is started."""
    made = StrictParser(
        prog=f"python -m spark_jobs.{job}",
        description=description,
        epilog=f"On a cluster: spark-submit --master URL --py-files connect_share.whl .../spark_jobs/{job}.py ARGUMENTS",
    )
    made.add_argument("--output", choices=("text", "json"), default="text")
    return made


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add ``--timeout``."""
    parser.add_argument("--timeout", metavar="SECONDS", type=seconds, default=DEFAULT_TIMEOUT_S, help="longest wait")


def run(options: argparse.Namespace, body: Callable[[argparse.Namespace], int], *, failed: int | None = None) -> int:
    """Run a job's body; errors of ours and of files become one line on stderr and an exit code: ``failed``, or their own."""
    limit_s = getattr(options, "timeout", None)
    try:
        with files_named(), nullcontext() if limit_s is None else longest_wait(limit_s):
            return body(options)
    except ConnectShareError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return exc.exit_code if failed is None else failed
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return InterruptionError.exit_code


def run_command(command: Command, options: argparse.Namespace) -> int:
    """Run a command of the migrator as the body of a job."""
    return run(options, lambda given: program.run_command(command, given, Output(command.name, given.output)))


def exit_with(main: Callable[[Sequence[str]], int]) -> None:
    """Entry point of ``python -m`` and of spark-submit."""
    sys.exit(main(sys.argv[1:]))
