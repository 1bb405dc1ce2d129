"""Records as a Spark data source: the schema, and one task for each item that is read in Arrow batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

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

from connect_share.model.records import Headers

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
    """Reads each of its items in a task of its own."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

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
        for rows in self.batches(partition.value):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    @abstractmethod
    def batches(self, item: Any) -> Iterable[list[Row]]:
        """Yield the records of an item in batches that are not empty."""


class RecordSource(DataSource):
    """A data source whose columns are :data:`KAFKA_SOURCE`."""

    def schema(self) -> StructType:
        """Return :data:`KAFKA_SOURCE`."""
        return KAFKA_SOURCE
