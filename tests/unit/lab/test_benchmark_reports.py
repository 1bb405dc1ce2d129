"""The benchmarks' reports: medians and ratios of what was measured, nothing of what was not."""

from __future__ import annotations

from typing import Any

from tests.lab.benchmarks.console import console_table, workload
from tests.lab.benchmarks.migration_report import migration_report, migration_table, size_report
from tests.lab.benchmarks.sealing import sealing_report, sealing_table
from tests.lab.benchmarks.steady_state import Reading, steady_report, steady_table
from tests.lab.benchmarks.workers import CELLS, workers_report, workers_table


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
        "sealed_to_jar_shared": 1.0,
    }
    assert report["starts"]["jar_shared"] == 3
    table = workers_table(report)
    assert len(table) == 1 + len(CELLS)
    assert "3.0 (2.0-4.0)" in table[1]
    assert "45,000" in table[3]
    assert "8,000" in table[3]


def test_sealed_starts_are_compared_with_plain_ones() -> None:
    report = sealing_report({"kip": {"cold start": {"plain": [0.2, 0.1, 0.4], "sealed": [0.3, 0.1, 0.22]}}})
    assert report["scenarios"] == {
        "kip": {"cold start": {"plain_ms": 200.0, "sealed_ms": 220.0, "ratio": 1.1, "measured": 3}}
    }
    assert sealing_table(report)[1].split() == ["kip:", "cold", "start", "200.00", "220.00", "1.10"]


def runs(*wall_s: float, cpu_s: float = 1.0, copy_s: float | None = None) -> list[dict[str, float]]:
    more = {} if copy_s is None else {"copy_s": copy_s}
    return [{"wall_s": value, "cpu_s": cpu_s, "peak_bytes": 2e6, **more} for value in wall_s]


WRONG = {"mirror_maker": {"misplaced": 960_097, "session_keys": 1, "duplicates": 0, "missing": 0}}


def a_size(**changed: list[dict[str, float]]) -> dict[str, Any]:
    found = {
        "mirror_maker": runs(16.0, 30.0, 14.0, cpu_s=20.0, copy_s=8.0),
        "local_apply": runs(2.0, 1.0, 9.0, cpu_s=4.0, copy_s=1.0),
        "local_verify": runs(2.0, 3.0, 0.5, cpu_s=3.0),
        **changed,
    }
    return size_report(1_000_000, 50_000_000, found, WRONG)


def test_migrations_are_compared_by_medians_and_sums_by_round() -> None:
    size = a_size()
    assert size["contenders"]["local_apply_verify"]["wall_s"] == {"n": 3, "median": 4.0, "min": 4.0, "max": 9.5}
    assert size["contenders"]["mirror_maker"]["records_per_s"] == 125_000
    assert size["contenders"]["mirror_maker"]["cpu_us_per_record"] == 20.0
    assert size["ratios"] == {
        "mirror_maker_to_apply_wall": 8.0,
        "mirror_maker_to_apply_copy": 8.0,
        "mirror_maker_to_apply_cpu": 5.0,
        "mirror_maker_to_apply_verify_wall": 4.0,
        "mirror_maker_to_apply_verify_cpu": 2.86,
    }


def test_goals_of_a_migration_are_those_of_its_size() -> None:
    warm = {"local_warm": runs(1.0, cpu_s=2.0, copy_s=1.0), "spark_warm": runs(1.0, cpu_s=3.8, copy_s=1.0)}
    report = migration_report({"kip": a_size(), "10000": a_size(), "1000000": a_size(**warm)}, 3)
    met = {(goal["size"], goal["ratio"]): goal["met"] for goal in report["goals"]}
    assert met.pop(("1000000", "spark_warm_to_local_warm_cpu")) is False  # 1.9 is more than 1.8
    assert met == {
        ("kip", "mirror_maker_to_apply_wall"): True,
        ("1000000", "mirror_maker_to_apply_wall"): True,
        ("1000000", "mirror_maker_to_apply_cpu"): True,
        ("1000000", "mirror_maker_to_apply_verify_wall"): True,
        ("1000000", "mirror_maker_to_apply_verify_cpu"): True,
    }
    assert not report["met"]
    lines = migration_table(report)
    assert sum(line.startswith("MISSED") for line in lines) == 1
    assert "met    KIP's workload: the copy at least 8 times sooner than MirrorMaker 2: 8.0" in lines
    assert any("MirrorMaker 2, until the last record" in line and "16.00 (14.00-30.00)" in line for line in lines)
    assert any("where no worker looks" in line and "960,097" in line for line in lines)
    assert not any("Spark: apply" in line for line in lines)


def test_goals_that_were_not_measured_are_not_missed() -> None:
    only_local = size_report(10, 100, {"local_apply": runs(1.0, copy_s=0.0)}, {})
    report = migration_report({"kip": only_local}, 1)
    assert (report["goals"], report["met"]) == ([], True)
    assert any("local: apply" in line for line in migration_table(report))


def test_the_console_is_measured_over_whole_workloads() -> None:
    size = workload(200, 25)
    # Each connector has each of its records once, and each group its session key.
    assert (size.config_records, size.status_records) == (200 * 25 * 4 + 200, 200 * 25 * 4)
    figures = {"seconds": 1.5, "cpu_seconds": 1.2, "worst_seconds": 2.0}
    report = {"groups": 200, "connectors": 5_000, "records": 60_220, "goals": {"get connectors": 3.0}}
    title, _, connectors, groups = console_table(
        {**report, "commands": {"get connectors": figures, "get groups": figures}}
    )
    assert title == "200 groups, 5,000 connectors, 60,220 records"
    assert connectors.split() == ["get", "connectors", "1.5", "1.2", "2.0", "3.0"]
    assert groups.split() == ["get", "groups", "1.5", "1.2", "2.0"]


def test_what_a_worker_needs_without_other_groups_is_taken_away() -> None:
    report = steady_report(
        [
            Reading("java", 1, 20.0, 0.0, 0.0, 0.01, 500.0),
            Reading("python", 1, 20.0, 0.0, 0.0, 0.02, None),
            Reading("java", 10, 20.0, 200.0, 90.0, 0.03, 30_500.0),
            Reading("python", 10, 20.0, 200.0, 90.0, 0.03, None),
        ]
    )
    idle, _, java, python = report["windows"]
    assert "cpu_us_per_record" not in idle
    assert (java["cpu_us_per_record"], java["received_bytes_per_record"]) == (100.0, 150.0)
    assert python["cpu_us_per_record"] == 50.0
    assert "received_bytes_per_record" not in python
    assert steady_table(report)[4] == "| java | 10 | 20 | 200 | 3.0% | 100.0 | 150.0 | 90 |"
