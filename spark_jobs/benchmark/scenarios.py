"""The topics that starts are measured on: the KIP's table, and curves over groups, records, record sizes and settings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from connect_share.errors import ConfigError
from connect_share.model.records import TopicType
from spark_jobs.benchmark.results import Scenario
from spark_jobs.workload import WorkloadSize, group_records

PARTITIONS: Final[Mapping[str, int]] = {"config": 1, "status": 5, "offset": 25}
"""Connect's defaults."""

CONTENDERS: Final = (
    "python",
    "python-checkpoint",
    "java",
    "java-jar",
    "java-foreign",
    "plain-client",
    "librdkafka",
    "kcat",
)
"""All that can be measured beside each other. ``starts.py`` measures those in Python, the lab also Java's stores and kcat."""

TRANSACTION_RECORDS: Final = 50
"""Records of one transaction where a scenario has them: a marker in every partition that was written to."""

CHECKPOINT: Final = "python-checkpoint"
PLAIN_COPY: Final = "java"
"""The contender that reads a copy of the topics with plain keys."""

NEW_SHARE: Final = 100
"""One of so many records is written after the checkpoint."""

_USUAL: Final = ("python", "java-jar", "librdkafka")
_WITH_JAVA: Final = ("python", "java", "java-jar", "librdkafka")
_SAMPLE: Final = 100


@dataclass(frozen=True, slots=True)
class Plan:
    """A scenario and the contenders that are measured on it.

    Attributes:
        warm_starts: of each process after its cold start.
    """

    scenario: Scenario
    contenders: tuple[str, ...]
    warm_starts: int

    @property
    def size(self) -> WorkloadSize:
        """The records of the shared topics, or of the dedicated ones of the one group."""
        return workload(self.scenario, prefixed=self.scenario.shared)


def workload(scenario: Scenario, *, prefixed: bool) -> WorkloadSize:
    """Return the records of a scenario."""
    members = {field.name for field in fields(WorkloadSize)} & Scenario.model_fields.keys()
    return WorkloadSize(**{name: getattr(scenario, name) for name in members}, prefixed=prefixed)


def _plan(
    name: str,
    title: str,
    series: str,
    records: tuple[int, int, int],
    *,
    contenders: Sequence[str] = _USUAL,
    warm_starts: int = 3,
    **settings: Any,
) -> Plan:
    """Return a scenario with so many configs, statuses and offsets; further members as in :class:`Scenario`."""
    config_records, status_records, offset_records = records
    members = {
        "name": name,
        "title": title,
        "series": series,
        "groups": 20,
        "jobs": 5,
        "config_records": config_records,
        "status_records": status_records,
        "offset_records": offset_records,
        "status_bytes": status_records * 150,
        "offset_bytes": 0,
        "partitions": PARTITIONS,
        **settings,
    }
    scenario = Scenario.model_validate(members)
    # Nothing pads an offset: the size of the first ones stands for all.
    size = workload(scenario, prefixed=scenario.shared)
    first = list(itertools.islice(group_records(size, 0, TopicType.OFFSET), _SAMPLE))
    total = sum(len(key) + len(value or b"") for key, value in first)
    offset_bytes = round(total / max(1, len(first)) * offset_records)
    return Plan(scenario.model_copy(update={"offset_bytes": offset_bytes}), tuple(contenders), warm_starts)


_KIP: Final[Mapping[str, Any]] = {
    "records": (8_000, 8_000, 8_000),
    "config_bytes": 32_000_000,
    "status_bytes": 3_000_000,
}
_KIP_CONTENDERS: Final = tuple(contender for contender in CONTENDERS if contender != CHECKPOINT)
_ONE_OF_THE_KIP: Final[Mapping[str, Any]] = {
    "groups": 1,
    "records": (400, 400, 400),
    "config_bytes": 1_600_000,
    "status_bytes": 150_000,
    "shared": False,
}
_TINY: Final[Mapping[str, Any]] = {
    "series": "tiny",
    "records": (120, 120, 120),
    "contenders": CONTENDERS,
    "warm_starts": 1,
    "groups": 3,
    "jobs": 2,
    "config_bytes": 60_000,
}
"""To try the benchmark out; in no suite."""


