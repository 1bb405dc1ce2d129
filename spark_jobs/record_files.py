"""Backups as DataFrames, over the library's own reader.

Spark's own Avro format is a package apart; this needs none. One file is one task: a file is one stream of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from connect_share.backup.record_file import RecordFile
from connect_share.model.records import Record
from spark_jobs.sources import Row, frame_of, headers_column

_BATCH: Final = 2_000


def _batches(path: str) -> Iterator[list[Row]]:
    records = RecordFile(Path(path)).read()
    while batch := list(islice(records, _BATCH)):
        yield [_row(record) for record in batch]


def _row(record: Record) -> Row:
    headers = headers_column(record.whole_headers())
    return record.topic, record.partition, record.offset, record.timestamp_ms, record.key, record.value, headers


def read_record_files(spark: SparkSession, paths: Sequence[Path | str]) -> DataFrame:
    """Return the records of files of records (backups) as a DataFrame, one task a file.

    The files have to be where the tasks run: on a shared file system, or in local mode anywhere.

    Columns:
        out: :data:`spark_jobs.sources.KAFKA_SOURCE`.
    """
    return frame_of(spark, [str(Path(path).absolute()) for path in paths], _batches)
