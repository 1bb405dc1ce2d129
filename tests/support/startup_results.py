"""A made-up result of the start-up benchmark: whole, and like a real one in its proportions."""

from __future__ import annotations

import random
import statistics
from functools import cache
from typing import Literal

from connect_share.contents.cost_model import CostModel, StartSize
from spark_jobs.benchmark.results import PHASES, Latency, Prediction, Scenario, Starts, StartupResult, Storm, Warmth
from spark_jobs.benchmark.scenarios import chosen

MODEL = CostModel(fixed_s=0.028, per_record_s=0.55e-6, per_byte_s=0.35e-9, per_own_record_s=6e-6, error=0.14)
_JAVA = {"java": (0.21, 5.1e-6), "java-foreign": (0.23, 5.4e-6), "java-jar": (0.16, 0.42e-6)}
_CLIENTS = {"plain-client": (0.9, 1.3e-6), "librdkafka": (0.016, 0.4e-6), "kcat": (0.075, 0.5e-6)}
_STORES = {"config": 0.85, "status": 0.6, "offset": 0.97}
_SHARES = (0.08, 0.1, 0.27, 0.26, 0.12, 0.05, 0.12)


def size_of(scenario: Scenario) -> StartSize:
    records = scenario.config_records + scenario.status_records + scenario.offset_records
    total = scenario.config_bytes + scenario.status_bytes + scenario.offset_bytes
    return StartSize(records=records, bytes=total, own_records=records // max(1, scenario.groups))


def _warmths(contender: str) -> tuple[Warmth, ...]:
    return ("cold",) if contender in ("kcat", "python-checkpoint") else ("cold", "warm")


def _seconds(scenario: Scenario, contender: str, warmth: Warmth) -> float:
    size = size_of(scenario)
    if contender == "python":
        seconds = MODEL.seconds(size) * (1.0 if warmth == "cold" else 0.85)
    elif contender == "python-checkpoint":
        seconds = 0.035 + 0.02 * MODEL.seconds(size)
    elif contender in _JAVA:
        fixed, price = _JAVA[contender]
        seconds = fixed + price * size.records + 2e-9 * size.bytes + (0.9 if warmth == "cold" else 0.0)
    else:
        fixed, price = _CLIENTS[contender]
        seconds = fixed + price * size.records + 0.3e-9 * size.bytes
    if scenario.compression != "none":
        seconds *= 0.93 if contender.startswith("java") else 1.12
    if scenario.compacted:
        seconds *= 0.55
    return seconds * (1.04 if scenario.transactions else 1.0)


def _starts(dice: random.Random, scenario: Scenario, contender: str, warmth: Warmth) -> Starts:
    middle = _seconds(scenario, contender, warmth)
    seconds = [middle * dice.lognormvariate(0, 0.12) for _ in range(5 if warmth == "cold" else 15)]
    phases = zip(PHASES, _SHARES, strict=True) if contender.startswith("python") else ()
    stores = _STORES.items() if contender.startswith(("python", "java")) else ()
    return Starts(
        scenario=scenario.name,
        contender=contender,
        warmth=warmth,
        seconds=seconds,
        phases={phase: [each * share for each in seconds] for phase, share in phases},
        topics={topic: [each * share for each in seconds] for topic, share in stores},
        cpu_seconds=[each * 0.8 for each in seconds],
        peak_bytes=[round(3e7 + 0.2 * size_of(scenario).bytes) for _ in seconds],
        size=size_of(scenario),
    )


@cache
def a_result(seed: int = 1) -> StartupResult:
    dice = random.Random(seed)
    plans = chosen("full", None)
    starts = [
        _starts(dice, plan.scenario, contender, warmth)
        for plan in plans
        for contender in plan.contenders
        for warmth in _warmths(contender)
    ]
    storms = []
    for number in (20, 100, 200):
        for at_once in (1, 2, number):
            queue = max(1, at_once // 2)
            seconds = [
                0.07 * (dice.uniform(0.4, 1) * queue if queue > 1 else 1) * dice.lognormvariate(0, 0.2)
                for _ in range(number)
            ]
            wall = number * (0.11 if at_once == 1 else 0.066 if at_once == 2 else 0.071)
            storms.append(
                Storm(
                    scenario="kip",
                    starts=number,
                    at_once=at_once,
                    seconds=seconds,
                    wall_seconds=wall,
                    cpu_seconds=number * 0.055,
                )
            )
    stores: tuple[Literal["config", "status", "offset"], ...] = ("config", "status", "offset")
    latencies = [
        Latency(
            contender=contender,
            store=store,
            groups=groups,
            seconds=[middle * (1.25 if groups > 1 else 1) * dice.lognormvariate(0, 0.35) for _ in range(300)],
        )
        for store in stores
        for groups in (1, 20)
        for contender, middle in (("python", 0.0021), ("java", 0.0027))
    ]
    scenarios = [plan.scenario for plan in plans]
    plain = [each for each in scenarios if each.compression == "none" and not each.transactions]
    cold = {
        each.scenario: statistics.median(each.seconds)
        for each in starts
        if (each.contender, each.warmth) == ("python", "cold")
    }
    return StartupResult(
        scenarios=scenarios,
        starts=starts,
        storms=storms,
        latencies=latencies,
        model=MODEL,
        predictions=[
            Prediction(
                scenario=each.name,
                size=size_of(each),
                predicted_seconds=MODEL.seconds(size_of(each)) * dice.uniform(0.88, 1.12),
                measured_seconds=cold[each.name],
            )
            for each in plain
        ],
        machine={"processors": 2, "architecture": "x86_64", "memory_bytes": 25_000_000_000, "system": "Linux 6.1"},
        versions={"confluent-kafka": "2.16.1", "librdkafka": "2.16.0", "kafka": "4.3.1"},
        measured_at_ms=1_795_269_809_000,
    )
