"""The result of the start-up benchmark, as its JSON file has it; a later run continues it. And the machine it is of."""

from __future__ import annotations

import hashlib
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import connect_share
from connect_share.contents.cost_model import CostModel, StartSize
from connect_share.errors import ConfigError
from connect_share.files import write_private_file, writing
from connect_share.jar.java_runtime import java_command, java_version
from connect_share.kafka.client import library_versions
from connect_share.worker_config.properties import read_whole

FORMAT: Final = "startup-benchmark/2"
PHASES: Final = ("connect", "metadata", "first_record", "read", "parse", "fold", "other")
"""Parts of one start, in this order. ``first_record`` is the wait from the first fetch to the first record, ``read`` that for
all others; ``other`` is all that is left, such as looking at foreign keys."""

Warmth = Literal["exec", "cold", "warm"]
"""``exec``: from that of a process to the end of its first start; ``cold``: that start alone; ``warm``: a later one."""


Seconds = Annotated[float, Field(ge=1e-9, le=1e9)]
"""Seconds that can have been measured: others are of a broken file, and no plot could show them."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Scenario(_Part):
    """Topics that starts are measured on.

    Attributes:
        name: stable, such as ``kip`` or ``groups-100``; a resumed run looks it up.
        series: the curve it belongs to, such as ``groups``, ``records``, ``record-size``; ``kip`` for the KIP's table.
        config_bytes, status_bytes, offset_bytes: keys and values of all records together.
        partitions: of the topics ``config``, ``status``, ``offset``.
        shared: all groups on one set of topics; ``False``: the group alone on dedicated topics.
        compacted: the cleaner has been over them; ``False``: superseded records are still there.
        transactions: the records were written in transactions and are read committed, past their markers.
        source_partitions: of each connector: how many keys it has on the offset topic.
    """

    name: str
    title: str
    series: str
    groups: int
    jobs: int
    config_records: int
    status_records: int
    offset_records: int
    config_bytes: int
    status_bytes: int
    offset_bytes: int
    partitions: dict[str, int]
    shared: bool = True
    compacted: bool = False
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    transactions: bool = False
    source_partitions: int = 4

    @property
    def records(self) -> int:
        """The number of records of all three topics."""
        return self.config_records + self.status_records + self.offset_records

    @property
    def bytes(self) -> int:
        """The bytes of keys and values of all three topics."""
        return self.config_bytes + self.status_bytes + self.offset_bytes


class Start(_Part):
    """One start of one contender, as the process that made it prints it; members as in :class:`Starts`.

    Attributes:
        ready_at: by the system's monotonic clock, which all processes share.
    """

    seconds: float
    ready_at: float | None = None
    phases: dict[str, float] = Field(default_factory=dict)
    topics: dict[str, float] = Field(default_factory=dict)
    cpu_seconds: float | None = None
    peak_bytes: int | None = None


class Starts(_Part):
    """Starts of one contender in one scenario, one list entry a start; as many of each round, round after round.

    Attributes:
        seconds: until all three stores were ready (a plain client: until the last record was read).
        phases: seconds by name of :data:`PHASES`, for contenders that know them.
        topics: seconds until each of ``config``, ``status``, ``offset`` was ready, for contenders that know them; of stores
            that start one after the other, from the begin of each.
        cpu_seconds: of the process while it started.
        peak_bytes: memory of the process at its highest minus before the start.
    """

    scenario: str
    contender: str
    warmth: Warmth
    seconds: list[Seconds]
    phases: dict[str, list[float]] = Field(default_factory=dict)
    topics: dict[str, list[Seconds]] = Field(default_factory=dict)
    cpu_seconds: list[float] = Field(default_factory=list)
    peak_bytes: list[int] = Field(default_factory=list)
    size: StartSize | None = None


class Storm(_Part):
    """Many workers that start at once: each a process of its own, or a Spark task.

    Attributes:
        at_once: how many run at the same time; 1 is one after another.
        seconds: each start's, from when its task began. Above the number of processors this is queueing, not latency.
        wall_seconds: from the first start's begin to the last one's end.
        cpu_seconds: of all starts together.
        failed: starts that did not come up.
    """

    scenario: str
    starts: int
    at_once: int
    seconds: list[Seconds]
    wall_seconds: Seconds
    cpu_seconds: float
    failed: int = 0


class Latency(_Part):
    """Times from a put until a read of a running store shows it.

    Attributes:
        contender: ``python`` or ``java``.
        groups: that write to the same topics at the same time, the measured one included.
        seconds: one entry a put.
    """

    contender: str
    store: Literal["config", "status", "offset"]
    groups: int
    seconds: list[Seconds]


class Prediction(_Part):
    """A size the model was not fitted on, and how far off it was."""

    scenario: str
    size: StartSize
    predicted_seconds: Seconds
    measured_seconds: Seconds

    @property
    def error(self) -> float:
        """The larger one is so much longer than the smaller one; below zero if too little was predicted."""
        factor = self.predicted_seconds / self.measured_seconds
        return factor - 1 if factor >= 1 else 1 - 1 / factor


def median(seconds: Sequence[float]) -> float | None:
    """Return the median; ``None`` of nothing."""
    return statistics.median(seconds) if seconds else None


class StartupResult(_Part):
    """The whole benchmark: written after each finished part, so that a run that was stopped can be continued.

    Attributes:
        missing: contenders that could not be measured here, and why.
    """

    format: str = FORMAT
    scenarios: list[Scenario] = Field(default_factory=list)
    starts: list[Starts] = Field(default_factory=list)
    storms: list[Storm] = Field(default_factory=list)
    latencies: list[Latency] = Field(default_factory=list)
    model: CostModel | None = None
    predictions: list[Prediction] = Field(default_factory=list)
    missing: dict[str, str] = Field(default_factory=dict)
    machine: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    measured_at_ms: int = 0


_MOST_BYTES: Final = 64 << 20
"""A whole one has less than one MiB."""

_CHANGING: Final = frozenset({"load_1_minute"})
_NOT_MEASURED: Final = ("cli", "jar", "topic_ids", "contents")
"""Parts of our package that do not run in a start."""


def versions() -> dict[str, str]:
    """Versions of everything that is measured; our own with a digest, for its code changes between versions."""
    package = Path(connect_share.__file__).parent
    digest = hashlib.sha256()
    for source in sorted(package.rglob("*.py")):
        inside = source.relative_to(package)
        if inside.parts[0] not in _NOT_MEASURED:
            digest.update(f"{inside}\0".encode() + source.read_bytes())
    ours = f"{version('connect-share')}+{digest.hexdigest()[:10]}"
    return {**library_versions(), "connect_share": ours}


def load(path: Path | None, machine: Mapping[str, Any], known_versions: Mapping[str, str]) -> StartupResult:
    """Read what was measured before; an empty result if there is no such file.

    Raises:
        ConfigError: the file is something else, or was measured on another machine or with other versions.
    """
    fresh = StartupResult(machine=dict(machine), versions=dict(known_versions))
    if path is None or not path.exists():
        return fresh
    remedy = "give another --result, or --again to measure everything anew"
    found = read(path, remedy)
    for what in ("machine", "versions"):
        before, now = getattr(found, what), getattr(fresh, what)
        for name in sorted((before.keys() | now.keys()) - _CHANGING):
            if before.get(name) != now.get(name):
                raise ConfigError(
                    f"{path} was measured with another {what.removesuffix('s')}: {name} was {before.get(name)}, "
                    f"is {now.get(name)}; figures of both do not belong in one table: {remedy}",
                    property_name="result",
                )
    return found


def read(path: Path, remedy: str = "measure again, or name another file") -> StartupResult:
    """Read a result, of whatever machine and versions; a ``ConfigError`` ends with the remedy."""
    data = read_whole(path, f"; {remedy}", most_bytes=_MOST_BYTES, property_name="result")
    try:
        found = StartupResult.model_validate_json(data)
    except ValidationError as exc:
        raise ConfigError(
            f"{path} is not a result of the start-up benchmark; {remedy}", property_name="result"
        ) from exc
    if found.format != FORMAT:
        raise ConfigError(f"{path} has another format than {FORMAT}; {remedy}", property_name="result")
    return found


def save(path: Path, result: StartupResult) -> None:
    """Write the file so that it is whole at any time, else ``ConnectShareError``."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private_file(path, (result.model_dump_json(indent=2) + "\n").encode(), mode=0o644)  # no records are in it


def has_starts(result: StartupResult, scenario: Scenario, contenders: Sequence[str], rounds: int) -> bool:
    """Return whether all contenders were measured on exactly this scenario, often enough."""
    cold = {
        starts.contender: len(starts.seconds)
        for starts in result.starts
        if starts.scenario == scenario.name and starts.warmth == "cold"
    }
    return scenario in result.scenarios and all(cold.get(contender, 0) >= rounds for contender in contenders)


def with_starts(result: StartupResult, scenario: Scenario, starts: Sequence[Starts]) -> StartupResult:
    """Return the result with these starts in place of all earlier ones of the scenario: ratios are of one run."""
    others = [each for each in result.scenarios if each.name != scenario.name]
    kept = [each for each in result.starts if each.scenario != scenario.name]
    return result.model_copy(update={"scenarios": [*others, scenario], "starts": [*kept, *starts]})


def describe_machine() -> dict[str, Any]:
    """Return processors, memory, system, Python and Java; no host name."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        memory = 0
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "processors": len(affinity(0)) if affinity is not None else os.cpu_count(),
        "architecture": platform.machine(),
        "memory_bytes": memory,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": java_version(java_command()),
        "load_1_minute": round(os.getloadavg()[0], 2),
    }
