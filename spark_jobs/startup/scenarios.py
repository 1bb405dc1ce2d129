"""The topics that starts are measured on: the KIP's table, and curves over groups, records, record sizes and settings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from connect_share.errors import ConfigError
from connect_share.records import TopicType
from spark_jobs.startup.result import Scenario
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
"""All that can be measured beside each other; what each of them is stands in ``contenders.py``."""

COLD_STARTS: Final[Mapping[str, int]] = {"python": 3}
"""In each round, where it is not one. The model is fitted to ours, and of starts that take 20 ms five tell little."""

TRANSACTION_RECORDS: Final = 50
"""Records of one transaction where a scenario has them: a marker in every partition that was written to."""

CHECKPOINT: Final = "python-checkpoint"
NEW_SHARE: Final = 100
"""One of so many records is written after the checkpoint."""

_USUAL: Final = ("python", "java-jar", "librdkafka")
_WITH_JAVA: Final = ("python", "java", "java-jar", "librdkafka")
_SAMPLE: Final = 100


@dataclass(frozen=True, slots=True)
class Plan:
    """A scenario, and who is measured on it.

    Attributes:
        warm_starts: of each process after its cold start.
    """

    scenario: Scenario
    contenders: tuple[str, ...]
    warm_starts: int = 3

    @property
    def size(self) -> WorkloadSize:
        """The records of the shared topics, or of the dedicated ones of the one group."""
        return workload(self.scenario, prefixed=self.scenario.shared)


def workload(scenario: Scenario, *, prefixed: bool) -> WorkloadSize:
    """Give the records of a scenario."""
    return WorkloadSize(
        groups=scenario.groups,
        jobs=scenario.jobs,
        config_records=scenario.config_records,
        status_records=scenario.status_records,
        offset_records=scenario.offset_records,
        config_bytes=scenario.config_bytes,
        status_bytes=scenario.status_bytes,
        prefixed=prefixed,
        source_partitions=scenario.source_partitions,
    )


def _plan(
    name: str,
    title: str,
    series: str,
    records: tuple[int, int, int],
    *,
    groups: int = 20,
    jobs: int = 5,
    config_bytes: int,
    status_bytes: int | None = None,
    shared: bool = True,
    compacted: bool = False,
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none",
    transactions: bool = False,
    source_partitions: int = 4,
    contenders: Sequence[str] = _USUAL,
    warm_starts: int = 3,
) -> Plan:
    config_records, status_records, offset_records = records
    scenario = Scenario(
        name=name,
        title=title,
        series=series,
        groups=groups,
        jobs=jobs,
        config_records=config_records,
        status_records=status_records,
        offset_records=offset_records,
        config_bytes=config_bytes,
        status_bytes=status_records * 150 if status_bytes is None else status_bytes,
        offset_bytes=0,
        partitions=dict(PARTITIONS),
        shared=shared,
        compacted=compacted,
        compression=compression,
        transactions=transactions,
        source_partitions=source_partitions,
    )
    scenario = scenario.model_copy(update={"offset_bytes": _offset_bytes(workload(scenario, prefixed=shared))})
    return Plan(scenario, tuple(contenders), warm_starts)


def _offset_bytes(size: WorkloadSize) -> int:
    """Nothing pads an offset: what the first ones have, for all."""
    first = list(itertools.islice(group_records(size, 0, TopicType.OFFSET), _SAMPLE))
    total = sum(len(key) + len(value or b"") for key, value in first)
    return round(total / max(1, len(first)) * size.offset_records)


_KIP_RECORDS: Final = (8_000, 8_000, 8_000)
_KIP_CONFIG_BYTES: Final = 32_000_000
_KIP_STATUS_BYTES: Final = 3_000_000


def _kip(name: str, title: str, series: str, **settings: bool | str | Sequence[str]) -> Plan:
    return _plan(
        name,
        title,
        series,
        _KIP_RECORDS,
        config_bytes=_KIP_CONFIG_BYTES,
        status_bytes=_KIP_STATUS_BYTES,
        **settings,  # type: ignore[arg-type]
    )


def _groups(groups: int) -> Plan:
    """All of one share a group: 100 configs, 200 statuses, 1,000 offsets of as many tables or files."""
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
    """Mostly offsets, ten of each table or file."""
    return _plan(
        f"records-{name}",
        f"{total:,} records of 20 groups",
        "records",
        (total // 10, total // 5, total - total // 10 - total // 5),
        config_bytes=total // 10 * 600,
        source_partitions=total * 7 // 10 // 1_000,
        warm_starts=1 if total >= 1_000_000 else 3,
    )


def _record_size(name: str, size: int) -> Plan:
    return _plan(
        f"record-size-{name}",
        f"1,000 configs of {size // 1_000:,} kB on average",
        "record-size",
        (1_000, 1_000, 1_000),
        config_bytes=1_000 * size,
    )


def _tiny(name: str, title: str, *, transactions: bool) -> Plan:
    return _plan(
        name,
        title,
        "tiny",
        (120, 120, 120),
        groups=3,
        jobs=2,
        config_bytes=60_000,
        transactions=transactions,
        contenders=CONTENDERS,
        warm_starts=1,
    )


def _all() -> list[Plan]:
    return [
        _kip(
            "kip",
            "KIP-1173's workload: 20 groups of 5 sink jobs",
            "kip",
            contenders=[contender for contender in CONTENDERS if contender != CHECKPOINT],
        ),
        *(_groups(groups) for groups in (1, 10, 20, 100, 1_000)),
        _records("10k", 10_000),
        _records("100k", 100_000),
        _records("300k", 300_000),
        _records("1m", 1_000_000),
        _record_size("1k", 1_000),
        _record_size("10k", 10_000),
        _record_size("50k", 50_000),
        _record_size("100k", 100_000),
        _plan(
            "dedicated",
            "one of the KIP's groups, alone on dedicated topics",
            "sharing",
            (400, 400, 400),
            groups=1,
            config_bytes=_KIP_CONFIG_BYTES // 20,
            status_bytes=_KIP_STATUS_BYTES // 20,
            shared=False,
            contenders=("python", "java", "librdkafka"),
        ),
        _kip("compacted", "the KIP's workload, compacted", "compaction", compacted=True),
        _kip("zstd", "the KIP's workload, compressed with zstd", "compression", compression="zstd"),
        _kip("lz4", "the KIP's workload, compressed with lz4", "compression", compression="lz4"),
        _kip("transactions", "the KIP's workload, read committed past markers", "transactions", transactions=True),
        _tiny("tiny", "a few hundred records, to try the benchmark out", transactions=False),
        _tiny("tiny-transactions", "a few hundred records, read committed past markers", transactions=True),
    ]


def plans() -> dict[str, Plan]:
    """Give every scenario by its name."""
    return {plan.scenario.name: plan for plan in _all()}


SUITES: Final[Mapping[str, tuple[str, ...]]] = {
    "kip": ("kip",),
    "quick": ("kip", "groups-1"),
    "full": (
        "kip",
        "groups-1",
        "groups-10",
        "groups-20",
        "groups-100",
        "groups-1000",
        "records-10k",
        "records-100k",
        "records-300k",
        "records-1m",
        "record-size-1k",
        "record-size-10k",
        "record-size-50k",
        "record-size-100k",
        "dedicated",
        "compacted",
        "zstd",
        "lz4",
        "transactions",
    ),
}


def chosen(suite: str, names: Sequence[str] | None) -> list[Plan]:
    """Give the scenarios of a suite, or those that are named, in the order of the whole list.

    Raises:
        ConfigError: there is no such suite or scenario.
    """
    known = plans()
    if suite not in SUITES:
        raise ConfigError(f"there is no suite {suite!r}, only {', '.join(SUITES)}")
    wanted = SUITES[suite] if names is None else tuple(names)
    unknown = sorted(set(wanted) - known.keys())
    if unknown:
        raise ConfigError(f"there is no scenario {unknown[0]!r}, only {', '.join(known)}")
    return [plan for name, plan in known.items() if name in wanted]
