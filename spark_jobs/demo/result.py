"""What the demo found, as it is written to ``result.json``: no configuration and no offset, only names and numbers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from connect_share.records import TopicType
from spark_jobs.demo.views import GroupComparison

RESULT_FORMAT = "connect-share/demo-result/1"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Phase(_Part):
    """One step of the demo and how long it took."""

    name: str
    seconds: float


class MovedTopic(_Part):
    """One dedicated topic and what the move made of it."""

    cluster_group_id: str
    topic_type: TopicType
    topic: str
    shared_topic: str
    records_read: int
    records_written: int
    tombstones: int
    skipped: dict[str, int]


class Move(_Part):
    """The migration with the Spark engine."""

    plan_file: str
    run_id: str
    warnings: tuple[str, ...]
    topics: tuple[MovedTopic, ...]
    verified_equal: bool
    differences: tuple[str, ...]


class StoreStart(_Part):
    """The start of one Python store on a shared topic."""

    topic: str
    milliseconds: float
    own_records: int
    foreign_records: int


class GroupStart(_Part):
    """The start of a group's three Python stores."""

    cluster_group_id: str
    milliseconds: float
    stores: tuple[StoreStart, ...]


class BenchmarkBar(_Part):
    """One median of the start-up benchmark.

    Attributes:
        milliseconds: all three stores ready, median of ``runs``.
    """

    what: str
    milliseconds: float
    fastest_milliseconds: float
    slowest_milliseconds: float
    runs: int


class Benchmark(_Part):
    """The start-up benchmark: where, on what, and its medians."""

    workload: str
    bars: tuple[BenchmarkBar, ...]


class DemoResult(_Part):
    """Everything the demo found."""

    format: str = RESULT_FORMAT
    versions: dict[str, str]
    seconds: float
    phases: tuple[Phase, ...]
    move: Move
    starts: tuple[GroupStart, ...]
    groups: tuple[GroupComparison, ...]
    benchmark: Benchmark
    equal: bool
