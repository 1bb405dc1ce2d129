"""The start-up benchmark's result: medians, ratios and a table. Pure but for the machine's description."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from connect_share.client import library_versions
from connect_share.embedded.broker import DEFAULT_VERSION
from spark_jobs.machine import describe_machine
from spark_jobs.workload import WorkloadSize

PARTS: Final = ("total_s", "config_s", "status_s", "offsets_s")
TARGETS: Final = {
    "warm_java_to_python": 3.0,
    "cold_java_to_python": 12.0,
}
_RATIOS: Final = {
    "warm_java_to_python": ("java_warm", "python_warm"),
    "cold_java_to_python": ("java_cold", "python_cold"),
    "plain_client_to_python_warm": ("plain_client", "python_warm"),
    "warm_java_to_java_with_jar": ("java_warm", "java_jar_warm"),
    "cold_java_to_java_with_jar": ("java_cold", "java_jar_cold"),
    "warm_java_skipping_to_java_with_jar": ("java_foreign_warm", "java_jar_warm"),
    "cold_java_skipping_to_java_with_jar": ("java_foreign_cold", "java_jar_cold"),
}
_TITLES: Final = {
    "python_warm": "Python stores, shared topics, one group's records (warm)",
    "python_cold": "Python stores, first start of a process",
    "java_jar_warm": "Java stores with the jar, one group's records (warm JVM)",
    "java_jar_cold": "Java stores with the jar, first start of a JVM",
    "java_warm": "Java stores, plain keys (warm JVM)",
    "java_cold": "Java stores, first start of a JVM",
    "java_foreign_warm": "Java stores, every record foreign (warm JVM)",
    "java_foreign_cold": "Java stores, every record foreign, first start",
    "plain_client": "plain client, default settings, records only read",
}


def _summary(values: Sequence[float]) -> dict[str, float | int]:
    return {
        "n": len(values),
        "median_s": round(statistics.median(values), 6),
        "min_s": round(min(values), 6),
        "max_s": round(max(values), 6),
    }


def startup_report(
    seconds: Mapping[str, Mapping[str, Sequence[float]]], size: WorkloadSize, facts: dict[str, Any]
) -> dict[str, Any]:
    """Give the whole report as JSON; ratios only of contenders that were measured."""
    medians = {contender: statistics.median(parts["total_s"]) for contender, parts in seconds.items()}
    ratios = {
        name: round(medians[slow] / medians[fast], 2)
        for name, (slow, fast) in _RATIOS.items()
        if slow in medians and fast in medians
    }
    return {
        "workload": {
            "groups": size.groups,
            "jobs": size.jobs,
            "config_bytes": size.config_bytes,
            "status_bytes": size.status_bytes,
            "topics": facts,
        },
        "ratios": ratios,
        "targets": {
            **TARGETS,
            "met": all(ratios[name] >= target for name, target in TARGETS.items() if name in ratios),
        },
        "seconds": {
            contender: {part: _summary(values) for part, values in parts.items()}
            for contender, parts in seconds.items()
        },
        "machine": describe_machine(),
        "versions": {**library_versions(), "kafka": DEFAULT_VERSION},
        "measured_at_ms": int(time.time() * 1000),
    }


_SENTENCES: Final = {
    "warm_java_to_python": "warm: Java needs {:.1f} times as long as Python",
    "cold_java_to_python": "cold: Java needs {:.1f} times as long as Python",
    "warm_java_to_java_with_jar": "warm: Java on dedicated topics needs {:.1f} times as long as with the jar on shared ones",
    "warm_java_skipping_to_java_with_jar": "warm: Java that skips all records needs {:.1f} times as long as with the jar",
}


def startup_table(report: dict[str, Any]) -> list[str]:
    """Give the report as lines: ratios first, then milliseconds."""
    ratios, seconds = report["ratios"], report["seconds"]
    lines = [sentence.format(ratios[name]) for name, sentence in _SENTENCES.items() if name in ratios]
    lines += ["", f"{'milliseconds, median (min-max)':<58}{'all three':>22}{'config':>9}{'status':>9}{'offsets':>9}"]
    for contender, title in _TITLES.items():
        if contender not in seconds:
            continue
        parts = seconds[contender]
        total = parts["total_s"]
        spread = f"{total['median_s'] * 1e3:.0f} ({total['min_s'] * 1e3:.0f}-{total['max_s'] * 1e3:.0f})"
        cells = "".join(
            f"{parts[part]['median_s'] * 1e3:>9.0f}" if part in parts else f"{'':>9}"
            for part in ("config_s", "status_s", "offsets_s")
        )
        lines.append(f"{title:<58}{spread:>22}{cells}")
    lines += ["", "KIP-1173's own figures: config about 500 ms, status 400-500 ms"]
    return lines
