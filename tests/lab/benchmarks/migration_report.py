"""The migration benchmark's result: medians, ratios, goals and tables. Pure but for the machine's description."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.lab.benchmarks.mirror_maker import VERSION

PARTS: Final = ("wall_s", "copy_s", "cpu_s", "peak_bytes")
KIP: Final = "kip"
MILLION: Final = 1_000_000

_TITLES: Final = {
    "mirror_maker": "MirrorMaker 2, until the last record",
    "bare": "bare clients: topics, read, write again",
    "local_plan": "local: plan",
    "local_apply": "local: apply",
    "local_verify": "local: verify",
    "local_apply_verify": "local: apply and verify",
    "local_backup": "local: apply, with a backup first",
    "spark_apply": "Spark: apply",
    "spark_verify": "Spark: verify",
}
_RATIOS: Final = {
    "mirror_maker_to_apply_wall": ("mirror_maker", "local_apply", "wall_s"),
    "mirror_maker_to_apply_cpu": ("mirror_maker", "local_apply", "cpu_s"),
    "mirror_maker_to_apply_verify_wall": ("mirror_maker", "local_apply_verify", "wall_s"),
    "mirror_maker_to_apply_verify_cpu": ("mirror_maker", "local_apply_verify", "cpu_s"),
    "apply_to_bare_wall": ("local_apply", "bare", "wall_s"),
    "apply_to_bare_copy": ("local_apply", "bare", "copy_s"),
}
_GOALS: Final = (
    # Size, ratio, its bound, as a sentence. What is beside bare clients is at most its bound, all else at least.
    (KIP, "mirror_maker_to_apply_wall", 8.0, "KIP's workload: the copy at least 8 times sooner than MirrorMaker 2"),
    (MILLION, "mirror_maker_to_apply_wall", 3.0, "a million: the copy at least 3 times sooner"),
    (MILLION, "mirror_maker_to_apply_cpu", 5.0, "a million: the copy with at most a fifth of its CPU"),
    (MILLION, "mirror_maker_to_apply_verify_wall", 2.0, "a million: copy and verification at least 2 times sooner"),
    (MILLION, "mirror_maker_to_apply_verify_cpu", 2.0, "a million: copy and verification with half of its CPU"),
    (KIP, "apply_to_bare_wall", 1.25, "KIP's workload: the move at most 1.25 times bare clients"),
    (MILLION, "apply_to_bare_wall", 1.25, "a million: the move at most 1.25 times bare clients"),
    (MILLION, "apply_to_bare_copy", 1.25, "a million: its copy alone at most 1.25 times theirs"),
)
_WRONG: Final = {
    "misplaced": "records where no worker looks for their key",
    "session_keys": "session keys copied",
    "duplicates": "records too many",
    "missing": "records missing",
}

Rounds = Mapping[str, Sequence[Mapping[str, float]]]
"""By contender, one mapping of :data:`PARTS` (those that were measured) for each round."""


def _with_sum(rounds: Rounds) -> dict[str, Sequence[Mapping[str, float]]]:
    """Return the rounds with what apply and verify, one after the other, took together."""
    pairs = zip(rounds.get("local_apply", ()), rounds.get("local_verify", ()), strict=False)
    added = [
        {
            "wall_s": first["wall_s"] + second["wall_s"],
            "cpu_s": first["cpu_s"] + second["cpu_s"],
            "peak_bytes": max(first["peak_bytes"], second["peak_bytes"]),
        }
        for first, second in pairs
    ]
    return {**rounds, "local_apply_verify": added} if added else dict(rounds)


def _summary(values: Sequence[float]) -> dict[str, float | int]:
    return {
        "n": len(values),
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
    }


def size_report(
    records: int, byte_count: int, rounds: Rounds, wrong: Mapping[str, Mapping[str, int]]
) -> dict[str, Any]:
    """Return the report of one size as JSON.

    Args:
        records: at the source, in all topics.
        byte_count: of their keys and values.
        rounds: what was measured.
        wrong: by contender what was found in its copy.
    """
    contenders: dict[str, dict[str, Any]] = {}
    for name, runs in _with_sum(rounds).items():
        parts = {part: _summary([run[part] for run in runs]) for part in PARTS if all(part in run for run in runs)}
        contenders[name] = dict(parts)
        if "copy_s" in parts:
            contenders[name]["records_per_s"] = round(records / max(parts["copy_s"]["median"], 1e-3))
        contenders[name]["cpu_us_per_record"] = round(parts["cpu_s"]["median"] / max(1, records) * 1e6, 2)
    ratios = {
        name: round(contenders[above][part]["median"] / max(contenders[below][part]["median"], 1e-3), 2)
        for name, (above, below, part) in _RATIOS.items()
        if part in contenders.get(above, {}) and part in contenders.get(below, {})
    }
    return {
        "records": records,
        "bytes": byte_count,
        "contenders": contenders,
        "ratios": ratios,
        "wrong": {name: dict(found) for name, found in wrong.items()},
    }


def migration_report(sizes: Mapping[str, Mapping[str, Any]], rounds: int) -> dict[str, Any]:
    """Return the whole report as JSON; ``sizes`` by name, as :func:`size_report` returns them."""
    return {"rounds": rounds, "sizes": dict(sizes), "versions": {"mirror_maker": VERSION}}


def _goal_lines(reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each goal with the ratio of each run; the median of them decides."""
    for size, ratio, bound, sentence in _GOALS:
        ratios = [report["sizes"].get(str(size), {}).get("ratios", {}) for report in reports]
        found = [each[ratio] for each in ratios if ratio in each]
        if found:
            middle = statistics.median(found)
            met = middle <= bound if ratio.startswith("apply_to_bare") else middle >= bound
            runs = f" in {len(found)} runs, median {middle:.2f}" if len(found) > 1 else ""
            yield f"{'met' if met else 'MISSED':<7}{sentence}: {', '.join(f'{each:.2f}' for each in found)}{runs}"


