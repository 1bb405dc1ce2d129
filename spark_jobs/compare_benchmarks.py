"""Compare two results of the start-up benchmark: of two versions on one machine, or of two machines.

Shows medians of all starts that both have, and which of them differ by more than their spread. On one machine milliseconds
are compared, on two machines multiples of bare librdkafka in the same run.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from connect_share.console import Output
from spark_jobs import command_line
from spark_jobs.startup import resume
from spark_jobs.startup.comparison import compare, lines


def _body(options: argparse.Namespace) -> int:
    found = compare(resume.read(options.before), resume.read(options.after))
    output = Output("compare_benchmarks", options.output)
    if output.is_json:
        output.json({**asdict(found), "differs": found.differs})
    else:
        output.lines(*lines(found))
    return 1 if found.differs else 0


def main(argv: Sequence[str]) -> int:
    """Compare. As diff: 0 same within the spread, 1 a start differs, 2 failed, or the results cannot be compared."""
    arguments = command_line.parser("compare_benchmarks", __doc__ or "")
    arguments.epilog = (
        "Exit codes: 0 same within the spread, 1 a start differs, 2 failed, or the results cannot be compared."
    )
    arguments.add_argument("before", type=Path, help="JSON file of a benchmark (--result)")
    arguments.add_argument("after", type=Path, help="another one")
    arguments.add_argument("--output", choices=("text", "json"), default="text")
    return command_line.run(arguments.parse_args(argv), _body, failed=2)


if __name__ == "__main__":
    command_line.exit_with(main)
