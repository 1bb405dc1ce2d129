"""The findings of the start-up benchmark in a few plain sentences and figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from connect_share.contents.cost_model import EARLY_BYTES, EARLY_RECORDS, CostModel
from spark_jobs.startup.result import Warmth
from spark_jobs.startup.series import Growth
from spark_jobs.startup.view import KIP, OURS, MeasuredLatency, MeasuredScenario, MeasuredStorm
from spark_jobs.units import duration, listed, percent, ratio, size

_ON_KIP: Final[tuple[tuple[str, Warmth], ...]] = (("java", "cold"), ("java-foreign", "warm"), ("kcat", "cold"))
_ON_LARGE: Final[tuple[tuple[str, Warmth], ...]] = (("java", "warm"), ("java-jar", "warm"))


class Card(NamedTuple):
    """A figure that is to be seen first: how much, of what, and how it came about."""

    figure: str
    what: str
    detail: str = ""


def ratio_cards(kip: MeasuredScenario | None, large: MeasuredScenario | None) -> Iterator[Card]:
    """Yield the main ratios, of the KIP's workload and of the scenario with the most groups."""
    for scenario, where, wanted in ((kip, "KIP's workload", _ON_KIP), (large, large.title if large else "", _ON_LARGE)):
        for contender, warmth in wanted:
            other = scenario.find(contender, warmth) if scenario else None
            if other is not None and other.ours is not None and other.times is not None:
                theirs, ours = duration(other.total.median), duration(other.ours.total.median)
                yield Card(f"{ratio(other.times)} ×", other.title, f"{where}: {theirs} against our {ours}")
    full, short = (large.find(name, "cold") if large else None for name in (OURS, "python-checkpoint"))
    if large is not None and full is not None and short is not None:
        yield Card(
            f"{ratio(full.total.median / short.total.median)} ×",
            "our full read, against a start from a checkpoint",
            f"{large.title}: {duration(full.total.median)} against {duration(short.total.median)}",
        )


def model_cards(model: CostModel, *, predicted: bool) -> list[Card]:
    """Return the prices of the cost model."""
    prices = [
        (model.per_record_s, "a record", "own or foreign"),
        (model.per_early_record_s, "more", f"for each of the first {EARLY_RECORDS:,}"),
        (model.per_byte_s, "a byte", "of keys and values"),
        (model.per_early_byte_s, "more", f"for each of the first {size(EARLY_BYTES)}"),
        (model.per_own_record_s, "an own record", "parsed and folded"),
    ]
    cards = [Card(duration(seconds), what, detail) for seconds, what, detail in prices if seconds or what != "more"]
    error = Card(f"± {percent(model.error)}", "largest error", "of a size predicted from the others")
    return [Card(duration(model.fixed_s), "fixed"), *cards, *([error] if predicted else [])]


def sentences(
    scenarios: dict[str, MeasuredScenario],
    growths: list[Growth],
    storms: list[list[MeasuredStorm]],
    latencies: list[MeasuredLatency],
) -> Iterator[str]:
    """Yield what was found, one sentence for each part of the report."""
    kip = scenarios[KIP].starts if KIP in scenarios else ()
    if ours := [f"{duration(each.total.median)} {each.warmth}" for each in kip if each.contender == OURS]:
        yield (
            f"On the KIP's workload our three stores are ready after {listed(ours)}; "
            "the KIP gives about 500 ms for the config topic alone."
        )
    if grown := [sentence for growth in growths if (sentence := _grown(growth))]:
        yield f"Our start grows {listed(grown)}."
    together = [
        f"{storm.storm.starts:,} {storm.label} {ratio(storm.times)} times ({storm.storm.failed or 'none'} failed)"
        for *_, storm in storms
        if storm.times is not None
    ]
    if together:
        yield f"Wall time of starts side by side against one after another: {listed(together)}."
    puts = [
        f"{each.latency.store} {duration(each.seconds.median)} (Java's: {duration(each.seconds.median / each.beside_java)})"
        for each in latencies
        if each.latency.groups == 1 and each.beside_java is not None
    ]
    if puts:
        yield f"Put to read-back of running stores, half of all sooner than: {listed(puts)}."


def _grown(growth: Growth) -> str:
    ends = growth.ends_of_ours()
    if ends is None:
        return ""
    (first_x, first), (last_x, last) = ends
    between = f"{first_x:,.0f} and {last_x:,.0f} {growth.dimension.unit}"
    return f"from {duration(first.median)} to {duration(last.median)} between {between}"
