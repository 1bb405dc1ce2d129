"""Kafka as a DataFrame of records, over the library's own reader: one range of offsets is one task.

The ranges are fixed on the driver when :func:`read_kafka` is called: each action reads the same records again. Nothing is
pushed down. Client settings travel in the function that reads, so no option or plan holds them; works from PySpark 3.5 on,
and on Spark Connect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from connect_share.errors import ConfigError, UsageError
from connect_share.kafka.admin import Admin
from connect_share.kafka.read import CONSOLE_CLIENT_ID, IDLE_TIMEOUT_S, Reader, topic_ranges
from connect_share.model.limited_log import LimitedLog
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.worker_config import Isolation, TopicSet, WorkerConfig
from spark_jobs.session import require_on_executors, warn_of_missing_protection

KAFKA_SOURCE: Final = (
    "topic string NOT NULL, partition int NOT NULL, offset bigint NOT NULL, timestamp_ms bigint NOT NULL, "
    "key binary, value binary, headers array<struct<key: string, value: binary>>"
)
"""Columns of the DataFrames; ``docs/spark.md`` says what they hold."""

_BATCH: Final = 300
"""Records that are in memory together."""
_log = LimitedLog(logging.getLogger(__name__))


def _row(record: Record) -> tuple[Any, ...]:
    if record.headers is None:
        _log.warning("%s: the name of a header is not UTF-8; its headers are given as null", record.place)
    headers = [{"key": name, "value": value} for name, value in record.headers] if record.headers else None
    return record.topic, record.partition, record.offset, record.timestamp_ms, record.key, record.value, headers


def frame_of(spark: SparkSession, items: Sequence[Any], read: Callable[[Any], Iterator[Record]]) -> DataFrame:
    """Return a DataFrame whose tasks read an item each; ``read`` yields the records of one."""
    if not items:
        return spark.createDataFrame([], KAFKA_SOURCE)

    def read_records(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                records = read(items[number])
                while some := [*islice(records, _BATCH)]:
                    yield _arrow(some)

    return spark.range(0, len(items), 1, len(items)).mapInArrow(read_records, KAFKA_SOURCE)


def _arrow(records: Iterable[Record]) -> Any:
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "timestamp_ms": pa.int64()}
    types |= {"key": pa.binary(), "value": pa.binary(), "headers": pa.list_(header)}
    columns = zip(zip(*map(_row, records), strict=True), types.values(), strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, kind) for column, kind in columns], names=list(types))


def read_kafka(
    spark: SparkSession,
    worker_config: WorkerConfig | Path | str,
    *,
    topics: Collection[TopicType] = tuple(TopicType),
    ranges: Sequence[OffsetRange] | None = None,
    isolation: Isolation | None = None,
    records_per_task: int | None = None,
    timeout_s: float = IDLE_TIMEOUT_S,
) -> DataFrame:
    """Return records of the internal topics that a worker file names as a DataFrame.

    Args:
        spark: classic or of Spark Connect.
        worker_config: path of a Java worker's file, or what was read from one.
        topics: which of its topics are read, from their first record to the end that they have now.
        ranges: half-open ranges that are read instead, of any topic of that cluster.
        isolation: instead of what each topic is read with by workers.
        records_per_task: longer ranges are divided into tasks of at most so many offsets; ``None``: a range, which is a
            partition where no ranges are given, is one task, and its records keep their order.
        timeout_s: longest wait for the cluster, and of a task without any record.

    Columns:
        out: :data:`spark_jobs.sources.KAFKA_SOURCE`.

    Raises:
        ConnectShareError: the file or its topics cannot be read.
    """
    given = worker_config if isinstance(worker_config, WorkerConfig) else WorkerConfig.from_file(worker_config)
    topic_set = replace(TopicSet.of(given), others=given.isolation(TopicType.CONFIG))
    if records_per_task is not None and records_per_task < 1:
        raise ConfigError("records_per_task has to be at least 1")
    if ranges is not None and {*topics} != {*TopicType}:
        raise UsageError("ranges say what is read instead of topics: give one of the two")
    if ranges is None:
        with Admin(topic_set.settings, client_id=CONSOLE_CLIENT_ID, timeout_s=timeout_s) as admin:
            found = topic_ranges(admin, topic_set, topics)
        for each in found.values():
            for note in each.notes:
                _log.warning("%s", note)
        ranges = [part for each in found.values() for part in each.ranges]
    levels = {topic: topic_set.isolation(kind) for kind, topic in topic_set.topics.items()}
    read = partial(Reader, topic_set.settings, CONSOLE_CLIENT_ID)
    items = [
        (
            read(isolation or levels.get(part.topic, Isolation.READ_COMMITTED)),
            part._replace(start=start, end=min(part.end, start + (records_per_task or part.end))),
        )
        for part in ranges
        for start in range(part.start, part.end, records_per_task or max(1, part.end - part.start))
    ]
    warn_of_missing_protection(spark)
    require_on_executors(spark)
    return frame_of(spark, items, lambda item: item[0].records([item[1]], timeout_s))
