"""The start-up benchmark without a broker: the fitted model, the goals, what a run finds in its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.contents.cost_model import CostModel, StartSize
from connect_share.errors import ConfigError
from spark_jobs.benchmark import results
from spark_jobs.benchmark.cost_fit import Point, fit, fitted, points
from spark_jobs.benchmark.results import Scenario, Starts, StartupResult, Warmth
from spark_jobs.benchmark.topics import PLANS, PREFIX, SERVERS, SUITES, announcement, chosen, connection_from

SIZES = [
    StartSize(records=records, bytes=size, own_records=own)
    for records, size, own in (
        (1_300, 140_000, 1_300),
        (24_000, 36_000_000, 1_200),
        (13_000, 1_400_000, 1_300),
        (130_000, 14_000_000, 1_300),
        (1_300_000, 140_000_000, 1_300),
        (1_000_000, 160_000_000, 50_000),
        (3_000, 100_300_000, 150),
    )
]


def starts(
    scenario: str, contender: str, warmth: Warmth, *seconds: float, size: StartSize | None = None, **more: Any
) -> Starts:
    return Starts(scenario=scenario, contender=contender, warmth=warmth, seconds=list(seconds), size=size, **more)


def of(model: CostModel) -> list[Point]:
    return [(size, model.seconds(size)) for size in SIZES]


prices = st.tuples(st.floats(0.01, 0.2), st.floats(1e-7, 1e-5), st.floats(1e-10, 1e-8), st.floats(1e-6, 1e-4))


@given(prices)
def test_the_model_that_made_the_figures_is_found_again(given_prices: tuple[float, float, float, float]) -> None:
    fixed, record, byte, own = given_prices
    true = CostModel(fixed_s=fixed, per_record_s=record, per_byte_s=byte, per_own_record_s=own)
    found = fit(of(true))
    assert found is not None
    for size in [*SIZES, StartSize(records=500_000, bytes=10**9, own_records=7)]:
        assert found.seconds(size) == pytest.approx(true.seconds(size), rel=1e-5)


def test_no_price_is_negative_and_what_says_nothing_costs_nothing() -> None:
    # Larger is quicker here: the best model without negative prices is a fixed one.
    falling = [(size, 1.0 / (number + 1)) for number, size in enumerate(sorted(SIZES, key=lambda size: size.records))]
    model = fit(falling)
    assert model is not None
    assert min(model.fixed_s, model.per_record_s, model.per_byte_s, model.per_own_record_s) >= 0
    assert model.per_record_s < 1e-9
    assert fit([]) is None
    one = fit([(SIZES[0], 0.5)])
    assert one is not None
    assert one.seconds(SIZES[0]) == pytest.approx(0.5)


def test_each_prediction_is_made_without_the_size_it_is_about() -> None:
    prices = {"per_record_s": 1e-6, "per_byte_s": 1e-9, "per_own_record_s": 2e-5}
    model = CostModel(fixed_s=0.05, per_early_record_s=1e-6, per_early_byte_s=2e-9, **prices)
    measured = {f"s{number}": point for number, point in enumerate(of(model))}
    exact, predictions = fitted(measured)
    assert exact is not None
    assert exact.error == pytest.approx(0, abs=1e-6)
    largest = {max(measured, key=lambda name: getattr(measured[name][0], what)) for what in StartSize.model_fields}
    assert {each.scenario for each in predictions} == measured.keys() - largest  # nothing is said of what lies beyond
    assert "s3" not in largest
    size, seconds = measured["s3"]
    measured["s3"] = (size, seconds * 2)
    off, predictions = fitted(measured)
    (wrong,) = [each for each in predictions if each.scenario == "s3"]
    assert wrong.predicted_seconds == pytest.approx(seconds, rel=1e-3)
    assert wrong.error == pytest.approx(-1, abs=1e-2)  # half of what was measured is off as much as twice of it
    assert off is not None
    assert off.error == max(abs(each.error) for each in predictions) >= 1 - 1e-3
    assert fitted({}) == (None, [])


def test_only_cold_starts_of_ours_on_topics_the_model_knows_are_fitted() -> None:
    size = SIZES[0]
    result = StartupResult(
        scenarios=[PLANS["kip"].scenario, PLANS["zstd"].scenario, PLANS["transactions"].scenario],
        starts=[
            starts("kip", "python", "cold", 0.3, 0.1, 0.2, size=size),
            starts("kip", "python", "warm", 0.05, size=size),
            starts("kip", "java", "cold", 2.0, size=size),
            starts("kip", "python-dedicated", "cold", 0.05, size=SIZES[1]),
            starts("zstd", "python", "cold", 0.4, size=size),
            starts("transactions", "python", "cold", 0.4, size=size),
        ],
    )
    assert points(result) == {"kip": (size, 0.2), "kip-dedicated": (SIZES[1], 0.05)}


def test_suites_name_scenarios_and_unknown_ones_are_refused() -> None:
    assert all(set(names) <= PLANS.keys() for names in SUITES.values())
    assert [plan.scenario.name for plan in chosen("full", ["groups-10", "kip"])] == ["kip", "groups-10"]
    with pytest.raises(ConfigError, match="no scenario 'nonsense'"):
        chosen("full", ["nonsense"])


MACHINE = {"processors": 2, "load_1_minute": 0.1}
VERSIONS = {"kafka": "4.3.1"}


def test_a_run_finds_what_it_has_kept(tmp_path: Path) -> None:
    assert results.versions() == results.versions()
    assert "+" in results.versions()["connect_share"]  # names the code
    file = tmp_path / "made" / "result.json"
    empty = results.load(file, MACHINE, VERSIONS)
    assert (empty.machine, empty.versions, empty.starts) == (MACHINE, VERSIONS, [])
    kip = PLANS["kip"].scenario
    ours = starts("kip", "python", "cold", 0.1, 0.1)
    kept = results.with_starts(empty, kip, [ours, starts("kip", "java", "cold", 0.1, 0.1)])
    results.save(file, kept)
    again = results.load(file, {**MACHINE, "load_1_minute": 9.9}, VERSIONS)
    assert again == kept
    assert [each.name for each in file.parent.iterdir()] == ["result.json"]
    assert results.has_starts(again, kip, ["python"], 2)
    assert not results.has_starts(again, kip, ["python"], 3)
    assert not results.has_starts(again, kip, ["python", "kcat"], 2)
    changed: Scenario = kip.model_copy(update={"config_records": 1})
    assert not results.has_starts(again, changed, ["python"], 2)
    anew = results.with_starts(again, changed, [starts("kip", "python", "cold", 0.3)])
    assert ([each.config_records for each in anew.scenarios], [each.seconds for each in anew.starts]) == ([1], [[0.3]])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not a result of the start-up benchmark"),
        ('{"format": "startup-benchmark/1"}', "another format"),
        (json.dumps({"machine": {"processors": 4}, "versions": VERSIONS}), "another machine: processors was 4, is 2"),
        (json.dumps({"machine": MACHINE, "versions": {}}), "another version: kafka was None, is 4.3.1"),
    ],
)
def test_what_does_not_belong_together_is_not_mixed(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=words):
        results.load(file, MACHINE, VERSIONS)
    assert file.read_text() == content


def test_a_worker_file_gives_the_way_to_the_cluster_and_nothing_else(tmp_path: Path) -> None:
    comparison_lines = {
        "bootstrap.servers": "a:1,b:2",
        "group.id": "g",
        "security.protocol": "SSL",
        "consumer.ssl.truststore.location": "t.p12",
        "config.storage.replication.factor": "3",
        "config.storage.topic": "c",
        "offset.storage.topic": "o",
        "status.storage.topic": "s",
        "consumer.fetch.max.bytes": "1",
    }
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in comparison_lines.items()))
    found = connection_from(file, None, None)
    replicas = {f"{kind}.storage.replication.factor": "-1" for kind in ("offset", "status")}
    assert found == replicas | {
        name: comparison_lines[name] for name in list(comparison_lines)[:5] if name != "group.id"
    }


def test_what_is_written_to_a_cluster_is_said_first() -> None:
    connection, plans = {SERVERS: "a:1", "sasl.jaas.config": "secret"}, chosen("kip", None)
    text = "\n".join(announcement(connection, plans, {"python"}, [f"{PREFIX}{each}" for each in "abcd"]))
    assert "about 24,000 made-up records, 35.7 MB, at most 35.7 MB at a time" in text
    assert "4 such topics are there (connect-share-benchmark-a" in text
    assert "secret" not in text
