"""The cost of sealing: starts of a sealed group and puts into running stores, side by side with the same group in plain.

Every start is one of a process of its own, cold once and warm afterwards; every round measures plain and sealed in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from connect_share.sealing import KEYS_PROPERTY
from connect_share.sealing.key_ring import new_key
from spark_jobs import command_line
from spark_jobs.benchmark.results import Start
from spark_jobs.benchmark.starts import run_python
from spark_jobs.benchmark.topics import PLANS, connection_from, worker_of, worker_properties_of, write_worker
from tests.lab.benchmarks.frame import Site, new_prefix, parser, run, topics_of, write_groups

SCENARIOS: Final = ("kip", "groups-1000")
FORMS: Final = ("plain", "sealed")
_WARM_STARTS: Final = 3
_UNCOUNTED_PUTS: Final = 50
_GROUP: Final = 3

Found = dict[str, dict[str, list[float]]]
"""Seconds by what was measured and its form."""


def _measure_starts(file: Path) -> dict[str, list[float]]:
    lines = run_python("spark_jobs.benchmark.starts", "stores", file, 1 + _WARM_STARTS)
    starts = [Start.model_validate_json(line) for line in lines]
    return {
        "cold start": [starts[0].seconds],
        "warm start": [start.seconds for start in starts[1:]],
        "warm start, CPU": [start.cpu_seconds or 0.0 for start in starts[1:]],
    }


def _measure_puts(file: Path, count: int) -> dict[str, list[float]]:
    lines = run_python("tests.lab.benchmarks.startup.latency", "puts", file, count, _UNCOUNTED_PUTS)
    found: dict[str, list[float]] = json.loads(lines[-1])
    return {f"put {store}": seconds for store, seconds in found.items()}


def _scenario(scenario: str, site: Site, rounds: int, puts: int) -> Found:
    plan, files = PLANS[scenario], {}
    with ExitStack() as stack:
        for form in FORMS:
            prefix = new_prefix(f"{scenario}-{form}")
            properties = worker_properties_of(plan, connection_from(None, site.servers, None), prefix, _GROUP)
            if form == "sealed":
                properties[KEYS_PROPERTY] = new_key()
            files[form] = write_worker(site.folder / f"{prefix}.json", properties)
            worker = stack.enter_context(topics_of(worker_of(files[form])))
            write_groups(worker, plan.size, site.progress, sealed=True)
        for file in files.values():
            _measure_starts(file)  # a broker in use has served these reads before
        found: Found = {}
        site.progress.phase(f"measuring {scenario}", rounds)
        for _ in range(rounds):
            for form, file in files.items():
                measured = _measure_starts(file) | (_measure_puts(file, puts) if puts else {})
                for what, seconds in measured.items():
                    found.setdefault(what, {}).setdefault(form, []).extend(seconds)
            site.progress.advance(1)
    return found


def sealing_report(found: Mapping[str, Found]) -> dict[str, Any]:
    """Return the medians in milliseconds by scenario, and what sealed takes to plain."""
    scenarios: dict[str, Any] = {}
    for scenario, parts in found.items():
        scenarios[scenario] = {}
        for what, forms in parts.items():
            medians = {form: statistics.median(seconds) for form, seconds in forms.items()}
            scenarios[scenario][what] = {
                **{f"{form}_ms": round(median * 1000, 2) for form, median in medians.items()},
                "ratio": round(medians["sealed"] / medians["plain"], 2),
                "measured": len(forms["sealed"]),
            }
    return {"scenarios": scenarios}


def sealing_table(report: Mapping[str, Any]) -> list[str]:
    """Return the report as lines."""
    lines = [f"{'median':<32}{'plain, ms':>12}{'sealed, ms':>12}{'ratio':>8}"]
    for scenario, parts in report["scenarios"].items():
        for what, values in parts.items():
            times = f"{values['plain_ms']:>12,.2f}{values['sealed_ms']:>12,.2f}"
            lines.append(f"{scenario + ': ' + what:<32}{times}{values['ratio']:>8.2f}")
    return lines


def _measure(options: argparse.Namespace, site: Site) -> dict[str, Any]:
    found = {
        name: _scenario(name, site, options.rounds, options.puts if name == SCENARIOS[0] else 0)
        for name in options.scenarios
    }
    return sealing_report(found)


def main(argv: Sequence[str]) -> int:
    """Measure plain and sealed side by side."""
    arguments = parser("sealing", __doc__, rounds=5)
    arguments.add_argument("--scenarios", nargs="+", choices=tuple(PLANS), default=SCENARIOS)
    arguments.add_argument("--puts", type=int, default=100, help=f"a round into each store, in {SCENARIOS[0]}; 0: none")
    return run(arguments.parse_args(argv), _measure, sealing_table)


if __name__ == "__main__":
    command_line.exit_with(main)
