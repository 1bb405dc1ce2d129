"""Backups read into Spark: the same rows as the file's own reader, and as Kafka itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connect_share.backup.record_file import RecordFile, write_record_file
from connect_share.model.records import Record
from spark_jobs.record_files import read_record_files
from spark_jobs.sources import KAFKA_SOURCE
from tests.support.records import encoded, row_of, rows_of


def test_every_record_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    odd = [
        Record("t", 0, 0, 1, b"a", None, (("h", b"1"), ("h", None), ("", b""))),
        Record("t", 0, 7, -1, None, b""),
        Record("t", 1, 2**62, 2, b"\xff\xfe", b"x" * 300_000),
    ]
    many = [Record("u", 3, number, number, b"k%d" % number, b"v") for number in range(5_000)]
    for name, records in (("a.avro", odd), ("b.avro", many)):
        write_record_file(tmp_path / name, {}, [encoded(records)])
    frame = read_record_files(spark, [tmp_path / "a.avro", tmp_path / "b.avro"])
    assert frame.schema == spark.createDataFrame([], KAFKA_SOURCE).schema
    assert rows_of(frame) == [*map(row_of, [*odd, *many])]
    assert frame.rdd.getNumPartitions() == 2
    assert frame.where("value is null").count() == 1
    assert read_record_files(spark, []).count() == 0
    assert RecordFile(tmp_path / "b.avro").records == read_record_files(spark, str(tmp_path / "b.avro")).count()


@pytest.mark.slow
def test_a_damaged_file_fails_the_job_by_name(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "cut.avro"
    write_record_file(path, {}, [encoded([Record("t", 0, 0, 1, b"a", b"b")])])
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(PySparkException, match=r"cut\.avro is damaged"):
        read_record_files(spark, [path]).count()
