"""How a benchmark's report gets to its reader."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from connect_share.console import Output
from spark_jobs.benchmark.results import describe_machine, versions
from tests.lab.embedded.broker import DEFAULT_VERSION


def hand_out(options: argparse.Namespace, job: str, report: Mapping[str, Any], lines: Sequence[str]) -> None:
    """Write a report to the file of ``--result``, if one was named, and print it in the form of ``--output``.

    The file has machine, versions and time, too; what a reader sees is beside it as ``.txt``.
    """
    machine, used = describe_machine(), {**versions(), "kafka": DEFAULT_VERSION, **report.get("versions", {})}
    report = {**report, "machine": machine, "versions": used, "measured_at_ms": int(time.time() * 1000)}
    if options.result is not None:
        options.result.parent.mkdir(parents=True, exist_ok=True)
        options.result.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        facts = [", ".join(f"{name} {value}" for name, value in each.items()) for each in (machine, used)]
        options.result.with_suffix(".txt").write_text("\n".join([*lines, "", *facts, ""]), encoding="utf-8")
    output = Output(job, options.output)
    if output.is_json:
        output.json(dict(report))
    else:
        output.lines(*lines)
