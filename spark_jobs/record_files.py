"""Backups as DataFrames, over the library's own reader.

Spark's own Avro format is a package apart; this needs none. One file is one task: a file is one stream of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from connect_share.backup.record_file import RecordFile
from spark_jobs.sources import frame_of


def read_record_files(spark: SparkSession, paths: Path | str | Sequence[Path | str]) -> DataFrame:
    """Return the records of one or several files of records (backups) as a DataFrame, one task a file.

    The files have to be where the tasks run: on a shared file system, or in local mode anywhere.

    Columns:
        out: :data:`spark_jobs.sources.KAFKA_SOURCE`.
    """
    each = [paths] if isinstance(paths, (Path, str)) else paths
    return frame_of(spark, [Path(path).absolute() for path in each], lambda path: RecordFile(path).read())
