"""The benchmark of running workers: what is more than without other groups, by records."""

from __future__ import annotations

from tests.lab.benchmarks.steady_state import Reading, steady_report, steady_table


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
