"""The benchmarks' reports: medians and ratios of what was measured, nothing of what was not."""

from __future__ import annotations

from spark_jobs.benchmark_workers import CELLS, workers_report, workers_table
from spark_jobs.startup_report import PARTS, startup_report, startup_table
from spark_jobs.workload import WorkloadSize


def seconds(*values: float) -> dict[str, list[float]]:
    return {part: list(values) for part in PARTS}


def test_ratios_are_of_medians_and_only_of_what_was_measured() -> None:
    report = startup_report(
        {"java_jar_warm": seconds(1.0, 9.0, 2.0), "java_foreign_warm": seconds(20.0)}, WorkloadSize(), {}
    )
    assert report["ratios"] == {"warm_java_skipping_to_java_with_jar": 10.0}
    assert report["seconds"]["java_jar_warm"]["total_s"] == {"n": 3, "median_s": 2.0, "min_s": 1.0, "max_s": 9.0}
    assert report["targets"]["met"]  # none of the targets was measured
    lines = startup_table(report)
    assert lines[0] == "warm: Java that skips all records needs 10.0 times as long as with the jar"
    assert any("Java stores with the jar" in line and "2000 (1000-9000)" in line for line in lines)
    assert not any("Python" in line for line in lines)


def test_missed_targets_are_told() -> None:
    slow = {"python_warm": seconds(1.0), "java_warm": seconds(2.9)}
    assert not startup_report(slow, WorkloadSize(), {})["targets"]["met"]
    assert startup_report({**slow, "java_warm": seconds(3.0)}, WorkloadSize(), {})["targets"]["met"]


def test_workers_are_compared_by_medians() -> None:
    def starts(*values: float) -> list[dict[str, float]]:
        return [{"seconds": value, "log_lines": 10, "log_bytes": 100, "warn_and_error": 0} for value in values]

    found = {cell.name: starts(2.0, 4.0, 3.0) for cell in CELLS}
    found["plain_shared"] = [{"seconds": 6.0, "log_lines": 45_000, "log_bytes": 10**6, "warn_and_error": 8_000}]
    report = workers_report(found)
    assert report["ratios"] == {
        "jar_to_plain_dedicated": 1.0,
        "jar_to_plain_shared": 0.5,
        "jar_shared_to_plain_dedicated": 1.0,
    }
    assert report["starts"]["jar_shared"] == 3
    table = workers_table(report)
    assert len(table) == 1 + len(CELLS)
    assert "3.0 (2.0-4.0)" in table[1]
    assert "45,000" in table[3]
    assert "8,000" in table[3]