def _groups(groups: int) -> Plan:
    """Return a scenario of groups of 100 configs, 200 statuses, 1,000 offsets of as many tables or files each."""
    many = groups >= 1_000
    return _plan(
        f"groups-{groups}",
        f"{groups:,} {'group' if groups == 1 else 'groups'}, {1_300 * groups:,} records",
        "groups",
        (100 * groups, 200 * groups, 1_000 * groups),
        groups=groups,
        config_bytes=99_000 * groups,
        status_bytes=30_000 * groups,
        source_partitions=200,
        contenders=(*_WITH_JAVA, CHECKPOINT) if many else _WITH_JAVA,
        warm_starts=1 if many else 3,
    )


def _records(name: str, total: int) -> Plan:
    """Return a scenario of mostly offsets, ten of each table or file."""
    return _plan(
        f"records-{name}",
        f"{total:,} records of 20 groups",
        "records",
        (total // 10, total // 5, total - total // 10 - total // 5),
        config_bytes=total // 10 * 600,
        source_partitions=total * 7 // 10 // 1_000,
        warm_starts=1 if total >= 1_000_000 else 3,
    )


def _record_size(kilobytes: int) -> Plan:
    return _plan(
        f"record-size-{kilobytes}k",
        f"1,000 configs of {kilobytes} kB on average",
        "record-size",
        (1_000, 1_000, 1_000),
        config_bytes=1_000_000 * kilobytes,
    )


_FULL: Final = (
    _plan("kip", "KIP-1173's workload: 20 groups of 5 sink jobs", "kip", contenders=_KIP_CONTENDERS, **_KIP),
    *map(_groups, (1, 10, 20, 100, 1_000)),
    *(_records(*each) for each in (("10k", 10_000), ("100k", 100_000), ("300k", 300_000), ("1m", 1_000_000))),
    *map(_record_size, (1, 10, 50, 100, 250)),
    _plan(
        "dedicated",
        "one of the KIP's groups, alone on dedicated topics",
        "sharing",
        contenders=("python", "java", "librdkafka"),
        **_ONE_OF_THE_KIP,
    ),
    _plan("compacted", "the KIP's workload, compacted", "compaction", compacted=True, **_KIP),
    _plan("zstd", "the KIP's workload, compressed with zstd", "compression", compression="zstd", **_KIP),
    _plan("lz4", "the KIP's workload, compressed with lz4", "compression", compression="lz4", **_KIP),
    _plan("transactions", "the KIP's workload, read committed past markers", "transactions", transactions=True, **_KIP),
)
PLANS: Final[Mapping[str, Plan]] = {
    plan.scenario.name: plan
    for plan in (
        *_FULL,
        _plan("tiny", "a few hundred records, to try the benchmark out", **_TINY),
        _plan("tiny-transactions", "a few hundred records, read committed past markers", transactions=True, **_TINY),
    )
}
SUITES: Final[Mapping[str, Sequence[str]]] = {
    "kip": ("kip",),
    "quick": ("kip", "groups-1"),
    "full": [plan.scenario.name for plan in _FULL],
}


def chosen(suite: str, names: Sequence[str] | None) -> list[Plan]:
    """Return the scenarios of a suite, or those that are named, in the order of the whole list.

    Raises:
        ConfigError: there is no such scenario.
    """
    wanted = SUITES[suite] if names is None else names
    unknown = sorted(set(wanted) - PLANS.keys())
    if unknown:
        raise ConfigError(f"there is no scenario {unknown[0]!r}, only {', '.join(PLANS)}")
    return [plan for name, plan in PLANS.items() if name in wanted]
