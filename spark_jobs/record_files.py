"""Backups as a Spark data source, over the library's own reader.

Spark's own Avro format is a package apart; this needs none. One file is one task: a file is one stream of blocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from connect_share.model.records import Record
from spark_jobs.sources import RecordReader, RecordSource, Row, headers_column

NAME: Final = "connect_share_records"
_BATCH: Final = 2_000


def _batches(path: str) -> Iterator[list[Row]]:
    from connect_share.backup.record_file import RecordFile

    records = RecordFile(Path(path)).read()
    while batch := list(islice(records, _BATCH)):
        yield [_row(record) for record in batch]


def _row(record: Record) -> Row:
    headers = headers_column(record.whole_headers())
    return record.topic, record.partition, record.offset, record.timestamp_ms, record.key, record.value, headers


class RecordFileSource(RecordSource):
    """Data source ``connect_share_records``; use :func:`read_record_files`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the schema is fixed
        """Return the reader."""
        return RecordReader(json.loads(self.options["paths"]), _batches)


def read_record_files(spark: SparkSession, paths: Sequence[Path | str]) -> DataFrame:
    """Return the records of files of records (backups) as a DataFrame, one task a file.

    The files have to be where the tasks run: on a shared file system, or in local mode anywhere.

    Columns:
        out: :data:`spark_jobs.sources.KAFKA_SOURCE`.
    """
    spark.dataSource.register(RecordFileSource)
    files = json.dumps([str(Path(path).absolute()) for path in paths])
    return spark.read.format(NAME).option("paths", files).load()
