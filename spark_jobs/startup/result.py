"""The result of the start-up benchmark, as its JSON file has it. A later run continues it, and the report shows it."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from connect_share.contents.cost_model import CostModel, StartSize

FORMAT: Final = "startup-benchmark/2"
PHASES: Final = ("connect", "metadata", "first_record", "read", "parse", "fold", "other")
"""Parts of one start, in this order. ``first_record`` is the wait from the first fetch to the first record, ``read`` that for
all others; ``other`` is all that is left, such as looking at foreign keys."""

Warmth = Literal["cold", "warm"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Scenario(_Part):
    """Topics that starts are measured on.

    Attributes:
        name: stable, such as ``kip`` or ``groups-100``; a resumed run looks it up.
        title: for people.
        series: the curve it belongs to, such as ``groups``, ``records``, ``record-size``; ``kip`` for the KIP's table.
        config_bytes, status_bytes, offset_bytes: keys and values of all records together.
        partitions: of the topics ``config``, ``status``, ``offset``.
        shared: all groups on one set of topics; ``False``: the group alone on dedicated topics.
        compacted: the cleaner has been over them; ``False``: superseded records are still there.
        compression: of the record batches.
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
    """One start of one contender, as the process that made it prints it; members as in :class:`Starts`."""

    seconds: float
    phases: dict[str, float] = Field(default_factory=dict)
    topics: dict[str, float] = Field(default_factory=dict)
    cpu_seconds: float | None = None
    peak_bytes: int | None = None


class Starts(_Part):
    """Starts of one contender in one scenario, one list entry a start.

    Attributes:
        seconds: until all three stores were ready (a plain client: until the last record was read).
        phases: seconds by name of :data:`PHASES`, for contenders that know them.
        topics: seconds until each of ``config``, ``status``, ``offset`` was ready, for contenders that know them; of stores
            that start one after the other, from the begin of each.
        cpu_seconds: of the process while it started.
        peak_bytes: memory of the process at its highest minus before the start.
        size: what was read.
    """

    scenario: str
    contender: str
    warmth: Warmth
    seconds: list[float]
    phases: dict[str, list[float]] = Field(default_factory=dict)
    topics: dict[str, list[float]] = Field(default_factory=dict)
    cpu_seconds: list[float] = Field(default_factory=list)
    peak_bytes: list[int] = Field(default_factory=list)
    size: StartSize | None = None


class Storm(_Part):
    """Many workers that start at once: each a process of its own, or a Spark task.

    Attributes:
        starts: how many.
        at_once: how many run at the same time; 1 is one after another.
        seconds: each start's, from when its task began. Above the number of processors this is queueing, not latency.
        wall_seconds: from the first start's begin to the last one's end.
        cpu_seconds: of all starts together.
        failed: starts that did not come up.
    """

    scenario: str
    starts: int
    at_once: int
    seconds: list[float]
    wall_seconds: float
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
    seconds: list[float]


class Prediction(_Part):
    """A size the model was not fitted on, and how far off it was."""

    scenario: str
    size: StartSize
    predicted_seconds: float
    measured_seconds: float

    @property
    def error(self) -> float:
        """The share by which it is too high; below zero if it is too low."""
        return self.predicted_seconds / self.measured_seconds - 1


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
