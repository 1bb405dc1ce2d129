"""Backups read into Spark: a Python data source over the library's own reader, in Arrow batches.

Spark's own Avro format is a package apart; this needs none. One file is one task: a file is one stream of blocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from connect_share.records import Record
from spark_jobs.arrow_batches import arrow_batches
from spark_jobs.schemas import KAFKA_SOURCE

NAME: Final = "connect_share_records"
_BATCH: Final = 2_000


class FilePartition(InputPartition):
    """One file; ``None`` for the single empty task of an empty list."""

    def __init__(self, path: str | None) -> None:
        super().__init__(None)
        self.path = path


class RecordFileReader(DataSourceReader):
    """Reads the files given in the options."""

    def __init__(self, options: dict[str, str]) -> None:
        self._paths: list[str] = json.loads(options["paths"])

    def partitions(self) -> Sequence[InputPartition]:
        """One task a file; Spark wants at least one."""
        return [FilePartition(path) for path in self._paths] or [FilePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield Arrow record batches of :data:`KAFKA_SOURCE`."""
        from connect_share.record_file import RecordFile

        if not isinstance(partition, FilePartition) or partition.path is None:
            return
        records = RecordFile(Path(partition.path)).read()
        yield from arrow_batches(iter(lambda: list(islice(records, _BATCH)), []), _columns)


def _columns(batch: Sequence[Record]) -> list[list[Any]]:
    return [
        [record.topic for record in batch],
        [record.partition for record in batch],
        [record.offset for record in batch],
        [record.timestamp_ms for record in batch],
        [record.key for record in batch],
        [record.value for record in batch],
        [[{"key": name, "value": value} for name, value in record.whole_headers()] or None for record in batch],
    ]


class RecordFileSource(DataSource):
    """Data source ``connect_share_records``; use :func:`read_record_files`."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Always :data:`KAFKA_SOURCE`."""
        return KAFKA_SOURCE

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the schema is fixed
        """Make the reader."""
        return RecordFileReader(dict(self.options))


def read_record_files(spark: SparkSession, paths: Sequence[Path | str]) -> DataFrame:
    """Give the records of files of records (backups) as a DataFrame, one task a file.

    The files have to be where the tasks run: on a shared file system, or in local mode anywhere.

    Columns:
        out: :data:`KAFKA_SOURCE`.
    """
    spark.dataSource.register(RecordFileSource)
    told = json.dumps([str(Path(path).absolute()) for path in paths])
    return spark.read.format(NAME).option("paths", told).load()
