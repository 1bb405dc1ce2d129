"""What strangers may write, read into Spark and profiled by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connect_share.kafka.read import Reader
from connect_share.model.records import OffsetRange, TopicType
from connect_share.worker_config import Isolation
from spark_jobs import profile_topics
from spark_jobs.sources import read_kafka
from tests.spark.test_kafka_source import row_of, rows_of
from tests.support.hostile_records import SECRET, TAKES_ALL, HostileRecords, write_hostile
from tests.support.kafka import TestBroker
from tests.support.migration_site import GROUP, Site

SEED = 20_261_122
RECORDS = 200


def test_hostile_records_are_rows_and_are_profiled(
    spark: SparkSession, broker: TestBroker, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(broker.bootstrap_servers, unique, tmp_path)
    site.create("shared", dict.fromkeys(TopicType, 1), TAKES_ALL)
    topics = {each: site.topic("shared", each) for each in TopicType}
    write_hostile(broker.bootstrap_servers, topics, HostileRecords(SEED, group=GROUP), RECORDS)
    with broker.admin() as admin:
        ends = admin.end_offsets([(topic, 0) for topic in topics.values()])
    ranges = [OffsetRange(topic, 0, 0, end) for (topic, _), end in ends.items()]
    file = site.worker_file("shared", GROUP, sharing=True)
    found = read_kafka(spark, file, ranges=ranges, isolation=Isolation.READ_UNCOMMITTED)
    records = Reader(broker.client_settings, "tests", Isolation.READ_UNCOMMITTED).records(ranges)
    assert sorted(rows_of(found)) == sorted(map(row_of, records))
    capsys.readouterr()
    for form in ("text", "json"):
        result = tmp_path / f"{form}.json"
        assert profile_topics.main(["-w", str(file), "--result", str(result), "--output", form]) == 0
        told = capsys.readouterr()
        assert SECRET not in told.out + told.err + result.read_text()
        assert all(line.isprintable() for line in told.out.split("\n"))
