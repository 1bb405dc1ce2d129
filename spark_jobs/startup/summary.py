"""What the start-up benchmark found, in a few plain sentences and figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from connect_share.startup import EARLY_BYTES, EARLY_RECORDS
from spark_jobs.startup.document import Block, Card, Cards, Goals, Points, Prose, Section
from spark_jobs.startup.figures import KIP, Measured, Ratio, measured, ratios, scenario_title
from spark_jobs.startup.goals import goals
from spark_jobs.startup.growth import Growth, growths
from spark_jobs.startup.load_sections import how_many_at_once, latencies_of, storm_times, storms_of
from spark_jobs.startup.names import OURS, contender_brief, contender_label, normal_name
from spark_jobs.startup.result import StartupResult
from spark_jobs.startup.units import duration, listed, percent, ratio, size

_CHECKPOINT: Final = "python-checkpoint"
_ON_KIP: Final = (("java", "cold"), ("java-foreign", "warm"), ("kcat", "cold"))
_ON_LARGE: Final = (("java", "warm"), ("java-jar", "warm"))


def summary_section(result: StartupResult) -> Section:
    """Give the main ratios, sentences, and the goals with what was reached."""
    blocks: list[Block] = []
    cards = tuple(_cards(result))
    if cards:
        blocks += [
            Cards(cards),
            Prose("× is how many times as long as our stores' start the other one takes.", dim=True),
        ]
    sentences = tuple(_sentences(result))
    blocks.append(Points(sentences) if sentences else Prose("Nothing has been measured yet."))
    return Section("In short", tuple(blocks))


def goals_section(result: StartupResult) -> Section:
    """Give the goals, and which of them are met."""
    found = goals(result)
    judged = [goal for goal in found if goal.met is not None]
    met = sum(goal.met is True for goal in judged)
    left = len(found) - len(judged)
    return Section(
        "Goals",
        (
            Prose(f"{met} of {len(judged)} met{f', {left} not measured' if left else ''}."),
            Goals(tuple(found)),
        ),
    )


def _largest(result: StartupResult) -> tuple[str, list[Measured]] | None:
    """Give the scenario with the most groups, unless it is the KIP's."""
    growth = next((each for each in growths(result) if each.name == "groups"), None)
    return None if growth is None else (growth.scenarios[-1][1].name, list(growth.measured[-1]))


def _cards(result: StartupResult) -> Iterator[Card]:
    yield from _ratio_cards(ratios(measured(result, KIP)), _ON_KIP, "KIP's workload")
    large = _largest(result)
    if large is not None:
        name, found = large
        yield from _ratio_cards(ratios(found), _ON_LARGE, scenario_title(result, name))
        pair = _checkpoint_pair(found)
        if pair is not None:
            full, short = pair
            yield Card(
                f"{ratio(full.total.median / short.total.median)} ×",
                "our full read, against a start from a checkpoint",
                f"{scenario_title(result, name)}: {duration(full.total.median)} against {duration(short.total.median)}",
            )


def _ratio_cards(found: list[Ratio], wanted: tuple[tuple[str, str], ...], where: str) -> Iterator[Card]:
    for contender, warmth in wanted:
        for each in found:
            if (normal_name(each.other.contender), each.other.warmth) == (contender, warmth):
                yield Card(
                    f"{ratio(each.value)} ×",
                    each.other.title,
                    f"{where}: {duration(each.other.total.median)} against our {duration(each.ours.total.median)}",
                )


def _checkpoint_pair(found: list[Measured]) -> tuple[Measured, Measured] | None:
    """Give our cold start by a full read, and the one from a checkpoint."""
    full = next((each for each in found if (normal_name(each.contender), each.warmth) == (OURS, "cold")), None)
    short = next((each for each in found if (normal_name(each.contender), each.warmth) == (_CHECKPOINT, "cold")), None)
    return None if full is None or short is None else (full, short)


def _sentences(result: StartupResult) -> Iterator[str]:
    kip = measured(result, KIP)
    ours = [each for each in kip if normal_name(each.contender) == OURS]
    if ours:
        times = listed([f"{duration(each.total.median)} {each.warmth}" for each in ours])
        yield (
            f"On the KIP's workload our three stores are ready after {times}; "
            "the KIP gives about 500 ms for the config topic alone."
        )
    others: dict[str, list[str]] = {}
    for beside in ratios(kip):
        name = contender_label(beside.other.contender)
        others.setdefault(name, []).append(f"{ratio(beside.value)} {beside.other.warmth}")
    if others:
        yield f"Times as long as our start there: {'; '.join(f'{name} {listed(each)}' for name, each in others.items())}."
    grown = [sentence for growth in growths(result) if (sentence := _grown(growth))]
    if grown:
        yield f"A start of ours goes {listed(grown)}."
    if result.model is not None:
        model = result.model
        yield (
            f"A start costs {duration(model.fixed_s)}, and {duration(model.per_record_s)} a record, "
            f"{_early(model.per_early_record_s, f'{EARLY_RECORDS:,}')}"
            f"{duration(model.per_byte_s)} a byte, {_early(model.per_early_byte_s, size(EARLY_BYTES))}"
            f"and {duration(model.per_own_record_s)} a record of the group's own"
            f"{f'; each size was predicted from the others within {percent(model.error)}' if result.predictions else ''}."
        )
    storms = [
        f"{storm.starts:,} {how_many_at_once(storm)} {ratio(times_alone)} times ({storm.failed or 'none'} failed)"
        for group in storms_of(result)
        if (times_alone := storm_times(storm := group[-1], group)) is not None
    ]
    if storms:
        yield f"Wall time of starts side by side against one after another: {listed(storms)}."
    yield from _latency_sentences(result)


def _early(price_s: float, first: str) -> str:
    return f"{duration(price_s)} more for each of the first {first}, " if price_s else ""


def _grown(growth: Growth) -> str:
    curves = reversed(growth.curves())  # warm starts after cold ones
    line = next(
        (curve for curve in curves if curve.label in (contender_brief(OURS), f"{contender_brief(OURS)}, cold")), None
    )
    if line is None or len(line.points) < 2:
        return ""
    first, last = line.points[0], line.points[-1]
    dimension = growth.dimension
    return (
        f"from {duration(first.y)} to {duration(last.y)} between {dimension.say(first.x)} and {dimension.say(last.x)} "
        f"{dimension.unit}"
    )


def _latency_sentences(result: StartupResult) -> Iterator[str]:
    found = {(each.store, each.groups, normal_name(each.contender)): seconds for each, seconds in latencies_of(result)}
    parts = [
        f"{store} {duration(seconds.median)} (Java's: {duration(found[store, groups, 'java'].median)})"
        for (store, groups, contender), seconds in found.items()
        if groups == 1 and contender == OURS and (store, groups, "java") in found
    ]
    if parts:
        yield f"Put to read-back of running stores, half of all sooner than: {listed(parts)}."
