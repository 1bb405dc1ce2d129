"""A made-up result of the start-up benchmark: whole, and like a real one in its proportions."""

from __future__ import annotations

import random
import statistics
from functools import cache
from typing import Literal

from connect_share.startup import CostModel, StartSize
from spark_jobs.startup.result import PHASES, Latency, Prediction, Scenario, Starts, StartupResult, Storm, Warmth

MODEL = CostModel(fixed_s=0.028, per_record_s=0.55e-6, per_byte_s=0.35e-9, per_own_record_s=6e-6, error=0.14)
_JAVA = {"java": (0.21, 5.1e-6), "java-foreign": (0.23, 5.4e-6), "java-jar": (0.16, 0.42e-6)}
_CLIENTS = {"plain-client": (0.9, 1.3e-6), "librdkafka": (0.016, 0.4e-6), "kcat": (0.075, 0.5e-6)}
_SHARES = (0.08, 0.1, 0.27, 0.38, 0.12, 0.05)


_USUAL = ("python", "java-jar", "librdkafka")
_WITH_JAVA = (*_USUAL, "java")
_ALL = (*_WITH_JAVA, "java-foreign", "plain-client", "kcat")
_KIP = {
    "groups": 20,
    "jobs": 5,
    **dict.fromkeys(("config_records", "status_records", "offset_records"), 8_000),
    "config_bytes": 32_000_000,
    "status_bytes": 3_000_000,
    "offset_bytes": 800_000,
    "partitions": {"config": 1, "status": 5, "offset": 25},
}


def _scenario(name: str, title: str, series: str, **more: object) -> Scenario:
    return Scenario.model_validate({**_KIP, "name": name, "title": title, "series": series, **more})


def _of(records: tuple[int, int, int], config_bytes: int) -> dict[str, int]:
    config, status, offset = records
    counts = {"config_records": config, "status_records": status, "offset_records": offset}
    return {**counts, "config_bytes": config_bytes, "status_bytes": status * 150, "offset_bytes": offset * 100}


def _scenarios() -> list[tuple[Scenario, tuple[str, ...]]]:
    """Give scenarios with the contenders that are measured on them."""
    alone = {"groups": 1, "shared": False, **_of((400, 400, 400), 1_600_000)}
    found = [
        (_scenario("kip", "KIP-1173's workload: 20 groups of 5 sink jobs", "kip"), _ALL),
        (_scenario("dedicated", "one of the KIP's groups, alone on dedicated topics", "sharing", **alone), _WITH_JAVA),
        (_scenario("compacted", "the KIP's workload, compacted", "compaction", compacted=True), _USUAL),
        (_scenario("zstd", "the KIP's workload, compressed with zstd", "compression", compression="zstd"), _USUAL),
        (_scenario("lz4", "the KIP's workload, compressed with lz4", "compression", compression="lz4"), _USUAL),
        (_scenario("transactions", "the KIP's workload, past markers", "transactions", transactions=True), _USUAL),
    ]
    for groups in (1, 10, 20, 100, 1_000):
        of = _of((100 * groups, 200 * groups, 1_000 * groups), 99_000 * groups)
        title = f"{groups:,} groups, {1_300 * groups:,} records"
        contenders = (*_WITH_JAVA, "python-checkpoint") if groups == 1_000 else _WITH_JAVA
        found.append((_scenario(f"groups-{groups}", title, "groups", **{**of, "groups": groups}), contenders))
    for name, total in (("10k", 10_000), ("100k", 100_000), ("1m", 1_000_000)):
        of = _of((total // 10, total // 5, total * 7 // 10), total * 60)
        found.append((_scenario(f"records-{name}", f"{total:,} records of 20 groups", "records", **of), _USUAL))
    for name, size in (("1k", 1_000), ("10k", 10_000), ("100k", 100_000)):
        of = _of((1_000, 1_000, 1_000), 1_000 * size)
        title = f"1,000 configs of {size // 1_000} kB on average"
        found.append((_scenario(f"record-size-{name}", title, "record-size", **of), _USUAL))
    return found


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
    stores = contender.startswith(("python", "java"))
    return Starts(
        scenario=scenario.name,
        contender=contender,
        warmth=warmth,
        seconds=seconds,
        phases={phase: [each * share for each in seconds] for phase, share in zip(PHASES, _SHARES, strict=True)}
        if contender.startswith("python")
        else {},
        topics={
            topic: [each * share for each in seconds]
            for topic, share in (("config", 0.85), ("status", 0.6), ("offset", 0.97))
        }
        if stores
        else {},
        cpu_seconds=[each * 0.8 for each in seconds],
        peak_bytes=[round(3e7 + 0.2 * size_of(scenario).bytes) for _ in seconds],
        size=size_of(scenario),
    )


@cache
def a_result(seed: int = 1) -> StartupResult:
    dice = random.Random(seed)
    chosen = _scenarios()
    starts = [
        _starts(dice, scenario, contender, warmth)
        for scenario, contenders in chosen
        for contender in contenders
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
    plain = [each for each, _ in chosen if each.compression == "none" and not each.transactions]
    cold = {
        each.scenario: statistics.median(each.seconds)
        for each in starts
        if (each.contender, each.warmth) == ("python", "cold")
    }
    return StartupResult(
        scenarios=[scenario for scenario, _ in chosen],
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
