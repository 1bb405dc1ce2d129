"""Columns of the jobs' DataFrames, as named constants with their laws."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

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