def migration_table(report: Mapping[str, Any], *further: Mapping[str, Any]) -> list[str]:
    """Return the report as lines: goals first, judged with further runs, then one table for each size."""
    lines = [*_goal_lines([report, *further])]
    for name, size in report["sizes"].items():
        title = "KIP-1173's workload" if name == KIP else f"{int(name):,} offset records"
        lines += ["", f"{title}: {size['records']:,} records, {size['bytes'] / 1e6:,.0f} MB"]
        head = f"{'whole processes, median (min-max)':<40}{'seconds':>22}{'copy s':>9}"
        lines.append(head + f"{'records/s':>11}{'CPU s':>8}{'us/record':>11}{'peak MB':>9}")
        for contender, words in _TITLES.items():
            if contender in size["contenders"]:
                lines.append(_row(words, size["contenders"][contender]))
        lines += _wrong_lines(size["wrong"])
    return lines


def _row(words: str, found: Mapping[str, Any]) -> str:
    wall = found["wall_s"]
    spread = f"{wall['median']:.2f} ({wall['min']:.2f}-{wall['max']:.2f})"
    copy = f"{found['copy_s']['median']:.2f}" if "copy_s" in found else ""
    rate = f"{found['records_per_s']:,}" if "records_per_s" in found else ""
    peak = f"{found['peak_bytes']['median'] / 1e6:,.0f}" if "peak_bytes" in found else ""
    cpu = f"{found['cpu_s']['median']:.2f}"
    return f"{words:<40}{spread:>22}{copy:>9}{rate:>11}{cpu:>8}{found['cpu_us_per_record']:>11,.1f}{peak:>9}"


def _wrong_lines(wrong: Mapping[str, Mapping[str, int]]) -> list[str]:
    if not wrong:
        return []
    names = list(wrong)
    lines = ["", f"{'in the copy':<46}" + "".join(f"{_SHORT.get(name, name):>16}" for name in names)]
    for what, words in _WRONG.items():
        lines.append(f"{words:<46}" + "".join(f"{wrong[name][what]:>16,}" for name in names))
    return lines


_SHORT: Final = {
    "mirror_maker": "MirrorMaker 2",
    "local_apply": "local",
    "spark_apply": "Spark",
}
