"""What benchmarks publish: medians and ratios of what was measured, goals by size, the comparison of two results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.errors import ConfigError
from spark_jobs.benchmark.results import Scenario, Starts, StartupResult, read
from spark_jobs.benchmark.topics import PLANS
from tests.lab.benchmarks.figures import ROOT
from tests.lab.benchmarks.migration_report import size_report
from tests.lab.benchmarks.sealing import sealing_report
from tests.lab.benchmarks.startup import comparison
from tests.lab.benchmarks.startup.__main__ import _changed
from tests.lab.benchmarks.startup.comparison import compare, comparison_lines
from tests.lab.benchmarks.startup.pairs import CLOCK, CLOCK_HEADS, MAINS, PAIRS, compared
from tests.lab.benchmarks.startup.statistics import by_process, chance, interval
from tests.lab.benchmarks.startup.view import _UNEQUAL
from tests.lab.benchmarks.startup.workers import _seconds_of_logs, worker_plan
from tests.lab.benchmarks.steady_state import Reading, steady_report


def test_sealed_starts_are_compared_by_medians() -> None:
    found = sealing_report({"kip": {"cold start": {"plain": [0.2, 0.1, 0.4], "sealed": [0.3, 0.1, 0.22]}}})
    assert [*found["scenarios"]["kip"]["cold start"].values()] == [200.0, 220.0, 1.1, 3]


def test_moves_are_compared_by_medians_and_sums_by_round() -> None:
    def runs(*wall_s: float, cpu_s: float) -> list[dict[str, float]]:
        return [{"wall_s": value, "cpu_s": cpu_s, "copy_s": value / 2, "peak_bytes": 2e6} for value in wall_s]

    found = {
        "mirror_maker": runs(16.0, 30.0, 14.0, cpu_s=20.0),
        "local_apply": runs(2.0, 1.0, 9.0, cpu_s=4.0),
        "local_verify": runs(2.0, 3.0, 0.5, cpu_s=3.0),
    }
    size = size_report(1_000_000, 50_000_000, found, {})
    assert size["contenders"]["local_apply_verify"]["wall_s"] == {"n": 3, "median": 4.0, "min": 4.0, "max": 9.5}
    assert size["contenders"]["mirror_maker"]["records_per_s"] == 125_000
    assert size["contenders"]["mirror_maker"]["cpu_us_per_record"] == 20.0
    assert size["ratios"] == {
        "mirror_maker_to_apply_wall": 8.0,
        "mirror_maker_to_apply_cpu": 5.0,
        "mirror_maker_to_apply_verify_wall": 4.0,
        "mirror_maker_to_apply_verify_cpu": 2.86,
    }


def test_what_a_worker_needs_without_other_groups_is_taken_away() -> None:
    readings = [
        Reading("java", 1, 20.0, 0.0, 0.0, 0.01, 500.0),
        Reading("python", 1, 20.0, 0.0, 0.0, 0.02, None),
        Reading("java", 10, 20.0, 200.0, 90.0, 0.03, 30_500.0),
        Reading("python", 10, 20.0, 200.0, 90.0, 0.03, None),
    ]
    idle, _, java, python = steady_report(readings)["windows"]
    assert "cpu_us_per_record" not in idle
    assert (java["cpu_us_per_record"], java["received_bytes_per_record"]) == (100.0, 150.0)
    assert python["cpu_us_per_record"] == 50.0
    assert "received_bytes_per_record" not in python


HERE = {"processors": 2, "architecture": "x86_64", "memory_bytes": 1, "system": "Linux 6", "cluster": "embedded"}


def scenario(records: int = 10) -> Scenario:
    return Scenario(
        name="kip", title="kip", series="kip", groups=1, jobs=1, config_records=records, status_records=1, offset_records=1,
        config_bytes=1, status_bytes=1, offset_bytes=1, partitions={"config": 1},
    )  # fmt: skip


def result(ours: list[float], bare: list[float] | None = None, **changed: Any) -> StartupResult:
    bare = [1.0] * len(ours) if bare is None else bare
    sides = {"python": ours, "librdkafka": bare}
    starts = [Starts(scenario="kip", contender=name, warmth="warm", seconds=seconds) for name, seconds in sides.items()]
    return StartupResult(**{"scenarios": [scenario()], "starts": starts, "machine": HERE, **changed})


def test_a_dozen_pairs_decide_and_do_the_same_work() -> None:
    assert sum(pair.decides for pair in PAIRS) == 12
    assert len({pair.title for pair in PAIRS}) == len(PAIRS)
    for pair in PAIRS:
        assert pair.first[1:] == pair.second[1:]  # the same warmth, and the same part
        assert not {pair.first[0], pair.second[0]} & _UNEQUAL
    assert all(len(row) == len(CLOCK_HEADS) for row in CLOCK)


def test_a_pair_is_the_median_of_its_rounds_and_a_process_is_the_unit() -> None:
    cold = [
        Starts(scenario="kip", contender=name, warmth="cold", seconds=[1.0] * 3) for name in ("python", "librdkafka")
    ]
    warm = result([2.0, 9.0, 2.0, 6.0, 6.0, 7.0, 4.0, 4.0, 4.0], [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0]).starts
    (_, found) = compared(result([], starts=[*cold, *warm]))
    assert (found.ratios.values, found.ratios.median, found.first) == ((2.0, 3.0, 4.0), 3.0, 4.0)
    assert (found.ratios.interval, found.met) == ((2.0, 4.0), False)
    assert interval([5.0]) == (5.0, 5.0)
    low, high = interval([float(value) for value in range(1, 102)])
    assert 35 < low < 51 < high < 67


@given(*[st.lists(st.floats(1e-6, 1e6), min_size=8, max_size=9)] * 2)
def test_the_other_way_round_is_the_inverse(one: list[float], other: list[float]) -> None:
    (there,), (back,) = compare(result(one), result(other)).rows, compare(result(other), result(one)).rows
    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.differs == back.differs
    assert not compare(result(one), result(one)).differs
    assert chance(one, other) == pytest.approx(chance(other, one))


def test_pairs_are_compared_on_two_machines_too_and_few_rounds_are_not_judged() -> None:
    slower = {**HERE, "processors": 64}
    found = compare(result([0.1] * 8), result([0.4] * 8, [4.0] * 8, machine=slower, versions={"kafka": "4.3.1"}))
    assert not found.differs
    shown = list(comparison_lines(found))
    assert {"| processors | 2 | 64 |", "| version of kafka | - | 4.3.1 |"} < set(shown)
    assert shown[-1] == "Same: 1 pairs that decide."
    assert not compare(result([0.1]), result([0.105])).differs  # within a tenth nothing has to be judged
    with pytest.raises(ConfigError, match="8 rounds are needed"):
        compare(result([0.1] * 7), result([0.2] * 8))
    with pytest.raises(ConfigError, match="no pair in common that decides, or the records"):
        compare(result([1.0]), result([1.0], scenarios=[scenario(records=11)]))


def test_the_exit_code_is_that_of_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(tmp_path / "before.json"), str(tmp_path / "after.json")]
    for file, seconds in zip(files, (1.0, 2.0), strict=True):
        Path(file).write_text(result([seconds] * 8).model_dump_json())
    assert comparison.main(files) == 1
    assert "| 1.00 (1.00–1.00) | 2.00 (2.00–2.00) | 2.00 | **larger** |" in capsys.readouterr().out
    assert comparison.main([files[0], files[0]]) == 0
    Path(files[1]).write_text("{}")
    assert comparison.main(files) == 2
    assert comparison.main([files[0], str(tmp_path / "none.json")]) == 2


def test_the_stores_part_of_a_worker_is_the_time_of_its_three_logs() -> None:
    lines = [
        f"[2026-11-27 00:00:0{at},000] INFO {what} topic {topic} more (org.apache.kafka.connect.util.KafkaBasedLog)"
        for at, what, topic in (
            (1, "Starting KafkaBasedLog with", "a"),
            (3, "Started KafkaBasedLog for", "a"),
            (4, "Starting KafkaBasedLog with", "b"),
            (5, "Started KafkaBasedLog for", "b"),
            (6, "Stopping KafkaBasedLog for", "b"),
        )
    ]
    assert _seconds_of_logs("\n".join(lines)) == 3.0
    assert [worker_plan(*each).scenario.name for each in ((20,), (20, "5-ms"))] == ["workers-20", "workers-20-5-ms"]
    assert _changed("three brokers, acks=all").scenario.name == "workers-20-three-brokers"  # and of topics


RUNS = 100


def drawn(committed: StartupResult, chance_of: np.random.Generator, slower: str = "") -> StartupResult:
    """Return a run as it could have been: as many rounds as a run has, drawn whole from those of the committed one."""
    starts, rounds_of = [], dict[str, Any]()
    wanted = {
        (scenario, *side[:2])
        for pair in PAIRS
        for scenario in MAINS.get(pair.scenario, (pair.scenario,))
        for side in (pair.first, pair.second)
    }
    for each in committed.starts:
        if (each.scenario, each.contender, each.warmth) not in wanted:
            continue
        rounds = min(len(one.seconds) for one in committed.starts if one.scenario == each.scenario)
        many = max(rounds, PLANS[each.scenario].rounds if each.scenario in PLANS else rounds)
        picked = rounds_of.setdefault(each.scenario, chance_of.integers(0, rounds, many))
        times = 1.2 if each.contender == slower else 1.0

        def of(values: list[float], picked: Any = picked, rounds: int = rounds, times: float = times) -> list[float]:
            known = by_process(values, rounds)
            return [times * known[number] for number in picked]

        parts = {part: of(values) for part, values in each.phases.items() if all(values)}
        starts.append(each.model_copy(update={"seconds": of(each.seconds), "phases": parts}))
    return committed.model_copy(update={"starts": starts})


def test_equal_runs_seldom_differ_and_a_fifth_slower_is_found() -> None:
    committed, chance_of = read(ROOT / "docs" / "benchmarks" / "startup.json"), np.random.default_rng(1173)
    alarms = sum(compare(drawn(committed, chance_of), drawn(committed, chance_of)).differs for _ in range(RUNS))
    assert alarms <= RUNS * 0.05
    ours = {each.pair.first[0] for each in compared(committed) if each.pair.decides} - {"librdkafka"}
    assert "python" in ours
    for contender in sorted(ours):
        found = sum(
            compare(drawn(committed, chance_of), drawn(committed, chance_of, contender)).differs
            for _ in range(RUNS // 5)
        )
        assert found >= RUNS // 5 * 0.9, contender
