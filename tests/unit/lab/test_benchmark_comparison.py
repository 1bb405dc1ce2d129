"""Two results of the start-up benchmark: what is compared, what differs, what cannot be compared."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.errors import ConfigError
from spark_jobs.benchmark.results import Scenario, Starts, StartupResult
from tests.lab.benchmarks.startup import comparison
from tests.lab.benchmarks.startup.comparison import compare, comparison_lines

HERE = {"processors": 2, "architecture": "x86_64", "memory_bytes": 1, "system": "Linux 6", "cluster": "embedded"}


def scenario(name: str = "kip", records: int = 10) -> Scenario:
    return Scenario(
        name=name, title=name, series=name, groups=1, jobs=1, config_records=records, status_records=1, offset_records=1,
        config_bytes=1, status_bytes=1, offset_bytes=1, partitions={"config": 1},
    )  # fmt: skip


def result(ours: list[float], bare: list[float] | None = None, **changed: Any) -> StartupResult:
    starts = [Starts(scenario="kip", contender="python", warmth="warm", seconds=ours)]
    if bare is not None:
        starts.append(Starts(scenario="kip", contender="librdkafka", warmth="warm", seconds=bare))
    return StartupResult(**{"scenarios": [scenario()], "starts": starts, "machine": HERE, **changed})


def test_on_one_machine_milliseconds_are_compared() -> None:
    (row, bare) = compare(result([0.1, 0.11, 0.12], [0.05] * 3), result([0.2, 0.21, 0.22], [0.05] * 3)).rows
    assert (row.contender, row.warmth, row.before, row.after) == ("python", "warm", 0.11, 0.21)
    assert row.ratio == pytest.approx(0.21 / 0.11)
    assert row.differs
    assert row.bare_before == pytest.approx(2.2)
    assert (row.verdict, bare.verdict) == ("**slower**", "same")


def test_a_spread_that_meets_is_no_difference() -> None:
    assert not compare(result([0.1, 0.2, 0.3]), result([0.15, 0.25, 0.3])).differs
    assert not compare(result([0.1, 0.1, 0.1]), result([0.105, 0.105, 0.105])).differs


def test_on_two_machines_multiples_of_the_bare_read_are_compared() -> None:
    slower = {**HERE, "processors": 64}
    found = compare(result([0.1] * 3, [0.05]), result([0.4] * 3, [0.2], machine=slower, versions={"kafka": "4.3.1"}))
    assert not found.same_machine
    assert not found.differs
    assert found.rows[0].ratio == pytest.approx(1)
    shown = list(comparison_lines(found))
    assert shown[0].startswith("Two machines")
    assert "| processors | 2 | 64 |" in shown
    assert "| version of kafka | - | 4.3.1 |" in shown
    assert shown[-1] == "Same within the spread: 1 starts."
    with pytest.raises(ConfigError, match="no start beside bare librdkafka in both"):
        compare(result([0.1] * 3), result([0.4] * 3, machine=slower))


def test_few_starts_are_shown_and_not_judged() -> None:
    few = StartupResult(
        **result([1.0] * 3).model_dump(exclude={"starts"}),
        starts=[*result([1.0] * 3).starts, Starts(scenario="kip", contender="kcat", warmth="cold", seconds=[1.0, 9.0])],
    )
    assert [row.verdict for row in compare(few, few).rows] == ["same", "too few starts"]
    with pytest.raises(ConfigError, match="less than 3 times"):
        compare(result([0.1] * 2), result([0.4] * 3))


def test_only_what_is_the_same_is_compared() -> None:
    more = [scenario(), scenario("groups-10")]
    assert compare(result([1.0] * 3, scenarios=more), result([1.0] * 3)).left_out == ("groups-10",)
    with pytest.raises(ConfigError, match=r"no scenario and contender in common \(kip against kip\), or the records"):
        compare(result([1.0]), result([1.0], scenarios=[scenario(records=11)]))


@given(*[st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=9)] * 2)
def test_the_other_way_round_is_the_inverse(one: list[float], other: list[float]) -> None:
    there, back = compare(result(one), result(other)).rows[0], compare(result(other), result(one)).rows[0]
    assert there.ratio is not None
    assert back.ratio is not None
    assert there.ratio * back.ratio == pytest.approx(1)
    assert not compare(result(one), result(one)).differs


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "before.json", tmp_path / "after.json"]
    for file, seconds in zip(files, (1.0, 2.0), strict=True):
        file.write_text(result([seconds] * 3).model_dump_json())
    words = list(map(str, files))
    assert comparison.main(words) == 1
    assert "| kip | Python stores, warm | 1,000 | 2,000 | - | - | 2.00 | **slower** |" in capsys.readouterr().out
    assert comparison.main([*words, "--output", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["differs"] is True
    assert comparison.main([words[0], words[0]]) == 0
    capsys.readouterr()
    files[1].write_text("{}")
    assert comparison.main(words) == 2
    assert "no scenario and contender in common" in capsys.readouterr().err
    assert comparison.main([words[0], str(tmp_path / "none.json")]) == 2
    assert "none.json cannot be read" in capsys.readouterr().err


def test_a_comparison_that_cannot_be_printed_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "result.json"
    file.write_text(result([1.0] * 3).model_dump_json())
    codes = []
    with (
        suppress(OSError),
        Path("/dev/full").open("w") as full,
        monkeypatch.context() as patched,
    ):  # it fails to close, too
        patched.setattr("sys.stdout", full)
        codes.append(comparison.main([str(file), str(file)]))
    assert codes == [2]
