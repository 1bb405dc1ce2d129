"""The start-up benchmark's report: whole or in part, safe against any text, and looked at by a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from connect_share.console import printable
from connect_share.contents.cost_model import CostModel
from spark_jobs.benchmark.results import Starts, StartupResult
from spark_jobs.benchmark.scenarios import PLANS
from spark_jobs.benchmark_startup import startup_table
from tests.lab.benchmarks.startup.report import main, render_report, write_report
from tests.lab.benchmarks.startup.series import contrasts, growths
from tests.lab.benchmarks.startup.view import measured_scenarios
from tests.lab.units import count_tick, duration, duration_tick, listed, percent, ratio, size
from tests.support.browser import CHROMIUM, WITHOUT_CHROMIUM, Browser
from tests.support.html_page import PageReader, check_self_contained
from tests.support.startup_results import a_result

HOSTILE = "</svg></style><script>alert(1)</script>|[x](http://y)`\"'&\u202e\x1b\x00"


def drawings(page: str) -> list[ElementTree.Element]:
    """Give every plot of a page, parsed as XML."""
    found = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    assert len(found) == page.count("<svg")
    return [ElementTree.fromstring(each) for each in found]


def check_markdown(markdown: str) -> None:
    """Every table has as many cells in each row as it has titles."""
    for table in re.findall(r"(?:^\|.*\n?)+", markdown, re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", row)) for row in table.strip().splitlines()}
        assert len(cells) == 1, table


def check_whole(result: StartupResult) -> tuple[str, str]:
    page, markdown = render_report(result)
    PageReader(page)
    drawings(page)
    check_markdown(markdown)
    check_self_contained(page)
    assert all(line == printable(line) for line in startup_table(result))
    return page, markdown


def starts(contender: str, *seconds: float, scenario: str = "kip", warmth: str = "warm", **more: Any) -> Starts:
    return Starts.model_validate(
        {"scenario": scenario, "contender": contender, "warmth": warmth, "seconds": list(seconds), **more}
    )


def test_ratios_are_of_medians() -> None:
    result = StartupResult(
        scenarios=[PLANS["kip"].scenario],
        starts=[
            starts("python", 0.05),
            starts("java-foreign", 0.2, 9.0, 0.35, topics={"config": [0.1]}),
            starts("librdkafka", 0.025, phases={"first_record": [0.01], "read": [0.04]}),
            starts("java", 1.0, warmth="cold"),
        ],
    )
    title, heads, *lines = startup_table(result)
    assert title == "KIP-1173's workload: 20 groups of 5 sink jobs"
    assert heads.split()[-3:] == ["first", "record", "read"]
    assert [line.split() for line in lines[:4]] == [
        ["python,", "warm", "50", "(50-50)", "1.00"],
        ["java-foreign,", "warm", "350", "(200-9,000)", "7.00", "100"],
        ["librdkafka,", "warm", "25", "(25-25)", "0.50", "10", "40"],
        ["java,", "cold", "1,000", "(1,000-1,000)"],
    ]
    page, markdown = check_whole(result)
    assert "7.00 ×" in PageReader(page).texts
    assert "| Java stores, prefixed keys, warm | 7.00 | 350 (200–9,000) | 100 |  |  |  |  | 3 |" in markdown


def test_starts_that_cannot_have_been_measured_are_left_out() -> None:
    result = StartupResult(starts=[starts("python", 0.1, 0.3, -1.0, 0.0), starts("java", 0.0)])
    _, markdown = check_whole(result)
    assert "200 (100–300)" in markdown
    assert "Java stores, plain keys, warm" not in markdown


@pytest.mark.parametrize("field", ["scenarios", "starts", "storms", "latencies", "predictions", "machine", "versions"])
def test_a_part_may_be_missing(field: str) -> None:
    whole = a_small_result()
    check_whole(whole.model_copy(update={field: type(getattr(whole, field))()}))


def a_small_result() -> StartupResult:
    whole, names = a_result(), ("kip", "zstd", "groups-1", "groups-20")
    return whole.model_copy(
        update={
            "scenarios": [each for each in whole.scenarios if each.name in names],
            "starts": [each for each in whole.starts if each.scenario in names],
            "storms": [each for each in whole.storms if each.starts == 20],
            "predictions": [each for each in whole.predictions if each.scenario in names],
        }
    )


def test_a_run_that_has_just_begun() -> None:
    page, _ = check_whole(StartupResult())
    assert "Nothing has been measured yet" in page
    assert drawings(page) == []
    check_whole(a_result().model_copy(update={"model": None, "measured_at_ms": 10**18}))
    only = a_result()
    page, _ = check_whole(
        only.model_copy(update={"starts": [each for each in only.starts if each.contender == "kcat"]})
    )
    assert "kcat (C)" in page


def test_scenarios_that_no_part_shows_have_one_of_their_own() -> None:
    result = StartupResult(starts=[starts("python", 0.1, scenario="mine"), starts("java", 0.3, scenario="mine")])
    page, markdown = check_whole(result)
    assert "Other scenarios" in page
    assert "| Java stores, plain keys, warm | 3.00 | 300 (300–300) |" in markdown
    assert "Other scenarios" not in check_whole(a_result())[0]


def test_no_error_is_claimed_of_a_model_that_predicted_nothing() -> None:
    model = CostModel(fixed_s=0.1, per_record_s=0, per_byte_s=0, per_own_record_s=0)
    for page in check_whole(StartupResult(model=model)):
        assert "Too few sizes were measured" in page
        assert "0.0 %" not in page.replace("\u00a0", " ")


def test_settings_are_compared_with_their_nearest_partner() -> None:
    found = {
        each.title: (each.having.name, each.without.name)
        for each in contrasts(a_result(), measured_scenarios(a_result()))
    }
    assert found == {
        "Compacted against dirty": ("compacted", "kip"),
        "Shared against dedicated": ("kip", "dedicated"),
        "Compressed with zstd against uncompressed": ("zstd", "kip"),
        "Compressed with lz4 against uncompressed": ("lz4", "kip"),
        "In transactions, read committed, against plain records": ("transactions", "kip"),
    }


def test_curves_are_in_order_and_hold_the_models_line() -> None:
    result = a_result()
    groups, records, record_sizes = growths(result, measured_scenarios(result))
    assert [each.dimension.title for each in (records, record_sizes)] == ["More records", "Larger records"]
    assert [x for x, _ in groups.sizes] == [1, 10, 20, 100, 1_000]
    model = groups.model_curve(result)
    xs = [x for x, *_ in model]
    assert xs == sorted(xs)
    assert (xs[0], xs[-1]) == (1, 1_000)
    assert all(low < y < high for _, y, low, high in model)
    assert sorted(x for x, _ in groups.predicted(result)) == [1, 10, 20, 100, 1_000]
    labels = [
        "Python stores, cold",
        "Python stores",
        "from a checkpoint, cold",
        "Java with the jar",
        "Java, plain keys",
    ]
    assert [curve.label for curve in groups.curves()] == [*labels, "bare librdkafka"]


def test_any_text_stays_text() -> None:
    def named(name: str) -> StartupResult:
        whole = a_small_result()
        old, new = {each.name: f"{name}{each.name}" for each in whole.scenarios}, whole.model_dump()
        for part in ("starts", "storms", "predictions"):
            for each in new[part]:
                each["scenario"] = old[each["scenario"]]
        for each in new["scenarios"]:
            each.update(name=old[each["name"]], title=name, series=each["series"] + name)
        for each in (*new["starts"], *new["latencies"]):
            each["contender"] += name
            each["phases"] = {name + phase: values for phase, values in each.get("phases", {}).items()}
            each.pop("phases") if "store" in each else None
        new.update(missing={name: name}, machine={name: name}, versions={name: name})
        return StartupResult.model_validate(new)

    page, markdown = check_whole(named(HOSTILE))
    harmless, _ = check_whole(named("h"))
    hostile = PageReader(page)
    assert {tag.split()[0] for tag in hostile.tags} == {tag.split()[0] for tag in PageReader(harmless).tags}
    assert "script" not in hostile.tags
    assert not re.search(r"(?<!\\)(?:\\\\)*[<\[`]", markdown)
    assert "://" not in markdown
    for character in "\u202e\x1b\x00":
        assert character not in page
        assert character not in markdown


def test_numbers_as_people_write_them() -> None:
    assert [duration(value) for value in (0.0, 3.5e-10, 5.5e-7, 0.00123, 0.052, 1.234, 61.0)] == [
        "0 ns",
        "0.35 ns",
        "550 ns",
        "1.2 ms",
        "52 ms",
        "1.23 s",
        "61.0 s",
    ]
    assert duration(0.9, 0.8, 1.2) == "900 ms (800–1,200)"
    assert [duration_tick(value) for value in (0.0, 0.001, 0.02, 1.0, 2.5)] == ["0", "1 ms", "20 ms", "1 s", "2.5 s"]
    assert [ratio(value) for value in (0.456, 23.44, 1234.5)] == ["0.46", "23.4", "1,234"]
    assert [percent(value) for value in (0.034, 0.125)] == ["3.4 %", "12 %"]
    assert [count_tick(value) for value in (5, 10_000, 2e6)] == ["5", "10 k", "2 M"]
    assert [size(value) for value in (0, 999, 31_000_000, 25e9)] == ["0 B", "999 B", "31 MB", "25 GB"]
    assert [listed(list(parts)) for parts in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]


def test_drawn_again_from_a_saved_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "result.json"
    saved.write_text(a_result().model_dump_json())
    assert main([str(saved), "--to", str(tmp_path / "deep" / "er")]) == 0
    pages = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [page.name for page in pages] == ["report.html", "report.md"]
    assert pages[0].read_text("utf-8") == render_report(a_result())[0]
    for wrong in ("{}x", '{"surprise": 1}'):
        saved.write_text(wrong)
        assert main([str(saved), "--to", str(tmp_path)]) == 2
        assert "is not a result of the start-up benchmark" in capsys.readouterr().err
    assert main([str(tmp_path / "none.json"), "--to", str(tmp_path)]) == 2
    saved.write_text("{}")
    assert main([str(saved), "--to", str(saved)]) == 1
    assert "name another folder" in capsys.readouterr().err


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(WITHOUT_CHROMIUM)
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


def test_a_browser_shows_it_on_a_phone_and_a_screen_in_light_and_dark(browser: Browser, tmp_path: Path) -> None:
    page, _ = write_report(a_result(), tmp_path)
    looks = {}
    for width in (360, 1280):
        browser.open(page, width=width)
        browser.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            looks[width, scheme] = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            seen = browser.look()
            assert (seen.pop("plots"), seen.pop("tables")) == (5, 11), (width, scheme)
            assert seen.pop("wide") <= 0, (width, scheme)
            assert seen == {"faint": [], "outside": [], "upon": []}, (width, scheme)
    assert len(set(looks.values())) == 2
    assert browser.complaints == []


def test_a_browser_runs_nothing_of_a_hostile_result(browser: Browser, tmp_path: Path) -> None:
    whole = a_result()
    result = whole.model_copy(
        update={
            "scenarios": [each.model_copy(update={"title": HOSTILE * 5}) for each in whole.scenarios],
            "machine": {HOSTILE: HOSTILE * 20},
        }
    )
    browser.open(write_report(result, tmp_path)[0], width=360)
    assert browser.evaluate("document.scripts.length") == 0
    assert browser.look()["wide"] <= 0
    assert browser.complaints == []
