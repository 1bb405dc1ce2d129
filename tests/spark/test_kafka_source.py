"""Kafka read into Spark: the same rows as the library's own reader, whatever lies in the topic."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connect_share.errors import ConfigError, UsageError
from connect_share.kafka import client
from connect_share.kafka.read import Reader
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.worker_config import Isolation, WorkerConfig
from spark_jobs.sources import KAFKA_SOURCE, read_kafka
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.kafka import TestBroker
from tests.support.raw_records import RawRecord, write_raw
from tests.support.records import row_of, rows_of
from tests.support.topics import create_topic, write_records
from tests.support.waiting import await_that


def _worker(broker: TestBroker) -> WorkerConfig:
    return WorkerConfig.from_properties(worker_properties(broker.bootstrap_servers, "readers"))


def _awkward(broker: TestBroker, topic: str) -> list[OffsetRange]:
    """Tombstones, empty values, headers odd and unreadable, a committed and an aborted transaction; ends in markers."""
    create_topic(broker.client_settings, topic, 2)
    headers = (("h", b"1"), ("h", None), ("empty", b""))
    write_records(
        broker.client_settings,
        topic,
        [
            Record(topic, 0, 0, 1, b"a", b"value"),
            Record(topic, 0, 0, 2, b"a", None),
            Record(topic, 1, 0, 3, b"", b""),
            Record(topic, 1, 0, 4, b"\xff\xfe", b"x" * 300_000, headers),
        ],
    )
    write_raw(broker.bootstrap_servers, topic, [RawRecord(b"k", b"v", [(b"\xff", b"1")])], partition=1)
    writer = client.producer(
        broker.client_settings, client_id="tests", overrides={"transactional.id": f"{topic}-writer"}
    )
    writer.init_transactions()
    for ending in (writer.commit_transaction, writer.abort_transaction):
        writer.begin_transaction()
        writer.produce(topic, key=b"t", value=ending.__name__.encode(), partition=0)
        writer.flush()
        ending()
    with broker.admin() as admin:
        # A marker follows the answer to its commit or abort.
        ends = await_that(
            lambda: admin.end_offsets([(topic, 0), (topic, 1)]), lambda found: found[(topic, 0)] == 6, what="complete"
        )
    return [OffsetRange(topic, partition, 0, ends[(topic, partition)]) for partition in (0, 1)]


def test_both_isolations_give_the_rows_of_the_library(spark: SparkSession, broker: TestBroker, unique: str) -> None:
    ranges = _awkward(broker, unique)
    counts = {}
    for isolation in Isolation:
        frame = read_kafka(spark, _worker(broker), ranges=ranges, isolation=isolation)
        assert frame.schema == spark.createDataFrame([], KAFKA_SOURCE).schema
        expected = Reader(broker.client_settings, "tests", isolation).records(ranges)
        rows = sorted(rows_of(frame))
        assert rows == sorted(map(row_of, expected))
        counts[isolation] = len(rows)
    assert counts == {Isolation.READ_UNCOMMITTED: 7, Isolation.READ_COMMITTED: 6}
    properties = {**worker_properties(broker.bootstrap_servers, "readers"), "offset.storage.topic": unique}
    for support, rows_read in (("disabled", 7), ("enabled", 6)):
        file = WorkerConfig.from_properties({**properties, "exactly.once.source.support": support})
        assert read_kafka(spark, file, ranges=ranges).count() == rows_read
    assert read_kafka(spark, _worker(broker), ranges=[]).collect() == []


def test_the_topics_of_a_worker_file_are_read_and_divided_where_it_is_asked_for(
    spark: SparkSession, broker: TestBroker, unique: str, tmp_path: Path
) -> None:
    file = write_properties(tmp_path / "w.properties", worker_properties(broker.bootstrap_servers, unique))
    worker = WorkerConfig.from_file(file)
    for topic_type in TopicType:
        topic = worker.topic(topic_type)
        create_topic(broker.client_settings, topic, 1 if topic_type is TopicType.CONFIG else 2)
        records = [Record(topic, 0, n, n, b"k%d" % n, b"v") for n in range(20)]
        write_records(broker.client_settings, topic, records, keep_partition=False)
    every = read_kafka(spark, str(file))
    assert {(row.topic, row["count"]) for row in every.groupBy("topic").count().collect()} == {
        (worker.topic(topic_type), 20) for topic_type in TopicType
    }
    whole = read_kafka(spark, worker, topics=[TopicType.OFFSET])
    parts = read_kafka(spark, worker, topics=[TopicType.OFFSET], records_per_task=3)
    assert whole.rdd.getNumPartitions() == 2 < parts.rdd.getNumPartitions()
    assert sorted(rows_of(whole)) == sorted(rows_of(parts))
    with pytest.raises(ConfigError, match="records_per_task"):
        read_kafka(spark, worker, records_per_task=0)
    with pytest.raises(UsageError, match="ranges say what is read"):
        read_kafka(spark, worker, topics=[TopicType.OFFSET], ranges=[])
