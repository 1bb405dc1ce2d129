"""Records as Spark data sources: the schema, one task for each item, and Kafka over the library's own reader.

The ranges are fixed on the driver and one range is one task. There is no filter push-down: in Spark 4.3 it changes the
parent DataFrame too.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from connect_share.model.records import Headers, OffsetRange
from connect_share.worker_config import ClientSettings, Isolation
from spark_jobs.session import warn_of_missing_protection

if TYPE_CHECKING:
    from connect_share.kafka.client import Message


KAFKA_SOURCE: Final = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        # (topic, partition, offset) is unique; sorting by offset alone means nothing across partitions.
        StructField("offset", LongType(), nullable=False),
        StructField("timestamp_ms", LongType(), nullable=False),
        StructField("key", BinaryType(), nullable=True),
        # null is a tombstone, an empty value is not.
        StructField("value", BinaryType(), nullable=True),
        # in order, names may repeat; null when there are none, or (with a warning in the log) a name is not UTF-8.
        StructField(
            "headers",
            ArrayType(
                StructType(
                    [
                        StructField("key", StringType(), nullable=False),
                        StructField("value", BinaryType(), nullable=True),
                    ]
                ),
                containsNull=False,
            ),
            nullable=True,
        ),
    ]
)
"""Columns of the DataFrames."""

Row = tuple[str | None, int | None, int | None, int, bytes | None, bytes | None, list[dict[str, Any]] | None]


def headers_column(headers: Headers | None) -> list[dict[str, Any]] | None:
    """Return headers in the form of their column."""
    return [{"key": name, "value": value} for name, value in headers] if headers else None


class RecordReader(DataSourceReader):
    """Reads each of its items in a task of its own; ``batches`` yields the records of one in batches that are not empty."""

    def __init__(self, items: Sequence[Any], batches: Callable[[Any], Iterable[list[Row]]]) -> None:
        self._items = items
        self._batches = batches

    def partitions(self) -> Sequence[InputPartition]:
        """Return one task for each item; Spark wants at least one, so one of ``None`` without any."""
        return [InputPartition(item) for item in self._items] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield Arrow record batches of :data:`KAFKA_SOURCE`."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        if partition.value is None:
            return
        schema = to_arrow_schema(KAFKA_SOURCE)
        for rows in self._batches(partition.value):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class RecordSource(DataSource):
    """A data source whose columns are :data:`KAFKA_SOURCE`."""

    def schema(self) -> StructType:
        """Return :data:`KAFKA_SOURCE`."""
        return KAFKA_SOURCE


_log = logging.getLogger(__name__)

NAME: Final = "connect_share_kafka"
# Spark hides the values of options whose name has "secret" in it from plans and its user interface.
_SETTINGS: Final = "settings_secret"


def _batches(
    settings: Mapping[str, str], isolation: Isolation, client_id: str, part: OffsetRange
) -> Iterator[list[Row]]:
    from connect_share.kafka.read import Reader

    for batch in Reader(ClientSettings(settings), client_id, isolation).batches([part]):
        yield [_row(message) for message in batch]


def _row(message: Message) -> Row:
    from connect_share.kafka.client import headers_of

    headers = headers_of(message)
    if headers is None:
        _log.warning(
            "%s[%d]@%d: the name of a header is not UTF-8; its headers are given as null",
            message.topic(),
            message.partition(),
            message.offset(),
        )
    return (
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        headers_column(headers),
    )


class KafkaSource(RecordSource):
    """Data source ``connect_share_kafka``; use :func:`read_kafka`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the schema is fixed
        """Return the reader."""
        options = self.options
        settings = json.loads(base64.b64decode(options[_SETTINGS]))
        read = partial(_batches, settings, Isolation(options["isolation"]), options["client_id"])
        return RecordReader([OffsetRange(*entry) for entry in json.loads(options["ranges"])], read)


def read_kafka(
    spark: SparkSession,
    settings: ClientSettings,
    ranges: Sequence[OffsetRange],
    *,
    isolation: Isolation,
    client_id: str,
) -> DataFrame:
    """Return the records of half-open ranges as a DataFrame, one task a range.

    Columns:
        out: :data:`spark_jobs.sources.KAFKA_SOURCE`.
    """
    warn_of_missing_protection(spark)
    spark.dataSource.register(KafkaSource)
    secret = base64.b64encode(json.dumps(dict(settings.properties)).encode()).decode("ascii")
    return (
        spark.read.format(NAME)
        .option("ranges", json.dumps([list(offset_range) for offset_range in ranges]))
        .option("isolation", isolation.value)
        .option("client_id", client_id)
        .option(_SETTINGS, secret)
        .load()
    )
